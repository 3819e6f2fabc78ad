"""The bounds of 000 section 5 on :mod:`rlnotes.exact.twice_in_a_row`, where all is a formula: for curves and sliders.

Versions answer right with chances p_o (old) and p_k (current), the new policy with p. The behaviour's advantage of
answer a is (a - p_i)(s + gamma m_i): s is 1 after a right answer, and m_i the mean chance of the version to come.
Elementary, derived for this course; tests compare it with the exact process.
"""

from typing import NamedTuple

import numpy as np

from rlnotes.bounds import mdp_closed_forms as forms
from rlnotes.bounds.arguments import Numbers


class Promises(NamedTuple):
    """True change J(new) - J(current), and what Corollary 5.3 and the form of GePPO say of it. All in units of return.

    ``update_penalty`` is C_1 U_k, ``staleness_penalty`` is C_2 S_k. ``old_mass`` is the old version's share of d_beta.

    >>> found = promises(gamma=0.5, old=0.25, current=0.5, new=0.75, share=0.5, sigma=0.0)
    >>> print(f"{found.true:.2f} >= {found.split:.2f} and {found.geppo:.2f}")
    0.31 >= -0.91 and -0.25
    """

    true: np.ndarray
    surrogate: np.ndarray
    update_penalty: np.ndarray
    staleness_penalty: np.ndarray
    geppo_surrogate: np.ndarray
    geppo_penalty: np.ndarray
    staleness: np.ndarray
    old_mass: np.ndarray

    @property
    def split(self) -> np.ndarray:
        """The lower bound of 000 Corollary 5.3."""
        return self.surrogate - self.update_penalty - self.staleness_penalty

    @property
    def geppo(self) -> np.ndarray:
        """The lower bound with the advantages of the current policy."""
        return self.geppo_surrogate - self.geppo_penalty


def promises(gamma: Numbers, old: Numbers, current: Numbers, new: Numbers, share: Numbers, sigma: Numbers) -> Promises:
    """For :func:`rlnotes.exact.twice_in_a_row.two_versions`. Chances in [0, 1], gamma in [0, 1); arrays broadcast.

    >>> found = promises(gamma=0.5, old=0.25, current=0.5, new=0.75, share=0.5, sigma=0.0)
    >>> print(f"{found.true:.4f} = 0.75^2 - 0.5^2; staleness {found.staleness:.3f}")
    0.3125 = 0.75^2 - 0.5^2; staleness 0.125
    """
    numbers = [np.asarray(x, dtype=np.float64) for x in (gamma, old, current, new, share, sigma)]
    gamma, old, current, new, share, sigma = np.broadcast_arrays(*numbers)
    mass = share * (1 - gamma) / (1 - gamma * (1 - sigma))
    stays, moves = mass * old * (1 - sigma), mass * old * sigma + (1 - mass) * current
    after = gamma * stays, gamma * moves  # d_beta of "right before", with the old and with the current version
    ahead = (1 - sigma) * old + sigma * current, current  # m_i
    versions = list(zip((old, current), (mass, 1 - mass), after, ahead, strict=True))
    surrogate = sum((new - p) * (right + gamma * d * m) for p, d, right, m in versions)
    own = (new - current) * (after[0] + after[1] + gamma * current)
    gain = np.maximum(*(np.abs(new - p) * (1 + gamma * m) for p, _, _, m in versions))
    current_gain = np.abs(new - current) * (1 + gamma * current)
    largest = np.maximum(current, 1 - current) * (1 + gamma * current)
    stale, distance = mass * np.abs(current - old), sum(d * np.abs(new - p) for p, d, _, _ in versions)
    return Promises(
        true=gamma * (new**2 - current**2) / (1 - gamma),
        surrogate=surrogate / (1 - gamma),
        update_penalty=forms.mean_tv(gamma, gain, np.abs(new - current)),
        staleness_penalty=forms.mean_tv(gamma, gain, stale) + forms.mixture_bias(gamma, largest, stale),
        geppo_surrogate=own / (1 - gamma),
        geppo_penalty=forms.mean_tv(gamma, current_gain, distance),
        staleness=stale,
        old_mass=mass,
    )
