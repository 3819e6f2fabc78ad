"""Exercises of chapter 04, conservative policy iteration."""

import math

import numpy as np

from rlnotes.bounds import as_printed, cpi
from rlnotes.exact.mdp import MDP, expected_return, occupancy, values
from rlnotes.exact.mdp_families import Case, conservative_trap
from rlnotes.exact.pathologies import two_rooms
from rlnotes.exact.random_mdps import random_mdp, random_policy
from rlnotes.notebook.exercise import Exercise

# --- Cases: two processes of the chapter, a third, and one at random, told apart by their discounts


def _at_random(gamma: float) -> Case:
    rng = np.random.default_rng(4)
    return Case(random_mdp(rng, 3, 2, gamma), random_policy(rng, 3, 2), random_policy(rng, 3, 2))


def _deep_trap(gamma: float) -> Case:
    """The leap, but the trap costs 3: the largest gain or loss is where the old policy never goes."""
    mdp, new, old = conservative_trap(gamma)
    return Case(MDP(mdp.P, np.where(mdp.r < 0, 3 * mdp.r, mdp.r), mdp.start, gamma), new, old)


_PAIRS = {case.mdp.gamma: case for case in (two_rooms(0.9), conservative_trap(0.5), _at_random(0.7), _deep_trap(0.6))}


