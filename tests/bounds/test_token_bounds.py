"""The bounds of 001, 003 and 004 hold on exact token models, are as tight as they can be, and fail where they must."""

from collections.abc import Callable

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds import tokens
from rlnotes.bounds.result import Inequality
from rlnotes.exact import token_families as families
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_divergences import sequence_kl, sequence_tv
from rlnotes.exact.token_surrogates import delta, error
from rlnotes.exact.tokens import (
    SupportError,
    TokenModel,
    expected_reward,
    force_eos,
    improvement,
)
from tests.bounds.token_cases import (
    GOLDEN,
    BoundOf,
    golden_case,
    judge,
    nothing_breaks,
    random_cases,
    tight_and_no_tighter,
    unsupported_cases,
    with_factor,
    with_rewards,
)


def symmetric(case: TokenCase) -> TokenCase:
    """Rewards -1 and 1 in place of 0 and 1: 004's bounds know only max|R|."""
    return with_rewards(case, 2 * case.model.reward - 1)


# With each bound: a case on which it is tight, and how tight. A constant 1% below that must be caught.
COINS = families.parity(2, 0.5, 0.01)
TIGHT: dict[str, tuple[BoundOf, TokenCase, float]] = {
    "tv_chain": (tokens.tv_chain, COINS, 0.5),
    "kl_chain": (tokens.kl_chain, COINS, 0.5),
    "pinsker_marginal": (tokens.pinsker_marginal, COINS, 3 / 4 / 2**1.5),
    "mixed": (tokens.mixed, COINS, 0.5**2.5),
    "minoriser": (tokens.minoriser, COINS, 3 / 4 / 2**1.5),
    "linear_tv_chain": (tokens.linear_tv_chain, families.parity(2, 1e-4, 1 - 1e-4), 1.0),
    "quadratic": (tokens.quadratic, symmetric(COINS), 1.0),
    "linear": (tokens.linear, symmetric(families.sure_token(4, 1e-4)), 0.5),
    "composite": (tokens.composite, symmetric(COINS), 1.0),
}


@pytest.mark.parametrize("name", TIGHT)
def test_no_rewards_of_a_random_model_break_it(name: str):
    nothing_breaks(name, TIGHT[name][0])


@pytest.mark.parametrize("name", TIGHT)
def test_it_is_as_tight_as_stated_and_a_smaller_constant_is_caught(name: str):
    tight_and_no_tighter(*TIGHT[name])


@pytest.mark.parametrize("horizon", [2, 3, 4, 6])
def test_t_squared_is_needed_in_tv(horizon: int):
    """Half of 001's chain is attained at every T as D goes to 0, with the parity as reward."""
    case = families.parity(horizon, 1e-9, 1e-4)
    assert tokens.tv_chain(*case).tightness == approx(0.5, rel=1e-3)
    assert tokens.quadratic(*symmetric(case)).tightness == approx(1, rel=1e-3)


def test_the_identity_is_an_identity():
    for case in random_cases():
        bound = tokens.identity(*case)
        assert bound.lower == approx(bound.true, abs=1e-9 * (1 + abs(bound.surrogate)))
        assert delta(*case) == approx(-error(*case), abs=1e-9 * (1 + abs(bound.surrogate)))


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_part_of_delta_is_not_enough(name: str):
    assert judge(with_factor(tokens.identity, 0.99), [golden_case(name)]).violations == [0]


