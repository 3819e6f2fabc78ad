"""Sharper bounds on token models: elementary, derived for this course.

On every answer of the behavior, with ratios rho_t: X = sum_t (rho_t - 1), w = prod_t rho_t, N = w - 1 - X. If the
behavior has every token of the target, its means of X and N are 0, L = E[R X], and Error = J' - J - L = E[R N]. If then
N >= -S everywhere for some slack S >= 0, for rewards in [0, 1]

    -E[R S] <= Error <= E[(1 - R) S], so |Error| <= E[S].

Two slacks do: sum_t f(rho_t) with f(r) = r - 1 - log r, since w >= 1 + log w; its mean is KL of whole answers. And
sum_t (rho_t - 1)^+, since prod (1 - a_t) >= 1 - sum a_t; its mean is the sum of mean TVs. So is the smaller of the two.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds import tokens
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.bounds.tokens import (
    improvement_bound,
    kl_max,
    of_gains,
    of_ratios,
    reward_span,
    scaled,
    token_max,
    tv_max,
    tv_sum,
)
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact.token_gradients import flat, reward_gradient, surrogate_gradient
from rlnotes.exact.token_surrogates import excess, gains, surrogate
from rlnotes.exact.tokens import (
    Policy,
    TokenModel,
    check_policy,
    improvement,
    log_token_ratios,
    prefix_probs,
    require_support,
    sequence_probs,
    token_ratios,
    values,
)

Slack = Literal["kl", "tv", "both"]


class Range(NamedTuple):
    """Where a number must lie."""

    low: float
    high: float


# --- One slack, both sides


def slack(model: TokenModel, target: Policy, behavior: Policy, kind: Slack) -> np.ndarray:
    """S (B, V**T): ``kl`` is sum_t f(rho_t), the sum of k3; ``tv`` is sum_t (rho_t - 1)^+; ``both`` their minimum.

    The minimum must be of the sums: tokens may not choose one by one.
    """
    if kind == "both":
        return np.minimum(slack(model, target, behavior, "kl"), slack(model, target, behavior, "tv"))
    if kind == "kl":
        return kl_estimate(-log_token_ratios(model, target, behavior), "k3").sum(-1)
    return np.maximum(token_ratios(model, target, behavior) - 1, 0).sum(-1)


def _mean(probs: np.ndarray, weights: np.ndarray, numbers: np.ndarray) -> float:
    """The sum of products, with 0 times infinity as 0."""
    counted = probs * weights
    return float((counted[counted > 0] * numbers[counted > 0]).sum())


def error_interval(model: TokenModel, target: Policy, behavior: Policy, kind: Slack) -> Range:
    """-E[(R - min R) S] and E[(max R - R) S], between which Error lies. Raises ``SupportError``."""
    require_support(model, target, behavior)
    low, high = reward_span(model)
    probs, missed = sequence_probs(model, behavior), slack(model, target, behavior, kind)
    return Range(-_mean(probs, model.reward - low, missed), _mean(probs, high - model.reward, missed))


def log_ratio_interval(model: TokenModel, target: Policy, behavior: Policy) -> Range:
    """E[(R - min R) log w] and E[(R - max R) log w]: J' - J and L both lie between them.

    They are apart by D_seq times the range of R. Raises ``SupportError``; of the two, the lower holds without common
    support: :func:`certificate`.
    """
    require_support(model, target, behavior)
    low, high = reward_span(model)
    probs, minus_log_w = sequence_probs(model, behavior), -log_token_ratios(model, target, behavior).sum(-1)
    return Range(-_mean(probs, model.reward - low, minus_log_w), _mean(probs, high - model.reward, minus_log_w))


def certificate(model: TokenModel, target: Policy, behavior: Policy, kind: Slack = "kl") -> Bound:
    """J' - J >= E[(R - min R) X] - E[(R - min R) S]: needs no common support, so top-p and top-k rollouts will do.

    L is written with rewards that are not negative, as without support a baseline is no longer free.
    """
    probs, gain = sequence_probs(model, behavior), model.reward - reward_span(model).low
    predicted = float((probs * gain * excess(model, target, behavior).x).sum())
    penalty = _mean(probs, gain, slack(model, target, behavior, kind))
    return improvement_bound(f"certificate, {kind}", model, target, behavior, predicted, {"E[(R - min R) S]": penalty})


# --- Theorems A and B, and what follows from them. All raise SupportError


def sequence_kl(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """Theorem A: |Error| <= D_seq = KL(behavior, target) of whole answers. No horizon, no maximum; no smaller constant.

    The direction matters: see :func:`rlnotes.bounds.tokens_as_printed.reversed_sequence_kl_as_printed`. A rare context
    with a huge KL can make up most of D_seq, and be missing from a batch.
    """
    penalty = scaled(model, divergences.sequence_kl(model, behavior, target))
    return of_ratios("Theorem A", model, target, behavior, {"D_seq": penalty})


def mean_tv(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """Theorem B: |Error| <= sum_t E D_TV. First order, so for rare, large changes; finite where KL is not."""
    penalty = scaled(model, tv_sum(model, target, behavior))
    return of_ratios("Theorem B", model, target, behavior, {"sum E D_TV": penalty})


def both(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= E min of the two slacks: at most the smaller of Theorems A and B."""
    ones, missed = np.ones_like(model.reward), slack(model, target, behavior, "both")
    penalty = scaled(model, _mean(sequence_probs(model, behavior), ones, missed))
    return of_ratios("Theorems A and B", model, target, behavior, {"E min": penalty})


