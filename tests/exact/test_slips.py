"""Closed forms of coins with one logit, against enumeration of all answers."""

import numpy as np
import pytest
from pytest import approx
from scipy.special import expit, logit

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.exact import slips, token_gradients, tokens
from rlnotes.exact.slips import REWARDS, Slips

CASES = pytest.mark.parametrize(
    "case",
    [Slips(reward, T, p, q) for reward in REWARDS for T, p, q in ((1, 0.3, 0.5), (4, 0.1, 0.25), (5, 0.4, 0.2))],
    ids=str,
)


def enumerated(case: Slips):
    """Model, target, behavior, and the estimate's projection on the one logit, the sum over all logits of a slip."""
    answers = tokens.sequences(2, case.horizon)
    k = answers.sum(1)
    reward = {"clean": k == 0, "share": 1 - k / case.horizon, "odd": k % 2}[case.reward]
    policies = [[np.tile([1 - one, one], (1, 2**t, 1)) for t in range(case.horizon)] for one in (case.new, case.old)]
    return tokens.single_prompt(reward, 2, case.horizon), *policies, k


def one_logit(gradient) -> float:
    return float(sum(rows[..., 1].sum() for rows in gradient))


@CASES
def test_means_and_gradients(case: Slips):
    model, target, behavior, _ = enumerated(case)
    assert slips.expected_reward(case.reward, case.horizon, case.new) == approx(tokens.expected_reward(model, target))
    assert case.gradient == approx(one_logit(token_gradients.reward_gradient(model, target)), abs=1e-14)
    local = one_logit(token_gradients.surrogate_gradient(model, target, behavior))
    assert case.surrogate_gradient == approx(local, abs=1e-14)


@CASES
@pytest.mark.parametrize("cap", [0.5, 1.3, np.inf])
def test_estimates_bias_and_variance(case: Slips, cap: float):
    model, target, behavior, k = enumerated(case)
    baseline = tokens.expected_reward(model, behavior)
    ours = {
        "token": (case.token_estimates(), token_gradients.token_weights(model, target, behavior, baseline)),
        "sequence": (
            case.sequence_estimates(cap),
            token_gradients.sequence_weights(model, target, behavior, baseline, cap),
        ),
    }
    probs = tokens.sequence_probs(model, behavior)[0]
    for by_count, weights in ours.values():
        table = token_gradients.estimates_by_answer(model, target, weights)
        each = table @ np.tile([0.0, 1.0], table.shape[1] // 2)
        np.testing.assert_allclose(by_count[k], each, atol=1e-12)
        found = case.moments(by_count)
        assert found.mean == approx(probs @ each, abs=1e-12)
        assert found.bias == approx(probs @ each - case.gradient, abs=1e-12)
        assert found.variance == approx(probs @ each**2 - (probs @ each) ** 2, abs=1e-12)
        moved = expit(logit(case.new) + 0.8 * each)
        after = [
            tokens.expected_reward(model, [np.tile([1 - q, q], (1, 2**t, 1)) for t in range(case.horizon)])
            for q in moved
        ]
        expected = probs @ after - tokens.expected_reward(model, target)
        assert case.expected_progress(by_count, 0.8) == approx(expected, abs=1e-12)


@CASES
def test_the_listed_model_is_the_same(case: Slips):
    model, target, behavior, _ = enumerated(case)
    listed = slips.token_case(case)
    np.testing.assert_array_equal(listed.model.reward, model.reward)
    for ours, theirs in ((listed.target, target), (listed.behavior, behavior)):
        for rows, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(rows, expected)
    assert slips.by_one_logit(token_gradients.reward_gradient(*listed[:2])) == approx(case.gradient, abs=1e-14)


@CASES
def test_the_curvature_is_the_slope_of_the_gradient(case: Slips):
    ends = [Slips(case.reward, case.horizon, 0.5, expit(logit(case.new) + h)).gradient for h in (1e-5, -1e-5)]
    found = slips.curvature(case.reward, case.horizon, case.new)
    assert found == approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


@CASES
def test_sequence_ratios_are_unbiased_and_token_ratios_follow_the_surrogate(case: Slips):
    assert case.moments(case.sequence_estimates()).bias == approx(0, abs=1e-12)
    assert case.moments(case.token_estimates()).mean == approx(case.surrogate_gradient, abs=1e-12)
    second = case.probs @ case.sequence_weights() ** 2
    assert second == approx((1 + case.chi2) ** case.horizon)


@CASES
def test_the_bound_on_the_curvature_holds(case: Slips):
    z, h = np.linspace(-6, 6, 2001), 1e-3
    at = [slips.expected_reward(case.reward, case.horizon, expit(z + s * h)) for s in (-1, 0, 1)]
    assert np.abs(at[0] - 2 * at[1] + at[2]).max() / h**2 <= case.smoothness_bound


def test_parity_attains_the_order_of_the_bound_on_the_bias():
    """|bias| / (T (T - 1) D) goes to 2 q (1 - q), for small D and slips that are rare beside 1 / T."""
    p, shift = 1e-4, 1e-7
    for horizon in (2, 5, 10):
        case = Slips("odd", horizon, p, p + shift)
        bound = forms.token_gradient_bias(horizon, shift, 1 - case.new)
        attained = abs(case.surrogate_gradient - case.gradient) / (2 * case.new * (1 - case.new) * horizon)
        assert attained == approx(horizon * shift - shift, rel=5e-3)
        assert abs(case.surrogate_gradient - case.gradient) <= bound


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("even", 3, 0.1, 0.2), "reward is 'even'"),
        (("odd", 0, 0.1, 0.2), "horizon is 0"),
        (("odd", 3, 0.0, 0.2), "old is 0.0"),
        (("odd", 3, 0.1, 1.0), "new is 1.0"),
    ],
)
def test_what_is_no_case_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Slips(*arguments)
