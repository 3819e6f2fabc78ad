"""Golden and random processes for the tests of bounds on them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rlnotes.bounds import mdp as bounds
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact.mdp import MDP
from rlnotes.exact.mdp_families import Case
from rlnotes.exact.random_mdps import PAIRS, any_mdp
from tests.cases import cases
from tests.golden_audit import GOLDEN


def close(expected: Any) -> Any:
    """To 1e-10, relative and absolute."""
    return pytest.approx(expected, rel=1e-10, abs=1e-10)


def numbers(rows: Any) -> np.ndarray:
    """Nested lists of exact decimals as floats."""
    return np.array(rows if not isinstance(rows, list) else [numbers(row) for row in rows], dtype=np.float64)


def golden_mdp(name: str) -> MDP:
    of = GOLDEN[name]["inputs"]["mdp"]
    return MDP(numbers(of["P"]), numbers(of["r"]), numbers(of["rho"]), float(of["g"]))


def golden_outputs(name: str) -> dict[str, Any]:
    return {
        key: float(Fraction(value["exact"])) if isinstance(value, dict) else value
        for key, value in GOLDEN[name]["outputs"].items()
    }


def random_cases(seed: int) -> Iterator[Case]:
    """Pairs of every kind in turn, gamma from nearly 0 to .99; every second pair is near, as steps are in practice."""
    rng = np.random.default_rng(seed)
    kinds = ["near", "far", "near", "near-deterministic", "near", "disjoint"]
    for number in range(cases()):
        mdp = any_mdp(rng)
        if number % 3 == 0:
            mdp = replace(mdp, gamma=float(rng.uniform(0.01, 0.5)))
        old, new = PAIRS[kinds[number % len(kinds)]](rng, mdp.states, mdp.actions)
        yield Case(mdp, new, old)


def scaled(bound: Bound, factor: float, key: str | None = None) -> Bound:
    """The same bound with one penalty, or all, times a factor."""
    return replace(bound, penalties={k: v * (factor if key in (k, None) else 1) for k, v in bound.penalties.items()})


def spread(tightness: list[float]) -> str:
    """Quantiles of the tightness, to be read beside a green test."""
    found = np.array([value for value in tightness if not np.isnan(value)])
    return " ".join(f"{name} {np.quantile(found, q):.4f}" for name, q in [("median", 0.5), ("99%", 0.99), ("max", 1.0)])


def two_sided(bound: Bound) -> bool:
    """Whether the gap is within the penalty on both sides."""
    return bound.holds and replace(bound, true=-bound.true, surrogate=-bound.surrogate).holds


INEQUALITIES: dict[str, Callable[[Case], Inequality]] = {
    "occupancy_shift": lambda case: bounds.occupancy_shift(*case),
    "coupled_occupancy_shift": lambda case: bounds.coupled_occupancy_shift(*case),
    "simulation_lemma": lambda case: bounds.simulation_lemma(*case, steps=12),
    "coupling": lambda case: bounds.coupling(*case, steps=12),
}
