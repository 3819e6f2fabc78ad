"""Limits on gains, shifts of contexts, gradients, J and L hold on every model, and are attained."""

from collections.abc import Callable

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import derived
from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds.result import Inequality
from rlnotes.exact import token_families as families
from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.exact.token_gradients import flat, reward_gradient, surrogate_gradient
from rlnotes.exact.token_surrogates import worst_surrogate
from rlnotes.exact.tokens import single_prompt, single_prompt_policy
from tests.bounds.token_cases import GOLDEN, golden_case, random_cases, trials, unsupported_cases

INEQUALITIES: dict[str, Callable[..., Inequality]] = {
    "coupling": derived.coupling,
    "context_gains": derived.context_gains,
    "gradient_bias": derived.gradient_bias,
    "improvement_limit": derived.improvement_limit,
    "surrogate_limit": derived.surrogate_limit,
}


@pytest.mark.parametrize("name", INEQUALITIES)
def test_no_random_model_breaks_the_inequality(name: str):
    for case in trials():
        claim = INEQUALITIES[name](*case)
        assert np.all(np.asarray(claim.left) <= np.asarray(claim.right) * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("name", ["coupling", "context_gains", "gradient_bias", "improvement_limit"])
def test_it_holds_without_common_support(name: str):
    assert all(INEQUALITIES[name](*case).holds for case in unsupported_cases())


def test_the_limit_of_l_holds_for_the_rewards_that_make_it_largest():
    for case in random_cases():
        limit = forms.surrogate_limit(sequence_kl(case.model, case.behavior, case.target))
        assert worst_surrogate(*case) <= limit * (1 + 1e-9) + 1e-12


def test_coupling_is_attained_at_every_position():
    claim = derived.coupling(*families.sure_token(6, 0.3))
    assert claim.left == approx(claim.right, rel=1e-12)
    assert np.asarray(claim.left)[1:].min() > 0


def test_gains_of_two_tokens_attain_their_bound():
    claim = derived.context_gains(*golden_case("G10"))
    assert claim.left == approx(claim.right, rel=1e-9)
    assert np.max(claim.left) > 0.01, "and half of 001's bound, 2 D_TV, is not enough by any smaller factor"


@pytest.mark.parametrize("step", [1e-2, 1e-3])
def test_the_limit_of_l_is_attained_by_a_small_step_of_a_coin(step: float):
    claim = derived.surrogate_limit(*families.one_step([0.5 + step, 0.5 - step], [0.5, 0.5], [1, 0]))
    assert claim.left == approx(step)
    assert claim.tightness > 1 - 3 * step


def test_the_gradient_bias_of_the_first_step_is_within_a_factor_of_three():
    claim = derived.gradient_bias(*families.first_step_bias())
    assert claim.tightness == approx(5 / 12, rel=1e-9)


def test_the_gradient_bias_is_bounded_for_shared_logits_too():
    """One logit for all contexts: grad log pi is y - p, at most 1."""
    rng = np.random.default_rng(8)
    for _ in range(50):
        horizon = int(rng.integers(1, 6))
        p, q = rng.uniform(0, 1, 2)
        reward = rng.random(2**horizon).round()
        model = single_prompt(reward, 2, horizon)
        new, old = (
            single_prompt_policy([np.tile([1 - one, one], (2**t, 1)) for t in range(horizon)]) for one in (p, q)
        )
        gap = flat(surrogate_gradient(model, new, old)) - flat(reward_gradient(model, new))
        shared = np.tile([0.0, 1.0], len(gap) // 2)
        limit = forms.token_gradient_bias(horizon, min(abs(p - q), 1.0), max(p, 1 - p))
        assert abs(gap @ shared) <= limit * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_limits_are_those_of_the_golden_kl(name: str):
    """In the direction of the behavior, and times the range of rewards."""
    case, kl_seq = golden_case(name), GOLDEN[name]["outputs"]["DKL_seq"]
    span = case.model.reward.max() - case.model.reward.min()
    tv = min(np.sqrt(kl_seq / 2), np.sqrt(1 - np.exp(-kl_seq)))
    assert derived.improvement_limit(*case).right == approx(span * tv, rel=1e-10)
    assert derived.surrogate_limit(*case).right == approx(span * (tv + kl_seq), rel=1e-10)
