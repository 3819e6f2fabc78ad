"""Claims about discounted processes, conservative steps and gradient ascent, with points from which to attack them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from rlnotes.bounds import as_printed, cpi, gradient_ascent, mdp
from rlnotes.bounds.attack import Arrays, Claim, Point
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact.mdp import MDP, expected_return
from rlnotes.exact.mdp_families import (
    Case,
    conservative_trap,
    crossed_fork,
    late_spoiler,
    rare_cost,
    slow_trap,
)
from rlnotes.exact.random_mdps import PAIRS, any_mdp, random_mdp, random_policy

GAMMAS = (0.1, 0.25, 0.5, 0.7, 0.9, 0.97)
SIZES = ((2, 2), (2, 3), (3, 2))  # states and actions where the optimiser starts at random
STEPS = 6  # over which distributions of states are compared


def process_point(process: MDP, *policies: np.ndarray) -> Point:
    """A process and policies (..., S, A), all free to move but for gamma. Rewards lie in [-1, 1]."""

    def build(rows: Arrays, numbers: Arrays) -> tuple:
        return MDP(rows[0], numbers[0], rows[1], process.gamma), *rows[2:]

    return Point([process.P, process.start, *policies], [process.r], build)


def any_process(rng: np.random.Generator) -> MDP:
    """As :func:`rlnotes.exact.random_mdps.any_mdp`, every third with gamma below 1/2."""
    process = any_mdp(rng)
    return replace(process, gamma=float(rng.uniform(0.01, 0.5))) if rng.random() < 1 / 3 else process


def small_process(rng: np.random.Generator) -> MDP:
    """A process with few coordinates."""
    states, actions = SIZES[rng.integers(len(SIZES))]
    return random_mdp(rng, states, actions, float(rng.choice(GAMMAS)))


def draw_pair(rng: np.random.Generator) -> Point:
    """A random process with the new and the old policy; half of the pairs are near."""
    process = any_process(rng)
    kind = "near" if rng.random() < 0.5 else str(rng.choice(list(PAIRS)))
    old, new = PAIRS[kind](rng, process.states, process.actions)
    return process_point(process, new, old)


def start_pair(rng: np.random.Generator) -> Point:
    """The same, small."""
    process = small_process(rng)
    new, old = (random_policy(rng, process.states, process.actions) for _ in range(2))
    return process_point(process, new, old)


def _claim(
    name: str,
    source: str,
    judge: Callable[..., Bound | Inequality],
    *families: Case,
    taught: bool = True,
    attained: bool = False,
) -> Claim:
    points = [process_point(*family) for family in families]
    return Claim(name, source, judge, draw_pair, start_pair, points, taught, attained)


def identity_as_inequality(left: float, right: float) -> Inequality:
    """Has tightness 1 if the two are equal, and more if they are not."""
    return Inequality(abs(right) + abs(left - right), abs(right))


def _performance_difference(process: MDP, new: np.ndarray, old: np.ndarray) -> Inequality:
    true = expected_return(process, new) - expected_return(process, old)
    return identity_as_inequality(true, as_printed.performance_difference(process, new, old))


DERIVED = "derived for this course"
FORK = crossed_fork(0.25, 0.25, 0.25)
FLAT_FORK = crossed_fork(0.1, 0.45, 0.02)  # a small second number, for Theorem 3.2
EARLY_FORK = crossed_fork(0.002, 0.05, 0.05)  # one step decides, and Pinsker is nearly an equality
TRAP, LONG_TRAP, WIDE_TRAP = slow_trap(0.5, 0.25), slow_trap(0.9, 0.05), slow_trap(0.9, 0.75)
EARLY_TRAP = slow_trap(0.25, 0.02)
RARE, SPOILER = rare_cost(0.9, 0.3), late_spoiler(0.99, 1e-3, 1e-8, 1e-4)

ON_PAIRS = (
    _claim("mdp.occupancy_shift", "000 Lemma 3.1", mdp.occupancy_shift, RARE, attained=True),
    _claim("mdp.coupled_occupancy_shift", DERIVED, mdp.coupled_occupancy_shift, TRAP, attained=True),
    _claim(
        "mdp.simulation_lemma", "003 section 5.3", partial(mdp.simulation_lemma, steps=STEPS), TRAP, attained=True
    ),
    _claim("mdp.coupling", DERIVED, partial(mdp.coupling, steps=STEPS), TRAP, attained=True),
    _claim("mdp.shift_bound", "002 section 4.3", mdp.shift_bound, FORK, attained=True),
    _claim("mdp.average_tv", "000 Theorem 3.2", mdp.average_tv, FLAT_FORK, attained=True),
    _claim("mdp.half_span_tv", DERIVED, mdp.half_span_tv, RARE, attained=True),
    _claim("mdp.max_tv", "003 section 5.3", mdp.max_tv, EARLY_TRAP, attained=True),
    _claim("mdp.max_kl", "002 eq. (66)", mdp.max_kl, EARLY_FORK, attained=True),
    _claim("mdp.coupled_tv", DERIVED, mdp.coupled_tv, LONG_TRAP, WIDE_TRAP, attained=True),
    _claim("mdp.average_kl", DERIVED, mdp.average_kl, SPOILER, attained=True),
    _claim("mdp.average_tv_of_rewards", DERIVED, mdp.average_tv_of_rewards, SPOILER, attained=True),
    _claim("as_printed.max_tv", "004 Theorem 2.1", as_printed.max_tv, FORK, LONG_TRAP, EARLY_TRAP, taught=False),
    _claim(
        "as_printed.performance_difference", "003 sections 5.1, 5.3", _performance_difference, FORK, taught=False
    ),
)  # fmt: skip


# --- Conservative steps


def _step_point(process: MDP, old: np.ndarray, other: np.ndarray, alpha: float) -> Point:
    inner = process_point(process, old, other)

    def build(rows: Arrays, numbers: Arrays) -> tuple:
        return *inner.build(rows[:-1], numbers), float(rows[-1][0])

    return Point([*inner.rows, np.array([alpha, 1 - alpha])], inner.numbers, build)


def _with_step(pair: Callable[[np.random.Generator], Point]) -> Callable[[np.random.Generator], Point]:
    def draw(rng: np.random.Generator) -> Point:
        process, other, old = pair(rng).arguments()
        return _step_point(process, old, other, float(rng.random()))

    return draw


def _step_claim(name: str, source: str, judge: Callable[..., Bound], gamma: float, alpha: float) -> Claim:
    process, other, old = conservative_trap(gamma)
    family = _step_point(process, old, other, alpha)
    return Claim(name, source, judge, _with_step(draw_pair), _with_step(start_pair), [family], attained=True)


ON_STEPS = (
    _step_claim("cpi.conservative", "002 eq. (60)", cpi.conservative, 0.5, 0.01),
    _step_claim("cpi.kakade_langford", "Kakade and Langford (2002)", cpi.kakade_langford, 0.9, 0.5),
)


# --- Gradient ascent on a quadratic


def _quadratic(hessian: np.ndarray, theta: np.ndarray, estimates: np.ndarray, probs: np.ndarray, step: float) -> Point:
    def build(rows: Arrays, numbers: Arrays) -> tuple:
        square, at, values, halves = numbers
        return (square + square.T) / 2, at, values, rows[0], 1 + float(halves[0])

    return Point([probs], [hessian, theta, estimates, np.array([step - 1])], build)


def _draw_quadratic(rng: np.random.Generator) -> Point:
    dimension, values = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    theta, *rest = rng.uniform(-1, 1, (1 + dimension + values, dimension))
    hessian, estimates = np.array(rest[:dimension]), np.array(rest[dimension:])
    return _quadratic(hessian, theta, estimates, rng.dirichlet(np.ones(values)), float(rng.uniform(0.01, 2)))


BALL = _quadratic(np.eye(2), np.array([0.5, -0.5]), np.array([[-0.9, 0.2], [0.3, 0.8]]), np.array([0.4, 0.6]), 0.5)

ON_GRADIENTS = (
    Claim(
        "gradient_ascent.quadratic_step", "003 section 2", gradient_ascent.quadratic_step,
        _draw_quadratic, _draw_quadratic, [BALL], attained=True,
    ),
)  # fmt: skip

CLAIMS = (*ON_PAIRS, *ON_STEPS, *ON_GRADIENTS)
