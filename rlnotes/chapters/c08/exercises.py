"""Exercises of chapter 08, Dr. GRPO and DAPO."""

import itertools
import statistics
from fractions import Fraction

import numpy as np

from rlnotes.notebook.exercise import Exercise

T_MAX = 10


def _weights_by_walking(lengths: np.ndarray, longest: int) -> list[list[float]]:
    """The share of one token of each response, by counting tokens one after another."""
    owner = [i for i, length in enumerate(lengths) for _ in range(int(length))]
    responses = len(lengths)
    return [
        [float(Fraction(1, responses) / owner.count(i)) for i in range(responses)],
        [float(Fraction(1, responses) / longest) for _ in range(responses)],
        [float(Fraction(1, len(owner))) for _ in range(responses)],
    ]


def _three(response, constant, token) -> np.ndarray:
    """Rows for three denominators, numbers spread over the responses."""
    return np.stack(np.broadcast_arrays(*map(np.asarray, (response, constant, token))))


def _mean_of_all_tokens(parts: list[np.ndarray]) -> float:
    """Every token's loss in one list."""
    return statistics.fmean(float(loss) for part in parts for loss in part)


def _push_by_listing(p: float, short: int, long: int, size: int) -> float:
    """All groups of four kinds of response; going on has probability 1/2, and its score is 1/2 or -1/2."""
    kinds = [(1, short, 0.0), (1, long, 0.0), (0, short, -0.5), (0, long, 0.5)]  # reward, length, score after wrong
    chance = [p / 2, p / 2, (1 - p) / 2, (1 - p) / 2]
    total = 0.0
    for group in itertools.product(range(4), repeat=size):
        mean = statistics.fmean(kinds[i][0] for i in group)
        estimate = statistics.fmean((kinds[i][0] - mean) / kinds[i][1] * kinds[i][2] for i in group)
        total += float(np.prod([chance[i] for i in group])) * estimate
    return total


def _kept_reward_by_listing(p: float, size: int) -> float:
    """All 2^G groups; those whose rewards are all equal are left out."""
    reward = kept = 0.0
    for group in itertools.product((0, 1), repeat=size):
        if len(set(group)) == 2:
            chance = float(np.prod([p if right else 1 - p for right in group]))
            kept += chance
            reward += chance * statistics.fmean(group)
    return reward / kept


def _rollouts_by_walking(mu: float, goal: float, high: float) -> int:
    """One rollout after another."""
    count = 0
    while mu < goal * (1 - 1e-12):
        mu *= 1 + high
        count += 1
    return count


