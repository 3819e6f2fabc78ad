"""Data from several policies, exactly: the index of the policy at work becomes part of the state (000 section 4.1).

Sizes: M policies besides the S states and A actions of the process. The augmented process has the S * M states (s, i),
i fastest, and its behaviour policy in (s, i) is the i-th; all its values come from :mod:`rlnotes.exact.mdp`.
"""

from dataclasses import dataclass

import numpy as np

from rlnotes.exact import mdp as exact
from rlnotes.exact.checks import discount, distribution
from rlnotes.exact.mdp import MDP, Values


@dataclass(frozen=True, eq=False)
class Mixture:
    """A behaviour made of several policies. Its arrays are read-only copies.

    ``policies`` (M, S, A). ``alpha`` (M,): distribution of the first index. ``kernel`` (M, M): row i gives
    the chances of the next step's index; the identity keeps one policy for a whole trajectory (000 sections 4.2, 5.1).
    Raises ``ValueError`` for wrong shapes and for rows that are no distributions.

    >>> policies = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two policies in one state
    >>> mixture = Mixture(policies, alpha=np.array([0.5, 0.5]), kernel=np.eye(2))
    >>> mixture.size
    2
    """

    policies: np.ndarray
    alpha: np.ndarray
    kernel: np.ndarray

    def __post_init__(self):
        alpha = distribution("alpha", self.alpha, (None,))
        M = len(alpha)
        arrays = {
            "policies": distribution("policies", self.policies, (M, None, None)),
            "alpha": alpha,
            "kernel": distribution("kernel", self.kernel, (M, M)),
        }
        for name, array in arrays.items():
            own = array.copy()
            own.setflags(write=False)
            object.__setattr__(self, name, own)

    @property
    def size(self) -> int:
        """M."""
        return len(self.alpha)


