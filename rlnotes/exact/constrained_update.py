"""One update on stale data, exactly: 000's three clips, and the constrained problem that they stand for.

Sizes: S states, M behaviours, A actions. The data come from the pairs (s, i) with weights d_beta(s, i), and in (s, i)
from behaviour i. The ratios are rho_k = pi_k / pi_i and rho_{k+1} = pi / pi_i (000 section 7). Surrogates are without
the factor 1 / (1 - gamma), so that a bandit needs no discount. Linear programmes are solved by SciPy.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.optimize import linprog

from rlnotes.exact.checks import SupportError, distribution, finite

Mechanism = Literal["ppo", "method 1", "method 2"]


def clip_band(mechanism: Mechanism, current_ratio: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends [low, high] of the interval that rho_{k+1} is clipped to, of the shape of ``current_ratio`` (rho_k).

    Each of 000's three clips (section 7.2) is min(rho_{k+1} A, clip(rho_{k+1}, low, high) A) with one of them: 1 +-
    epsilon (standard PPO), rho_k +- epsilon (Method 1), rho_k (1 +- epsilon) (Method 2, whose advantage rho_k A takes
    the factor rho_k into the term). Raises ``ValueError`` for another name or an epsilon outside [0, 1].

    >>> current_ratio = np.array([0.5, 2.0])
    >>> print(*clip_band("ppo", current_ratio, epsilon=0.25))
    [0.75 0.75] [1.25 1.25]
    >>> print(*clip_band("method 2", current_ratio, epsilon=0.25))
    [0.375 1.5  ] [0.625 2.5  ]
    """
    if mechanism not in get_args(Mechanism):
        raise ValueError(f"mechanism is {mechanism!r}; choose one of {', '.join(get_args(Mechanism))}")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon is {epsilon}; it must be in [0, 1]")
    center = np.ones_like(current_ratio) if mechanism == "ppo" else np.asarray(current_ratio, dtype=np.float64)
    reach = epsilon * center if mechanism == "method 2" else np.full_like(center, epsilon)
    return center - reach, center + reach


