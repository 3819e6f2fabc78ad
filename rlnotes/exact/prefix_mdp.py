"""A token model as a decision process: states are prompts with the tokens so far, actions are tokens (002 5.1)."""

import numpy as np

from rlnotes.exact.mdp import MDP
from rlnotes.exact.tokens import Policy, TokenModel, check_policy, ended


def prefix_mdp(model: TokenModel) -> MDP:
    """The process that writes the model's answers: gamma is 1, and an answer's reward is paid with its last token.

    The state of prompt b with prefix c of t tokens is number :func:`prefix_state`; the last state is the end. It is
    entered with token ``eos`` or with token T. Prefixes that have ended already are states too, which nothing enters.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> mdp = prefix_mdp(single_prompt(reward=[0, 1, 1, 0], vocab_size=2, horizon=2))
    >>> mdp.states, mdp.r.max(-1)  # after nothing, 0 and 1, and at the end
    (4, array([0., 1., 1., 0.]))
    """
    size, horizon = model.vocab_size, model.horizon
    states = prefix_state(model, model.prompts - 1, horizon - 1, size ** (horizon - 1) - 1) + 2
    end = states - 1
    P, r, start = np.zeros((states, size, states)), np.zeros((states, size)), np.zeros(states)
    P[end, :, end] = 1
    for b in range(model.prompts):
        start[prefix_state(model, b, 0, 0)] = model.prompt_weights[b]
        for t in range(horizon):
            for c, over in enumerate(ended(size, t, model.eos)):
                state = prefix_state(model, b, t, c)
                for token in range(size):
                    if over or token == model.eos or t == horizon - 1:
                        P[state, token, end] = 1
                        r[state, token] = 0.0 if over else model.reward[b, _answer(model, t, c * size + token)]
                    else:
                        P[state, token, prefix_state(model, b, t + 1, c * size + token)] = 1
    return MDP(P, r, start, gamma=1.0)


def prefix_policy(model: TokenModel, policy: Policy) -> np.ndarray:
    """``policy`` as a policy (S, V) of :func:`prefix_mdp`; in the end, where nothing matters, any token.

    >>> from rlnotes.exact.mdp import expected_return
    >>> from rlnotes.exact.token_families import parity
    >>> model, target, _ = parity(horizon=2, old=0.5, shift=0.25)
    >>> round(expected_return(prefix_mdp(model), prefix_policy(model, target)), 3)
    0.375
    """
    rows = [policy_t.reshape(model.prompts, -1, model.vocab_size) for policy_t in check_policy(model, policy)]
    by_state = np.concatenate(rows, axis=1).reshape(-1, model.vocab_size)
    return np.concatenate([by_state, np.full((1, model.vocab_size), 1 / model.vocab_size)])


def prefix_state(model: TokenModel, prompt: int, t: int, prefix: int) -> int:
    """The number of the state: prompt by prompt, within it by length, within a length in lexicographic order.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> model = single_prompt(reward=[0, 1, 1, 0], vocab_size=2, horizon=2)
    >>> prefix_state(model, 0, t=0, prefix=0), prefix_state(model, 0, t=1, prefix=1)
    (0, 2)
    """
    size = model.vocab_size
    shorter = [sum(size**s for s in range(length)) for length in (t, model.horizon)]
    return prompt * shorter[1] + shorter[0] + prefix


def _answer(model: TokenModel, t: int, written: int) -> int:
    """The number of the answer that ends with these t + 1 tokens, padded with ``eos``."""
    for _ in range(model.horizon - t - 1):
        assert model.eos is not None
        written = written * model.vocab_size + model.eos
    return written
