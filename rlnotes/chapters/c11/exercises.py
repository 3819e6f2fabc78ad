"""Exercises of chapter 11, why off-policy breaks RL."""

from itertools import product

import numpy as np

from rlnotes.bounds import gradient_ascent
from rlnotes.exact.slips import Slips
from rlnotes.notebook.exercise import Exercise


def _direction_of_the_best_cap() -> str:
    """By trying caps on a grid, for three steps."""
    case, caps = Slips("odd", 6, 0.1, 0.2), np.geomspace(0.1, 1000, 401)
    best = [
        max(caps, key=lambda cap, step=step: case.expected_progress(case.sequence_estimates(cap), step))
        for step in (1.0, 2.5, 5.0)
    ]
    return "a" if best[0] < best[1] < best[2] else "b" if best[0] > best[1] > best[2] else "c"


def _least_progress(
    gradient: np.ndarray, estimates: np.ndarray, probs: np.ndarray, smoothness: float, step: float
) -> float:
    """By the three terms."""
    return float(gradient_ascent.progress(step, smoothness, gradient_ascent.moments(gradient, estimates, probs)))


def _weight_variance(behavior: np.ndarray, target: np.ndarray, horizon: int) -> float:
    """Response by response."""
    mean = square = 0.0
    for response in product(range(len(behavior)), repeat=horizon):
        prob, weight = 1.0, 1.0
        for token in response:
            prob, weight = prob * behavior[token], weight * target[token] / behavior[token]
        mean, square = mean + prob * weight, square + prob * weight**2
    return square - mean**2


def _token_ratio_mean(horizon: int, old: float, new: float) -> float:
    """The estimates of all responses, added up."""
    total = 0.0
    for response in product((0, 1), repeat=horizon):
        prob = float(np.prod([old if token else 1 - old for token in response]))
        pushes = [new / old * (1 - new) if token else -(1 - new) / (1 - old) * new for token in response]
        total += prob * all(response) * sum(pushes)
    return total


def _cap_bias(probs: np.ndarray, w: np.ndarray, advantages: np.ndarray, scores: np.ndarray, cap: float) -> float:
    """The mean with the cap less the mean without."""
    capped, free = (
        sum(p * x * a * s for p, x, a, s in zip(probs, weights, advantages, scores, strict=True))
        for weights in (np.where(w > cap, cap, w), w)
    )
    return float(capped - free)


_COIN = (np.array([0.5, 0.5]), np.array([0.6, 0.4]))
_RESPONSES = (
    np.array([0.5, 0.25, 0.25]),
    np.array([0.5, 1.0, 2.0]),
    np.array([-0.5, 0.5, 0.75]),
    np.array([-1.0, 0.5, 2.0]),
)