def clipped_term(
    ratio: np.ndarray, advantages: np.ndarray, band: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """min(rho A, clip(rho, low, high) A), and whether it has a gradient: its derivative by rho is A there, else 0.

    A term is closed where the ratio has passed the end of the band that its advantage points to.

    >>> ratio, advantages = np.array([0.5, 1.0, 2.0]), np.ones(3)
    >>> term, is_open = clipped_term(ratio, advantages, band=(0.75, 1.25))
    >>> print(term, is_open)
    [0.5  1.   1.25] [ True  True False]
    """
    low, high = band
    is_open = np.where(advantages > 0, ratio < high, ratio > low)
    return np.minimum(ratio * advantages, np.clip(ratio, low, high) * advantages), is_open


@dataclass(frozen=True, eq=False)
class StaleData:
    """What an update is made from, and pi_k, which it starts from.

    ``weights`` (S, M) is d_beta. ``behaviors`` (M, S, A), ``current`` (S, A) is pi_k, ``advantages`` (S, M, A).
    Raises ``ValueError`` for arrays of other shapes and rows that are no distributions, and
    :class:`rlnotes.exact.checks.SupportError` where a behaviour in use never takes some action: ratios would not exist.

    >>> one = np.array([[0.5, 0.5]])  # a bandit; the data come from the current policy
    >>> data = StaleData(np.ones((1, 1)), one[None], one, np.array([[[1.0, -1.0]]]))
    >>> new = np.array([[0.75, 0.25]])
    >>> data.surrogate(new), data.update_shift(new), data.clipped("ppo", 0.25, new)
    (0.5, 0.25, 0.25)
    """

    weights: np.ndarray
    behaviors: np.ndarray
    current: np.ndarray
    advantages: np.ndarray

    def __post_init__(self):
        behaviors = distribution("behaviors", self.behaviors, (None, None, None))
        M, S, A = behaviors.shape
        weights = finite("weights", self.weights, (S, M))
        distribution("weights", weights.reshape(-1))
        used = weights.T[..., None] > 0
        if (missing := used & (behaviors == 0)).any():
            i, s, a = np.argwhere(missing)[0]
            raise SupportError(f"behavior {i} never takes action {a} in state {s}; give it some probability")
        own = dict(weights=weights, behaviors=behaviors, current=distribution("current", self.current, (S, A)))
        for name, array in (own | dict(advantages=finite("advantages", self.advantages, (S, M, A)))).items():
            object.__setattr__(self, name, array)

    def ratios(self, policy: np.ndarray) -> np.ndarray:
        """policy / pi_i (S, M, A); 0 where a pair (s, i) has no weight, for nothing is sampled there."""
        behaviors = self.behaviors.swapaxes(0, 1)
        used = np.broadcast_to(self.weights[..., None] > 0, behaviors.shape)
        return np.divide(policy[:, None], behaviors, out=np.zeros(behaviors.shape), where=used)

    def mean(self, terms: np.ndarray) -> float:
        """Mean of ``terms`` (S, M, A) over the data: state and behaviour by d_beta, the action by that behaviour."""
        return float(np.einsum("si,isa,sia->", self.weights, self.behaviors, terms))

    def surrogate(self, policy: np.ndarray) -> float:
        """L_beta, the mean of rho_{k+1} A (000 section 5.2, without 1 / (1 - gamma))."""
        return self.mean(self.ratios(policy) * self.advantages)

    def update_shift(self, policy: np.ndarray) -> float:
        """U_k = E_{d_beta} TV(policy, pi_k): 000 section 5.3."""
        return float(self.weights.sum(1) @ np.abs(policy - self.current).sum(-1)) / 2

    def staleness(self) -> float:
        """S_k = E_{d_beta} TV(pi_k, pi_i): 000 section 5.3."""
        return float((self.weights * np.abs(self.behaviors - self.current).sum(-1).T).sum()) / 2

    def clipped(self, mechanism: Mechanism, epsilon: float, policy: np.ndarray) -> float:
        """The mean of one of the three clipped terms: L^PPO, L^M1, L^M2 of 000 section 7.2."""
        return self.mean(self._terms(mechanism, epsilon, policy)[0])

    def clipped_gradient(self, mechanism: Mechanism, epsilon: float, policy: np.ndarray) -> np.ndarray:
        """Derivative (S, A) of :meth:`clipped` by the logits of a softmax policy."""
        _, is_open = self._terms(mechanism, epsilon, policy)
        by_policy = np.einsum("si,sia->sa", self.weights, self.advantages * is_open)
        return policy * (by_policy - (policy * by_policy).sum(-1, keepdims=True))

    def _terms(self, mechanism: Mechanism, epsilon: float, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        band = clip_band(mechanism, self.ratios(self.current), epsilon)
        return clipped_term(self.ratios(policy), self.advantages, band)


def constrained_update(data: StaleData, shift: float) -> np.ndarray:
    """The policy (S, A) with the largest L_beta among those with U_k <= ``shift``: 000 section 7.4, with eps / 2 there.

    A linear programme in the policy and in abs(policy - pi_k). Raises ``ValueError`` for a negative ``shift``.

    >>> one = np.array([[0.5, 0.5]])  # a bandit; the data come from the current policy
    >>> data = StaleData(np.ones((1, 1)), one[None], one, np.array([[[1.0, -1.0]]]))
    >>> print(constrained_update(data, shift=0.125).round(3))
    [[0.625 0.375]]
    """
    if not shift >= 0:
        raise ValueError(f"shift is {shift}; a mean TV is not negative")
    gain = _gain(data)
    objective = np.concatenate([-gain, np.zeros(gain.size)])
    rows, right = _moves(data)
    rows, right = np.vstack([rows, _shift_row(data)]), np.append(right, shift)
    return _solve(data, objective, rows, right)[: gain.size].reshape(data.current.shape)


def clipped_update(data: StaleData, mechanism: Mechanism, epsilon: float) -> np.ndarray:
    """Of the policies (S, A) that maximise a clipped surrogate, the nearest to pi_k; of those, that of largest L_beta.

    Clipped surrogates are flat beyond their bands, so there are many maximisers, and often many of the same U_k. Three
    linear programmes, each among the optima of those before: the largest value, the smallest shift, the largest L_beta.

    >>> one = np.array([[0.5, 0.5]])  # a bandit; the data come from the current policy
    >>> data = StaleData(np.ones((1, 1)), one[None], one, np.array([[[1.0, -1.0]]]))
    >>> print(clipped_update(data, "ppo", epsilon=0.25).round(3))
    [[0.625 0.375]]
    """
    S, M, A = data.advantages.shape
    low, high = clip_band(mechanism, data.ratios(data.current), epsilon)
    behaviors, states = data.behaviors.swapaxes(0, 1), np.repeat(np.arange(S), M * A)
    columns = states * A + np.tile(np.arange(A), S * M)  # the policy's entry of each term
    advantages, terms = data.advantages.ravel(), np.eye(S * M * A)
    policy_part = np.zeros((S * M * A, S * A))
    policy_part[np.arange(S * M * A), columns] = -advantages
    unclipped = np.hstack([policy_part, np.zeros((S * M * A, S * A)), terms])  # term <= A pi
    clipped = np.hstack([np.zeros((S * M * A, 2 * S * A)), terms])  # term <= A pi_i times the end of the band
    ends = advantages * (behaviors * np.where(data.advantages > 0, high, low)).ravel()
    moves, right = _moves(data, S * M * A)
    rows, right = np.vstack([moves, unclipped, clipped]), np.concatenate([right, np.zeros(S * M * A), ends])
    value = np.concatenate([np.zeros(2 * S * A), np.repeat(data.weights.ravel(), A)])
    gain = np.concatenate([_gain(data), np.zeros(S * A + S * M * A)])
    found = np.empty(0)
    for objective in (-value, _shift_row(data, S * M * A), -gain):
        found = _solve(data, objective, rows, right)
        rows, right = np.vstack([rows, objective]), np.append(right, objective @ found + 1e-9)
    return found[: S * A].reshape(S, A)


def _gain(data: StaleData) -> np.ndarray:
    """L_beta as a row of coefficients of the policy."""
    return np.einsum("si,sia->sa", data.weights, data.advantages).ravel()


def _moves(data: StaleData, others: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """abs(policy - pi_k) <= the second block of variables, as rows and right side; ``others`` more variables follow."""
    one, rest = np.eye(data.current.size), np.zeros((data.current.size, others))
    rows = np.vstack([np.hstack([one, -one, rest]), np.hstack([-one, -one, rest])])
    return rows, np.concatenate([data.current.ravel(), -data.current.ravel()])


def _shift_row(data: StaleData, others: int = 0) -> np.ndarray:
    """U_k as a row of coefficients."""
    states, actions = data.current.shape
    mean = np.repeat(data.weights.sum(1), actions) / 2
    return np.concatenate([np.zeros(states * actions), mean, np.zeros(others)])


def _solve(data: StaleData, objective: np.ndarray, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Variables that minimise ``objective``, where the first block are policies: not negative, with rows of sum 1."""
    states, actions = data.current.shape
    policies = states * actions
    sums = np.hstack([np.kron(np.eye(states), np.ones(actions)), np.zeros((states, len(objective) - policies))])
    bounds = [(0, None)] * (2 * policies) + [(None, None)] * (len(objective) - 2 * policies)
    # tighter than usual, for optima become constraints of the next programme
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(objective, rows, right, sums, np.ones(states), bounds, method="highs", options=options)
    if found.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    return found.x
