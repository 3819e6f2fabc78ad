"""Processes, sums over time written out, and the golden data, for tests of exact decision processes."""

from fractions import Fraction
from typing import Any

import numpy as np

from rlnotes.exact import pathologies
from rlnotes.exact.mdp import MDP
from rlnotes.exact.random_mdps import any_mdp, far_pair
from tests.cases import cases
from tests.golden_audit import GOLDEN


def numbers(rows: Any) -> np.ndarray:
    """Nested lists of exact decimals or fractions as floats."""
    return np.array(rows if not isinstance(rows, list) else [numbers(row) for row in rows], dtype=np.float64)


def golden(name: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Inputs and, in floats, outputs of an item of the golden data."""
    item = GOLDEN[name]
    outputs = {
        key: float(Fraction(value["exact"])) for key, value in item["outputs"].items() if isinstance(value, dict)
    }
    return item["inputs"], outputs


def process(inputs: dict[str, Any]) -> MDP:
    return MDP(numbers(inputs["P"]), numbers(inputs["r"]), numbers(inputs["rho"]), float(inputs["g"]))


def always(*actions: int) -> np.ndarray:
    """The policy with one action per state, of two."""
    return np.eye(2)[list(actions)]


def two_rooms(gamma: float = 0.9) -> MDP:
    """The process of the two-state example."""
    return pathologies.two_rooms(gamma).mdp


def stay_or_leave(gamma: float) -> MDP:
    """One live state, 'stay' and 'leave', each at a cost of 1; state 1 is the end."""
    P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    return MDP(P, np.array([[-1.0, -1.0], [0.0, 0.0]]), np.array([1.0, 0.0]), gamma)


def rolled_out(mdp: MDP, pi: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """Discounted visits and return of the first ``steps`` steps, from the distribution of s_t one step at a time."""
    now, counts, total = mdp.start.copy(), np.zeros(mdp.states), 0.0
    for t in range(steps):
        counts += mdp.gamma**t * now
        following = np.zeros(mdp.states)
        for s in range(mdp.states):
            for a in range(mdp.actions):
                total += mdp.gamma**t * now[s] * pi[s, a] * mdp.r[s, a]
                following += now[s] * pi[s, a] * mdp.P[s, a]
        now = following
    return counts, total


def random_cases(seed: int):
    """(generator, process, old, new) for as many random processes as asked for."""
    rng = np.random.default_rng(seed)
    for _ in range(cases()):
        mdp = any_mdp(rng)
        yield rng, mdp, *far_pair(rng, mdp.states, mdp.actions)
