"""Exercises of chapter 01, Monte Carlo and importance sampling."""

import math
import statistics

import numpy as np

from rlnotes.notebook.exercise import Exercise


def _tokens_until_one_is_left() -> int:
    """Token by token, from the weights of both tokens."""
    left, tokens = 512.0, 0
    while left >= 1:
        left /= 0.5 * (0.7 / 0.5) ** 2 + 0.5 * (0.3 / 0.5) ** 2
        tokens += 1
    return tokens


def _weighted_by_counting(target: np.ndarray, behavior: np.ndarray, values: np.ndarray, drawn: np.ndarray) -> float:
    """Outcome by outcome: how often it was drawn, against how often it should have been expected."""
    total = 0.0
    for outcome in range(len(values)):
        share = sum(int(i == outcome) for i in drawn) / len(drawn)
        if share:
            total += share / behavior[outcome] * target[outcome] * values[outcome]
    return float(total)


def _normalised_by_walking(log_ratio: np.ndarray, values: np.ndarray) -> float:
    """Each weight measured in units of each other one, so that nothing large is formed."""
    total = 0.0
    for one, value in zip(log_ratio, values, strict=True):
        inverse = math.fsum(math.exp(min(other - one, 700)) for other in log_ratio)
        total += value / inverse
    return total


def _size_by_spread(log_ratio: np.ndarray) -> float:
    """n / (1 + the squared coefficient of variation)."""
    weights = [math.exp(float(one)) for one in log_ratio]
    return len(weights) / (1 + statistics.pvariance(weights) / statistics.fmean(weights) ** 2)


