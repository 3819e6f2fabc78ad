"""The named token models have the probabilities, divergences and returns that are claimed for them."""

import numpy as np
import pytest
from pytest import approx

from rlnotes.estimators.bucketed import binary_kl, binary_tv, topk_tv, topk_tv_as_printed
from rlnotes.exact import token_families as families
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_divergences import (
    context_chi2,
    context_kl,
    context_tv,
    largest,
    mean_by_position,
    sequence_kl,
)
from rlnotes.exact.token_gradients import mean_gradient, reward_gradient, surrogate_gradient, token_weights
from rlnotes.exact.token_surrogates import error, printed_surrogate, surrogate, worst_error
from rlnotes.exact.tokens import SupportError, expected_reward, improvement, sequence_probs, token_ratios
from tests.golden_audit import GOLDEN


def single(rows: list[np.ndarray], t: int = 0, prefix: int = 0) -> float:
    return float(rows[t][0, prefix])


def row(policy: list[np.ndarray]) -> np.ndarray:
    return policy[0][0, 0]


# --- Attained


@pytest.mark.parametrize("horizon", [2, 3, 4, 6])
@pytest.mark.parametrize("old", [0.5, 0.1, 1e-6])
def test_parity_has_the_error_of_independent_bits(horizon: int, old: float):
    """An odd number of ones has probability (1 - (1 - 2p)^T) / 2; L sums one-bit changes of it."""
    shift = 0.03
    case = families.parity(horizon, old, shift)
    odd_old, odd_new = ((1 - (1 - 2 * p) ** horizon) / 2 for p in (old, old + shift))
    assert improvement(*case) == approx(odd_new - odd_old, abs=1e-14)
    assert surrogate(*case) == approx(horizon * shift * (1 - 2 * old) ** (horizon - 1), abs=1e-14)


@pytest.mark.parametrize("horizon", range(2, 7))
def test_parity_tends_to_its_limit(horizon: int):
    case = families.parity(horizon, 1e-9, 1e-3)
    assert -error(*case) == approx(families.parity_limit(horizon, 1e-3), rel=1e-5)
    ratio = families.parity_limit(horizon, 1e-3) / (horizon * (horizon - 1) * 1e-6)
    assert ratio == approx({2: 1, 3: 0.9993, 4: 0.9987, 5: 0.998, 6: 0.9973}[horizon], abs=1e-4)


def test_two_fair_coins_attain_chi2():
    case = families.parity(2, 0.5, 0.1)
    chi2 = largest(case.model, context_chi2(case.model, case.target, case.behavior), *case[1:], contexts="all")
    assert abs(error(*case)) == approx(0.5 * chi2, rel=1e-12)
    assert abs(error(*case)) == approx(2 * 0.1**2, rel=1e-12)


def test_boost_and_spoil_by_hand():
    boosted, rare, slip = 0.1, 1e-5, 1e-3
    case = families.boost_and_spoil(boosted, rare, slip)
    assert surrogate(*case) == approx(0.0998800300, abs=5e-11)
    assert error(*case) == approx(-(boosted - rare) * (1 - 2 * slip), rel=1e-12)
    assert error(*case) == approx(-0.0997900200, abs=5e-11)
    assert sequence_kl(case.model, case.behavior, case.target) == approx(0.1053262881, abs=5e-11)
    assert worst_error(*case) == approx(-error(*case), rel=1e-12)


@pytest.mark.parametrize("horizon", range(2, 6))
def test_the_sure_token_misleads_by_nearly_t(horizon: int):
    case = families.sure_token(horizon, 1e-4)
    assert -error(*case) == approx(worst_error(*case), rel=1e-12)
    assert -error(*case) == approx(horizon, rel=1e-3)
    assert sequence_kl(case.model, case.behavior, case.target) == np.inf


def test_a_dropped_branch_by_hand():
    """On the branch, with probability .1, N = T - 1 unless a leftover comes: here T = 3."""
    case = families.dropped_branch(3, 0.1, 0.01)
    assert -error(*case) == approx(0.19602, abs=1e-12)
    assert sequence_kl(case.model, case.target, case.behavior) == approx(-np.log(0.9), rel=1e-12)


# --- Masks


def test_the_masked_branch_is_the_golden_one():
    inputs, outputs = (GOLDEN["G12"][key] for key in ("inputs", "outputs"))
    case = families.masked_branch(inputs["beta"], inputs["D"], inputs["d"], inputs["kappa"])
    model, target, behavior = case
    kl = context_kl(model, behavior, target)
    kept = families.begins_with_zero(model)
    ratios = token_ratios(*case)[kept]
    measured = {
        "J_roll": expected_reward(model, behavior),
        "J_theta": expected_reward(model, target),
        "dJ": improvement(*case),
        "L": surrogate(*case),
        "L_masked": printed_surrogate(*case, baseline=expected_reward(model, behavior), mask=kept),
        "KL_x": single(kl),
        "KL_ctxA": single(kl, 1, 0),
        "KL_ctxB": single(kl, 1, 1),
        "k3_max_on_accepted": (ratios - 1 - np.log(ratios)).max(),
    }
    assert measured == approx({name: outputs[name] for name in measured}, rel=1e-10, abs=1e-12)
    default = families.masked_branch()
    for golden, ours in ((target, default.target), (behavior, default.behavior)):
        assert all(np.array_equal(a, b) for a, b in zip(golden, ours, strict=True)), (
            "the default is not the golden case"
        )


