"""The bounds derived for this course hold for the worst rewards of every model, and no smaller constant would do."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import derived, tokens
from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds.result import Bound
from rlnotes.exact import token_families as families
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_divergences import context_kl, context_tv, largest, mean_by_position, sequence_kl
from rlnotes.exact.token_surrogates import error, excess, surrogate, worst_error, worst_surrogate
from rlnotes.exact.tokens import SupportError, improvement, sequence_probs
from tests.bounds.token_cases import (
    BoundOf,
    golden_case,
    judge,
    nothing_breaks,
    random_cases,
    tight_and_no_tighter,
    trials,
    unsupported_cases,
    with_factor,
    with_rewards,
)


def certificate(kind: derived.Slack) -> BoundOf:
    return lambda model, target, behavior: derived.certificate(model, target, behavior, kind)


def halved(bound_of: BoundOf) -> BoundOf:
    return lambda *case: derived.halved(bound_of(*case))


# With each bound: a case on which it is tight, and how tight. A constant 1% below that must be caught.
COINS = families.parity(2, 0.5, 0.01)
SPOILED = families.boost_and_spoil(1e-3, 1e-8, 1e-4)
SURE = families.sure_token(4, 1e-4)
TIGHT: dict[str, tuple[BoundOf, TokenCase, float]] = {
    "theorem A": (derived.sequence_kl, SPOILED, 0.99932),
    "theorem B": (derived.mean_tv, SURE, 1.0),
    "both": (derived.both, SURE, 1.0),
    "certificate kl": (certificate("kl"), SPOILED, 1.0),
    "certificate tv": (certificate("tv"), SURE, 1.0),
    "certificate both": (certificate("both"), SPOILED, 1.0),
    "pinsker_sum": (derived.pinsker_sum, families.boost_and_spoil(0.75, 1e-9, 1e-5), 0.637),
    "uniform_kl": (derived.uniform_kl, COINS, 0.5),
    "chi2_chain": (derived.chi2_chain, COINS, 1.0),
    "halved tv_chain": (halved(tokens.tv_chain), COINS, 1.0),
    "halved kl_chain": (halved(tokens.kl_chain), COINS, 1.0),
    "halved pinsker_marginal": (halved(tokens.pinsker_marginal), COINS, 3 / 2**2.5),
    "halved mixed": (halved(tokens.mixed), COINS, 0.5**1.5),
    "coupling_chain": (derived.coupling_chain, COINS, 1.0),
    "position_minimum": (derived.position_minimum, COINS, 1.0),
}
FROM_GAINS = [name for name in TIGHT if "halved" in name or name in ("coupling_chain", "position_minimum")]
FROM_RATIOS = ["theorem A", "theorem B", "both", "pinsker_sum", "uniform_kl", "chi2_chain"]


@pytest.mark.parametrize("name", TIGHT)
def test_no_rewards_of_a_random_model_break_it(name: str):
    nothing_breaks(name, TIGHT[name][0])


@pytest.mark.parametrize("name", TIGHT)
def test_it_is_as_tight_as_stated_and_a_smaller_constant_is_caught(name: str):
    tight_and_no_tighter(*TIGHT[name])


@pytest.mark.parametrize("name", [*FROM_RATIOS, *FROM_GAINS])
def test_it_bounds_error_on_both_sides(name: str):
    """Rewards turned round turn the sign of Error: :func:`trials` has one side, this the other."""
    for case in random_cases()[:60]:
        low, high = tokens.reward_span(case.model)
        bound = TIGHT[name][0](*case)
        assert (high - low) * worst_error(*case) <= bound.penalty * (1 + 1e-9) + 1e-12
        assert abs(error(*case)) <= bound.penalty * (1 + 1e-9) + 1e-12


# --- Attained at other sizes


@pytest.mark.parametrize(("family", "ratio"), [((0.1, 1e-5, 1e-3), 0.94744), ((1e-3, 1e-8, 1e-4), 0.99932)])
def test_theorem_a_on_its_family(family: tuple[float, float, float], ratio: float):
    case = families.boost_and_spoil(*family)
    bound = derived.sequence_kl(*case)
    assert bound.tightness == approx(ratio, abs=5e-6)
    assert judge(with_factor(derived.sequence_kl, 0.99 * ratio), [case]).violations == [0]


def test_theorem_a_on_its_first_family_by_number():
    bound = derived.sequence_kl(*families.boost_and_spoil(0.1, 1e-5, 1e-3))
    assert (bound.surrogate, bound.penalty) == approx((0.0998800300, 0.1053262881), abs=5e-11)
    assert bound.true - bound.surrogate == approx(-0.0997900200, abs=5e-11)


@pytest.mark.parametrize("horizon", range(2, 6))
def test_theorem_b_is_attained_at_every_horizon(horizon: int):
    bound = derived.mean_tv(*families.sure_token(horizon, 1e-4))
    assert bound.tightness == approx([0.9999, 0.9999, 0.9998, 0.9997][horizon - 2], abs=6e-5)


def test_theorem_b_is_attained_at_small_values_too():
    bound = derived.mean_tv(*families.boost_and_spoil(1e-3, 1e-9, 1e-5))
    assert bound.penalty == approx(1e-3, rel=1e-3)
    assert bound.tightness > 0.9999


def test_theorem_b_is_finite_where_theorem_a_is_not():
    assert derived.sequence_kl(*SURE).penalty == np.inf
    assert derived.mean_tv(*SURE).penalty == approx(4 * (1 - 1e-4))
    assert derived.both(*SURE).penalty <= derived.mean_tv(*SURE).penalty


def test_both_is_at_most_the_smaller_theorem():
    for case in random_cases():
        least = min(derived.sequence_kl(*case).penalty, derived.mean_tv(*case).penalty)
        assert derived.both(*case).penalty <= least * (1 + 1e-9) + 1e-12


# --- Slacks


@pytest.mark.parametrize("kind", ["kl", "tv", "both"])
def test_n_is_above_minus_slack_on_every_answer(kind: derived.Slack):
    for case in [*random_cases(), *unsupported_cases()]:
        n, slack = excess(*case).n, derived.slack(*case, kind)
        assert (n >= -slack - 1e-9 * (1 + np.abs(n))).all()


def test_mean_slacks_are_the_divergences():
    for case in random_cases():
        model, target, behavior = case
        probs = sequence_probs(model, behavior)
        counted = probs > 0
        kl, tv = ((probs[counted] * derived.slack(*case, kind)[counted]).sum() for kind in ("kl", "tv"))
        assert kl == approx(sequence_kl(model, behavior, target), rel=1e-8, abs=1e-12)
        assert tv == approx(tokens.tv_sum(*case), rel=1e-8, abs=1e-12)


def test_the_minimum_may_not_be_taken_token_by_token():
    """rho = (e, 0): N = -(e - 1), and the smaller slacks of the two tokens sum to e - 2 only."""
    first, e = 0.2, math.e
    case = families.two_steps(
        [(1 - first * e, first * e), (1, 0), (0, 1)], [(1 - first, first), (1, 0), (0.5, 0.5)], [0, 0, 1, 0]
    )
    answer = 2  # tokens 1, 0
    n, slack = excess(*case).n[0, answer], derived.slack(*case, "both")[0, answer]
    token_by_token = min(e - 2, e - 1) + min(np.inf, 0)
    assert n == approx(-(e - 1))
    assert n >= -slack - 1e-12
    assert n < -token_by_token - 0.9


@pytest.mark.parametrize("kind", ["kl", "tv", "both"])
def test_error_lies_in_its_interval(kind: derived.Slack):
    for case in trials():
        low, high = derived.error_interval(*case, kind)
        found = error(*case)
        assert low - 1e-10 * (1 + abs(found)) <= found <= high + 1e-10 * (1 + abs(found))


def test_golden_model_one_sided():
    case = golden_case("G10")
    assert worst_error(*case) == approx(0.00875, abs=1e-12)
    assert worst_surrogate(*case) == approx(0.075, abs=1e-12)
    assert derived.sequence_kl(*case).penalty == approx(0.0192197519969, abs=1e-12)
    assert error(*case) == approx(-0.005, abs=1e-12)
    assert derived.error_interval(*case, "kl") == approx((-0.0104944661550, 0.0087252858419), abs=1e-12)
    assert derived.error_interval(*case, "tv") == approx((-0.08, 0.074), abs=1e-12)


def test_improvement_and_surrogate_lie_in_one_interval_as_wide_as_theorem_a():
    for case in trials():
        low, high = derived.log_ratio_interval(*case)
        width = derived.sequence_kl(*case).penalty
        assert width == np.inf or high - low == approx(width, rel=1e-8, abs=1e-12)
        for found in (improvement(*case), surrogate(*case)):
            assert low - 1e-9 * (1 + abs(found)) <= found <= high + 1e-9 * (1 + abs(found))


def test_the_certificate_is_the_mean_of_rewards_and_log_ratios():
    """The classical bound E[R w] >= E[R (1 + log w)]."""
    for case in random_cases():
        low = derived.log_ratio_interval(*case).low
        assert derived.certificate(*case, "kl").lower == approx(low, rel=1e-8, abs=1e-10)
        assert derived.certificate(*case, "kl").lower >= derived.sequence_kl(*case).lower - 1e-10


# --- Support and direction


@pytest.mark.parametrize("kind", ["kl", "tv", "both"])
def test_the_certificate_needs_no_common_support(kind: derived.Slack):
    verdict = judge(certificate(kind), list(unsupported_cases()))
    assert verdict.violations == []
    assert verdict.informative > 0.25


def test_the_upper_half_needs_common_support():
    """All that the target gains lies on a token that the behavior never gives: Theorem A's upper side would say 0."""
    case = families.no_common_token(1)
    with pytest.raises(SupportError):
        derived.log_ratio_interval(*case)
    assert derived.certificate(*case).holds


