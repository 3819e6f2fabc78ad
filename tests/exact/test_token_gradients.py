import itertools

import numpy as np
import pytest

from rlnotes.estimators.baselines import group_mean, group_mean_std, leave_one_out
from rlnotes.exact import group_gradients, token_gradients
from rlnotes.exact.checks import SupportError
from rlnotes.exact.group_gradients import group_moments
from rlnotes.exact.groups import gradient_scale
from rlnotes.exact.random_tokens import REGIMES, random_case
from rlnotes.exact.token_gradients import (
    flat,
    mean_gradient,
    moments,
    reinforce_weights,
    reward_gradient,
    sequence_weights,
    softmax_policy,
    surrogate_gradient,
    token_weights,
    total_variance,
)
from rlnotes.exact.token_surrogates import surrogate, surrogate_by_position
from rlnotes.exact.tokens import (
    TokenModel,
    expected_reward,
    force_eos,
    log_token_ratios,
    on_answers,
    sequence_probs,
    sequences,
    single_prompt,
    single_prompt_policy,
    token_ratios,
    values,
)
from tests.cases import cases


def slopes(function, logits, step=1e-5):
    """Central differences of ``function`` in every logit, flat."""
    found = []
    for t, rows in enumerate(logits):
        for where in np.ndindex(rows.shape):
            ends = []
            for sign in (1, -1):
                moved = [np.array(other) for other in logits]
                moved[t][where] += sign * step
                ends.append(function(moved))
            found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


def small_case(seed: int, eos: int | None = None, zeros: bool = False):
    """Two prompts, V = 3, T = 2: model, logits of the target, behavior."""
    rng = np.random.default_rng(seed)
    model = TokenModel(rng.normal(size=(2, 9)), 3, 2, np.array([0.3, 0.7]), eos)
    logits = [rng.normal(size=(2, 3**t, 3)) for t in range(2)]
    behavior = [rng.dirichlet(np.ones(3), (2, 3**t)) for t in range(2)]
    if zeros:
        behavior[1][:, 1] = [0.5, 0.5, 0]
    return model, logits, force_eos(model, behavior)


def estimates(model, target, weights):
    """(B V**T, D) the estimate from every answer, by d log pi / d logit = one-hot less pi, one context at a time."""
    starts = np.cumsum([0] + [rows.size for rows in target])
    table = np.zeros((model.reward.size, starts[-1]))
    answers = sequences(model.vocab_size, model.horizon)
    for prompt, (index, answer) in itertools.product(range(model.prompts), enumerate(answers)):
        prefix = 0
        for t, token in enumerate(answer):
            score = np.eye(model.vocab_size)[token] - target[t][prompt, prefix]
            start = starts[t] + (prompt * model.vocab_size**t + prefix) * model.vocab_size
            row = prompt * len(answers) + index
            table[row, start : start + model.vocab_size] += weights[prompt, index, t] * score
            prefix = prefix * model.vocab_size + token
    return table


@pytest.mark.parametrize("eos", [None, 0])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_of_j_and_of_the_surrogate_are_slopes(seed, eos):
    model, logits, behavior = small_case(seed, eos)
    target = softmax_policy(model, logits)
    by_reward = slopes(lambda moved: expected_reward(model, softmax_policy(model, moved)), logits)
    np.testing.assert_allclose(flat(reward_gradient(model, target)), by_reward, atol=1e-9)
    by_surrogate = slopes(lambda moved: surrogate(model, softmax_policy(model, moved), behavior), logits)
    np.testing.assert_allclose(flat(surrogate_gradient(model, target, behavior)), by_surrogate, atol=1e-9)


def test_the_surrogate_has_a_gradient_also_where_the_behavior_lacks_tokens():
    model, logits, behavior = small_case(5, zeros=True)

    def local(moved):
        return surrogate_by_position(model, softmax_policy(model, moved), behavior).sum()

    found = surrogate_gradient(model, softmax_policy(model, logits), behavior)
    np.testing.assert_allclose(flat(found), slopes(local, logits), atol=1e-9)
    with pytest.raises(SupportError):
        token_weights(model, softmax_policy(model, logits), behavior)


