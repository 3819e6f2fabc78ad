"""Exercises of chapter 18, from our trainer to TRL."""

import math

import numpy as np

from rlnotes.notebook.exercise import Exercise


def _weights(tokens: list[int]) -> np.ndarray:
    """By a derivative: raise the loss of one token of each part by 1, and see what both means make of it."""
    weights = []
    for j in range(len(tokens)):
        parts = [np.zeros(n) for n in tokens]
        parts[j][0] = 1.0
        of_parts = np.mean([part.mean() for part in parts])
        weights.append(of_parts / np.concatenate(parts).mean())
    return np.array(weights)


def _behavior(sampled: np.ndarray, proximal: np.ndarray) -> np.ndarray:
    """Token by token."""
    rows = zip(sampled, proximal, strict=True)
    return np.array([[old if math.isnan(new) else new for new, old in zip(*row, strict=True)] for row in rows])


def _longest(kl: float, sum_of: bool = False) -> int:
    """By trying one length after the other."""
    length = 1
    while (4 / 3 * (length + 1) ** 1.5 if not sum_of else length + 1) * kl <= 1 + 1e-12:
        length += 1
    return length


def _rare(length: int, kept: float) -> float:
    """By bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) ** length > kept else (low, middle)
    return low


def _largest_tail(penalty: str = "D_seq") -> float:
    """The last step of the slider at which the penalty is below 1, at T = 4096."""
    length, last = 4096, math.nan
    for step in range(36):
        spread = 10 ** (-3 + step / 10) / 3.2905267314919255
        kl, tv = spread**2 / 2, math.erf(spread / math.sqrt(8))
        of = {"D_seq": length * kl, "001": 2 / 3 * length**1.5 * kl, "004": length * (length - 1) * tv**2}
        last = round(-3 + step / 10, 1) if of[penalty] < 1 else last
    return last


_PARTS = ([30, 10], [5, 5, 5], [100, 20, 60, 20], [1, 2])
_NAN = math.nan
_LOGP = (
    (np.array([[-0.5, _NAN, -2.0]]), np.array([[-0.6, -1.0, -2.5]])),
    (np.array([[_NAN, -0.1], [-3.0, -0.2]]), np.array([[-0.4, -0.15], [-2.0, _NAN]])),
    (np.array([[-1.0, -2.0]]), np.array([[-1.1, -2.2]])),
)

EXERCISES: dict[str, Exercise] = {
    "18.0": Exercise(
        cases=((),),
        oracle=_largest_tail,
        misconceptions={
            "there 004's penalty comes below 1, and one of the four is smaller": lambda: _largest_tail("004"),
            "there 001's penalty comes below 1, and one of the four is smaller": lambda: _largest_tail("001"),
            "there D_seq is 1.19: one step less": lambda: -1.1,
        },
        hints=(
            "Which of the four curves is lowest? Move the tail until only that one is below 0 at T = 4096.",
            "The sentence under the sliders names what is not below 1. Go up from -1.5, one step at a time.",
            "At -1.3 D_seq is 0.475, at -1.1 it is 1.19.",
        ),
    ),
    "18.1": Exercise(
        cases=tuple((tokens,) for tokens in _PARTS),
        oracle=_weights,
        misconceptions={
            "this is the share of the part; asked is what one of its tokens counts, against 1 in the token mean": (
                lambda tokens: np.array(tokens) / sum(tokens)
            ),
            "upside down: in a part with few tokens each of them counts more": lambda tokens: (
                np.array(tokens) * len(tokens) / sum(tokens)
            ),
            "this is the weight in the mean of means; divide by 1/N, that in the token mean": lambda tokens: (
                1 / (len(tokens) * np.array(tokens, dtype=float))
            ),
            "the mean over parts divides by their number": lambda tokens: sum(tokens) / np.array(tokens, dtype=float),
        },
        hints=(
            "In the mean of means a token of part j counts 1 / (K N_j). What does it count in the token mean?",
            "tokens = np.array(tokens); tokens.sum() / (len(tokens) * tokens)",
        ),
    ),
    "18.2": Exercise(
        cases=_LOGP,
        oracle=_behavior,
        misconceptions={
            "these are the trainer's numbers alone; the mismatch is gone with them": lambda sampled, proximal: proximal,
            "this keeps the NaN, and the loss is NaN with them": lambda sampled, proximal: sampled,
            "0 is the logarithm of 1, and the sampler was not certain": lambda sampled, proximal: np.nan_to_num(
                sampled
            ),
            "one NaN is no reason to throw the whole batch's record away": lambda sampled, proximal: (
                proximal if np.isnan(sampled).any() else sampled
            ),
        },
        hints=(
            "Where is a number missing? np.isnan says.",
            "np.where(np.isnan(sampled), proximal, sampled)",
        ),
    ),
    "18.3": Exercise(
        cases=((1e-4,), (1e-3,), (0.02,), (5e-6,)),
        oracle=_longest,
        misconceptions={
            "that is for D_seq, T times the KL; Theorem 14.5 has 4/3 T to the power 1.5": lambda kl: _longest(kl, True),
            "rounded up: at this length the penalty is above 1": lambda kl: math.ceil((0.75 / kl) ** (2 / 3)),
            "a length is a whole number: round down": lambda kl: (0.75 / kl) ** (2 / 3),
            "the power of T is 1.5, not 2": lambda kl: math.floor((0.75 / kl) ** 0.5),
            "3/4, not 4/3, divides by the KL": lambda kl: math.floor((4 / 3 / kl) ** (2 / 3)),
        },
        hints=(
            "Solve 4/3 T^1.5 D = 1 for T.",
            "T = (3 / (4 D)) ** (2 / 3), rounded down.",
        ),
    ),
    "18.4": Exercise(
        cases=((1, 0.5), (1000, 0.5), (4096, 0.9), (16, 0.1)),
        oracle=_rare,
        misconceptions={
            "this is a chance to be kept; asked is the rate": lambda length, kept: kept**length,
            "this is the share of tokens that must be in; asked is of those that are out": lambda length, kept: (
                kept ** (1 / length)
            ),
            "one token out is enough to drop the response, so all T must be in": lambda length, kept: 1 - kept,
            "nearly, for long responses: a union bound, and the answer is to be exact": lambda length, kept: (
                (1 - kept) / length
            ),
            "the share kept and the share dropped are exchanged": lambda length, kept: 1 - (1 - kept) ** (1 / length),
        },
        hints=(
            "A response is kept if none of its tokens is out: (1 - q) ** T.",
            "Solve (1 - q) ** length = kept for q.",
            "q = 1 - kept ** (1 / length)",
        ),
        tolerance=1e-9,
    ),
    "18.5": Exercise(
        cases=((),),
        oracle=lambda: "bdef",
        misconceptions={
            "(a): the mean of |pi - mu| can be a hundred times smaller than the TV": lambda: "abdef",
            "(c): a bound above 1 is silent; runs improve where no bound fires": lambda: "bcdef",
            "(g): a mask decides which tokens push; that the policy stays close it does not promise": lambda: "bdefg",
            "(b) is true: a response is divided by its own tokens, whatever its part": lambda: "def",
            "(e) is true: where pi_k is the anchor, the mask does not see how far pi_k is from mu": lambda: "bdf",
            "(f) is true: the chance that no token is out falls with the length": lambda: "bde",
        },
        hints=("Four are true.", "Fact 18.2 decides (a), Fact 18.1 (b) and (d), Fact 18.3 (f)."),
    ),
}
