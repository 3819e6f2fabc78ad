"""Statements on token models that are false as they stand. For errata: each has a counterexample in the tests.

They return what the source promises, as if it were a bound; it need not hold. The models on which they fail are in
:mod:`rlnotes.exact.token_families`.
"""

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds.result import Bound
from rlnotes.bounds.tokens import improvement_bound, kl_max, of_ratios, reward_max, scaled, tv_max
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact.token_surrogates import excess, printed_surrogate, sampled_surrogate
from rlnotes.exact.tokens import (
    Policy,
    TokenModel,
    expected_reward,
    log_token_ratios,
    on_answers,
    sequence_probs,
)

# --- Masks over answers (B, V**T) bool, True on those that are kept


def kept_by_log_ratio(model: TokenModel, target: Policy, behavior: Policy, delta: float) -> np.ndarray:
    """max_t |log rho_t| <= delta: 001 3.4.2."""
    return np.abs(log_token_ratios(model, target, behavior)).max(-1) <= delta


def kept_by_k3(model: TokenModel, target: Policy, behavior: Policy, delta: float) -> np.ndarray:
    """max_t f(rho_t) <= delta with f the k3 estimate of KL: 001 4.2.1."""
    return kl_estimate(-log_token_ratios(model, target, behavior), "k3").max(-1) <= delta


def kept_by_kl(model: TokenModel, target: Policy, behavior: Policy, delta: float) -> np.ndarray:
    """max_t KL(behavior, target) at the answer's contexts <= delta: 001 4.4.1, the "exact" criterion."""
    kl = [rows[..., None] for rows in divergences.context_kl(model, behavior, target)]
    return on_answers(model, kl).max(-1) <= delta


# --- 001's guarantee for masked training


def _trm_penalty(model: TokenModel, target: Policy, behavior: Policy, delta: float) -> dict[str, float]:
    kl_seq = divergences.sequence_kl(model, behavior, target)
    return {"min(Pinsker-marginal, mixed) at delta": scaled(model, forms.minoriser(model.horizon, delta, kl_seq))}


def trm_as_printed(model: TokenModel, target: Policy, behavior: Policy, kept: np.ndarray, delta: float) -> Bound:
    """J' - J >= L less 001's penalty at ``delta``, if KL is at most ``delta`` on kept answers: 001 4.5.2.

    False: masked answers count in J, and the maximum must run over them too. Raises ``ValueError`` where the premise
    fails, so that only the conclusion is to blame.
    """
    _require_close(model, target, behavior, kept, delta)
    penalty = _trm_penalty(model, target, behavior, delta)
    return of_ratios("001 TRM, as printed", model, target, behavior, penalty)


def masked_trm_as_printed(model: TokenModel, target: Policy, behavior: Policy, kept: np.ndarray, delta: float) -> Bound:
    """As :func:`trm_as_printed` with the masked L that is really maximised: 001 4.1.1 and 4.1.2. False too."""
    _require_close(model, target, behavior, kept, delta)
    masked = printed_surrogate(model, target, behavior, expected_reward(model, behavior), kept)
    penalty = _trm_penalty(model, target, behavior, delta)
    return improvement_bound("001 TRM, masked L, as printed", model, target, behavior, masked, penalty)


def _require_close(model: TokenModel, target: Policy, behavior: Policy, kept: np.ndarray, delta: float) -> None:
    kl = divergences.context_kl(model, behavior, target)
    largest = divergences.largest(model, kl, target, behavior, contexts="behavior", kept=kept)
    if largest > delta:
        raise ValueError(f"delta is {delta}, and kept answers pass a context with KL {largest:.6g}; keep fewer of them")


# --- 001, other statements


def any_baseline_as_printed(model: TokenModel, target: Policy, behavior: Policy, baseline: float) -> Bound:
    """J' - J >= E[(R - b) sum_t rho_t] - 4/3 T^1.5 D_KL with any baseline b: 001 2.2.4 with 2.5.4.

    False unless b = J and all answers have one length. At b = 0 it promises T J for doing nothing.
    """
    predicted = printed_surrogate(model, target, behavior, baseline)
    penalty = scaled(model, forms.pinsker_marginal(model.horizon, kl_max(model, target, behavior)))
    return improvement_bound("001, any baseline", model, target, behavior, predicted, {"4/3 T^1.5 D_KL": penalty})


def reversed_sequence_kl_as_printed(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """|Error| <= KL(target, behavior) of whole answers: Theorem A turned round, as 001 4.4.1 turns its bounds.

    001's own bounds survive that. This one is false from T = 3 on.
    """
    penalty = scaled(model, divergences.sequence_kl(model, target, behavior))
    return of_ratios("D_seq reversed", model, target, behavior, {"KL(target, behavior)": penalty})


# --- 004, without the support that its ratios need


def identity_as_printed(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J = L - Delta for any two policies: 004 Theorem 3.1. False where the behavior lacks a target's token."""
    missed = -float((sequence_probs(model, behavior) * model.reward * excess(model, target, behavior).n).sum())
    predicted = sampled_surrogate(model, target, behavior)
    return improvement_bound("004 Theorem 3.1, any policies", model, target, behavior, predicted, {"Delta": missed})


def quadratic_as_printed(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """J' - J >= L - 2 xi T (T - 1) D_TV^2 for any two policies: 004 Theorem 3.2. False in the same case."""
    penalty = float(forms.quadratic(model.horizon, tv_max(model, target, behavior), reward_max(model)))
    predicted = sampled_surrogate(model, target, behavior)
    return improvement_bound(
        "004 Theorem 3.2, any policies", model, target, behavior, predicted, {"2 xi T (T-1) D_TV^2": penalty}
    )
