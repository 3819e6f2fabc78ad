"""Exercises of chapter 14, trust region masking."""

import math

import numpy as np

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.exact.token_families import parity
from rlnotes.exact.token_surrogates import error
from rlnotes.notebook.exercise import Exercise


def _last_firing() -> float:
    """The last place of the slider where some surrogate could exceed Pinsker-marginal, at T = 4096."""
    found = -math.inf
    for place in range(-100, -9):
        kl = 10 ** (place / 10)
        if forms.surrogate_limit(4096 * kl) > forms.pinsker_marginal(4096, kl):
            found = place / 10
    return found


def _promise(logp_new: np.ndarray, logp_old: np.ndarray, reward: np.ndarray) -> float:
    """Response by response: its part of L, less its k3."""
    total = 0.0
    for new, old, gain in zip(logp_new, logp_old, reward, strict=True):
        ratios = [math.exp(a - b) for a, b in zip(new, old, strict=True)]
        total += gain * (sum(r - 1 for r in ratios) - sum(r - 1 - math.log(r) for r in ratios))
    return total / len(reward)


def _k3(log_ratio: np.ndarray) -> np.ndarray:
    return np.expm1(log_ratio) - log_ratio


def _kept(log_ratio: np.ndarray, own: np.ndarray, most: float, average: float) -> np.ndarray:
    """Response by response, token by token."""
    found = []
    for row, inside in zip(log_ratio, own, strict=True):
        tokens = [x for x, real in zip(row, inside, strict=True) if real]
        total = sum(math.exp(x) - 1 - x for x in tokens)
        found.append(max(abs(x) for x in tokens) <= most and total / len(tokens) <= average)
    return np.array(found)


def _mask_of(largest: np.ndarray, average: np.ndarray, most: float, limit: float) -> np.ndarray:
    return (largest <= most) & (average <= limit)


def _batch_size(rare: float, sure: float) -> int:
    """By trying one after another."""
    missed, n = 1.0, 0
    while 1 - missed < sure:
        missed *= 1 - rare
        n += 1
    return n


def _masked_promise(probs: np.ndarray, reward: np.ndarray, ratios: np.ndarray, kept: np.ndarray) -> float:
    """Answer by answer: surrogate less k3 where kept, the whole reward where not."""
    total = 0.0
    for p, gain, row, keep in zip(probs, reward, ratios, kept, strict=True):
        total += p * gain * (sum(r - 1 - (r - 1 - math.log(r)) for r in row) if keep else -1)
    return total


_BATCHES = tuple(
    tuple(np.array(numbers) for numbers in batch)
    for batch in (
        ([[-0.1, -2.0], [-1.0, -0.5]], [[-0.3, -1.0], [-1.0, -0.4]], [1.0, 0.5]),
        ([[-0.7, -0.2, -0.1], [-2.0, -1.0, -0.3]], [[-0.7, -0.4, -0.2], [-1.0, -1.5, -0.3]], [0.0, 1.0]),
    )
)
_ROWS = (
    (
        np.array(
            [
                [0.1, -0.2, 0.0],
                [0.9, 0.0, 0.0],
                [0.3, 9.0, 9.0],
                [-0.49, -0.45, 0.4],
                [0.48, 9.0, 9.0],
                [-0.6, 0.0, 0.0],  # too far down, with a mean of k3 below 0.05
            ]
        ),
        np.array([[1, 1, 1], [1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]]) > 0,
        0.5,
        0.1,
    ),
    (
        np.array([[0.0, -0.6], [1.9, 5.0], [-1.9, 5.0], [-0.9, -0.1]]),
        np.array([[1, 1], [1, 0], [1, 0], [1, 1]]) > 0,
        2.0,
        1.2,
    ),
)
_MODELS = (
    (
        np.array([0.4, 0.4, 0.1, 0.1]),
        np.array([1.0, 0.0, 1.0, 0.0]),
        np.array([[1.1, 1.1], [1.1, 0.9], [0.6, 0.2], [0.6, 1.8]]),
        np.array([True, True, False, False]),
    ),
    (
        np.array([0.5, 0.3, 0.2]),
        np.array([0.5, 1.0, 0.2]),
        np.array([[1.2], [0.9], [0.65]]),
        np.array([True, True, False]),
    ),
)