EXERCISES: dict[str, Exercise] = {
    "11.0": Exercise(
        cases=((),),
        oracle=_direction_of_the_best_cap,
        misconceptions={
            "read the last sentence below the sliders at steps 1, 2.5 and 5: it goes the other way": lambda: "a",
            "move the step and read the last sentence below the sliders: it does depend": lambda: "c",
        },
        hints=("The text below the sliders names the best C for the step.", "0.42 at step 1. And at step 5?"),
    ),
    "11.1": Exercise(
        cases=(
            (np.array([1.0, 0.0]), np.array([[1.0, 0.0]]), np.array([1.0]), 1.0, 1.0),
            (
                np.array([1.0, -0.5]),
                np.array([[1.5, -0.5], [0.0, 1.0], [-0.5, 0.25]]),
                np.array([0.5, 0.25, 0.25]),
                2.0,
                0.3,
            ),
            (np.array([0.5, 0.5]), np.array([[-1.0, 0.0], [0.0, 2.0]]), np.array([0.75, 0.25]), 0.5, 1.5),
        ),
        oracle=_least_progress,
        misconceptions={
            "the half of the smoothness term is missing": lambda g, e, p, L, s: (
                s * g @ (p @ e) - L * s**2 * (p @ (e**2).sum(-1))
            ),
            "this has the squared length of the mean where the mean squared length belongs: noise costs nothing": (
                lambda g, e, p, L, s: s * g @ (p @ e) - L * s**2 / 2 * ((p @ e) ** 2).sum()
            ),
            "this is the progress of the true gradient, Term A alone": lambda g, e, p, L, s: (
                s * (1 - L * s / 2) * g @ g
            ),
            "the step enters the penalty squared": lambda g, e, p, L, s: (
                s * g @ (p @ e) - L * s / 2 * (p @ (e**2).sum(-1))
            ),
            "the estimates are not equally likely: use probs": lambda g, e, p, L, s: (
                s * g @ e.mean(0) - L * s**2 / 2 * (e**2).sum(-1).mean()
            ),
            "this adds the penalty": lambda g, e, p, L, s: s * g @ (p @ e) + L * s**2 / 2 * (p @ (e**2).sum(-1)),
        },
        hints=(
            "You need not form bias and variance: see the first line of the proof of Fact 11.10.",
            "step times the inner product with the mean, less L step^2 / 2 times the mean squared length.",
            "step * gradient @ (probs @ estimates) - smoothness * step**2 / 2 * (probs @ (estimates**2).sum(-1))",
        ),
    ),
    "11.2": Exercise(
        cases=(
            (*_COIN, 2),
            (*_COIN, 5),
            (np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25]), 3),
        ),
        oracle=_weight_variance,
        misconceptions={
            "this is the second moment; the variance is one less": lambda b, t, n: float((t**2 / b).sum() ** n),
            "variances of a product do not add up: each token multiplies the second moment": lambda b, t, n: (
                n * ((t**2 / b).sum() - 1)
            ),
            "this is chi2 to the power T; 1 + chi2 is what each token multiplies with": lambda b, t, n: (
                ((t**2 / b).sum() - 1) ** n
            ),
            "this has the roles changed: the samples are those of the behaviour": lambda b, t, n: (
                (b**2 / t).sum() ** n - 1
            ),
            "this is one token; the response has `horizon`": lambda b, t, n: (t**2 / b).sum() - 1,
        },
        hints=(
            "What is the mean of the squared ratio of one token?",
            "sum of target^2 / behavior is 1 + chi2; each token multiplies the second moment by it.",
            "np.sum(target**2 / behavior) ** horizon - 1",
        ),
    ),
    "11.3": Exercise(
        cases=((1, 0.3, 0.5), (3, 0.3, 0.5), (5, 0.9, 0.8)),
        oracle=_token_ratio_mean,
        misconceptions={
            "this is the true gradient: the slope of J at the new probability": lambda n, o, q: (
                q * (1 - q) * n * q ** (n - 1)
            ),
            "the factor new (1 - new) is missing: the derivative is by the logit": lambda n, o, q: n * o ** (n - 1),
            "the score is that of the new policy: new (1 - new), not old (1 - old)": lambda n, o, q: (
                o * (1 - o) * n * o ** (n - 1)
            ),
            "the derivative of p^T has one power less": lambda n, o, q: q * (1 - q) * n * o**n,
            "the factor T is missing: there is a sum over the tokens": lambda n, o, q: q * (1 - q) * o ** (n - 1),
        },
        tolerance=1e-9,
        hints=(
            "Fact 11.19. What is J as a function of the probability of a slip?",
            "J(p) = p^T. Its slope is taken at the old probability.",
            "new * (1 - new) * horizon * old ** (horizon - 1)",
        ),
    ),
    "11.4": Exercise(
        cases=(
            (np.array([0.5, 0.5]), np.array([0.5, 1.5]), np.array([-1.0, 1.0]), np.array([-1.0, 1.0]), 1.0),
            (*_RESPONSES, 1.5),
            (*_RESPONSES, 0.75),
            (*_RESPONSES, 4.0),
        ),
        oracle=_cap_bias,
        misconceptions={
            "this is the mean of the capped estimate; the bias is what the cap changes": lambda p, w, a, s, c: np.sum(
                p * np.minimum(w, c) * a * s
            ),
            "the sign is the other way round: the mean less the truth": lambda p, w, a, s, c: np.sum(
                p * (w - np.minimum(w, c)) * a * s
            ),
            "the samples are those of mu: weigh with probs": lambda p, w, a, s, c: np.mean(
                (np.minimum(w, c) - w) * a * s
            ),
            "this drops what is above the cap; truncation keeps it with weight C": lambda p, w, a, s, c: np.sum(
                p * np.where(w > c, -w, 0) * a * s
            ),
        },
        hints=(
            "The uncapped estimate has no bias.",
            "So the bias is the mean of what the cap changes.",
            "np.sum(probs * (np.minimum(w, cap) - w) * advantages * scores)",
        ),
    ),
    "11.5": Exercise(
        cases=((),),
        oracle=lambda: "cef",
        misconceptions={
            "(a): a bias of minus half the gradient has a negative Term B and the same maximum": lambda: "acef",
            "(b): a batch averages noise away; a bias is in the mean of every batch": lambda: "bcef",
            "(d): a response of probability 1e-9 that gets 5e-4 makes a TV of 0.0005 and a chi2 of 250": lambda: "cdef",
            "(c) is true too: the states agree, and the advantages are still those of mu": lambda: "ef",
            "(e) is true too: with less noise, the bias is what remains": lambda: "cf",
            "(f) is true too: half the root of 0.01": lambda: "ce",
        },
        hints=("Three are true.", "TV bounded by chi2, or chi2 by TV? Only one of the two works."),
    ),
}
