"""Exercises of chapter 07, GRPO."""

import itertools
import statistics

import numpy as np

from rlnotes.chapters.c07.penalties import PENALTIES
from rlnotes.notebook.exercise import Exercise

EPS = 1e-8


def _standardised(rewards: np.ndarray) -> list[float]:
    """By the standard library, one reward after another."""
    values = [float(reward) for reward in rewards]
    mean, variance = statistics.fmean(values), statistics.pvariance(values)
    return [(value - mean) / (variance + EPS) ** 0.5 for value in values]


def _surrogate_by_region(ratio: float, advantage: float, epsilon: float) -> float:
    """Region by region, from a drawing of the objective."""
    if advantage >= 0:
        return advantage * (1 + epsilon) if ratio > 1 + epsilon else advantage * ratio
    return advantage * (1 - epsilon) if ratio < 1 - epsilon else advantage * ratio


def _silent_regions() -> str:
    """By finite differences in the middle of each region."""
    places = {"a": (0.5, 1.0), "b": (1.0, 1.0), "c": (1.5, 1.0), "d": (0.5, -1.0), "e": (1.0, -1.0), "f": (1.5, -1.0)}

    def slope(r: float, a: float) -> float:
        return _surrogate_by_region(r + 0.01, a, 0.2) - _surrogate_by_region(r - 0.01, a, 0.2)

    return "".join(letter for letter, place in places.items() if abs(slope(*place)) < 1e-12)


def _mask_by_walking(tokens: np.ndarray, eos: int) -> list[list[bool]]:
    """Token by token, remembering whether the end has passed."""
    rows = []
    for row in tokens:
        ended, mask = False, []
        for token in row:
            mask.append(not ended)
            ended = ended or bool(token == eos)
        rows.append(mask)
    return rows


def _wasted_by_listing(p: float, group_size: int) -> float:
    """All 2^G groups, one after another."""
    total = 0.0
    for rewards in itertools.product((0, 1), repeat=group_size):
        if len(set(rewards)) == 1:
            total += float(np.prod([p if reward else 1 - p for reward in rewards]))
    return total


def _loss_by_walking(ratios: list[np.ndarray], advantages: np.ndarray, epsilon: float) -> float:
    """Response by response, token by token."""
    total = 0.0
    for response, advantage in zip(ratios, advantages, strict=True):
        terms = [_surrogate_by_region(float(ratio), float(advantage), epsilon) for ratio in response]
        total += statistics.fmean(terms) / len(ratios)
    return -total


def _loss_by_listing_tokens(lengths: np.ndarray, advantages: np.ndarray) -> float:
    """Every token, one after another, with the advantage of its response."""
    terms = [a for length, a in zip(lengths, advantages, strict=True) for _ in range(int(length))]
    return -statistics.fmean(float(term) for term in terms)


def _terms(ratios: list[np.ndarray], advantages: np.ndarray, epsilon: float) -> list[np.ndarray]:
    """What a learner who made exercise 07.3 has: the clipped terms of each response."""
    return [
        np.minimum(r * a, np.clip(r, 1 - epsilon, 1 + epsilon) * a) for r, a in zip(ratios, advantages, strict=True)
    ]


_ONES = ([np.ones(1), np.ones(3)], np.array([1.0, -1.0]), 0.2)
_MOVED = ([np.array([1.5, 0.9]), np.array([0.7, 1.3, 1.0, 1.1])], np.array([1.5, -0.5]), 0.1)
_TOKENS = np.array([[5, 6, 0, 0, 0], [5, 6, 7, 8, 9], [0, 5, 0, 6, 6], [5, 6, 7, 8, 0]])