EXERCISES: dict[str, Exercise] = {
    "14.0": Exercise(
        cases=((),),
        oracle=_last_firing,
        misconceptions={
            "there the curve is below 0 already; go one step back": lambda: _last_firing() + 0.1,
            "that is 0.28 / T^2, and nearly right; asked is a place of the slider, to one decimal": lambda: -7.78,
            "that is the exact place, -7.77; asked is the last place of the slider below it, to one decimal": (
                lambda: -7.77
            ),
            "this is about where the bound falls below 1. L has to exceed the bound, and L is small there, too": (
                lambda: -5.6
            ),
            "this is where the mixed bound can fire; asked is the Pinsker-marginal one": lambda: -8.2,
            "this is the number of the source; at it the curve is far below 0": lambda: -4.0,
        },
        hints=(
            "Look at the right panel, and move the second slider to the left until the dot of Pinsker-m. is above 0.",
            "It is between -8 and -7.5.",
        ),
    ),
    "14.1": Exercise(
        cases=_BATCHES,
        oracle=_promise,
        misconceptions={
            "this is L alone: subtract k3, weighted with the reward": lambda n, o, r: np.mean(
                r * np.expm1(n - o).sum(1)
            ),
            "k3 must be weighted with the reward, too; without it this is L - D_seq, which promises less": (
                lambda n, o, r: np.mean(r * np.expm1(n - o).sum(1) - _k3(n - o).sum(1))
            ),
            "the ratio is new over old": lambda n, o, r: np.mean(r * (o - n).sum(1)),
            "sum over tokens, and take the mean over responses only": lambda n, o, r: np.mean(r[:, None] * (n - o)),
            "this is the mean of R (w - 1), the plain estimate of J(pi) - J(mu) itself: without bias, and with a heavy "
            "tail. Asked is the lower end, the mean of R log w": lambda n, o, r: np.mean(r * np.expm1((n - o).sum(1))),
            "this is E R w, an estimate of J(pi); asked is the lower end for the change, the mean of R log w": (
                lambda n, o, r: np.mean(r * np.exp((n - o).sum(1)))
            ),
            "this is L without the - 1 of each token, and without k3": lambda n, o, r: np.mean(
                r * np.exp(n - o).sum(1)
            ),
            "the reward is missing": lambda n, o, r: np.mean((n - o).sum(1)),
        },
        hints=(
            "Take the last form of Theorem 14.7: the mean of R log w.",
            "log w is the sum of the log-ratios of the tokens.",
            "np.mean(reward * (logp_new - logp_old).sum(1))",
        ),
    ),
    "14.2": Exercise(
        cases=_ROWS,
        oracle=_kept,
        misconceptions={
            "what stands after the end of a response is no token of it: leave it out": lambda x, own, m, a: _mask_of(
                np.abs(x).max(1), _k3(x).mean(1), m, a
            ),
            "the mean is over the tokens of the response, not over all places": lambda x, own, m, a: _mask_of(
                np.where(own, np.abs(x), 0).max(1), np.where(own, _k3(x), 0).mean(1), m, a
            ),
            "k3 is rho - 1 - log rho; this has the inverse ratio": lambda x, own, m, a: _mask_of(
                np.where(own, np.abs(x), 0).max(1), np.where(own, _k3(-x), 0).sum(1) / own.sum(1), m, a
            ),
            "a token may also leave downwards: the limit is on |log rho|, not on log rho": lambda x, own, m, a: (
                _mask_of(np.where(own, x, 0).max(1), np.where(own, _k3(x), 0).sum(1) / own.sum(1), m, a)
            ),
            "these are the responses that are dropped": lambda x, own, m, a: ~_kept(x, own, m, a),
            "both conditions must hold, not one of them": lambda x, own, m, a: (
                (np.where(own, np.abs(x), 0).max(1) <= m) | (np.where(own, _k3(x), 0).sum(1) / own.sum(1) <= a)
            ),
        },
        hints=(
            "Put 0 where own is False: np.where(own, log_ratio, 0). Both |0| and k3 of 0 are 0.",
            "x = np.where(own, log_ratio, 0); the mean of k3 is its sum over own.sum(1).",
            "(np.abs(x).max(1) <= most) & ((np.expm1(x) - x).sum(1) / own.sum(1) <= average)",
        ),
    ),
    "14.3": Exercise(
        cases=((0.0068, 0.95), (0.1, 0.5), (0.001, 0.99)),
        oracle=_batch_size,
        misconceptions={
            "after 1 / rare responses it has been seen with a chance of about 63 % only": lambda p, q: math.ceil(1 / p),
            "chances of seeing it do not add up; chances of missing it multiply": lambda p, q: math.ceil(q / p),
            "one more is needed: round up": lambda p, q: math.floor(math.log(1 - q) / math.log(1 - p)),
            "this is the size at which it is still missed with the chance `sure`": lambda p, q: math.ceil(
                math.log(q) / math.log(1 - p)
            ),
        },
        hints=(
            "A batch of n misses it with probability (1 - rare) ** n.",
            "Solve (1 - rare) ** n = 1 - sure, and round up.",
            "math.ceil(math.log(1 - sure) / math.log(1 - rare))",
        ),
    ),
    "14.4": Exercise(
        cases=((),),
        oracle=lambda: error(*parity(2, 0.3, 0.1)),
        misconceptions={
            "the size is right. L promises more than comes, so Error is negative": lambda: 0.02,
            "two of the four answers have reward 1": lambda: -0.01,
            "this is the bound 2 T (T - 1) D_TV^2; asked is Error": lambda: 0.04,
            "this is the change of J, not Error": lambda: 0.06,
            "this is L, not Error": lambda: 0.08,
        },
        hints=(
            "At T = 2 Error is the sum over answers of R times (pi - mu)(first token) times (pi - mu)(second token).",
            "Reward 1 have (0, 1) and (1, 0). For each the product is -0.1 times 0.1.",
        ),
    ),
    "14.5": Exercise(
        cases=_MODELS,
        oracle=_masked_promise,
        misconceptions={
            "a dropped answer can lose its whole reward: subtract that": lambda p, r, x, k: (
                p * r * np.where(k, np.log(x).sum(1), 0)
            ).sum(),
            "this counts dropped answers as if they were kept": lambda p, r, x, k: (p * r * np.log(x).sum(1)).sum(),
            "this is the masked surrogate less what is dropped; k3 is missing": lambda p, r, x, k: (
                p * r * np.where(k, (x - 1).sum(1), -1)
            ).sum(),
            "the mean is over all answers; do not divide by the chance of being kept": lambda p, r, x, k: (
                _masked_promise(p, r, x, k) / p[k].sum()
            ),
            "this is the mean of R (w - 1) where an answer is kept, less what is dropped. It is a lower bound, too, "
            "and a sharper one; but in a batch w has a heavy tail. Theorem 14.18 has log w": lambda p, r, x, k: (
                p * r * np.where(k, x.prod(1) - 1, -1)
            ).sum(),
            "this is the mean of R (w - 1) over all answers: the change of J itself, and no promise of a mask": (
                lambda p, r, x, k: (p * r * (x.prod(1) - 1)).sum()
            ),
            "this leaves dropped answers out, and has w - 1 where Theorem 14.18 has log w": lambda p, r, x, k: (
                p * r * k * (x.prod(1) - 1)
            ).sum(),
            "a dropped answer costs its reward, so -1 must be weighted with it": lambda p, r, x, k: (
                p * np.where(k, r * np.log(x).sum(1), -1)
            ).sum(),
            "kept and dropped have changed places": lambda p, r, x, k: _masked_promise(p, r, x, ~k),
            "this is the promise of the best mask; here the mask is given": lambda p, r, x, k: (
                p * r * np.maximum(np.log(x).sum(1), -1)
            ).sum(),
            "sum over the answers: `probs` is the mean's weight already": lambda p, r, x, k: (
                _masked_promise(p, r, x, k) / len(p)
            ),
            "the probability of each answer under mu is missing": lambda p, r, x, k: (
                r * np.where(k, np.log(x).sum(1), -1)
            ).sum(),
        },
        hints=(
            "Where an answer is kept, w - 1 is at least log w; where it is dropped, at least -1.",
            "So the promise is the mean of R times np.where(kept, log w, -1).",
            "(probs * reward * np.where(kept, np.log(ratios).sum(1), -1)).sum()",
        ),
    ),
    "14.6": Exercise(
        cases=((),),
        oracle=lambda: "adf",
        misconceptions={
            "(b): at T = 4096 and D_max = 1e-4 it cannot be, whatever the rewards": lambda: "abdf",
            "(c): a mask changes the data, not the policies": lambda: "acdf",
            "(e): a token with ratio 1 may stand in a context of any KL": lambda: "adef",
            "(g): the mean of k3 over a batch can miss a rare context that makes up most of D_seq": lambda: "adfg",
            "(f) is true: chances that are small at each token add up along the response": lambda: "ad",
            "(d) is true: the parity example attains the order": lambda: "af",
        },
        hints=(
            "Three are true.",
            "Ask of each whether it speaks of the policies or of the samples.",
        ),
    ),
}
