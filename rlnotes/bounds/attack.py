"""Trying to break a bound: by random draws, and by an optimiser that starts at random or next to a known worst case.

Random draws seldom find a false constant: the worst cases are a thin set. An optimiser finds some; one that begins at a
family of :mod:`rlnotes.exact.mdp_families` or :mod:`rlnotes.exact.token_families`, and may leave it, finds most.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from rlnotes.bounds.result import Bound, Inequality

SMALLEST = 1e-6  # gaps and penalties below it, relative to the returns, are not counted: 0 / 0
TOLERANCE = 1e-6  # what rounding may do to a tightness at such a penalty
LIMIT = 20.0  # of the optimiser's coordinates: probabilities go down to e**-20 of another one
LEAST = 1e-8  # stands for a probability of 0 where the optimiser begins
STEP = 1e-6  # of finite differences
PERTURBATION = 0.03  # of coordinates, which are logits for the most part
LOOKS = 8  # random points per restart, the best of which are climbed from

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Point:
    """Arguments of a bound as arrays that an optimiser can move.

    ``rows`` are distributions along their last axis, ``numbers`` lie in [-1, 1], such as rewards; ``build`` makes the
    arguments of both. What must not move, such as gamma, ``build`` knows.
    """

    rows: Arrays
    numbers: Arrays
    build: Callable[[Arrays, Arrays], tuple[Any, ...]]

    def arguments(self) -> tuple[Any, ...]:
        """What the bound takes."""
        return self.build(self.rows, self.numbers)

    def coordinates(self) -> np.ndarray:
        """One vector (N,): logits relative to the last entry of a row, and inverse tanh of 0.99 times the numbers."""
        logits = [np.log(np.maximum(rows, LEAST)) for rows in self.rows]
        parts = [(logit[..., :-1] - logit[..., -1:]).ravel() for logit in logits]
        parts += [np.arctanh(0.99 * numbers).ravel() for numbers in self.numbers]
        return np.clip(np.concatenate(parts), -LIMIT, LIMIT)

    def at(self, coordinates: np.ndarray) -> "Point":
        """The point of the same shapes with these coordinates."""
        sizes = [rows[..., :-1].size for rows in self.rows] + [numbers.size for numbers in self.numbers]
        parts = np.split(coordinates, np.cumsum(sizes)[:-1])
        rows = []
        for old, part in zip(self.rows, parts, strict=False):
            logits = np.zeros(old.shape)
            logits[..., :-1] = part.reshape(*old.shape[:-1], -1)
            rows.append(softmax(logits, axis=-1))
        rest = zip(self.numbers, parts[len(self.rows) :], strict=True)
        return replace(self, rows=rows, numbers=[np.tanh(part).reshape(old.shape) for old, part in rest])


@dataclass(frozen=True, eq=False)
class Claim:
    """An inequality, and where to look for exceptions.

    ``name`` is "module.function" of :mod:`rlnotes.bounds`, with more after a comma where one function makes several.
    ``judge`` takes the arguments of a point. ``draw`` gives points for random search, ``start`` small ones for the
    optimiser. ``taught`` is False for what a source prints and we refute; ``attained`` is True where the families show
    that no smaller constant is true.
    """

    name: str
    source: str
    judge: Callable[..., Bound | Inequality]
    draw: Callable[[np.random.Generator], Point]
    start: Callable[[np.random.Generator], Point]
    families: Sequence[Point]
    taught: bool = True
    attained: bool = False


@dataclass
class Finding:
    """Of one search: how many points were tried, the largest tightness, and where. -inf if no point counted."""

    claim: Claim = field(repr=False)
    trials: int = 0
    worst: float = -math.inf
    point: Point | None = field(default=None, repr=False)

    @property
    def broken(self) -> bool:
        """Whether some point broke the claim."""
        return self.worst > 1 + TOLERANCE

    def look(self, point: Point) -> float:
        """The tightness at a point, remembered if it is the largest so far."""
        found = tightness(self.claim.judge(*point.arguments()))
        self.trials += 1
        if found > self.worst:
            self.worst, self.point = found, point
        return found


def tightness(judged: Bound | Inequality) -> float:
    """The largest ratio of a gap and what is allowed for it; infinite where nothing is allowed, -inf if none counts."""
    if isinstance(judged, Bound):
        gap, allowed = np.array(judged.surrogate - judged.true), np.array(judged.penalty)
        scale = 1 + abs(judged.true) + abs(judged.surrogate)
    else:
        gap, allowed = np.asarray(judged.left, dtype=np.float64), np.asarray(judged.right, dtype=np.float64)
        scale = 1.0
    counted = np.maximum(gap, allowed) > SMALLEST * scale
    ratios = np.divide(gap, allowed, out=np.full(np.broadcast(gap, allowed).shape, np.inf), where=allowed > 0)
    return float(ratios.max(where=counted, initial=-np.inf))


def random_search(claim: Claim, rng: np.random.Generator, trials: int) -> Finding:
    """Look at ``trials`` random points."""
    finding = Finding(claim)
    for _ in range(trials):
        finding.look(claim.draw(rng))
    return finding


def attack_from_random(claim: Claim, rng: np.random.Generator, restarts: int, evaluations: int) -> Finding:
    """Climb from the best of some random points, ``restarts`` times, each for about so many ``evaluations``."""
    finding = Finding(claim)
    points = [claim.start(rng) for _ in range(LOOKS * restarts)]
    for point in sorted(points, key=finding.look, reverse=True)[:restarts]:
        _climb(finding, point, evaluations)
    return finding


def look_at_families(claim: Claim) -> Finding:
    """Look at every family of the claim as it is."""
    finding = Finding(claim)
    for family in claim.families:
        finding.look(family)
    return finding


def attack_from_families(claim: Claim, rng: np.random.Generator, restarts: int, evaluations: int) -> Finding:
    """Perturb every family of the claim in all coordinates, ``restarts`` times, and climb from there."""
    finding = Finding(claim)
    for family in claim.families:
        for _ in range(restarts):
            _climb(finding, perturbed(family, rng), evaluations)
    return finding


def perturbed(point: Point, rng: np.random.Generator) -> Point:
    """A random point nearby. Probabilities of 0 become small."""
    x = point.coordinates()
    return point.at(np.clip(x + PERTURBATION * rng.normal(size=x.shape), -LIMIT, LIMIT))


def _climb(finding: Finding, point: Point, evaluations: int) -> None:
    """Maximise the tightness by L-BFGS-B on finite differences."""

    def minus_tightness(x: np.ndarray) -> float:
        found = finding.look(point.at(x))
        return -min(found, 1e6) if found > -math.inf else 0.0  # a point that does not count is no place to go to

    start = point.coordinates()
    options = {"maxfun": evaluations, "eps": STEP}
    minimize(minus_tightness, start, method="L-BFGS-B", bounds=[(-LIMIT, LIMIT)] * start.size, options=options)
