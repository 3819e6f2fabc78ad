"""Small cases on which claims of 001 and 002 fail, and the printed claim itself where it is a formula. For errata.

Others live where they also serve: :mod:`rlnotes.exact.mdp_families`, :mod:`rlnotes.exact.token_families`,
:mod:`rlnotes.exact.pathologies`.
"""

from dataclasses import replace

import numpy as np

from rlnotes.exact.mdp import MDP, ends, softmax, values, visits
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.tokens import sequences, single_prompt, single_prompt_policy

# --- 002: the policy gradient and its critic


def late_choice(gamma: float) -> MDP:
    """State 0 leads to state 1, whatever is done; there action 0 pays 1, action 1 nothing, and state 2 is the end.

    >>> from rlnotes.exact.mdp import expected_return
    >>> expected_return(late_choice(gamma=0.5), np.full((3, 2), 0.5))  # gamma / 2
    0.25
    """
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = P[1, :, 2] = P[2, :, 2] = 1
    return MDP(P, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), np.eye(3)[0], gamma)


def reward_to_go_gradient(mdp: MDP, logits: np.ndarray) -> np.ndarray:
    """E sum_t grad log pi(a_t | s_t) G_t (S, A), with no gamma^t: 002 eqs. (35), (39), (47) as printed.

    It is the gradient of J at gamma = 1 only: :func:`rlnotes.exact.mdp.policy_gradient`. Raises ``ValueError`` where
    the policy does not surely end, as the sum has no limit then.

    >>> from rlnotes.exact.mdp import policy_gradient
    >>> mdp, logits = late_choice(gamma=0.5), np.zeros((3, 2))
    >>> print(reward_to_go_gradient(mdp, logits)[1], policy_gradient(mdp, logits)[1])
    [ 0.25 -0.25] [ 0.125 -0.125]
    """
    pi = softmax(logits)
    counts = visits(replace(mdp, gamma=1.0), pi)  # of every time alike
    return counts[:, None] * pi * values(mdp, pi).a


def fair_gamble(gamma: float) -> MDP:
    """One action. State 0 leads to state 1, which pays 1, or, as likely, to state 2, which costs 1; then the end.

    >>> print(values(fair_gamble(gamma=0.9), np.ones((4, 1))).v.round(3) + 0.0)
    [ 0.  1. -1.  0.]
    """
    P = np.zeros((4, 1, 4))
    P[0, 0, 1:3] = 0.5
    P[1:, 0, 3] = 1
    return MDP(P, np.array([[0.0], [1.0], [-1.0], [0.0]]), np.eye(4)[0], gamma)


def smallest_td_error(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """The V (S,) that minimises the mean of delta^2 over the steps of an episode: 002 eq. (45) as printed.

    V of an end is 0. Where transitions are random this is not V of ``pi``. Raises ``ValueError`` where the policy does
    not surely end, or misses a state.

    >>> mdp, pi = fair_gamble(gamma=1.0), np.ones((4, 1))
    >>> print(smallest_td_error(mdp, pi).round(3) + 0.0, values(mdp, pi).v.round(3) + 0.0)
    [ 0.   0.5 -0.5  0. ] [ 0.  1. -1.  0.]
    """
    counts = visits(replace(mdp, gamma=1.0), pi)
    last = ends(mdp)
    missed = (counts == 0) & ~last
    if missed.any():
        raise ValueError(f"the policy never visits state {missed.argmax()}, whose value is then free; start there too")
    share = np.sqrt(counts[:, None, None] * mdp.policy(pi)[..., None] * mdp.P)
    here, following = np.eye(mdp.states)[:, None, None], np.eye(mdp.states)[None, None]
    rows = (share[..., None] * (here - mdp.gamma * following)).reshape(-1, mdp.states)
    right = (share * mdp.r[..., None]).reshape(-1)
    v = np.zeros(mdp.states)
    v[~last] = np.linalg.lstsq(rows[:, ~last], right)[0]
    return v


# --- 001: averages over the tokens of one answer


def two_kinds_of_answers(horizon: int, shift: float = 0.1) -> TokenCase:
    """A fair first token; after 0 the policies agree for ever, after 1 the target moves every fair coin by ``shift``.

    However long an answer is, the mean KL of its tokens comes near one of two numbers, never near D_seq / T, which
    lies half-way. Raises ``ValueError`` for a shift of 1/2 or more.

    >>> model, target, behavior = two_kinds_of_answers(horizon=2, shift=0.1)
    >>> print(target[1][0])  # the second token, after 0 and after 1
    [[0.5 0.5]
     [0.4 0.6]]
    """
    if not abs(shift) < 0.5:
        raise ValueError(f"shift is {shift}; a fair coin can move by less than 1/2")
    behavior, target = [np.array([[0.5, 0.5]])], [np.array([[0.5, 0.5]])]
    for t in range(1, horizon):
        moved = sequences(2, t)[:, :1] * np.array([-shift, shift])
        behavior.append(np.full((2**t, 2), 0.5))
        target.append(0.5 + moved)
    model = single_prompt(np.zeros(2**horizon), 2, horizon)
    return TokenCase(model, single_prompt_policy(target), single_prompt_policy(behavior))
