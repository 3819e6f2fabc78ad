"""Golden and random mixtures for the tests of bounds on them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture
from rlnotes.exact.random_mdps import PAIRS, random_policy, step_mixture, trajectory_mixture
from tests.bounds.mdp_cases import GOLDEN, golden_mdp, numbers, random_cases


class Case(NamedTuple):
    mdp: MDP
    mixture: Mixture
    new: np.ndarray
    current: np.ndarray


def golden_case(name: str) -> Case:
    inputs = GOLDEN[name]["inputs"]
    alpha = numbers(inputs["alpha"])
    kernel = numbers(inputs["q"]) if "q" in inputs else np.eye(len(alpha))
    mixture = Mixture(numbers(inputs["old_policies"]), alpha, kernel)
    return Case(golden_mdp(name), mixture, numbers(inputs["pi_k1"]), numbers(inputs["pi_k"]))


def random_mixtures(seed: int, trajectory: bool | None = None) -> Iterator[Case]:
    """At both levels in turn unless ``trajectory`` says which. Mostly drift: all policies near the current one."""
    rng = np.random.default_rng(seed)
    for number, (mdp, *_) in enumerate(random_cases(seed)):
        level = number % 2 == 0 if trajectory is None else trajectory
        mixture = (trajectory_mixture if level else step_mixture)(rng, mdp.states, mdp.actions, int(rng.integers(1, 4)))
        kind = ["near", "far", "near-deterministic", "disjoint"][number // 2 % 4]
        current, new = PAIRS[kind](rng, mdp.states, mdp.actions)
        if number % 8 < 6:
            spread_out = float(10 ** rng.uniform(-3, -1))
            drifted = (1 - spread_out) * current + spread_out * mixture.policies
            mixture = Mixture(drifted, mixture.alpha, mixture.kernel)
            new = (1 - spread_out) * current + spread_out * random_policy(rng, mdp.states, mdp.actions)
        yield Case(mdp, mixture, new, current)
