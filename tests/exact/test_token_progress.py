"""Hessian, curvature and expected progress of a step, against differences and walks over all answers."""

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import gradient_ascent
from rlnotes.exact import token_gradients, tokens
from rlnotes.exact.random_tokens import REGIMES, random_case
from rlnotes.exact.token_families import first_step_bias
from rlnotes.exact.token_gradients import bias_parts, flat, reward_gradient, softmax_policy, surrogate_gradient
from rlnotes.exact.token_progress import (
    curvature,
    curvature_on_the_way,
    expected_progress,
    hessian,
    returns_after_step,
    smoothness_bound,
)
from rlnotes.exact.tokens import TokenModel, force_eos, sequence_probs
from tests.cases import cases


def small_case(seed: int, eos: int | None = None):
    """Two prompts, V = 3, T = 2, rewards in [0, 1]: model, logits of the target, behavior."""
    rng = np.random.default_rng(seed)
    model = TokenModel(rng.random((2, 9)), 3, 2, np.array([0.3, 0.7]), eos)
    logits = [rng.normal(size=(2, 3**t, 3)) for t in range(2)]
    return model, logits, force_eos(model, [rng.dirichlet(np.ones(3), (2, 3**t)) for t in range(2)])


def shifted(logits, direction, share):
    ends = np.cumsum([rows.size for rows in logits])[:-1]
    parts = np.split(np.asarray(direction), ends)
    return [rows + share * part.reshape(rows.shape) for rows, part in zip(logits, parts, strict=True)]


@pytest.mark.parametrize("eos", [None, 1])
def test_the_hessian_is_the_slope_of_the_gradient(eos):
    model, logits, _ = small_case(0, eos)
    size = sum(rows.size for rows in logits)
    for row, unit in zip(hessian(model, softmax_policy(model, logits)), np.eye(size), strict=True):
        ends = [flat(reward_gradient(model, softmax_policy(model, shifted(logits, unit, h)))) for h in (1e-5, -1e-5)]
        np.testing.assert_allclose(row, (ends[0] - ends[1]) / 2e-5, atol=1e-9)