EXERCISES: dict[str, Exercise] = {
    "07.0": Exercise(
        cases=((),),
        oracle=_silent_regions,
        misconceptions={
            "the clip alone would close all four regions outside the band; the minimum opens two of them again": (
                lambda: "acdf"
            ),
            "f is a bad token that has become more likely: the minimum is the unclipped product, and pushes it back": (
                lambda: "cf"
            ),
            "a is a good token that has become less likely: the minimum is the unclipped product, and helps it up": (
                lambda: "ad"
            ),
            "it is the other way round: these two have moved the wrong way, so they are pushed back": lambda: "af",
            "inside the band nothing is clipped": lambda: "be",
            "c is one of them; there is a second": lambda: "c",
            "d is one of them; there is a second": lambda: "d",
        },
        hints=(
            "Set A to 1 and move r through all three bands; watch the right panel. Then set A to -1.",
            "A token is held when it has already moved far in the direction that A asks for.",
            "For A > 0 that is a large ratio, for A < 0 a small one.",
        ),
    ),
    "07.1": Exercise(
        cases=(
            (np.array([1.0, 0.0, 0.0, 0.0]),),
            (np.array([2.0, 5.0, 11.0]),),
            (np.array([1.0, 1.0, 1.0, 1.0]),),
            (np.array([0.0, 0.0002, 0.0]),),
        ),
        oracle=_standardised,
        misconceptions={
            "you divide by the sample standard deviation (n - 1); eq. (90) has 1/G": lambda r: (
                (r - r.mean()) / np.sqrt(r.var(ddof=1) + EPS)
            ),
            "the tiny number under the root is not 1e-8": lambda r: (r - r.mean()) / np.sqrt(r.var() + 1e-6),
            "the tiny number stands outside the root; eq. (90) has it inside": lambda r: (
                (r - r.mean()) / (r.std() + EPS)
            ),
            "the group's mean is not taken away": lambda r: r / np.sqrt(r.var() + EPS),
            "you divide by the variance; take its root": lambda r: (r - r.mean()) / (r.var() + EPS),
            "it is not divided by the standard deviation (that is Dr. GRPO, the next chapter)": lambda r: r - r.mean(),
            "a group of equal rewards gives 0 / 0: add a small number under the root": lambda r: np.where(
                r.std() > 0, (r - r.mean()) / np.where(r.std() > 0, r.std(), 1.0), np.nan
            ),
        },
        hints=(
            "First the mean of the group, then how far each reward is from it.",
            "rewards.var() is the population variance, with 1/G.",
            "(rewards - rewards.mean()) / np.sqrt(rewards.var() + 1e-8)",
        ),
    ),
    "07.2": Exercise(
        cases=((),),
        oracle=lambda: "b",
        misconceptions={
            "the loss of advantages that sum to 0 is near 0 at every first update, learning or not": lambda: "a",
            "the entropy falls also in a model that becomes sure of wrong answers": lambda: "c",
        },
        hints=("Which of the three is what we want more of?",),
    ),
    "07.3": Exercise(
        cases=tuple((r, a, e) for r in (0.5, 0.9, 1.0, 1.1, 1.5) for a in (2.0, -2.0) for e in (0.2, 0.05)),
        oracle=_surrogate_by_region,
        misconceptions={
            "only the clipped term is there; without the min, a bad move far outside has no gradient to come back": (
                lambda r, a, e: np.clip(r, 1 - e, 1 + e) * a
            ),
            "you take the larger of the two terms; the objective takes the smaller": (
                lambda r, a, e: max(r * a, np.clip(r, 1 - e, 1 + e) * a)
            ),
            "the minimum is taken over the ratios before the advantage is multiplied; for A < 0 that is the larger": (
                lambda r, a, e: min(r, np.clip(r, 1 - e, 1 + e)) * a
            ),
            "nothing is clipped": lambda r, a, e: r * a,
            "this is the loss; the surrogate is its negative, to be maximised": (
                lambda r, a, e: -min(r * a, np.clip(r, 1 - e, 1 + e) * a)
            ),
        },
        hints=(
            "There are two terms: ratio times advantage, and clipped ratio times advantage.",
            "Take the smaller of the two products, whatever the sign of the advantage.",
            "np.minimum(ratio * advantage, np.clip(ratio, 1 - epsilon, 1 + epsilon) * advantage)",
        ),
    ),
    "07.4": Exercise(
        cases=(_ONES, _MOVED),
        oracle=_loss_by_walking,
        misconceptions={
            "this is the objective, to be maximised; the loss is its negative": lambda r, a, e: np.mean(
                [t.mean() for t in _terms(r, a, e)]
            ),
            "this is the mean over all tokens; eq. (97) takes the mean of each response first": lambda r, a, e: (
                -np.concatenate(_terms(r, a, e)).mean()
            ),
            "the terms of a response are added up; eq. (97) divides them by its length": lambda r, a, e: (
                -np.mean([t.sum() for t in _terms(r, a, e)])
            ),
            "the responses are added up; eq. (97) divides by their number": lambda r, a, e: (
                -np.sum([t.mean() for t in _terms(r, a, e)])
            ),
            "the mean ratio of each response is clipped; the clip is for each token": lambda r, a, e: (
                -np.mean([min(q.mean() * b, np.clip(q.mean(), 1 - e, 1 + e) * b) for q, b in zip(r, a, strict=True)])
            ),
            "only the clipped term is there: take the smaller of it and the unclipped one": lambda r, a, e: (
                -np.mean([(np.clip(q, 1 - e, 1 + e) * b).mean() for q, b in zip(r, a, strict=True)])
            ),
            "the minimum is taken before the advantage is multiplied": lambda r, a, e: (
                -np.mean([(np.minimum(q, np.clip(q, 1 - e, 1 + e)) * b).mean() for q, b in zip(r, a, strict=True)])
            ),
            "nothing is clipped": lambda r, a, e: -np.mean([(q * b).mean() for q, b in zip(r, a, strict=True)]),
        },
        hints=(
            "Take the terms of exercise 07.3 for each token, with the advantage of its response.",
            "First the mean over the tokens of each response, then the mean over the responses.",
            "-np.mean([clipped_surrogate(r, a, epsilon).mean() for r, a in zip(ratios, advantages)])",
        ),
    ),
    "07.5": Exercise(
        cases=((_TOKENS, 0), (_TOKENS, 6)),
        oracle=_mask_by_walking,
        misconceptions={
            "the EOS itself is missing: a model that is not trained on it never learns to stop": (
                lambda t, eos: np.cumsum(t == eos, axis=1) == 0
            ),
            "this keeps what stands after the end": lambda t, eos: np.ones(t.shape),
            "this looks at each token alone, so it drops every EOS and keeps what stands after the first": (
                lambda t, eos: t != eos
            ),
            "one more EOS is let through: only the first belongs to the response": (
                lambda t, eos: np.cumsum(t == eos, axis=1) <= 1
            ),
            "argmax of a row without EOS is 0, so the row without an end keeps only its first token": (
                lambda t, eos: np.arange(t.shape[1]) <= np.argmax(t == eos, axis=1)[:, None]
            ),
        },
        hints=(
            "A token belongs to the response if no EOS stands before it.",
            "np.cumsum(tokens == eos, axis=1) counts the EOS up to and including each place.",
            "is_eos = (tokens == eos).astype(int); np.cumsum(is_eos, axis=1) - is_eos == 0",
        ),
    ),
    "07.6": Exercise(
        cases=((0.5, 2), (0.35, 4), (0.9, 8), (0.1, 3)),
        oracle=_wasted_by_listing,
        misconceptions={
            "this counts only the groups in which all are right": lambda p, g: p**g,
            "this counts only the groups in which all are wrong": lambda p, g: (1 - p) ** g,
            "this is the share of groups that do teach something": lambda p, g: 1 - p**g - (1 - p) ** g,
            "all right and all wrong exclude each other: add their probabilities": lambda p, g: p**g * (1 - p) ** g,
        },
        hints=(
            "Two kinds of group teach nothing: all right, and all wrong.",
            "The responses are independent, so all G are right with probability p ** G.",
            "p**group_size + (1 - p) ** group_size",
        ),
    ),
    "07.7": Exercise(
        cases=(
            (np.array([1, 3]), np.array([1.0, -1.0])),
            (np.array([4, 9, 5, 2]), np.array([1.7, -0.6, -0.6, -0.5])),
            (np.array([3, 3, 3]), np.array([1.0, -0.5, -0.5])),
        ),
        oracle=_loss_by_listing_tokens,
        misconceptions={
            "this is the objective, to be maximised; the loss is its negative": lambda t, a: (t * a).sum() / t.sum(),
            "this is the mean per response, GRPO's: it is 0 whatever the lengths": lambda t, a: -a.mean(),
            "the sum is divided by the number of responses (response_sum), not by that of tokens": lambda t, a: (
                -(t * a).sum() / len(t)
            ),
            "the sum is not divided by the number of tokens": lambda t, a: -(t * a).sum(),
            "each response is divided by its length: a token of a long response weighs as much as any other": (
                lambda t, a: -(a / t).sum() / len(t)
            ),
        },
        hints=(
            "At ratio 1 the surrogate of a token is the advantage of its response.",
            "A response of T tokens brings its advantage T times.",
            "-(lengths * advantages).sum() / lengths.sum()",
        ),
    ),
}
EXERCISES |= PENALTIES
