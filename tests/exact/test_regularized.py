"""The closed form of the best regularised policy, against the list of answers and against search."""

import numpy as np
import pytest
from scipy.optimize import minimize

from rlnotes.exact.regularized import regularized_optimum
from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.exact.token_gradients import softmax_policy
from rlnotes.exact.tokens import TokenModel, expected_reward, force_eos, own_tokens, sequence_probs, sequences


def case(seed: int, size: int, horizon: int, prompts: int, eos: int | None):
    rng = np.random.default_rng(seed)
    model = TokenModel(
        rng.normal(size=(prompts, size**horizon)), size, horizon, rng.dirichlet(np.ones(prompts)), eos=eos
    )
    policies = [
        force_eos(model, [rng.dirichlet(np.ones(size), (prompts, size**t)) for t in range(horizon)]) for _ in range(2)
    ]
    return model, *policies


def objective(model, policy, reference, beta):
    return expected_reward(model, policy) - beta * sequence_kl(model, policy, reference)


cases = pytest.mark.parametrize(
    ("size", "horizon", "prompts", "eos"), [(2, 1, 1, None), (2, 3, 2, None), (3, 3, 2, 0), (3, 2, 3, 2)]
)
betas = pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])


@cases
@betas
def test_answers_have_the_reference_probability_times_an_exponential(size, horizon, prompts, eos, beta):
    model, reference, _ = case(0, size, horizon, prompts, eos)
    best = regularized_optimum(model, reference, beta)
    given = sequence_probs(model, reference) / model.prompt_weights[:, None]
    weights = given * np.exp(model.reward / beta)
    Z = weights.sum(-1, keepdims=True)
    found = sequence_probs(model, best.policy) / model.prompt_weights[:, None]
    np.testing.assert_allclose(found, weights / Z, atol=1e-12)
    assert best.value == pytest.approx(beta * model.prompt_weights @ np.log(Z[:, 0]), abs=1e-12)
    assert best.value == pytest.approx(objective(model, best.policy, reference, beta), abs=1e-12)


@cases
@betas
@pytest.mark.parametrize("seed", range(3))
def test_any_policy_falls_short_by_its_kl_from_the_best(seed, size, horizon, prompts, eos, beta):
    model, reference, policy = case(seed, size, horizon, prompts, eos)
    best = regularized_optimum(model, reference, beta)
    short = best.value - objective(model, policy, reference, beta)
    assert short == pytest.approx(beta * sequence_kl(model, policy, best.policy), abs=1e-10)


def test_search_finds_the_same():
    model, reference, _ = case(2, 3, 2, 1, None)

    def unpacked(x):
        return softmax_policy(model, [x[:3].reshape(1, 1, 3), x[3:].reshape(1, 3, 3)])

    found = minimize(lambda x: -objective(model, unpacked(x), reference, 0.7), np.zeros(12), tol=1e-12)
    best = regularized_optimum(model, reference, 0.7)
    assert -found.fun == pytest.approx(best.value, abs=1e-8)
    for ours, theirs in zip(best.policy, unpacked(found.x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_tiny_beta_takes_the_best_answer_that_the_reference_can_write():
    model, reference, _ = case(3, 3, 2, 1, 0)
    reference[0][0, 0] = [0.5, 0.5, 0.0]  # never begins with token 2, however good that is
    best = regularized_optimum(model, reference, 1e-6)
    possible = (sequence_probs(model, reference) > 0)[0]
    every = (sequences(3, 2) == 0) | own_tokens(model)
    assert best.value == pytest.approx(model.reward[0][possible & every.all(-1)].max(), abs=1e-4)
    assert best.policy[0][0, 0, 2] == 0 and np.isfinite(np.concatenate([rows.ravel() for rows in best.policy])).all()


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_beta_that_is_not_positive_is_refused(beta):
    model, reference, _ = case(0, 2, 1, 1, None)
    with pytest.raises(ValueError, match="it must be positive and finite"):
        regularized_optimum(model, reference, beta)