def step_kernel(sigma: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """Kernel (M, M) that leaves index i with chance ``sigma[i]`` (M,) for one from ``kappa[i]`` (000 section 5.1).

    ``sigma`` 0 everywhere gives the trajectory level. Raises ``ValueError`` for chances outside [0, 1] and for rows of
    ``kappa`` that are no distributions.

    >>> print(step_kernel(np.array([0.25, 0]), kappa=np.array([[0, 1], [0, 1]])))
    [[0.75 0.25]
     [0.   1.  ]]
    """
    kappa = distribution("kappa", kappa)
    chances = np.array([_chance(f"sigma[{i}]", value) for i, value in enumerate(sigma)])
    if kappa.shape != 2 * chances.shape:
        raise ValueError(f"kappa has shape {kappa.shape}; {len(chances)} chances sigma need shape {2 * chances.shape}")
    return np.diag(1 - chances) + chances[:, None] * kappa


def augmented(mdp: MDP, mixture: Mixture) -> tuple[MDP, np.ndarray]:
    """The process on the states (s, i), i fastest, and its behaviour policy (S * M, A) (000 section 4.1).

    The index moves after each step, whatever the action. Raises ``ValueError`` for policies of another process.

    >>> from rlnotes.exact.twice_in_a_row import twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> process, behavior = augmented(mdp, mixture)
    >>> print(process.start, behavior[:, 1])  # of (s, i): (0, 0), (0, 1), (1, 0), (1, 1)
    [0.5 0.5 0.  0. ] [0.25 0.5  0.25 0.5 ]
    """
    S, A, M = mdp.states, mdp.actions, mixture.size
    if mixture.policies.shape != (M, S, A):
        raise ValueError(f"policies have shape {mixture.policies.shape}; this process needs ({M}, {S}, {A})")
    P = np.einsum("sat,ij->siatj", mdp.P, mixture.kernel).reshape(S * M, A, S * M)
    start = np.outer(mdp.start, mixture.alpha).ravel()
    behavior = mixture.policies.swapaxes(0, 1).reshape(S * M, A)
    return MDP(P, lift(mdp.r, mixture), start, mdp.gamma), behavior


def lift(rows: np.ndarray, mixture: Mixture) -> np.ndarray:
    """A table per state (S, ...), such as a policy, as one per state and index (S * M, ...): the index is ignored.

    >>> mixture = Mixture(np.full((2, 2, 1), 1.0), np.array([0.5, 0.5]), np.eye(2))
    >>> print(lift(np.array([3.0, 4.0]), mixture))
    [3. 3. 4. 4.]
    """
    return np.repeat(rows, mixture.size, axis=0)


def occupancy(mdp: MDP, mixture: Mixture) -> np.ndarray:
    """d_beta (S, M): normalised discounted distribution of state and index (000 section 4). Needs gamma < 1.

    >>> from rlnotes.exact.twice_in_a_row import twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> print(occupancy(mdp, mixture).round(4))  # row 1: share * gamma * p
    [[0.4375 0.375 ]
     [0.0625 0.125 ]]
    """
    return exact.occupancy(*augmented(mdp, mixture)).reshape(mdp.states, mixture.size)


def values(mdp: MDP, mixture: Mixture) -> Values:
    """V (S, M), Q and advantage (S, M, A) of the behaviour process: A^beta of 000 section 5.2.

    They look ahead to the policies that the kernel brings in, and are those of policy i alone only for the identity
    kernel (000 Lemma 4.1). At gamma = 1 raises as ``rlnotes.exact.mdp.values`` does, with the state s * M + i.

    >>> from rlnotes.exact.twice_in_a_row import twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> print(values(mdp, mixture).v[0].round(4))  # of either version, p^2
    [0.0625 0.25  ]
    """
    v, q, a = exact.values(*augmented(mdp, mixture))
    shape = (mdp.states, mixture.size)
    return Values(v.reshape(shape), q.reshape(*shape, mdp.actions), a.reshape(*shape, mdp.actions))


def expected_return(mdp: MDP, mixture: Mixture) -> float:
    """J_mix: expected return of the behaviour (000 section 5.2).

    >>> from rlnotes.exact.twice_in_a_row import twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.5)
    >>> round(expected_return(mdp, mixture), 3), round(component_average(mdp, mixture), 3)
    (0.198, 0.156)
    """
    return exact.expected_return(*augmented(mdp, mixture))


def component_average(mdp: MDP, mixture: Mixture) -> float:
    """Mean over alpha of the J of each policy alone. It is J_mix only at trajectory level (000 Lemma 4.1).

    >>> from rlnotes.exact.twice_in_a_row import twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(component_average(mdp, mixture), 3)  # the mean of 1/16 and 1/4
    0.156
    """
    return float(mixture.alpha @ [exact.expected_return(mdp, pi) for pi in mixture.policies])


def surrogate(mdp: MDP, mixture: Mixture, new: np.ndarray) -> float:
    """L_beta(new), without J_mix, with the advantages A^beta of the behaviour process (000 section 5.2).

    >>> from rlnotes.exact.twice_in_a_row import answers, twice_in_a_row, two_versions
    >>> mdp, mixture = twice_in_a_row(0.5), two_versions(0.25, 0.5, share=0.5, sigma=0.0)
    >>> round(surrogate(mdp, mixture, answers(0.75)), 4)
    0.25
    """
    process, behavior = augmented(mdp, mixture)
    return exact.surrogate(process, lift(mdp.policy(new, "new"), mixture), behavior)


def old_mass(sigma: float, gamma: float, alpha_old: float = 1.0) -> float:
    """Discounted share of steps by an old policy that is left with chance ``sigma`` a step, never to come back.

    alpha_old (1 - gamma) / (1 - gamma (1 - sigma)): 000 section 6.1, which has every trajectory begin with the old
    policy; ``alpha_old`` is the share that do. Raises ``ValueError`` unless ``sigma`` and ``alpha_old`` are in [0, 1]
    and ``gamma`` is in [0, 1).

    >>> round(old_mass(sigma=0.1, gamma=0.9), 4)  # 0.1 / 0.19
    0.5263
    """
    sigma, alpha_old = _chance("sigma", sigma), _chance("alpha_old", alpha_old)
    if discount(gamma) == 1:
        raise ValueError("gamma is 1, where no share of infinitely many steps is left; take a gamma below 1")
    return alpha_old * (1 - gamma) / (1 - gamma * (1 - sigma))


def _chance(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; a probability lies in [0, 1]")
    return float(value)