def pinsker_sum(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= sqrt(T D_seq / 2), by Theorem B and Pinsker."""
    penalty = scaled(model, forms.pinsker_sum(model.horizon, divergences.sequence_kl(model, behavior, target)))
    return of_ratios("Theorem B, Pinsker", model, target, behavior, {"sqrt(T D_seq / 2)": penalty})


def uniform_kl(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= T D_KL, by Theorem A: a factor T - 1 below 001's chain, with the same maximum."""
    penalty = scaled(model, forms.uniform_kl(model.horizon, kl_max(model, target, behavior)))
    return of_ratios("Theorem A, uniform", model, target, behavior, {"T D_KL": penalty})


def chi2_chain(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= sqrt((1 + chi2)^T - 1 - T chi2) / 2: the second moment of N, a sum of martingale differences."""
    require_support(model, target, behavior)
    penalty = scaled(model, forms.chi2_chain(model.horizon, tokens.chi2_max(model, target, behavior)))
    return of_ratios("chi-square", model, target, behavior, {"sqrt((1+chi2)^T - 1 - T chi2) / 2": penalty})


# --- From gains and shifts of contexts. None needs common support


def halved(bound: Bound) -> Bound:
    """A bound of 001 with half its penalty: a context's gain is at most D_TV times the span of Q, not 2 D_TV.

    Of :func:`tokens.tv_chain` it makes T (T - 1) D_TV^2, attained at T = 2, and as D goes to 0 at every T.
    """
    penalties = {f"half of {name}": float(forms.halved(penalty)) for name, penalty in bound.penalties.items()}
    return replace(bound, name=f"{bound.name}, halved", penalties=penalties)


def coupling_chain(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= 2 D sum_t (1 - (1 - D)^(t - 1))."""
    penalty = scaled(model, forms.coupling_chain(model.horizon, tv_max(model, target, behavior)))
    return of_gains("coupling chain", model, target, behavior, {"2 D sum (1 - (1-D)^(t-1))": penalty})


def position_minimum(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= 2 D sum_t of the smallest bound on the shift of contexts at position t."""
    largest = tv_max(model, target, behavior), kl_max(model, target, behavior)
    penalty = scaled(model, forms.position_minimum(model.horizon, *largest))
    return of_gains("per-position minimum", model, target, behavior, {"2 D sum min": penalty})


def coupling(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """(T,) the TV between the contexts of position t is at most 1 - (1 - D)^(t - 1)."""
    positions = np.arange(1, model.horizon + 1)
    shifts = tokens.context_shifts(model, target, behavior)
    return Inequality(shifts, forms.coupling(positions, tv_max(model, target, behavior)))


def context_gains(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """|g_t(c)| <= D_TV(c) times the span of Q at c, over tokens that either policy gives: contexts met, in one row.

    Equality for two tokens. 001 2.4.3 has 2 D_TV(c), for rewards in [0, 1].
    """
    left, right = [], []
    tv = divergences.context_tv(model, behavior, target)
    reached = [prefix_probs(model, policy)[:-1] for policy in (target, behavior)]
    rows = [check_policy(model, policy) for policy in (target, behavior)]
    for t, gain in enumerate(gains(model, target, behavior)):
        met, given = reached[0][t] + reached[1][t] > 0, rows[0][t] + rows[1][t] > 0
        q = values(model, behavior).q[t]
        span = q.max(-1, where=given, initial=-np.inf) - q.min(-1, where=given, initial=np.inf)
        left.append(np.abs(gain)[met])
        right.append((tv[t] * span)[met])
    return Inequality(np.concatenate(left), np.concatenate(right))


def gradient_bias(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """|grad L - grad J| <= G T (T - 1) D_TV at the target, by logits, G the longest grad log pi of a token: 003 5.2."""
    return _gradient_bias(forms.token_gradient_bias, model, target, behavior)


def gradient_bias_martingale(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """|grad L - grad J| <= G T^1.5 D_TV (5/3 + 4/5 T D_TV): the order in T is 1.5, and 003 5.2 has 2.

    Raises ``SupportError``: the proof goes on with the target from where the behavior is.
    """
    require_support(model, target, behavior)
    return _gradient_bias(forms.token_gradient_bias_martingale, model, target, behavior)


def _gradient_bias(form: Callable[..., np.ndarray], model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    gap = flat(surrogate_gradient(model, target, behavior)) - flat(reward_gradient(model, target))
    scores = [np.sqrt(1 - 2 * rows + (rows**2).sum(-1, keepdims=True)) for rows in check_policy(model, target)]
    longest = token_max(model, scores, target, behavior)
    right = form(model.horizon, tv_max(model, target, behavior), longest)
    return Inequality(float(np.linalg.norm(gap)), scaled(model, right))


# --- How far J and L can move at all


def improvement_limit(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """|J' - J| is at most TV of whole answers, by Pinsker and Bretagnolle-Huber. Needs no common support."""
    limit = forms.improvement_limit(divergences.sequence_kl(model, behavior, target))
    return Inequality(abs(improvement(model, target, behavior)), scaled(model, limit))


def surrogate_limit(model: TokenModel, target: Policy, behavior: Policy) -> Inequality:
    """|L| is at most TV plus KL of whole answers, TV bounded as before. Raises ``SupportError``."""
    limit = forms.surrogate_limit(divergences.sequence_kl(model, behavior, target))
    return Inequality(abs(surrogate(model, target, behavior)), scaled(model, limit))
