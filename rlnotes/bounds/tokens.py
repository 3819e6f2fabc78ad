"""The bounds of 001, 003 and 004 on exact token models: how far J(target) - J(behavior) can fall short of L.

Rewards may have any range: penalties stated for rewards in [0, 1] are multiplied by max R - min R, over answers that
can occur. A bound is valid with the maximum over the contexts that either policy reaches, and so it is computed. Where
the behavior has every token of the target, these are the contexts that the behavior samples.
"""

from typing import NamedTuple

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact.token_surrogates import delta, surrogate, surrogate_by_position
from rlnotes.exact.tokens import (
    Policy,
    TokenModel,
    expected_reward,
    force_eos,
    improvement,
    prefix_probs,
    sequence_probs,
    values,
)

# --- Scalars


def possible_answers(model: TokenModel) -> np.ndarray:
    """(B, V**T) bool, False on what nobody can say: tokens after eos, answers to prompts of weight 0."""
    size = model.vocab_size
    anything = [np.full((model.prompts, size**t, size), 1 / size) for t in range(model.horizon)]
    return sequence_probs(model, force_eos(model, anything)) > 0


class Span(NamedTuple):
    """The least and the largest reward of possible answers."""

    low: float
    high: float


def reward_span(model: TokenModel) -> Span:
    """The range of rewards by which penalties are scaled."""
    possible = model.reward[possible_answers(model)]
    return Span(float(possible.min()), float(possible.max()))


def scaled(model: TokenModel, penalty: float | np.ndarray) -> float:
    """A penalty for rewards in [0, 1], in the range of the model's: 0 if they are all equal, even if it is infinite."""
    low, high = reward_span(model)
    return (high - low) * float(penalty) if high > low else 0.0


def reward_max(model: TokenModel) -> float:
    """004's xi: the largest absolute reward of possible answers."""
    return float(np.abs(model.reward[possible_answers(model)]).max())