def _log_weights_by_walking(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> list[float]:
    """Response by response, token by token."""
    rows = zip(logp_behavior, logp, mask, strict=True)
    return [math.fsum(q - p for p, q, own in zip(*row, strict=True) if own) for row in rows]


def _baseline_by_parabola(probs: np.ndarray, values: np.ndarray, scores: np.ndarray) -> float:
    """The lowest point of the parabola through three variances."""

    def spread(b: float) -> float:
        estimates = [float((f - b) * s) for f, s in zip(values, scores, strict=True)]
        mean = sum(p * x for p, x in zip(probs, estimates, strict=True))
        return sum(p * (x - mean) ** 2 for p, x in zip(probs, estimates, strict=True))

    low, middle, high = spread(-1), spread(0), spread(1)
    return (low - high) / 2 / (low - 2 * middle + high)


def _product(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The quotient of two products of probabilities, which are both 0 for a long response."""
    with np.errstate(all="ignore"):
        new, old = (np.exp(np.where(mask, part, 0)).prod(-1) for part in (logp, logp_behavior))
        return np.log(new / old)


def _weight(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The weight of a response, which is 0 or infinite in a computer for one that moved far."""
    with np.errstate(all="ignore"):
        return np.exp(np.where(mask, logp - logp_behavior, 0).sum(-1))


def _weight_first(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The logarithm of the weight itself."""
    with np.errstate(all="ignore"):
        return np.log(_weight(logp_behavior, logp, mask))


def _overflowing(log_ratio: np.ndarray, values: np.ndarray) -> float:
    """The weights as they are."""
    with np.errstate(all="ignore"):
        weights = np.exp(log_ratio)
        return float((weights * values).sum() / weights.sum())


_MU, _PI, _R = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5]), np.array([0.0, 1.0, 2.0])
_DRAWN = np.array([0, 0, 1, 0, 2, 1, 0, 0, 1, 0])
_RATIOS = np.array([-1.0, 0.0, 1.5, 0.5])
_LONG = (np.full((2, 3000), -1.5), np.full((2, 3000), -1.499), np.arange(3000) < np.array([[3000], [1200]]))
_FAR = (np.full((2, 3000), -1.5), np.array([[-0.5], [-2.5]]).repeat(3000, 1), np.full((2, 3000), True))
_SHORT = (
    np.array([[-1.0, -2.0, np.nan], [-0.5, -1.0, -3.0]]),
    np.array([[-0.5, -2.5, 5.0], [-1.0, -0.7, -1.0]]),
    np.array([[True, True, False], [True, True, True]]),
)
_COIN = (np.array([0.8, 0.2]), np.array([1.0, 3.0]), np.array([-1.25, 5.0]))

EXERCISES: dict[str, Exercise] = {
    "01.0": Exercise(
        cases=((),),
        oracle=_tokens_until_one_is_left,
        misconceptions={
            "with 42 tokens there is a little more than one response left; one token more": lambda: 42,
            "that is at a shift of 0.1, or beyond the right edge: set the first slider to 0.2": lambda: 160,
            "you divided by the shift itself; what multiplies from token to token is 1 + chi2, not TV": lambda: 5,
        },
        hints=(
            "Set the shift to 0.2, the probability to 0.5 and n to 512, and move T.",
            "Each token divides by 1 + chi2 = 1.16.",
            "The first T with 1.16**T > 512.",
        ),
    ),
    "01.1": Exercise(
        cases=((_PI, _MU, _R, _DRAWN), (_MU, _PI, _R, _DRAWN), (_PI, _MU, _R + 1, _DRAWN[:3])),
        oracle=_weighted_by_counting,
        misconceptions={
            "this is the mean under the behaviour: the weights are missing": lambda p, q, f, d: f[d].mean(),
            "the weight is upside down: target over behaviour": lambda p, q, f, d: (q[d] / p[d] * f[d]).mean(),
            "this divides by the sum of the weights (self-normalised, exercise 01.2); eq. (5) divides by n": (
                lambda p, q, f, d: (p[d] / q[d] * f[d]).sum() / (p[d] / q[d]).sum()
            ),
            "the terms are added up; divide by their number": lambda p, q, f, d: (p[d] / q[d] * f[d]).sum(),
            "the weight is target over behaviour; the division by the behaviour is missing": (
                lambda p, q, f, d: (p[d] * f[d]).mean()
            ),
            "this is the exact mean under the target; estimate it from the samples": lambda p, q, f, d: p @ f,
        },
        hints=(
            "target[drawn] has the target's probability of each sample.",
            "Each sample counts target[drawn] / behavior[drawn] times.",
            "np.mean(target[drawn] / behavior[drawn] * values[drawn])",
        ),
    ),
    "01.2": Exercise(
        cases=(
            (_RATIOS, np.array([1.0, 2.0, 3.0, 4.0])),
            (_RATIOS + 1000, np.array([1.0, 2.0, 3.0, 4.0])),
            (_RATIOS - 1000, np.array([1.0, 0.0, 0.0, 1.0])),
            (np.array([1000.0, -900.0]), np.array([1.0, 0.0])),
        ),
        oracle=_normalised_by_walking,
        misconceptions={
            "right for small numbers; exp of 1000 overflows, and of -1000 is 0. Subtract the largest log_ratio first": (
                _overflowing
            ),
            "the log-ratios are no weights yet: take exp of them, with the largest subtracted": (
                lambda x, f: (x * f).sum() / x.sum()
            ),
            "the weights are missing": lambda x, f: f.mean(),
            "the largest is subtracted, and then the sum is divided by n and not by the sum of the weights": (
                lambda x, f: (np.exp(x - x.max()) * f).mean()
            ),
            "the weights are upside down: exp of log_ratio, not of minus log_ratio": (
                lambda x, f: (np.exp(x.min() - x) * f).sum() / np.exp(x.min() - x).sum()
            ),
        },
        hints=(
            "A constant added to all log-ratios changes nothing: it cancels.",
            "weights = np.exp(log_ratio - log_ratio.max())",
            "(weights * values).sum() / weights.sum()",
        ),
    ),
    "01.3": Exercise(
        cases=((_RATIOS,), (np.zeros(5),), (np.array([0.0, -30.0, -30.0]),), (_RATIOS + 3,)),
        oracle=_size_by_spread,
        misconceptions={
            "the weights do not sum to 1 here: square their sum, and divide by the sum of their squares": (
                lambda x: 1 / (np.exp(x) ** 2).sum()
            ),
            "this is (sum w)^2 / n: divide by the sum of the squares": lambda x: np.exp(x).sum() ** 2 / len(x),
            "this is the inverse: it would be small for equal weights": lambda x: (
                (np.exp(x) ** 2).sum() / np.exp(x).sum() ** 2
            ),
            "this is the share of n; multiply by n": lambda x: np.exp(x).mean() ** 2 / (np.exp(x) ** 2).mean(),
            "these are log-ratios; the weights are exp of them": lambda x: np.nan_to_num(
                x.sum() ** 2 / max((x**2).sum(), 1e-300)
            ),
            "that is the limit for weights with mean 1; here divide the variance by the squared mean": (
                lambda x: len(x) / (1 + np.exp(x).var())
            ),
            "the sum of the weights must be squared": lambda x: np.exp(x).sum() / (np.exp(x) ** 2).sum(),
        },
        hints=(
            "Make the weights first: np.exp(log_ratio).",
            "Equal weights must give n, one large weight must give about 1.",
            "weights.sum() ** 2 / (weights**2).sum()",
        ),
    ),
    "01.4": Exercise(
        cases=(_SHORT, _LONG, _FAR),
        oracle=_log_weights_by_walking,
        misconceptions={
            "products of probabilities: for 3000 tokens both are 0, and 0 / 0 is no number. Add logarithms": _product,
            "this takes the logarithm of a weight: exp of 3000 overflows, and of -3000 is 0. Stay with logarithms": (
                _weight_first
            ),
            "this is behaviour over target: the sign is wrong": lambda q, p, m: np.where(m, q - p, 0).sum(-1),
            "this is the mean over the tokens (the ratio of GSPO, chapter 09); a product of ratios is a sum of logs": (
                lambda q, p, m: np.where(m, p - q, 0).sum(-1) / m.sum(-1)
            ),
            "NaN is skipped, but numbers outside the mask get in": lambda q, p, m: np.nansum(p - q, -1),
            "what stands outside the mask gets in": lambda q, p, m: (p - q).sum(-1),
            "0 times NaN is NaN: choose with np.where, do not multiply by the mask": (
                lambda q, p, m: ((p - q) * m).sum(-1)
            ),
            "this is the weight; its logarithm is asked for": _weight,
            "these are the ratios added up, not their product": lambda q, p, m: np.where(m, np.exp(p - q), 0).sum(-1),
        },
        hints=(
            "log of a product is the sum of the logs.",
            "np.where(mask, ..., 0) puts 0 outside the mask, whatever stood there.",
            "np.where(mask, logp - logp_behavior, 0).sum(-1)",
        ),
    ),
    "01.5": Exercise(
        cases=(_COIN, (_PI, _R, np.array([-0.3, 0.7, -0.3])), (_MU, _R + 10, np.array([1.0, -1.0, -3.0]))),
        oracle=_baseline_by_parabola,
        misconceptions={
            "this is the mean value: a good baseline, but not the best one. Weigh each value by score**2": (
                lambda p, f, s: p @ f
            ),
            "the probabilities are missing": lambda p, f, s: (s**2 @ f) / (s**2).sum(),
            "the numerator has score, not score**2": lambda p, f, s: (p @ (f * s)) / (p @ s**2),
            "the denominator is missing: divide by the mean of score**2": lambda p, f, s: p @ (f * s**2),
            "no baseline is not the best baseline": lambda p, f, s: 0.0,
        },
        hints=(
            "The mean of the estimate does not depend on b, so make the mean of ((f - b) s)^2 least.",
            "Its derivative in b is -2 E[(f - b) s^2]; set it to 0.",
            "(probs * scores**2 * values).sum() / (probs * scores**2).sum()",
        ),
    ),
    "01.6": Exercise(
        cases=((),),
        oracle=lambda: "abc",
        misconceptions={
            "(c) is possible as well: the effective sample size does not see a factor common to all weights": (
                lambda: "ab"
            ),
            "(b) is possible as well: what the batch missed is not in its effective sample size": lambda: "ac",
            "(a) is possible as well: what the behaviour never does is in no batch": lambda: "bc",
            "b is one of them; there are more": lambda: "b",
            "a is one of them; there are more": lambda: "a",
            "c is one of them; there are more": lambda: "c",
            "equal weights give an effective sample size of n, 512 exactly": lambda: "abcd",
        },
        hints=(
            "The batch knows only the weights of what is in it.",
            "What happens to the effective sample size when all weights are halved?",
            "Three of the four are possible.",
        ),
    ),
}