EXERCISES: dict[str, Exercise] = {
    "08.1": Exercise(
        cases=((np.array([2, 5]), T_MAX), (np.array([1, 4, 7, 4]), T_MAX)),
        oracle=_weights_by_walking,
        misconceptions={
            "the number of responses is missing in the first two: each is a mean over responses, too": (
                lambda t, m: _three(1 / t, 1 / m, 1 / t.sum())
            ),
            "the number of responses is missing in the second: the sum over responses is not yet their mean": (
                lambda t, m: _three(1 / t / len(t), 1 / m, 1 / t.sum())
            ),
            "T_max is the longest response allowed, not the longest one that happened to be in the batch": (
                lambda t, m: _three(1 / t / len(t), 1 / t.max() / len(t), 1 / t.sum())
            ),
            "the token mean divides by the tokens of the batch alone, and not by the responses once more": (
                lambda t, m: _three(1 / t / len(t), 1 / m / len(t), 1 / t.sum() / len(t))
            ),
            "the token mean has one denominator for all tokens: the number of tokens in the batch": (
                lambda t, m: _three(1 / t / len(t), 1 / m / len(t), t / t.sum())
            ),
        },
        hints=(
            "What stands before the term of one token, when all sums are written out?",
            "Mean per response: 1 / (N T_i). Constant: 1 / (N T_max). Token mean: 1 / (T_1 + ... + T_N).",
            "With n = len(lengths): [1 / (n * lengths), np.full(n, 1 / (n * t_max)), np.full(n, 1 / lengths.sum())]",
        ),
    ),
    "08.2": Exercise(
        cases=(
            ([np.full(10, 2.0), np.full(30, 0.5)],),
            ([np.array([1.0, -2.0]), np.array([0.5]), np.array([3.0, 1.0, 1.0, 4.0])],),
        ),
        oracle=_mean_of_all_tokens,
        misconceptions={
            "this is the mean of the parts' means: tokens of a small part weigh more": (
                lambda parts: np.mean([part.mean() for part in parts])
            ),
            "the sum over all tokens is divided by their number, and then once more by the number of parts": (
                lambda parts: sum(part.sum() for part in parts) / sum(map(len, parts)) / len(parts)
            ),
            "the parts are added up, and not divided by the number of tokens": lambda parts: sum(
                p.sum() for p in parts
            ),
            "each part is divided by its own tokens, and the results are added up": (
                lambda parts: sum(part.mean() for part in parts)
            ),
        },
        hints=(
            "Gradients of the parts are added up. So each part's loss must be its share of the whole loss.",
            "Count the tokens of all parts first.",
            "sum(part.sum() for part in parts) / sum(len(part) for part in parts)",
        ),
    ),
    "08.3": Exercise(
        cases=((0.25, 2, 8, 4), (0.5, 2, 8, 2), (0.7, 1, 3, 3)),
        oracle=_push_by_listing,
        misconceptions={
            "the sign: stopping is punished with 1/short, going on with 1/long, which is less, so going on gains": (
                lambda p, s, t, g: -(g - 1) / g * p * (1 - p) / 4 * (1 / s - 1 / t)
            ),
            "a response is part of its own baseline: the factor (G - 1) / G is missing": (
                lambda p, s, t, g: p * (1 - p) / 4 * (1 / s - 1 / t)
            ),
            "only wrong responses pass this place, and they are a share 1 - p": (
                lambda p, s, t, g: (g - 1) / g * p / 4 * (1 / s - 1 / t)
            ),
            "the advantage of a wrong response is 0 - p in the mean, not -1": (
                lambda p, s, t, g: (g - 1) / g * (1 - p) / 4 * (1 / s - 1 / t)
            ),
            "going on and stopping each have probability 1/2, and a score of 1/2: that is 1/4, not 1/2": (
                lambda p, s, t, g: (g - 1) / g * p * (1 - p) / 2 * (1 / s - 1 / t)
            ),
        },
        hints=(
            "Use Theorem 8.3: the mean is (G - 1)/G times the mean of w (R - p) times the score.",
            "Wrong responses have R - p = -p. Going on: score 1/2, weight 1/long. Stopping: -1/2 and 1/short.",
            "(G - 1) / G * (1 - p) * p / 4 * (1 / short - 1 / long)",
        ),
    ),
    "08.4": Exercise(
        cases=((0.9, 4), (0.5, 8), (0.05, 8)),
        oracle=_kept_reward_by_listing,
        misconceptions={
            "this is the mean reward of all groups; of those with all right, and all wrong, none is kept": (
                lambda p, g: p
            ),
            "the sum over kept groups must be divided by the chance that a group is kept": lambda p, g: p - p**g,
            "groups with all responses right bring reward; take it away before you divide": (
                lambda p, g: p / (1 - p**g - (1 - p) ** g)
            ),
            "groups with all responses wrong are dropped, too": lambda p, g: (p - p**g) / (1 - p**g),
        },
        hints=(
            "All groups together have the mean reward p. Which part of it do the dropped groups bring?",
            "All right: probability p**G, reward 1. All wrong: probability (1 - p)**G, reward 0.",
            "(p - p**G) / (1 - p**G - (1 - p) ** G)",
        ),
    ),
    "08.5": Exercise(
        # the last two reach their goal exactly, and in numbers that a computer does not round
        cases=((0.01, 0.5, 0.2), (0.01, 0.5, 0.28), (0.3, 0.5, 0.2), (0.125, 0.5, 1.0), (0.25, 0.25, 0.2)),
        oracle=_rollouts_by_walking,
        misconceptions={
            "count whole rollouts: round up": lambda mu, goal, high: np.log(goal / mu) / np.log(1 + high),
            "the last rollout is needed, too: round up, not down": lambda mu, goal, high: np.floor(
                np.log(goal / mu) / np.log(1 + high)
            ),
            "a goal that is reached exactly needs no rollout more: round up, which is not the same as down plus 1": (
                lambda mu, goal, high: np.floor(np.log(goal / mu) / np.log(1 + high)) + 1
            ),
            "each rollout starts from the new probability, so the room grows with it": lambda mu, goal, high: np.ceil(
                (goal - mu) / (mu * high) - 1e-9
            ),
        },
        hints=(
            "After one rollout it is mu (1 + high), after two mu (1 + high)**2.",
            "The smallest n with mu (1 + high)**n >= goal; a loop is good enough.",
            "int(np.ceil(np.log(goal / mu) / np.log(1 + high) - 1e-9))",
        ),
    ),
    "08.6": Exercise(
        cases=((),),
        oracle=lambda: "bde",
        misconceptions={
            "(a): at ratio 1 the loss of the constant depends on the lengths; the mean per response alone reads 0": (
                lambda: "abde"
            ),
            "(c): the mean per response has no expected reward behind it, and a wrong response gains by growing": (
                lambda: "bcde"
            ),
            "(b): within one batch the two differ by one factor for all tokens": lambda: "de",
            "(d): a filtered response counts as if it were as good as the average": lambda: "be",
            "(e): a group of equal rewards has the estimate 0, so leaving it out changes the scale only": lambda: "bd",
            "(f): the upper clip cannot close at a probability above 1 / (1 + high)": lambda: "bdef",
        },
        hints=(
            "Theorem 8.3, Fact 8.4 and Fact 8.8 settle (a) to (e).",
            "For (f): how large can the ratio of a token with probability 0.9 become?",
            "Three are true: one on the token mean, one on filtering, one on dynamic sampling.",
        ),
    ),
}