def tv_max(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The largest TV of the next token, over contexts that either policy reaches."""
    tv = divergences.context_tv(model, behavior, target)
    return divergences.largest(model, tv, target, behavior, contexts="either")


def kl_max(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The largest KL(behavior, target) of the next token, over contexts that either policy reaches."""
    kl = divergences.context_kl(model, behavior, target)
    return divergences.largest(model, kl, target, behavior, contexts="either")


def chi2_max(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The largest chi2(target, behavior) of the next token, over contexts that either policy reaches."""
    chi2 = divergences.context_chi2(model, target, behavior)
    return divergences.largest(model, chi2, target, behavior, contexts="either")


def tv_sum(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """The sum over positions of the mean TV, over contexts of the behavior."""
    tv = divergences.context_tv(model, behavior, target)
    return float(divergences.mean_by_position(model, tv, behavior).sum())


def token_max(model: TokenModel, numbers: list[np.ndarray], target: Policy, behavior: Policy) -> float:
    """The largest of ``numbers[t]`` (B, V**t, V), all >= 0, over the contexts and tokens that either policy meets."""
    met = [
        np.where((new > 0) | (old > 0), row, 0.0).max(-1)
        for row, new, old in zip(numbers, target, behavior, strict=True)
    ]
    return divergences.largest(model, met, target, behavior, contexts="either")


# --- Results


def improvement_bound(
    name: str, model: TokenModel, target: Policy, behavior: Policy, predicted: float, penalty: dict[str, float]
) -> Bound:
    """The true improvement beside what ``predicted`` (L) and ``penalty`` promise.

    The floor is the change if every answer got the least reward of its prompt.
    """
    counted = possible_answers(model) | (model.prompt_weights == 0)[:, None]
    least = model.reward.min(1, where=counted, initial=np.inf)
    floor = float(model.prompt_weights @ least) - expected_reward(model, behavior)
    return Bound(name, improvement(model, target, behavior), predicted, penalty, floor)


def of_gains(name: str, model: TokenModel, target: Policy, behavior: Policy, penalty: dict[str, float]) -> Bound:
    """A bound on L as a sum of mean gains, which needs no common support."""
    predicted = float(surrogate_by_position(model, target, behavior).sum())
    return improvement_bound(name, model, target, behavior, predicted, penalty)


def of_ratios(name: str, model: TokenModel, target: Policy, behavior: Policy, penalty: dict[str, float]) -> Bound:
    """A bound on L as a mean of ratios. Raises ``SupportError``."""
    return improvement_bound(name, model, target, behavior, surrogate(model, target, behavior), penalty)


# --- 001


def simulation_lemma(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """(T,) the TV between the contexts of position t is at most (t - 1) D: 001 2.5.1, A.6."""
    shifts = context_shifts(model, target, behavior)
    return Inequality(shifts, forms.simulation_lemma(np.arange(1, model.horizon + 1), tv_max(model, target, behavior)))


def context_shifts(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """(T,) TV between the target's and the behavior's contexts, prompts included."""
    pairs = zip(prefix_probs(model, target)[:-1], prefix_probs(model, behavior)[:-1], strict=True)
    return np.array([np.abs(new - old).sum() / 2 for new, old in pairs])


def tv_chain(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 2 T (T - 1) D_TV^2: 001 2.5.1."""
    penalty = scaled(model, forms.tv_chain(model.horizon, tv_max(model, target, behavior)))
    return of_gains("001 TRPO chain, TV", model, target, behavior, {"2 T (T-1) D_TV^2": penalty})


def kl_chain(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - T (T - 1) D_KL: 001 2.5.1."""
    penalty = scaled(model, forms.kl_chain(model.horizon, kl_max(model, target, behavior)))
    return of_gains("001 TRPO chain, KL", model, target, behavior, {"T (T-1) D_KL": penalty})


def pinsker_marginal(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 4/3 T^1.5 D_KL: 001 2.5.4."""
    penalty = scaled(model, forms.pinsker_marginal(model.horizon, kl_max(model, target, behavior)))
    return of_gains("001 Pinsker-marginal", model, target, behavior, {"4/3 T^1.5 D_KL": penalty})


def mixed(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 2 T sqrt(D_KL D_seq): 001 2.5.5."""
    kl_seq = divergences.sequence_kl(model, behavior, target)
    penalty = scaled(model, forms.mixed(model.horizon, kl_max(model, target, behavior), kl_seq))
    return of_gains("001 mixed", model, target, behavior, {"2 T sqrt(D_KL D_seq)": penalty})


def minoriser(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= M, L less the smaller of the last two penalties: 001 2.6.1. True, but M is hardly ever positive."""
    kl_seq = divergences.sequence_kl(model, behavior, target)
    penalty = scaled(model, forms.minoriser(model.horizon, kl_max(model, target, behavior), kl_seq))
    return of_gains("001 minoriser", model, target, behavior, {"min(Pinsker-marginal, mixed)": penalty})


# --- 003


def linear_tv_chain(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - max|A| T (T - 1) D_TV: 003 5.3, whose C is max|A| here, over tokens that either policy gives."""
    advantage_max = token_max(model, [np.abs(a) for a in values(model, behavior).a], target, behavior)
    penalty = forms.linear_tv_chain(model.horizon, tv_max(model, target, behavior), advantage_max)
    return of_gains("003 5.3", model, target, behavior, {"max|A| T (T-1) D_TV": float(penalty)})


def second_moment(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """E_mu[w^2] is at most (1 + chi2)^T: 003 section 7. Equality if all contexts have one. Raises ``SupportError``."""
    right = forms.sequence_second_moment(model.horizon, chi2_max(model, target, behavior))
    return Inequality(divergences.second_moment(model, target, behavior), float(right))


# --- 004. Its ratios need a behavior that has every token of the target: all raise ``SupportError``


def identity(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J = L - Delta: 004 Theorem 3.1. An equality, and its tightness is 1."""
    return of_ratios("004 Theorem 3.1", model, target, behavior, {"Delta": delta(model, target, behavior)})


def sequence_tv(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """TV of whole answers is at most the sum of mean TVs: 004 Lemma B.1. Needs no common support."""
    return Inequality(divergences.sequence_tv(model, behavior, target), tv_sum(model, target, behavior))


def quadratic(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 2 xi T (T - 1) D_TV^2: 004 Theorem 3.2, eq. (7)."""
    penalty = forms.quadratic(model.horizon, tv_max(model, target, behavior), reward_max(model))
    return of_ratios("004 Theorem 3.2", model, target, behavior, {"2 xi T (T-1) D_TV^2": float(penalty)})


def linear(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 4 xi sum_t E D_TV: 004 B.3, eq. (20)."""
    penalty = forms.linear(tv_sum(model, target, behavior), reward_max(model))
    return of_ratios("004 B.3, linear", model, target, behavior, {"4 xi sum E D_TV": float(penalty)})


def composite(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L less the smaller of the two penalties: 004 B.3."""
    largest, total = tv_max(model, target, behavior), tv_sum(model, target, behavior)
    penalty = forms.composite(model.horizon, largest, total, reward_max(model))
    return of_ratios("004 B.3, composite", model, target, behavior, {"min(quadratic, linear)": float(penalty)})