# --- Golden values


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_golden_scalars(name: str):
    case, golden = golden_case(name), GOLDEN[name]["outputs"]
    model, target, behavior = case
    kl_seq = sequence_kl(model, behavior, target)
    measured = {
        "J_mu": expected_reward(model, behavior),
        "J_pi": expected_reward(model, target),
        "dJ": improvement(*case),
        "L": tokens.tv_chain(*case).surrogate,
        "Error": error(*case),
        "Delta_004": delta(*case),
        "DTV_max": tokens.tv_max(*case),
        "DKL_max": tokens.kl_max(*case),
        "DKL_seq": kl_seq,
        "sum_E_TV": tokens.tv_sum(*case),
        "seq_TV": sequence_tv(model, behavior, target),
        "chi2_max": tokens.chi2_max(*case),
        "E_w2": tokens.second_moment(*case).left,
    }
    assert measured == approx({key: golden[key] for key in measured}, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_golden_penalties(name: str):
    case, golden = golden_case(name), GOLDEN[name]["outputs"]
    low, high = tokens.reward_span(case.model)
    in_unit = {
        "trpo_tv": tokens.tv_chain,
        "trpo_kl": tokens.kl_chain,
        "pinsker_marginal": tokens.pinsker_marginal,
        "mixed": tokens.mixed,
    }
    of_004 = {"thm32_004": tokens.quadratic, "linear_B3": tokens.linear, "composite_B3": tokens.composite}
    measured = {key: bound_of(*case).penalty / (high - low) for key, bound_of in in_unit.items()}
    measured |= {key: bound_of(*case).penalty for key, bound_of in of_004.items()}
    assert measured == approx({key: golden[key] for key in measured}, rel=1e-10)


# --- What is not about an improvement


def inequalities() -> dict[str, Callable[..., Inequality]]:
    return {
        "simulation_lemma": tokens.simulation_lemma,
        "sequence_tv": tokens.sequence_tv,
        "second_moment": tokens.second_moment,
    }


@pytest.mark.parametrize("name", inequalities())
def test_no_random_model_breaks_the_inequality(name: str):
    for case in random_cases():
        claim = inequalities()[name](*case)
        assert np.all(np.asarray(claim.left) <= np.asarray(claim.right) * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("name", ["simulation_lemma", "sequence_tv"])
def test_shifts_are_bounded_without_common_support(name: str):
    assert all(inequalities()[name](*case).holds for case in unsupported_cases())


def test_inequalities_are_attained():
    horizon, shift = 4, 0.1
    moment = tokens.second_moment(*families.parity(horizon, 0.5, shift))
    assert moment.left == approx(moment.right, rel=1e-12), "one chi2 at all contexts"
    assert moment.left > (1 + 4 * shift**2) ** (horizon - 1) * 1.01, "a power T - 1 would be caught"
    bandit = tokens.sequence_tv(*families.unmoved_token(1e-3))
    assert bandit.left == approx(bandit.right, rel=1e-12)
    shifts = tokens.simulation_lemma(*families.sure_token(3, 0.3))
    assert np.asarray(shifts.left)[:2] == approx(np.asarray(shifts.right)[:2], rel=1e-12)
    assert np.asarray(shifts.left)[2] < 0.9 * np.asarray(shifts.right)[2]


# --- Support, contexts, rewards


@pytest.mark.parametrize("name", ["tv_chain", "kl_chain", "pinsker_marginal", "mixed", "minoriser", "linear_tv_chain"])
def test_bounds_from_gains_need_no_common_support(name: str):
    assert all(TIGHT[name][0](*case).holds for case in unsupported_cases())


@pytest.mark.parametrize("bound_of", [tokens.identity, tokens.quadratic, tokens.linear, tokens.composite])
def test_bounds_from_ratios_refuse_a_behavior_without_the_targets_tokens(bound_of: BoundOf):
    with pytest.raises(SupportError, match="never gives token 1"):
        bound_of(*families.no_common_token(-1))


def test_the_maximum_must_run_over_contexts_of_the_target_too():
    """The behavior never begins with 1; the target does now and then, and wastes what the behavior would earn there."""
    m = 0.1
    case = families.two_steps([(1 - m, m), (1, 0), (0, 1)], [(1, 0), (1, 0), (1, 0)], [0, 0, 1, 0])
    bound = tokens.tv_chain(*case)
    assert bound.holds and bound.surrogate - bound.true == approx(m)
    assert tokens.tv_max(*case) == 1
    assert bound.surrogate - forms.tv_chain(2, m) > bound.true + 0.05, "with the behavior's contexts alone it is false"


def test_rewards_that_nobody_gets_do_not_count():
    case = families.two_lengths()
    wild = with_rewards(case, np.where(tokens.possible_answers(case.model), case.model.reward, 99.0))
    assert tokens.possible_answers(case.model).tolist() == [[True, True, False, True]]
    assert tokens.reward_span(wild.model) == (0, 1)
    assert tokens.reward_max(wild.model) == 1
    two = TokenModel(np.array([[0.0, 1.0], [50.0, -50.0]]), 2, 1, np.array([1.0, 0.0]))
    assert tokens.reward_span(two) == (0, 1)


def test_the_floor_is_what_the_worst_policy_does():
    for case in random_cases()[:50]:
        model = case.model
        possible = np.where(tokens.possible_answers(model), model.reward, np.inf)
        worst_answer = np.argmin(possible, axis=1)
        size, horizon = model.vocab_size, model.horizon
        policy = []
        for t in range(horizon):
            token = worst_answer // size ** (horizon - 1 - t) % size
            policy.append(np.broadcast_to(np.eye(size)[token][:, None], (model.prompts, size**t, size)))
        floor = tokens.tv_chain(*case).floor
        assert improvement(model, force_eos(model, policy), case.behavior) == approx(floor, abs=1e-12)


def test_equal_rewards_leave_nothing_to_bound():
    """Even where KL is infinite."""
    case = with_rewards(families.sure_token(3, 0.5), np.full((1, 8), 0.7))
    for bound_of in (tokens.tv_chain, tokens.kl_chain, tokens.minoriser):
        bound = bound_of(*case)
        assert (bound.penalty, bound.surrogate) == approx((0, 0), abs=1e-12)


@pytest.mark.parametrize("name", ["tv_chain", "mixed", "linear_tv_chain"])
def test_penalties_grow_with_the_range_of_rewards_alone(name: str):
    case = golden_case("G10")
    stretched = with_rewards(case, 5 * case.model.reward - 3)
    bound_of = TIGHT[name][0]
    assert bound_of(*stretched).penalty == approx(5 * bound_of(*case).penalty, rel=1e-12)
    assert bound_of(*stretched).surrogate == approx(5 * bound_of(*case).surrogate, abs=1e-12)


def test_one_prompt_of_two_counts_by_its_weight():
    """Two prompts with the same policies and rewards are one."""
    case = golden_case("G10")
    twice = TokenCase(
        TokenModel(case.model.reward.repeat(2, 0), 2, 3, np.array([0.3, 0.7])),
        *([rows.repeat(2, 0) for rows in policy] for policy in case[1:]),
    )
    for bound_of, *_ in TIGHT.values():
        once, both = bound_of(*case), bound_of(*twice)
        assert (both.true, both.lower, both.floor) == approx((once.true, once.lower, once.floor), abs=1e-12)