def _known(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    return occupancy(case.mdp, case.old), case.new, values(case.mdp, case.old).a, case.mdp.gamma


# --- Answers, found another way


def _slope(case: Case) -> float:
    """g as the slope of the return along the mixture, by differences."""
    mdp, new, old = case
    h = 1e-5  # two points ahead: a step backwards is no policy
    J = [expected_return(mdp, cpi.step(old, new, alpha)) for alpha in (0, h, 2 * h)]
    return (4 * J[1] - 3 * J[0] - J[2]) / (2 * h)


def _slope_and_largest(d: np.ndarray, other: np.ndarray, a_old: np.ndarray, gamma: float) -> list[float]:
    """g as a slope; epsilon state by state."""
    rows = zip(other, a_old, strict=True)
    return [_slope(_PAIRS[gamma]), max(abs(sum(p * a for p, a in zip(*row, strict=True))) for row in rows)]


def _true_statements() -> str:
    """Each statement tried on the two rooms, the chain, and a random pair."""

    def change(case: Case, alpha: float) -> float:
        return cpi.conservative(case.mdp, case.old, case.new, alpha).true

    cases = list(_PAIRS.values())
    g = [cpi.policy_advantage(case.mdp, case.old, case.new) for case in cases]
    bounds = [cpi.conservative(c.mdp, c.old, c.new, a) for c in cases for a in (0.01, 0.1, 0.5, 1.0)]
    holds = {
        "a": all(
            np.isclose(cpi.conservative(c.mdp, c.old, c.new, 0.3).surrogate, 0.3 * gain)
            for c, gain in zip(cases, g, strict=True)
        ),
        "b": all(np.isclose(change(case, 0.3), 0.3 * change(case, 1.0)) for case in cases),
        "c": all(change(case, 1.0) < 0 for case, gain in zip(cases, g, strict=True) if gain < 0),
        "d": all(change(case, 1e-6) > 0 for case, gain in zip(cases, g, strict=True) if gain > 0),
        "e": all(bound.true < 0 for bound in bounds if bound.lower < 0),
    }
    return "".join(letter for letter, true in holds.items() if true)


def _size_by_bisection(gamma: float, g: float, epsilon: float) -> float:
    """The promise grows up to its best step and falls from there on: halve the interval by comparing neighbours."""

    def promise(alpha: float) -> float:
        return alpha * g - 2 * gamma * epsilon * alpha**2 / (1 - gamma) ** 2

    low, high, h = 0.0, 1.0, 1e-4
    for _ in range(60):
        middle = (low + high) / 2
        grows = promise(middle + h) > promise(middle - h)  # symmetric, so exact for a parabola
        low, high = (middle, high) if grows else (low, middle)
    return round((low + high) / 2, 9)


def _promise_by_time(alpha: float, gamma: float, g: float, epsilon: float) -> float:
    """The sum over time from the proof."""
    return alpha * g - sum(2 * alpha * epsilon * gamma**t * (1 - (1 - alpha) ** t) for t in range(2000))


def _by_listing_coins(p_old: np.ndarray, p_new: np.ndarray, alpha: float) -> float:
    """A coin for each token says which model writes it: all 2^T rows of coins."""
    T = len(p_old)
    total = 0.0
    for coins in range(2**T):
        chance = 1.0
        for t in range(T):
            chance *= alpha * p_new[t] if coins >> t & 1 else (1 - alpha) * p_old[t]
        total += chance
    return total


def _g_of_the_process(walks: list[tuple[np.ndarray, np.ndarray]], gamma: float) -> float:
    """The slope of the return of the process that these walks list: what every estimate is to give in the mean."""
    return _slope(_FORKS[gamma])


def _weighed(ratios: np.ndarray, advantages: np.ndarray, gamma: float) -> np.ndarray:
    return gamma ** np.arange(len(ratios)) * ratios * advantages


def _fork(gamma: float, rewards: tuple[tuple[float, float], tuple[float, float]], new: tuple[float, float]) -> Case:
    """Action 0 leads on to a second and last step, action 1 ends; the old policy tosses a coin."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = 1
    P[1:, :, 2] = 1
    other = np.array([[new[0], 1 - new[0]], [new[1], 1 - new[1]], [0.5, 0.5]])
    return Case(MDP(P, np.array([*rewards, (0.0, 0.0)]), np.eye(3)[0], gamma), other, np.full((3, 2), 0.5))


_FORKS = {
    0.5: _fork(0.5, ((1.0, 0.0), (4.0, 0.0)), (0.9, 0.2)),
    0.8: _fork(0.8, ((0.0, 3.0), (2.0, -1.0)), (0.75, 0.6)),
}


def _listed(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each walk as often as its chance says, so that the mean of an estimate over them is its exact mean."""
    ratio, a = case.new / case.old, values(case.mdp, case.old).a
    steps = ([(0, 1)], [(0, 0), (1, 0)], [(0, 1)], [(0, 0), (1, 1)])
    return [(np.array([ratio[s] for s in walk]), np.array([a[s] for s in walk])) for walk in steps]


_SIZES = (
    *((0.9, 3.2, 1.0), (0.5, 1.6, 1.0), (0.1, 1.0, 1.0), (0.9, -2.0, 1.0), (0.9, 0.0, 0.0)),
    *((0.0, 0.5, 1.0), (0.0, -0.5, 1.0), (0.0, 0.0, 0.0)),  # nothing is taken away, and not always something given
)

EXERCISES: dict[str, Exercise] = {
    "04.1": Exercise(
        cases=tuple(_known(case) for case in _PAIRS.values()),
        oracle=_slope_and_largest,
        misconceptions={
            "g lacks its factor 1/(1 - gamma): d sums to 1, and a return is a sum over time": (
                lambda d, other, a, gamma: [d @ (other * a).sum(-1), np.abs((other * a).sum(-1)).max()]
            ),
            "epsilon lacks the absolute value: the largest loss counts as well as the largest gain": (
                lambda d, other, a, gamma: [d @ (other * a).sum(-1) / (1 - gamma), (other * a).sum(-1).max()]
            ),
            "epsilon is the largest |mean over the other policy's actions|, not the largest |A| of a single action": (
                lambda d, other, a, gamma: [d @ (other * a).sum(-1) / (1 - gamma), np.abs(a).max()]
            ),
            "epsilon is a maximum over all states: where the old policy never goes, the new one may go": (
                lambda d, other, a, gamma: [
                    d @ (other * a).sum(-1) / (1 - gamma),
                    np.abs((other * a).sum(-1))[d > 0].max(),
                ]
            ),
            "epsilon is a maximum over states, not a mean": (
                lambda d, other, a, gamma: [d @ (other * a).sum(-1) / (1 - gamma), d @ np.abs((other * a).sum(-1))]
            ),
            "each state counts once here; g weighs states by how often the old policy visits them": (
                lambda d, other, a, gamma: [
                    (other * a).sum(-1).mean() / (1 - gamma),
                    np.abs((other * a).sum(-1)).max(),
                ]
            ),
        },
        hints=(
            "First G(s), the mean of a_old over the actions of the other policy: (other * a_old).sum(-1).",
            "g is the mean of G over d, divided by 1 - gamma; epsilon is the largest |G|.",
            "G = (other * a_old).sum(-1); return [d @ G / (1 - gamma), np.abs(G).max()]",
        ),
    ),
    "04.2": Exercise(
        cases=((),),
        oracle=_true_statements,
        misconceptions={
            "(b) is true of the surrogate only; the visits change with the step, so J bends": lambda: "abd",
            "(c) is wrong in the two rooms: g is negative, and the other policy is far better": lambda: "acd",
            "(e) takes a promise for a forecast: a negative lower bound says nothing about the truth": lambda: "ade",
            "(d) is true as well: g is the slope of J at a step of size 0": lambda: "a",
            "(a) is true as well: equation (57)": lambda: "d",
        },
        hints=(
            "Which of them are about the surrogate, which about J, and which about a lower bound?",
            "Try (c) and (e) on the two rooms.",
            "Two of the five are true, and (57) is one of them.",
        ),
    ),
    "04.3": Exercise(
        cases=_SIZES,
        oracle=_size_by_bisection,
        misconceptions={
            "this is (61) as printed: it is negative for g < 0 and 0/0 for g = epsilon = 0": (
                lambda gamma, g, e: float(as_printed.step_size(gamma, g, e)) if gamma else 1.0
            ),
            "a negative g is not caught: take no step at all then": (
                lambda gamma, g, e: min(1.0, (1 - gamma) ** 2 * g / (4 * gamma * e)) if gamma * e else float(e > 0)
            ),
            "the step is larger than 1 at times, and such a mixture is no policy": (
                lambda gamma, g, e: (
                    0.0 if g <= 0 else 1.0 if gamma == 0 else max(0.0, (1 - gamma) ** 2 * g / (4 * gamma * e))
                )
            ),
            "with gamma = 0 nothing is taken away, but a step along a negative g loses all the same": (
                lambda gamma, g, e: (
                    float(g != 0) if gamma == 0 else 0.0 if g <= 0 else min(1.0, (1 - gamma) ** 2 * g / (4 * gamma * e))
                )
            ),
            "1 - gamma stands squared in (61)": lambda gamma, g, e: (
                0.0 if g <= 0 else 1.0 if gamma == 0 else min(1.0, (1 - gamma) * g / (4 * gamma * e))
            ),
            "the slope of 2 c alpha^2 is 4 c alpha: the denominator is 4 gamma epsilon": lambda gamma, g, e: (
                0.0 if g <= 0 else 1.0 if gamma == 0 else min(1.0, (1 - gamma) ** 2 * g / (2 * gamma * e))
            ),
        },
        hints=(
            "Ask first whether a step is promised anything: g <= 0 means no.",
            "Then whether anything is taken away: with gamma = 0 and g > 0 the best step is the whole one.",
            "return 0.0 if g <= 0 else 1.0 if gamma == 0 else min(1.0, (1 - gamma)**2 * g / (4 * gamma * epsilon))",
        ),
    ),
    "04.4": Exercise(
        cases=((0.05, 0.9, 3.2, 1.0), (0.5, 0.5, 1.0, 2.0), (1.0, 0.8, -1.0, 0.5), (0.3, 0.0, 1.0, 1.0)),
        oracle=_promise_by_time,
        misconceptions={
            "this is (60); in Kakade and Langford's form one factor 1 - gamma becomes 1 - gamma (1 - alpha)": (
                lambda a, gamma, g, e: a * g - 2 * gamma * e * a**2 / (1 - gamma) ** 2
            ),
            "both factors 1 - gamma have become 1 - gamma (1 - alpha); only one does": lambda a, gamma, g, e: (
                a * g - 2 * gamma * e * a**2 / (1 - gamma * (1 - a)) ** 2
            ),
            "the penalty is proportional to the square of alpha": lambda a, gamma, g, e: (
                a * g - 2 * gamma * e * a / ((1 - gamma) * (1 - gamma * (1 - a)))
            ),
            "the surrogate of a step of size alpha is alpha g, not g": lambda a, gamma, g, e: (
                g - 2 * gamma * e * a**2 / ((1 - gamma) * (1 - gamma * (1 - a)))
            ),
            "two distributions differ by up to 2: the factor 2 is missing": lambda a, gamma, g, e: (
                a * g - gamma * e * a**2 / ((1 - gamma) * (1 - gamma * (1 - a)))
            ),
        },
        hints=(
            "The promise is alpha g minus the penalty.",
            "The penalty is 2 gamma epsilon alpha^2 over two factors: 1 - gamma, and 1 - gamma (1 - alpha).",
            "alpha * g - 2 * gamma * epsilon * alpha**2 / ((1 - gamma) * (1 - gamma * (1 - alpha)))",
        ),
    ),
    "04.5": Exercise(
        cases=tuple((_listed(case), gamma) for gamma, case in _FORKS.items()),
        oracle=_g_of_the_process,
        misconceptions={
            "the discount is missing: later steps count less": lambda walks, gamma: np.mean(
                [(r * a).sum() for r, a in walks]
            ),
            "this is a mean over steps; the sum over a walk with gamma^t already is the sum over time in g": (
                lambda walks, gamma: sum(_weighed(r, a, gamma).sum() for r, a in walks) / sum(len(r) for r, _ in walks)
            ),
            "the factor 1/(1 - gamma) is in the sum over gamma^t already; here it is counted twice": (
                lambda walks, gamma: np.mean([_weighed(r, a, gamma).sum() for r, a in walks]) / (1 - gamma)
            ),
            "the ratios are missing: the mean advantage of the old policy's own actions estimates 0": (
                lambda walks, gamma: np.mean([_weighed(np.ones(len(r)), a, gamma).sum() for r, a in walks])
            ),
            "the walks are added up; divide by their number": lambda walks, gamma: sum(
                _weighed(r, a, gamma).sum() for r, a in walks
            ),
            "the ratios are multiplied along the walk; g corrects the action only, and leaves the visits": (
                lambda walks, gamma: np.mean([_weighed(np.cumprod(r), a, gamma).sum() for r, a in walks])
            ),
        },
        hints=(
            "For one walk: the sum over t of gamma^t times ratio times advantage.",
            "np.arange(len(ratios)) are the times of one walk; g is the mean over walks.",
            "np.mean([(gamma ** np.arange(len(r)) * r * a).sum() for r, a in walks])",
        ),
    ),
    "04.6": Exercise(
        cases=(
            (np.array([0.9, 0.5, 0.8]), np.array([0.8, 1.0, 0.9]), 0.3),
            (np.array([0.2, 0.7]), np.array([0.9, 0.1]), 0.5),
            (np.array([0.6, 0.6, 0.6, 0.6]), np.array([0.9, 0.9, 0.9, 0.9]), 1.0),
        ),
        oracle=_by_listing_coins,
        misconceptions={
            "here one model writes the whole response; (55) mixes the probabilities of each token": (
                lambda p, q, a: (1 - a) * p.prod() + a * q.prod()
            ),
            "this mixes the log-probabilities; (55) mixes the probabilities": lambda p, q, a: math.exp(
                ((1 - a) * np.log(p) + a * np.log(q)).sum()
            ),
            "the probabilities of the tokens are averaged; a response has their product": lambda p, q, a: (
                (1 - a) * p + a * q
            ).mean(),
            "alpha belongs to the new model": lambda p, q, a: (a * p + (1 - a) * q).prod(),
        },
        hints=(
            "First mix the probabilities of each token.",
            "Then the probability of the response is the product over its tokens.",
            "((1 - alpha) * p_old + alpha * p_new).prod()",
        ),
    ),
}