@pytest.mark.parametrize("name", FROM_RATIOS)
def test_theorems_refuse_a_behavior_without_the_targets_tokens(name: str):
    with pytest.raises(SupportError, match="never gives token 1"):
        TIGHT[name][0](*families.no_common_token(1))


@pytest.mark.parametrize("name", FROM_GAINS)
def test_bounds_from_gains_need_no_common_support(name: str):
    assert judge(TIGHT[name][0], list(unsupported_cases())).violations == []


def replaced_penalty(bound_of: BoundOf, penalty: Callable[[TokenCase], float]) -> BoundOf:
    def mutated(*args: object) -> Bound:
        bound, case = bound_of(*args), TokenCase(*args)  # type: ignore[arg-type]
        return Bound(bound.name, bound.true, bound.surrogate, {"mutated": penalty(case)}, bound.floor)

    return mutated


def target_tv_sum(case: TokenCase) -> float:
    model, target, behavior = case
    return float(mean_by_position(model, context_tv(model, behavior, target), target).sum())


SWAPPED: dict[str, tuple[BoundOf, Callable[[TokenCase], float], TokenCase]] = {
    "theorem A, KL(target, behavior)": (
        derived.sequence_kl,
        lambda case: sequence_kl(case.model, case.target, case.behavior),
        families.dropped_branch(),
    ),
    "theorem B over contexts of the target": (derived.mean_tv, target_tv_sum, families.dropped_branch()),
    "chi2(behavior, target)": (
        derived.chi2_chain,
        lambda case: float(
            forms.chi2_chain(case.model.horizon, tokens.chi2_max(case.model, case.behavior, case.target))
        ),
        with_rewards(families.parity(4, 1e-3, 0.3), (excess(*families.parity(4, 1e-3, 0.3)).n < 0).astype(np.float64)),
    ),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_the_other_direction_is_caught(name: str):
    bound_of, penalty, case = SWAPPED[name]
    assert judge(bound_of, [case]).violations == []
    assert judge(replaced_penalty(bound_of, penalty), [case]).violations == [0]


def test_the_masked_branch_gets_no_false_certificate():
    case = families.masked_branch()
    bound = derived.sequence_kl(*case)
    assert bound.penalty == approx(0.04705, abs=5e-6)
    assert bound.lower == approx(-0.04634, abs=5e-6)
    kl = context_kl(case.model, case.behavior, case.target)
    assert largest(case.model, kl, case.target, case.behavior, contexts="behavior") == approx(6.893, abs=5e-4)
