"""How far the gradient of L can be from that of J: the order in T is 1.5, and it is attained."""

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import derived
from rlnotes.bounds import token_closed_forms as forms
from rlnotes.exact.checks import SupportError
from rlnotes.exact.slips import REWARDS, Slips
from rlnotes.exact.token_families import first_step_bias, leaving
from rlnotes.exact.token_gradients import reward_gradient, surrogate_gradient
from tests.bounds.token_cases import trials, unsupported_cases


def shared(gradient) -> float:
    """By one logit of a 1 over a 0 in all contexts, half up and half down: the score of a coin is 1/2."""
    return float(sum((rows[..., 1] - rows[..., 0]).sum() for rows in gradient)) / 2


def test_no_random_model_breaks_the_inequality():
    for case in trials():
        assert derived.gradient_bias_martingale(*case).holds


def test_it_asks_for_common_support():
    refused = 0
    for case in unsupported_cases():
        try:
            derived.gradient_bias_martingale(*case)
        except SupportError:
            refused += 1
    assert refused > 0


def test_no_coins_with_one_logit_break_it():
    rng = np.random.default_rng(0)
    for _ in range(300):
        horizon, (old, new) = int(rng.integers(1, 40)), rng.uniform(0.001, 0.999, 2)
        for reward in REWARDS:
            case = Slips(reward, horizon, old, new)
            limit = forms.token_gradient_bias_martingale(horizon, abs(new - old), max(new, 1 - new))
            assert abs(case.surrogate_gradient - case.gradient) <= limit * (1 + 1e-9)


def test_the_order_in_the_horizon_is_attained():
    shares = []
    for horizon in (2, 4, 6, 8):
        case = leaving(horizon, 1e-4)
        bias = shared(surrogate_gradient(*case)) - shared(reward_gradient(case.model, case.target))
        limit = float(forms.token_gradient_bias_martingale(horizon, 1e-4, 0.5))
        assert abs(bias) <= limit
        shares.append(abs(bias) / limit)
    assert shares == sorted(shares) and shares[-1] > 0.2, "of a bound of the right order the share does not fall"


def test_two_tokens_attain_the_other_bound():
    """One shared logit of a fair coin, reward 1 for one slip of two."""
    case = Slips("odd", 2, 0.5 - 1e-6, 0.5)
    limit = forms.token_gradient_bias(2, 1e-6, 0.5)
    assert abs(case.surrogate_gradient - case.gradient) == approx(float(limit), rel=1e-9)


@pytest.mark.parametrize(("horizon", "smaller"), [(4, False), (5, True), (100, True)])
def test_it_is_the_smaller_bound_from_five_tokens_on(horizon: int, smaller: bool):
    bounds = (form(horizon, 1e-4, 1.0) for form in (forms.token_gradient_bias_martingale, forms.token_gradient_bias))
    ours, chain = bounds
    assert (ours < chain) == smaller


def test_it_scales_with_the_range_of_the_reward():
    model, target, behavior = first_step_bias()
    one = derived.gradient_bias_martingale(model, target, behavior)
    assert one.left == approx(derived.gradient_bias(model, target, behavior).left)
    assert one.holds and one.left < one.right
