"""Exercises of chapter 01, how often one rollout may be used."""

import math
import statistics

import numpy as np

from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 01.1


def _asked_again() -> str:
    """By the stored run: what the policy answers right on the prompts of its own rollout."""
    from rlnotes.chapters.c01.readings import nearer, the_run  # only here: it needs torch

    end = {column: the_run("sort")[column][-1] for column in ("own_estimate", "J", "J_own")}
    return nearer(end["own_estimate"], end["J"], end["J_own"])


# --- 01.2

RISING, BY_HEART = "cb7f", "d6e4"  # the logs A and B


def _by_heart() -> tuple[str, int]:
    """The log whose held-out reward does not end above its first, and the step at which it was highest."""
    held = {
        name: [(row["eval_reward"], row["step"]) for row in stored_log(key).rows() if "eval_reward" in row]
        for name, key in (("A", RISING), ("B", BY_HEART))
    }
    ((name, found),) = ((name, found) for name, found in held.items() if found[-1][0] <= found[0][0])
    return name, max(found)[1]


# --- 01.3


def _log_weights_by_walking(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> list[float]:
    """Response by response, token by token."""
    rows = zip(logp_behavior, logp, mask, strict=True)
    return [math.fsum(q - p for p, q, own in zip(*row, strict=True) if own) for row in rows]


def _by_zeros(logp_behavior, logp, mask):
    return ((logp - logp_behavior) * mask).sum(-1)


def _without_warnings(answer, *case):
    """What ``answer`` gives, for the check says itself where it is no number."""
    with np.errstate(all="ignore"):
        return answer(*case)


def _product(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The quotient of two products of probabilities, which are both 0 for a long response."""
    new, old = (np.exp(np.where(mask, part, 0)).prod(-1) for part in (logp, logp_behavior))
    return np.log(new / old)


def _weight(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The weight of a response, which is 0 or infinite in a computer for one that moved far."""
    return np.exp(np.where(mask, logp - logp_behavior, 0).sum(-1))


def _weight_first(logp_behavior: np.ndarray, logp: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The logarithm of the weight itself."""
    return np.log(_weight(logp_behavior, logp, mask))


_PLAIN = (np.array([[-1.0, -2.0], [-0.5, -1.0]]), np.array([[-0.5, -2.5], [-1.0, -0.7]]), np.full((2, 2), True))
_PADDED = (
    np.array([[-1.0, -2.0, np.nan], [-0.5, -1.0, -3.0]]),
    np.array([[-0.5, -2.4, 5.0], [-1.0, -0.7, -1.0]]),
    np.array([[True, True, False], [True, True, True]]),
)
_NUMBERS = (np.where(np.isnan(_PADDED[0]), -7.0, _PADDED[0]), *_PADDED[1:])
_NEVER = (np.where(np.isnan(_PADDED[0]), -1.0, _PADDED[0]), np.where(_PADDED[2], _PADDED[1], -np.inf), _PADDED[2])
_LONG = (np.full((2, 3000), -1.5), np.full((2, 3000), -1.499), np.arange(3000) < np.array([[3000], [1200]]))
_FAR = (np.full((2, 3000), -1.5), np.array([[-0.5], [-2.5]]).repeat(3000, 1), np.full((2, 3000), True))
PADDINGS = {
    "no padding": _PLAIN,
    "padding that is a number": _NUMBERS,
    "padding that is NaN": _PADDED,
    "padding that is -inf": _NEVER,
    "3000 tokens": _LONG,
    "3000 tokens, moved far": _FAR,
}

# --- 01.4

RESPONSES, RARE, MOVED = 256, 0.2, 0.1


def _tokens_until_one_is_left() -> int:
    """Token by token, from the weights of both tokens."""
    left, tokens = float(RESPONSES), 0
    while left >= 1:
        left /= RARE * ((RARE + MOVED) / RARE) ** 2 + (1 - RARE) * ((1 - RARE - MOVED) / (1 - RARE)) ** 2
        tokens += 1
    return tokens


def _tokens_at(factor: float) -> int:
    """The same with another factor per token."""
    return math.ceil(math.log(RESPONSES) / math.log(factor))


# --- 01.5

_RATIOS = np.array([-1.0, 0.0, 1.5, 0.5])


def _size_by_spread(log_w: np.ndarray) -> float:
    """n / (1 + the squared coefficient of variation), the weights in units of the largest."""
    weights = [math.exp(float(one) - float(max(log_w))) for one in log_w]
    return len(weights) / (1 + statistics.pvariance(weights) / statistics.fmean(weights) ** 2)


def _overflowing(log_w: np.ndarray) -> float:
    """The weights as they are."""
    with np.errstate(all="ignore"):
        weights = np.exp(log_w)
        return float(weights.sum() ** 2 / (weights**2).sum())


def _scaled(log_w: np.ndarray) -> np.ndarray:
    return np.exp(log_w - np.max(log_w))


EXERCISES: dict[str, Exercise] = {
    "01.1": Exercise(
        cases=((),),
        oracle=_asked_again,
        misconceptions={
            "new prompts are answered as the true column says. These 32 prompts have been trained on 60 times": (
                lambda: "b"
            ),
            "the weights are not to blame here. Ask what 60 updates on 32 prompts teach": lambda: "c",
        },
        hints=("The weighted mean is about these 32 prompts. Which prompts does the column true ask?",),
    ),
    "01.2": Exercise(
        cases=((),),
        oracle=_by_heart,
        misconceptions={
            "in A the held-out reward rises with the reward. Where does it not?": ("A", ...),
            "the log is right. The step: 60 is its last, with the lowest held-out reward": ("B", 60),
            "the log is right. The step: that is where the *reward* is highest": ("B", 48),
            "the log is right. The step: that is before the first held-out measurement": ("B", 3),
        },
        hints=("In which log does eval_reward end no higher than it began? Then take its highest value.",),
    ),
    "01.3": Exercise(
        cases=tuple(PADDINGS.values()),
        probes=tuple(PADDINGS),
        oracle=_log_weights_by_walking,
        given=_by_zeros,
        measure=_without_warnings,
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
            "this is the weight; its logarithm is asked for": _weight,
            "these are the ratios added up, not their product": lambda q, p, m: np.where(m, np.exp(p - q), 0).sum(-1),
        },
        hints=("What is 0 times NaN? Choose what counts, in place of multiplying it away.",),
    ),
    "01.4": Exercise(
        cases=((),),
        oracle=_tokens_until_one_is_left,
        misconceptions={
            "with one token less there is a little more than one response left; one token more": lambda: (
                _tokens_until_one_is_left() - 1
            ),
            "that many tokens are the first too many; the question asks for the smallest number": lambda: (
                _tokens_until_one_is_left() + 1
            ),
            "that is for a coin. This token has probability 0.2, and the other 0.8": lambda: _tokens_at(1.04),
            "the other token moves as well: two terms, 0.1^2 / 0.2 and 0.1^2 / 0.8": lambda: _tokens_at(1.05),
            "each token multiplies by 1 + chi2, not by 1 + TV": lambda: _tokens_at(1.1),
            "the shift must be squared: 0.1^2 / 0.2 + 0.1^2 / 0.8": lambda: _tokens_at(1.625),
            "chi2 does not add up over tokens: 1 + chi2 is multiplied": lambda: math.ceil(255 / 0.0625),
        },
        hints=("chi2 of one token, with a term for each of its two outcomes. Then how often 256 can be divided.",),
    ),
    "01.5": Exercise(
        cases=(
            (_RATIOS,),
            (np.zeros(5),),
            (np.array([0.0, -30.0, -30.0]),),
            (_RATIOS + 3,),
            (_RATIOS + 1000,),
            (_RATIOS - 1000,),
            (np.array([1000.0, -900.0]),),
            (np.array([-2.0, -1.0]),),
        ),
        oracle=_size_by_spread,
        misconceptions={
            "right for small numbers; exp of 1000 overflows, and of -1000 is 0. A common factor cancels: subtract the "
            "largest log_w first": _overflowing,
            "the weights do not sum to 1 here: square their sum, and divide by the sum of their squares": (
                lambda x: 1 / (_scaled(x) ** 2).sum()
            ),
            "this is (sum w)^2 / n: divide by the sum of the squares": lambda x: _scaled(x).sum() ** 2 / len(x),
            "this is the inverse: it would be small for equal weights": lambda x: (
                (_scaled(x) ** 2).sum() / _scaled(x).sum() ** 2
            ),
            "this is the share of n; multiply by n": lambda x: _scaled(x).mean() ** 2 / (_scaled(x) ** 2).mean(),
            "these are log-weights; the weights are exp of them": lambda x: np.nan_to_num(
                x.sum() ** 2 / max((x**2).sum(), 1e-300)
            ),
            "that is the limit for weights with mean 1; here divide the variance by the squared mean": lambda x: (
                len(x) / (1 + _scaled(x).var())
            ),
            "the sum of the weights must be squared": lambda x: _scaled(x).sum() / (_scaled(x) ** 2).sum(),
        },
        hints=("Equal weights must give n, one large weight must give about 1. What if all weights are doubled?",),
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
        hints=("The batch knows only the weights of what is in it. And a factor common to all of them?",),
    ),
}