def test_no_curvature_exceeds_the_bound():
    rng = np.random.default_rng(1)
    shares = []
    for k in range(max(cases() // 2, len(REGIMES))):
        model, target, _ = random_case(rng, REGIMES[k % len(REGIMES)])
        if sum(rows.size for rows in target) <= 200 and smoothness_bound(model) > 0:
            shares.append(curvature(model, target) / smoothness_bound(model))
    assert len(shares) > 20
    assert 0.2 < max(shares) <= 1


def test_a_coin_uses_a_good_part_of_the_bound():
    """J = sigmoid(z1 - z0): its steepest second derivative is 1 / (6 sqrt 3), twice that along (-1, 1) / sqrt 2."""
    coin = tokens.single_prompt([0.0, 1.0], 2, 1)
    found = [curvature(coin, [np.array([[[1 - p, p]]])]) for p in np.linspace(0.01, 0.99, 981)]
    assert max(found) == approx(1 / (3 * np.sqrt(3)), rel=1e-5)
    assert max(found) < smoothness_bound(coin) == 0.5


def test_progress_is_that_of_a_walk_over_all_answers():
    model, logits, behavior = small_case(2, eos=0)
    target = softmax_policy(model, logits)
    weights = token_gradients.token_weights(model, target, behavior, 0.4)
    probs = sequence_probs(model, behavior)
    total = 0.0
    for prompt in range(2):
        for answer in range(9):
            alone = np.zeros_like(weights)
            alone[prompt, answer] = weights[prompt, answer] / probs[prompt, answer] if probs[prompt, answer] else 0
            estimate = flat(token_gradients.mean_gradient(model, target, behavior, alone))
            moved = softmax_policy(model, shifted(logits, estimate, 0.7))
            total += probs[prompt, answer] * tokens.expected_reward(model, moved)
    expected = total - tokens.expected_reward(model, target)
    assert expected_progress(model, logits, behavior, weights, 0.7) == approx(expected, abs=1e-12)


def test_without_a_step_nothing_moves():
    model, logits, behavior = small_case(3)
    target = softmax_policy(model, logits)
    weights = token_gradients.sequence_weights(model, target, behavior)
    assert returns_after_step(model, logits, weights, 0.0) == approx(tokens.expected_reward(model, target), abs=1e-12)
    assert expected_progress(model, logits, behavior, weights, 0.0) == approx(0, abs=1e-12)


@pytest.mark.parametrize("step", [0.1, 1.0, 5.0])
def test_the_lemma_holds_with_the_bound_on_l(step: float):
    for seed in range(5):
        model, logits, behavior = small_case(seed)
        target = softmax_policy(model, logits)
        for make in (token_gradients.token_weights, token_gradients.sequence_weights):
            weights = make(model, target, behavior, 0.3)
            known = gradient_ascent.token_step(model, logits, behavior, weights, step, smoothness_bound(model))
            assert known.holds and known.true == expected_progress(model, logits, behavior, weights, step)


def test_the_lemma_fails_with_a_curvature_that_is_too_small():
    model, logits, behavior = small_case(0)
    weights = token_gradients.sequence_weights(model, softmax_policy(model, logits), behavior)
    assert not gradient_ascent.token_step(model, logits, behavior, weights, 50.0, 0.0).holds


def test_moments_of_a_batch_divide_the_variance_alone():
    model, logits, behavior = small_case(4)
    target = softmax_policy(model, logits)
    weights = token_gradients.token_weights(model, target, behavior)
    estimates = token_gradients.estimates_by_answer(model, target, weights)
    probs = sequence_probs(model, behavior).reshape(-1)
    one = gradient_ascent.token_moments(model, target, behavior, weights)
    by_walk = gradient_ascent.moments(flat(reward_gradient(model, target)), estimates, probs)
    assert one == approx(by_walk, abs=1e-14)
    pairs = (estimates[:, None] + estimates[None]).reshape(-1, estimates.shape[1]) / 2
    two = gradient_ascent.moments(flat(reward_gradient(model, target)), pairs, np.outer(probs, probs).reshape(-1))
    assert gradient_ascent.token_moments(model, target, behavior, weights, 2) == approx(two, abs=1e-14)


def test_the_best_progress_is_the_top_of_the_parabola_and_knows_no_scale():
    model, logits, behavior = small_case(6)
    target = softmax_policy(model, logits)
    weights = token_gradients.token_weights(model, target, behavior)
    known, doubled = (
        gradient_ascent.token_moments(model, target, behavior, scale * weights, 50) for scale in (1.0, 2.0)
    )
    steps = np.linspace(0, 2 * gradient_ascent.best_step(0.5, known), 2001)
    best = gradient_ascent.best_progress(0.5, known)
    assert best == approx(gradient_ascent.progress(steps, 0.5, known).max(), rel=1e-5) and best > 0
    assert gradient_ascent.best_progress(0.5, doubled) == approx(best)


def test_the_curvature_on_the_way_is_between_that_at_the_start_and_the_bound():
    model, logits, behavior = small_case(5)
    target = softmax_policy(model, logits)
    weights = token_gradients.token_weights(model, target, behavior)
    found = [curvature_on_the_way(model, logits, weights, 2.0, points) for points in (2, 5)]
    assert curvature(model, target) <= found[0] <= found[1] <= smoothness_bound(model)


def test_the_parts_of_the_bias_add_up():
    rng = np.random.default_rng(6)
    for k in range(max(cases() // 4, len(REGIMES))):
        model, target, behavior = random_case(rng, REGIMES[k % len(REGIMES)])
        parts = bias_parts(model, target, behavior)
        bias = flat(surrogate_gradient(model, target, behavior)) - flat(reward_gradient(model, target))
        np.testing.assert_allclose(sum(flat(part) for part in parts), bias, atol=1e-12)


def test_without_a_shift_of_states_only_advantages_remain():
    parts = bias_parts(*first_step_bias())
    first_token = [part[0].reshape(-1) for part in parts]
    np.testing.assert_allclose(first_token[0], 0, atol=1e-15)
    np.testing.assert_allclose(np.abs(first_token[1]), 0.15)
    np.testing.assert_allclose(first_token[2], 0, atol=1e-15)


def test_the_last_token_has_no_advantage_part():
    rng = np.random.default_rng(7)
    model, target, behavior = random_case(rng, "far")
    np.testing.assert_allclose(bias_parts(model, target, behavior).advantages[-1], 0, atol=1e-15)


def test_a_hessian_that_does_not_fit_is_refused():
    model = tokens.single_prompt(np.zeros(2**14), 2, 14)
    policy = [np.full((1, 2**t, 2), 0.5) for t in range(14)]
    with pytest.raises(MemoryError, match="Take a smaller horizon"):
        hessian(model, policy)


def test_what_makes_no_sense_is_refused():
    model, logits, behavior = small_case(0)
    weights = token_gradients.reinforce_weights(model)
    with pytest.raises(ValueError, match="points is 1"):
        curvature_on_the_way(model, logits, weights, 1.0, 1)
    with pytest.raises(ValueError, match="batch is 0"):
        gradient_ascent.token_moments(model, softmax_policy(model, logits), behavior, weights, 0)