def test_the_hidden_branch_by_hand():
    case = families.hidden_branch()
    kept = families.begins_with_zero(case.model)
    assert expected_reward(case.model, case.behavior) == approx(0.95)
    assert improvement(*case) == approx(-0.40)
    assert printed_surrogate(*case, baseline=0.95, mask=kept) == approx(0.05)
    assert (token_ratios(*case)[kept] == 1).all()


def test_the_masked_bandit_turns_the_gradient():
    case = families.masked_bandit()
    kept = np.abs(np.log(row(case.target) / row(case.behavior))) <= 0.5
    assert kept.tolist() == [True, False, False]
    weights = token_weights(*case, baseline=expected_reward(case.model, case.behavior)) * kept[None, :, None]
    masked = mean_gradient(*case, weights)[0].ravel()
    true = reward_gradient(case.model, case.target)[0].ravel()
    assert masked == approx([0.0125, -0.01225, -0.00025], abs=1e-12)
    assert true == approx([-0.095, 0.1029, -0.0079], abs=1e-12)
    assert masked @ true == approx(-0.00244605, abs=1e-12)


def test_unsampled_tokens_hide_a_large_kl():
    case = families.unsampled_tokens()
    assert row(case.target)[0] == row(case.behavior)[0]
    assert single(context_kl(case.model, case.behavior, case.target)) == approx(4.257, abs=5e-4)


# --- Lengths, support, direction


def test_two_lengths_shift_the_printed_surrogate():
    case = families.two_lengths()
    assert expected_reward(case.model, case.behavior) == 0.5
    assert sequence_probs(case.model, case.behavior).ravel().tolist() == [0, 0.5, 0, 0.5]
    assert printed_surrogate(*case, baseline=0.5) == approx(0.25)


def test_a_cut_off_token_costs_k3_its_mass():
    case = families.top_p_rollout()
    ratio = token_ratios(*case)[0, :, 0]
    k3 = (row(case.behavior) * (ratio - 1 - np.log(ratio))).sum()
    kl = single(context_kl(case.model, case.behavior, case.target))
    assert (kl, k3) == approx((0.6931471806, 0.1931471806), abs=5e-11)
    assert kl - k3 == approx(row(case.target)[2])


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_no_common_token_leaves_nothing_to_ratios(reward: float):
    case = families.no_common_token(reward)
    assert improvement(*case) == reward
    with pytest.raises(SupportError, match="never gives token 1"):
        surrogate(*case)


def test_directions_of_kl_differ_by_twenty():
    model, target, behavior = families.unlike_directions()
    assert single(context_kl(model, behavior, target)) == approx(0.0197238, abs=5e-8)
    assert single(context_kl(model, target, behavior)) == approx(0.0010005, abs=5e-8)


def test_the_first_step_is_biased_without_a_shift_of_contexts():
    case = families.first_step_bias()
    assert reward_gradient(case.model, case.target)[0][0, 0] == approx([-0.05, 0.05])
    assert surrogate_gradient(*case)[0][0, 0] == approx([-0.20, 0.20])
    tv = mean_by_position(case.model, context_tv(case.model, case.target, case.behavior), case.behavior)
    assert tv[0] == 0


# --- Cheap divergences


def test_the_frequent_token_moves_the_most_mass():
    case = families.rare_and_frequent_token()
    target, behavior = row(case.target), row(case.behavior)
    assert single(context_tv(case.model, case.behavior, case.target)) == approx(0.19)
    assert single(context_kl(case.model, case.behavior, case.target)) == approx(0.18125232207, abs=5e-12)
    assert target[0] / behavior[0] == approx(100)
    assert target[1] / behavior[1] == approx(0.80808, abs=5e-6)
    logs, token = (np.log(behavior), np.log(target)), np.array(1)
    assert topk_tv_as_printed(*logs, token, 1) == approx(0.095)
    assert binary_tv(logs[0][1], logs[1][1]) == approx(0.19)
    assert topk_tv(*logs, token, 1) == approx(0.19)


@pytest.mark.parametrize("least", [1e-3, 1e-6, 1e-9])
def test_an_unmoved_token_sees_no_divergence(least: float):
    case = families.unmoved_token(least)
    logs = np.log(row(case.behavior))[0], np.log(row(case.target))[0]
    assert binary_tv(*logs) == 0
    assert binary_kl(*logs) == approx(0, abs=1e-15)
    assert single(context_tv(case.model, case.behavior, case.target)) == approx(0.8 - 2 * least)


# --- Errors


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (([0.5, 0.6], [0.5, 0.5], [0, 1]), r"target sums to 1\.1"),
        (([0.5, 0.5], [1.5, -0.5], [0, 1]), r"behavior\[1\] is -0\.5"),
        (([0.5, 0.5], [0.5, 0.5], [0, 1, 2]), "shape"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: tuple[list[float], ...], message: str):
    with pytest.raises(ValueError, match=message):
        families.one_step(*rows)


def test_a_case_is_model_target_behavior():
    case = families.parity(2, 0.1, 0.2)
    assert isinstance(case, TokenCase)
    assert row(case.target)[1] == approx(0.3)
    assert row(case.behavior)[1] == 0.1
