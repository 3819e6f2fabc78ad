"""Claims about data from several policies, with points from which to attack them."""

from collections.abc import Callable
from functools import partial

import numpy as np

from rlnotes.bounds import as_printed, mixtures
from rlnotes.bounds.attack import Arrays, Claim, Point
from rlnotes.bounds.attack_mdps import FLAT_FORK, any_process, identity_as_inequality, process_point, small_process
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact import mixtures as exact
from rlnotes.exact.mdp import MDP, expected_return, values
from rlnotes.exact.mdp_families import lagging_bandit, one_behavior, replaced_at_once
from rlnotes.exact.mixtures import Mixture
from rlnotes.exact.random_mdps import random_policy, step_mixture, trajectory_mixture

MOST_POLICIES = 3


def mixture_point(process: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Point:
    """A process, a behaviour, the new and the current policy. Where policies are kept, they stay so."""
    inner = process_point(process, new, current, mixture.policies)
    kept = np.array_equal(mixture.kernel, np.eye(mixture.size))

    def build(rows: Arrays, numbers: Arrays) -> tuple:
        mdp, new, current, policies = inner.build(rows[:5], numbers)
        return mdp, Mixture(policies, rows[5], mixture.kernel if kept else rows[6]), new, current

    rows = [*inner.rows, mixture.alpha] if kept else [*inner.rows, mixture.alpha, mixture.kernel]
    return Point(rows, inner.numbers, build)


def _random_point(rng: np.random.Generator, process: MDP, kept: bool, near: bool) -> Point:
    """New, and half of the behaviour, come close to the current policy if ``near``: as updates do in practice."""
    states, actions = process.states, process.actions
    make = trajectory_mixture if kept else step_mixture
    mixture, step = make(rng, states, actions, int(rng.integers(2, MOST_POLICIES + 1))), 10 ** rng.uniform(-3, -1)
    new, current = (random_policy(rng, states, actions) for _ in range(2))
    if near:
        new = (1 - step) * current + step * new
        policies = (1 - step) * current + step * mixture.policies
        mixture = Mixture(policies, mixture.alpha, mixture.kernel)
    return mixture_point(process, mixture, new, current)


def draw(rng: np.random.Generator, level: str) -> Point:
    """``level`` is "trajectory", "step", or "either"."""
    return _random_point(rng, any_process(rng), _kept(rng, level), near=rng.random() < 0.5)


def start(rng: np.random.Generator, level: str) -> Point:
    """The same, small."""
    return _random_point(rng, small_process(rng), _kept(rng, level), near=False)


def _kept(rng: np.random.Generator, level: str) -> bool:
    return level == "trajectory" or (level == "either" and rng.random() < 0.5)


# --- Judges, all of (mdp, mixture, new, current)


def _without_current(bound: Callable[..., Bound]) -> Callable[..., Bound]:
    return lambda mdp, mixture, new, current: bound(mdp, mixture, new)


def _bias(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Inequality:
    return mixtures.mixture_bias(mdp, mixture, current)


def _estimated(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Bound:
    """The advantages of the current policy as estimates, as 000 section 5.4 has it."""
    own = values(mdp, current).a[:, None]
    advantages = np.broadcast_to(own, (mdp.states, mixture.size, mdp.actions))
    return mixtures.estimated_advantages(mdp, mixture, new, current, advantages)


def _printed_bias(mdp: MDP, mixture: Mixture, new: np.ndarray, current: np.ndarray) -> Inequality:
    true = exact.expected_return(mdp, mixture) - expected_return(mdp, current)
    return identity_as_inequality(true, as_printed.mixture_bias(mdp, mixture, current))


# --- Families, with the old policy as the current one

_MIXED = one_behavior(FLAT_FORK)
REDUCED = mixture_point(*_MIXED, FLAT_FORK.old)
_BANDIT = lagging_bandit(0.5, 0.25)
LAGGING = mixture_point(*one_behavior(_BANDIT), _BANDIT.new)
_REPLACED = replaced_at_once(0.5, 0.25, 0.5)
REPLACED = mixture_point(*_REPLACED, _REPLACED.new)


def _claim(
    name: str,
    source: str,
    judge: Callable[..., Bound | Inequality],
    family: Point,
    level: str = "either",
    taught: bool = True,
) -> Claim:
    """Where it is taught, the family attains it."""
    draws = partial(draw, level=level), partial(start, level=level)
    return Claim(name, source, judge, *draws, [family], taught, attained=taught)


CLAIMS = (
    _claim("mixtures.triangle", "000 section 5.3", mixtures.triangle, REDUCED),
    _claim("mixtures.mixture_bias", "000 section 5.2", _bias, LAGGING),
    _claim(
        "mixtures.average_tv_largest",
        "000 Corollary 4.2",
        _without_current(mixtures.average_tv_largest),
        REDUCED,
        "trajectory",
    ),
    _claim(
        "mixtures.average_tv_by_policy",
        "000 section 4.2",
        _without_current(mixtures.average_tv_by_policy),
        REDUCED,
        "trajectory",
    ),
    _claim("mixtures.theorem_5_1", "000 Theorem 5.1", mixtures.theorem_5_1, REDUCED),
    _claim("mixtures.corollary_5_3", "000 Corollary 5.3", mixtures.corollary_5_3, REDUCED),
    _claim("mixtures.estimated_advantages", "000 section 9", _estimated, REDUCED),
    _claim("mixtures.current_advantages", "000 section 5.4", mixtures.current_advantages, REDUCED),
    _claim("as_printed.mixture_bias", "000 section 5.2", _printed_bias, REPLACED, "step", taught=False),
    _claim(
        "as_printed.own_advantages",
        "000 section 6.1",
        _without_current(as_printed.own_advantages),
        REPLACED,
        "step",
        taught=False,
    ),
)
