"""Exercises of chapter 09, GSPO."""

import math

import numpy as np

from rlnotes.exact.gaussian_ratios import closed_share
from rlnotes.notebook.exercise import Exercise


def _where_the_share_goes() -> str:
    """By the closed form, for a response longer than anybody writes."""
    share = closed_share(-0.001, 0.05, 1e9, "sequence_mean", 10**-3.4, positive=False)
    return "abc"[round(2 * float(share))]


def _ratio_by_walking(logp_mu: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> list[float]:
    """Response by response: the product of the ratios, and its T-th root."""
    found = []
    for old, new, own in zip(logp_mu, logp, mask, strict=True):
        ratios = [math.exp(n) / math.exp(o) for o, n, inside in zip(old, new, own, strict=True) if inside]
        found.append(math.prod(ratios) ** (1 / len(ratios)))
    return found


def _clipped_term(log_ratios: np.ndarray, advantage: float, epsilon: float) -> float:
    s = math.prod(math.exp(x) for x in log_ratios) ** (1 / len(log_ratios))
    return min(s * advantage, min(max(s, 1 - epsilon), 1 + epsilon) * advantage)


def _weights_by_differences(ratios: np.ndarray, advantage: float, epsilon: float) -> list[float]:
    """Central differences of equation (109)'s term, one token's log-probability after another."""
    found = []
    for t in range(len(ratios)):
        step = 1e-5 * (np.arange(len(ratios)) == t)
        up, down = (_clipped_term(np.log(ratios) + side * step, advantage, epsilon) for side in (1, -1))
        found.append((up - down) / 2e-5)
    return found


def _closed(s: float, advantage: float, epsilon: float) -> bool:
    return s > 1 + epsilon if advantage > 0 else s < 1 - epsilon


def _geometric_mean(ratios: np.ndarray) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _weighted_share(tokens: int, q: float) -> float:
    """One factor per token: the mean of a product of independent factors is the product of their means."""
    one, zero = (2 * q) ** (1 / tokens), (2 * (1 - q)) ** (1 / tokens)
    return one / 2 * ((one + zero) / 2) ** (tokens - 1)


def _widest_noise(epsilon: float) -> float:
    """By halving: the noise at which half of very long wrong responses are closed."""
    low, high = 1e-6, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        share = closed_share(-(middle**2) / 2, middle, 1e12, "sequence_mean", epsilon, positive=False)
        low, high = (middle, high) if share < 0.5 else (low, middle)
    return low


_LOGP_MU = np.log([[0.5, 0.5, 0.25, 0.9], [0.2, 0.4, 0.8, 0.1]])
_LOGP = np.log([[0.6, 0.4, 0.5, 0.1], [0.3, 0.4, 0.6, 0.2]])
_MASK = np.array([[True, True, True, False], [True, True, True, True]])
_UNEVEN = np.array([1.5, 0.8, 1.25, 1.0])

EXERCISES: dict[str, Exercise] = {
    "09.0": Exercise(
        cases=((),),
        oracle=_where_the_share_goes,
        misconceptions={
            "the noise averages out, and what is left is the drift: a log-ratio of -0.001, beyond the border": (
                lambda: "a"
            ),
            "one half would be right if the drift stood exactly on the border, -0.0004": lambda: "b",
        },
        hints=(
            "Set the mean to -0.001 and the sign to -1, and look at the right end of the right panel.",
            "In a long response the mean log-ratio is the drift. Is exp(-0.001) inside [1 - ε, 1 + ε]?",
        ),
    ),
    "09.1": Exercise(
        cases=((_LOGP_MU, _LOGP, _MASK), (_LOGP_MU[:1], _LOGP[:1], ~_MASK[:1])),
        oracle=_ratio_by_walking,
        misconceptions={
            "the sum is divided by the width of the batch; divide it by the response's own number of tokens": (
                lambda o, n, m: np.exp(((n - o) * m).mean(-1))
            ),
            "this is the product (105), the importance weight; (107) takes its T-th root": (
                lambda o, n, m: np.exp(((n - o) * m).sum(-1))
            ),
            "this is the mean of the ratios; (107) is the exponential of the mean of their logarithms": (
                lambda o, n, m: (np.exp(n - o) * m).sum(-1) / m.sum(-1)
            ),
            "the ratio is upside down: new over old": lambda o, n, m: np.exp(((o - n) * m).sum(-1) / m.sum(-1)),
            "this counts the filler after the end of a response": lambda o, n, m: np.exp((n - o).sum(-1) / m.sum(-1)),
            "this is the logarithm of the ratio": lambda o, n, m: ((n - o) * m).sum(-1) / m.sum(-1),
        },
        hints=(
            "The logarithm of the geometric mean is the mean of the logarithms.",
            "((logp - logp_mu) * mask).sum(-1) is the log of the product; mask.sum(-1) is T of each response.",
            "np.exp(((logp - logp_mu) * mask).sum(-1) / mask.sum(-1))",
        ),
    ),
    "09.2": Exercise(
        cases=(
            *((_UNEVEN, a, e) for a in (2.0, -2.0) for e in (0.2, 0.05)),
            (1 / _UNEVEN, 1.0, 0.05),
            (1 / _UNEVEN, -1.0, 0.05),
        ),
        oracle=_weights_by_differences,
        misconceptions={
            "each token has the whole weight; log s is a mean, so a token moves it by 1/T": lambda r, a, e: np.full(
                len(r), 0.0 if _closed(_geometric_mean(r), a, e) else _geometric_mean(r) * a
            ),
            "nothing is clipped": lambda r, a, e: np.full(len(r), _geometric_mean(r) * a / len(r)),
            "these are GRPO's weights: a ratio and a gate for each token": lambda r, a, e: np.where(
                [_closed(x, a, e) for x in r], 0.0, r * a / len(r)
            ),
            "these are GRPO's weights, with no clip: each has its own ratio; in GSPO all have s": lambda r, a, e: (
                r * a / len(r)
            ),
            "the gate is open where s has gone the wrong way: mind the sign of the advantage": lambda r, a, e: np.full(
                len(r), _geometric_mean(r) * a / len(r) * (abs(_geometric_mean(r) - 1) <= e)
            ),
            "the ratio s is missing: the derivative of s is s times that of log s": lambda r, a, e: np.full(
                len(r), 0.0 if _closed(_geometric_mean(r), a, e) else a / len(r)
            ),
        },
        hints=(
            "All tokens have the same weight, so it is enough to find one number.",
            "It is 0 where the gate is closed: s > 1 + epsilon for A > 0, s < 1 - epsilon for A < 0.",
            "Where it is open: s * advantage / T, with s = np.exp(np.log(ratios).mean()).",
        ),
        tolerance=1e-5,
    ),
    "09.3": Exercise(
        cases=((1, 0.6), (8, 0.6), (8, 0.9), (200, 0.6)),
        oracle=_weighted_share,
        misconceptions={
            "this is the mean under the new coins, which the product (105) would give": lambda t, q: q,
            "this is the mean under the fair coins; no weight is there": lambda t, q: 0.5,
            "this is weighted with the mean of the token ratios, as in GRPO": lambda t, q: 0.5 + (q - 0.5) / t,
            "you divide by the sum of the weights; the question has the plain mean of s F": lambda t, q: (
                _weighted_share(t, q) / (((2 * q) ** (1 / t) + (2 * (1 - q)) ** (1 / t)) / 2) ** t
            ),
        },
        hints=(
            "Only the number k of ones matters: it occurs with probability comb(T, k) / 2**T.",
            "The product of the ratios is (2 q)**k * (2 (1 - q))**(T - k), and s is its T-th root.",
            "sum(math.comb(T, k) / 2**T * (2*q)**(k/T) * (2*(1-q))**(1 - k/T) * k/T for k in range(T + 1))",
        ),
    ),
    "09.4": Exercise(
        cases=((3e-4,), (0.03,), (0.2,)),
        oracle=_widest_noise,
        misconceptions={
            "nearly: log(1 - epsilon) is not quite -epsilon": lambda e: math.sqrt(2 * e),
            "this is the drift that is allowed; the drift is half the square of the spread": lambda e: -math.log1p(-e),
            "the drift is half of spread squared, so a 2 is missing": lambda e: math.sqrt(-math.log1p(-e)),
            "the border of wrong responses is the lower one, 1 - epsilon": lambda e: math.sqrt(2 * math.log1p(e)),
        },
        hints=(
            "In a long response log s is its mean, -spread**2 / 2.",
            "The gate of a wrong response closes where log s is below log(1 - epsilon).",
            "np.sqrt(-2 * np.log(1 - epsilon))",
        ),
    ),
    "09.5": Exercise(
        cases=((),),
        oracle=lambda: "aceg",
        misconceptions={
            "b: by Jensen's inequality the mean of s is below 1 as soon as the policy has moved": lambda: "abceg",
            "d: spread over sqrt(T) is far below 0.2 in long responses: 0.2 waits for a product of 1.2**T": lambda: (
                "acdeg"
            ),
            "f: the ratio to pi_k is 1 before the update, whatever the sampler did": lambda: "acefg",
            "a is true as well: all ratios are 1 there": lambda: "ceg",
            "c is true as well: see Fact 9.7": lambda: "aeg",
            "e is true as well: other tokens may make up for it in the mean": lambda: "acg",
            "g is true as well: geometric and arithmetic mean": lambda: "ace",
        },
        hints=(
            "Four of the seven are true.",
            "b and f each have a table above that says no; for d, see the response of 1000 tokens.",
        ),
    ),
}
