"""PPO's objectives as exact expectations on a finite process: what its samples are estimates of."""

import numpy as np
import torch

from rlnotes.exact.mdp import MDP, values, visits
from rlnotes.objectives.gates import Gate


def gated_surrogate(mdp: MDP, new: np.ndarray, old: np.ndarray, gate: Gate) -> float:
    """The sum over t of gamma^t E_old[gate(ratio, A_old)], in units of the return, to be compared with J(new) - J(old).

    ``new`` and ``old`` are policies (S, A); ``gate`` is one of :mod:`rlnotes.objectives.gates`. With ``no_gate`` it is
    the surrogate L without J(old), if ``old`` covers ``new``. The means of 002 eqs. (75), (79) are (1 - gamma) of it.
    Raises ``ValueError`` for what is no policy.
    """
    new, old = mdp.policy(new, "new"), mdp.policy(old, "old")
    taken = old > 0  # an action that old never takes is in no sample
    weights = (visits(mdp, old)[:, None] * old)[taken]
    ratio, advantages = (torch.from_numpy(x[taken]) for x in (new / np.where(taken, old, 1.0), values(mdp, old).a))
    return float(weights @ gate(ratio, advantages).numpy())