def test_which_estimators_are_unbiased():
    rng = np.random.default_rng(11)
    for k in range(max(cases() // 4, len(REGIMES))):
        model, target, behavior = random_case(rng, REGIMES[k % len(REGIMES)])
        true, local = flat(reward_gradient(model, target)), flat(surrogate_gradient(model, target, behavior))
        by_prompt = rng.normal(size=(model.prompts, 1))
        by_state = on_answers(model, [v[..., None] for v in values(model, behavior).v])
        for baseline in (0.0, 0.3, by_prompt, by_state):
            on_policy = mean_gradient(model, target, target, reinforce_weights(model, baseline))
            np.testing.assert_allclose(flat(on_policy), true, atol=1e-10)
            token = mean_gradient(model, target, behavior, token_weights(model, target, behavior, baseline))
            np.testing.assert_allclose(flat(token), local, atol=1e-10)
        for baseline in (0.0, 0.3, by_prompt):
            whole = mean_gradient(model, target, behavior, sequence_weights(model, target, behavior, baseline))
            np.testing.assert_allclose(flat(whole), true, atol=1e-10)


@pytest.mark.parametrize("cap", [np.inf, 1.1])
@pytest.mark.parametrize("make", [token_weights, sequence_weights])
def test_moments_equal_a_walk_over_all_answers(make, cap):
    model, logits, behavior = small_case(2, eos=1)
    target = softmax_policy(model, logits)
    weights = make(model, target, behavior, 0.2, cap)
    table, probs = estimates(model, target, weights), sequence_probs(model, behavior).reshape(-1)
    mean, bias, covariance = moments(model, target, behavior, weights)
    by_walk = sum(p * np.outer(g, g) for p, g in zip(probs, table, strict=True)) - np.outer(
        probs @ table, probs @ table
    )
    np.testing.assert_allclose(mean, probs @ table, atol=1e-14)
    np.testing.assert_allclose(covariance, by_walk, atol=1e-14)
    np.testing.assert_allclose(bias, probs @ table - flat(reward_gradient(model, target)), atol=1e-14)
    assert total_variance(model, target, behavior, weights) == pytest.approx(np.trace(by_walk))


def test_a_cap_lowers_variance_and_brings_bias():
    model, logits, behavior = small_case(4)
    target = softmax_policy(model, logits)
    free, capped = (
        moments(model, target, behavior, sequence_weights(model, target, behavior, cap=cap)) for cap in (np.inf, 1.0)
    )
    assert np.trace(capped.covariance) < np.trace(free.covariance)
    assert np.abs(free.bias).max() < 1e-14 < 1e-3 < np.abs(capped.bias).max()


def test_shared_parameters_take_the_gradient_through_their_features():
    model, logits, _ = small_case(3)
    features = np.random.default_rng(0).normal(size=(sum(rows.size for rows in logits), 2))
    at = np.array([0.4, -0.7])

    def policy(parameters):
        table = features @ parameters
        return softmax_policy(model, [table[:6].reshape(2, 1, 3), table[6:].reshape(2, 3, 3)])

    shared = slopes(lambda moved: expected_reward(model, policy(moved[0])), [at])
    np.testing.assert_allclose(flat(reward_gradient(model, policy(at))) @ features, shared, atol=1e-9)


def test_token_level_weights_keep_the_behaviors_advantage():
    """003 5.2 blames prefixes alone; here the first token has none to be wrong about."""
    model = single_prompt([0, 1, 0, 1], 2, 2)
    behavior = single_prompt_policy([[[0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9]]])
    target = single_prompt_policy([[[0.5, 0.5]], [[0.6, 0.4], [0.4, 0.6]]])
    assert reward_gradient(model, target)[0][0, 0, 1] == pytest.approx(0.05, abs=1e-15)
    assert surrogate_gradient(model, target, behavior)[0][0, 0, 1] == pytest.approx(0.20, abs=1e-15)
    weights = token_weights(model, target, behavior, baseline=0.7)
    assert mean_gradient(model, target, behavior, weights)[0][0, 0, 1] == pytest.approx(0.20, abs=1e-15)


def test_a_mask_can_turn_the_gradient_around():
    model = single_prompt([0.6, 1, 0], 3, 1)
    behavior, target = single_prompt_policy([[[0.5, 0.25, 0.25]]]), single_prompt_policy([[[0.5, 0.49, 0.01]]])
    kept = np.abs(log_token_ratios(model, target, behavior)) <= 0.5
    masked = kept * token_weights(model, target, behavior, baseline=expected_reward(model, behavior))
    found = flat(mean_gradient(model, target, behavior, masked))
    true = flat(reward_gradient(model, target))
    np.testing.assert_allclose(found, [0.0125, -0.01225, -0.00025], atol=1e-15)
    np.testing.assert_allclose(true, [-0.095, 0.1029, -0.0079], atol=1e-15)
    assert found @ true == pytest.approx(-0.00244605, abs=1e-12)
    no_baseline = flat(mean_gradient(model, target, behavior, kept * token_weights(model, target, behavior)))
    assert np.abs(no_baseline - found).max() > 0.1  # under a mask a baseline is no longer free


def test_a_covariance_that_will_not_fit_is_refused(monkeypatch):
    model, logits, behavior = small_case(0)
    weights = reinforce_weights(model)
    monkeypatch.setattr(token_gradients, "MEMORY_LIMIT", 1000)
    with pytest.raises(MemoryError, match=r"covariance of 24 logits over 18 answers needs .* or total_variance"):
        moments(model, softmax_policy(model, logits), behavior, weights)


def by_listing_groups(model, target, behavior, weights, advantage, group_size):
    """Mean and total variance of the group estimate from all groups of answers."""
    table = estimates(model, target, weights).reshape(*model.reward.shape, -1)
    probs = sequence_probs(model, behavior) / model.prompt_weights[:, None]
    mean, second = np.zeros(table.shape[-1]), 0.0
    for prompt, weight in enumerate(model.prompt_weights):
        for group in itertools.product(range(model.reward.shape[1]), repeat=group_size):
            chosen = list(group)
            chance = weight * probs[prompt, chosen].prod()
            if chance > 0:
                estimate = advantage(model.reward[prompt, chosen], group_size) @ table[prompt, chosen] / group_size
                mean += chance * estimate
                second += chance * (estimate @ estimate)
    return mean, second - mean @ mean


@pytest.mark.parametrize("advantage", [group_mean, group_mean_std, leave_one_out])
@pytest.mark.parametrize("group_size", [2, 3])
@pytest.mark.parametrize("eos", [None, 2])
def test_group_moments_equal_all_groups_of_answers(advantage, group_size, eos):
    model, logits, behavior = small_case(6, eos)
    model = TokenModel(np.round(model.reward), 3, 2, model.prompt_weights, eos)
    target = softmax_policy(model, logits)
    weights = token_ratios(model, target, behavior)
    mean, spread = group_moments(model, target, behavior, weights, advantage, group_size)
    wanted_mean, wanted_spread = by_listing_groups(model, target, behavior, weights, advantage, group_size)
    np.testing.assert_allclose(flat(mean), wanted_mean, atol=1e-12)
    assert spread == pytest.approx(wanted_spread, rel=1e-9)


@pytest.mark.parametrize("advantage", [group_mean, group_mean_std, leave_one_out])
def test_group_estimators_scale_the_gradient_of_one_prompt_with_0_1_rewards(advantage):
    rng = np.random.default_rng(8)
    model = single_prompt(rng.integers(0, 2, 8).astype(float), 2, 3)
    policy = [rng.dirichlet([1, 1], (1, 2**t)) for t in range(3)]
    ones = np.ones((*model.reward.shape, 3))
    for group_size in (2, 4, 8):
        mean = group_moments(model, policy, policy, ones, advantage, group_size).mean
        scale = gradient_scale(advantage, group_size, expected_reward(model, policy))
        np.testing.assert_allclose(flat(mean), scale * flat(reward_gradient(model, policy)), atol=1e-12)


def test_a_group_with_its_own_mean_as_baseline_shrinks_the_gradient():
    """004's default baseline: p = 0.3, G = 4 gives 0.1575 and not 0.21."""
    model = single_prompt([0, 1], 2, 1)
    policy = single_prompt_policy([[[0.7, 0.3]]])
    ones = np.ones((1, 2, 1))
    assert group_moments(model, policy, policy, ones, group_mean, 4).mean[0][0, 0, 1] == pytest.approx(0.1575)
    assert group_moments(model, policy, policy, ones, leave_one_out, 4).mean[0][0, 0, 1] == pytest.approx(0.21)


def test_too_many_kinds_of_groups_are_refused(monkeypatch):
    model = single_prompt(np.arange(8.0), 2, 3)
    policy = [np.full((1, 2**t, 2), 0.5) for t in range(3)]
    monkeypatch.setattr(group_gradients, "MAX_GROUPS", 35)
    ones = np.ones((1, 8, 3))
    with pytest.raises(MemoryError, match="8 different rewards in groups of 2 make 36 different groups"):
        group_moments(model, policy, policy, ones, group_mean, 2)
