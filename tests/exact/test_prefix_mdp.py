"""The process that writes answers agrees with the list of answers: returns, values, the best policy."""

import numpy as np
import pytest

from rlnotes.exact import mdp, tokens
from rlnotes.exact.prefix_mdp import prefix_mdp, prefix_policy, prefix_state
from rlnotes.exact.tokens import TokenModel, force_eos


def case(seed: int, size: int, horizon: int, prompts: int, eos: int | None):
    rng = np.random.default_rng(seed)
    model = TokenModel(
        rng.normal(size=(prompts, size**horizon)), size, horizon, rng.dirichlet(np.ones(prompts)), eos=eos
    )
    policy = [rng.dirichlet(np.ones(size), (prompts, size**t)) for t in range(horizon)]
    return model, force_eos(model, policy)


cases = pytest.mark.parametrize(
    ("size", "horizon", "prompts", "eos"), [(2, 1, 1, None), (2, 3, 2, None), (3, 3, 2, 0), (3, 2, 3, 2), (4, 2, 1, 1)]
)


@cases
@pytest.mark.parametrize("seed", range(3))
def test_return_and_values_are_those_of_the_list_of_answers(seed, size, horizon, prompts, eos):
    model, policy = case(seed, size, horizon, prompts, eos)
    process, pi = prefix_mdp(model), prefix_policy(model, policy)
    assert mdp.expected_return(process, pi) == pytest.approx(tokens.expected_reward(model, policy), abs=1e-12)
    listed, solved = tokens.values(model, policy), mdp.values(process, pi)
    for t in range(horizon):
        over = tokens.ended(size, t, eos)
        for b in range(prompts):
            for c in np.flatnonzero(~over):
                state = prefix_state(model, b, t, int(c))
                assert solved.v[state] == pytest.approx(listed.v[t][b, c], abs=1e-12)
                np.testing.assert_allclose(solved.q[state], listed.q[t][b, c], atol=1e-12)


@cases
def test_visits_are_prefix_probabilities(size, horizon, prompts, eos):
    model, policy = case(0, size, horizon, prompts, eos)
    counts = mdp.visits(prefix_mdp(model), prefix_policy(model, policy))
    for t, probs in enumerate(tokens.prefix_probs(model, policy)[:-1]):
        over = tokens.ended(size, t, eos)
        for b in range(prompts):
            for c in range(size**t):
                expected = 0.0 if over[c] else probs[b, c]  # the process has stopped there
                assert counts[prefix_state(model, b, t, c)] == pytest.approx(expected, abs=1e-12)


@cases
def test_the_best_policy_writes_the_best_answers(size, horizon, prompts, eos):
    model, _ = case(1, size, horizon, prompts, eos)
    process = prefix_mdp(model)
    best = mdp.optimal_policy(process)[0]
    own = tokens.own_tokens(model)
    answers = tokens.sequences(size, horizon)
    padded = (answers == (-1 if eos is None else eos)) | own  # every answer once
    expected = model.prompt_weights @ np.where(padded.all(-1), model.reward, -np.inf).max(-1)
    assert mdp.expected_return(process, best) == pytest.approx(expected, abs=1e-12)


def test_states_are_counted_through_and_the_end_is_the_last():
    model, policy = case(0, 3, 3, 2, None)
    process = prefix_mdp(model)
    numbers = [prefix_state(model, b, t, c) for b in range(2) for t in range(3) for c in range(3**t)]
    assert numbers == list(range(process.states - 1))
    assert process.gamma == 1 and mdp.ends(process).tolist() == [False] * len(numbers) + [True]
    assert prefix_policy(model, policy).shape == (process.states, 3)
