"""Exercises of chapter 08, Dr. GRPO and DAPO."""

import itertools
import statistics
from fractions import Fraction
from typing import Any

import numpy as np

from rlnotes.notebook.exercise import Exercise


def _how_many_are_shorter() -> str:
    """By the stored pairs of runs: responses are shorter in the end with the constant in few, in some, in most."""
    from rlnotes.chapters.c08.readings import shorter  # only here: it reads a table

    count = sum(shorter("constant"))
    return "a" if count <= 3 else "b" if count <= 7 else "c"


def _the_log_that_grew() -> tuple[str, float]:
    """By the column that the exercise leaves out."""
    from rlnotes.chapters.c08.readings import LOGS, RAMBLE_STEPS, load_table  # only here: it reads a table

    rows = load_table("08_ramble").rows
    wrong = {name: float(rows[method][seed]["length_wrong"][RAMBLE_STEPS]) for name, (method, seed) in LOGS.items()}
    longest = max(wrong, key=lambda name: wrong[name])
    return longest, wrong[longest]


Part = tuple[list[list[float]], list[int]]  # losses of tokens, and the lengths of their responses


def _as_tensors(parts: list[Part]) -> list[tuple[Any, Any]]:
    """Losses (n, T) that ask for gradients, and masks (n, T) of as many ones as the response has tokens."""
    import torch  # only here: the other exercises work without it

    made = []
    for losses, lengths in parts:
        values = torch.tensor(losses, dtype=torch.float64, requires_grad=True)
        made.append((values, (torch.arange(values.shape[1]) < torch.tensor(lengths)[:, None]).double()))
    return made


def _value_and_shares(batch_loss, parts: list[Part]) -> np.ndarray:
    """The loss of the batch, and the share of each token in it, by differentiation."""
    import torch

    made = _as_tensors(parts)
    loss = batch_loss(made)
    losses = [each for each, _ in made]
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        shares = torch.autograd.grad(loss, losses, allow_unused=True, materialize_grads=True)
    else:  # nothing would be learned
        shares = [torch.zeros_like(each) for each in losses]
    return np.concatenate([[torch.as_tensor(loss).item()], *[share.flatten().numpy() for share in shares]])


def _by_one_list(parts: list[Part]) -> np.ndarray:
    """The same by writing all tokens in one list."""
    count = sum(sum(lengths) for _, lengths in parts)
    total, shares = Fraction(0), []
    for losses, lengths in parts:
        for row, length in zip(losses, lengths, strict=True):
            total += sum(Fraction(loss) for loss in row[:length])
            shares += [1 / count] * length + [0.0] * (len(row) - length)
    return np.array([float(total / count), *shares])


def _mean_of_means(parts):
    return sum((losses * mask).sum() / mask.sum() for losses, mask in parts) / len(parts)


def _sum_of_means(parts):
    return sum((losses * mask).sum() / mask.sum() for losses, mask in parts)


def _by_padding(parts):
    return sum((losses * mask).sum() for losses, mask in parts) / sum(mask.numel() for _, mask in parts)


def _once_more(parts):
    return sum((losses * mask).sum() for losses, mask in parts) / sum(mask.sum() for _, mask in parts) / len(parts)


def _by_responses(parts):
    return sum((losses * mask).sum() for losses, mask in parts) / sum(len(mask) for _, mask in parts)


def _response_means(parts):
    means = [(losses * mask).sum(1) / mask.sum(1) for losses, mask in parts]
    return sum(mean.sum() for mean in means) / sum(len(mean) for mean in means)


def _no_mask(parts):
    return sum(losses.sum() for losses, _ in parts) / sum(mask.sum() for _, mask in parts)


def _no_division(parts):
    return sum((losses * mask).sum() for losses, mask in parts)


def _cut_off(parts):
    return sum((losses * mask).sum().detach() for losses, mask in parts) / sum(mask.sum() for _, mask in parts)


def _last_part(parts):
    losses, mask = parts[-1]
    return (losses * mask).sum() / mask.sum()


def _last_of_all(parts):
    losses, mask = parts[-1]
    return (losses * mask).sum() / sum(mask.sum() for _, mask in parts)


def _part_sizes(parts):
    responses = sum(len(mask) for _, mask in parts)
    return sum(len(mask) / responses * (losses * mask).sum() / mask.sum() for losses, mask in parts)


PARTS: dict[str, list[Part]] = {
    "two parts, 10 and 30 tokens": [([[2.0] * 10], [10]), ([[0.5] * 30], [30])],
    "equal parts": [([[1.0, 2.0]], [2]), ([[3.0, 5.0]], [2])],
    "one part": [([[1.0, 4.0, 7.0], [2.0, 9.0, 9.0]], [3, 1])],
    "padding with numbers in it": [([[1.0, 99.0, 99.0], [2.0, 4.0, 99.0]], [1, 2]), ([[3.0, 5.0]], [2])],
    "three parts": [([[1.0, 3.0]], [2]), ([[2.0, 9.0], [4.0, 6.0]], [1, 2]), ([[8.0, 1.0, 1.0, 2.0]], [4])],
}


def _push_by_listing(p: float, short: int, long: int, size: int, on: float = 0.5) -> float:
    """All groups of four kinds of response. Going on has probability ``on``: scores of 1 - on, and -on for stopping."""
    kinds = [(1, short, 0.0), (1, long, 0.0), (0, short, -on), (0, long, 1 - on)]  # reward, length, score after wrong
    chance = [p * (1 - on), p * on, (1 - p) * (1 - on), (1 - p) * on]
    total = 0.0
    for group in itertools.product(range(4), repeat=size):
        mean = statistics.fmean(kinds[i][0] for i in group)
        estimate = statistics.fmean((kinds[i][0] - mean) / kinds[i][1] * kinds[i][2] for i in group)
        total += float(np.prod([chance[i] for i in group])) * estimate
    return total


P, SHORT, LONG, GROUP = 0.2, 4, 12, 4  # of exercise 08.4


def _rollouts_by_walking(mu: Fraction, goal: Fraction, high: Fraction) -> int:
    """One rollout after another, in fractions, which do not round."""
    count = 0
    while mu < goal:
        mu *= 1 + high
        count += 1
    return count


def _both_clips() -> tuple[int, int]:
    mu, goal = Fraction(2, 100), Fraction(1, 2)
    return _rollouts_by_walking(mu, goal, Fraction(1, 5)), _rollouts_by_walking(mu, goal, Fraction(4))


EXERCISES: dict[str, Exercise] = {
    "08.1": Exercise(
        cases=((),),
        oracle=_how_many_are_shorter,
        misconceptions={
            "the response mean does make wrong responses longer. But it makes right ones shorter, and in the end three "
            "in four are right. Take the mean of both, by their shares, from the table": lambda: "c",
            "in the table the mean of all is about 5 tokens with the response mean, and nearly 8 "
            "with the constant": lambda: "b",
        },
        hints=("Accuracy times the length of right ones, and the rest times that of wrong ones: what is the mean?",),
    ),
    "08.2": Exercise(
        cases=((),),
        oracle=_the_log_that_grew,
        misconceptions={
            "A has the longest responses, and its right ones are as long as all are: so the wrong ones are, too. Look "
            "for a run in which the two columns part": ("A", ...),
            "in C the right responses are a little shorter than all of them. In another run they are far shorter": (
                "C",
                ...,
            ),
            "the run is right. That is the mean length of all; the wrong ones are a share 1 - reward of it": (
                "B",
                5.34,
            ),
            "the run is right. That is the mean length of the right ones": ("B", 2.41),
            "the run is right. But 14.5 is the table of the loop above, another run: solve for this one": ("B", 14.5),
            "the run is right. Length is a mean over right and wrong responses, by their shares: reward times the "
            "right ones, and 1 - reward times the wrong ones. Solve for these": ("B", ...),
            "the run in quotes first, then the number": (..., "ABC"),
        },
        hints=("The mean length of all is a mean of two means, by the shares of right and wrong responses.",),
        tolerance=0.03,  # half a token in all: the printed columns are rounded, and 1 - reward divides
    ),
    "08.3": Exercise(
        cases=tuple((parts,) for parts in PARTS.values()),
        probes=tuple(PARTS),
        oracle=_by_one_list,
        measure=_value_and_shares,
        given=_mean_of_means,
        misconceptions={
            "each part is divided by its own tokens, and the results are added up: tokens of a small part still have "
            "the larger share": _sum_of_means,
            "padding is counted: the number of tokens is the sum of the mask, not the size of the array": _by_padding,
            "the tokens of the whole batch are the whole denominator. Do not divide by the number of parts once more": (
                _once_more
            ),
            "that is a sum over responses by their number. The token mean divides by tokens": _by_responses,
            "that is the response mean: a token of a long response has a smaller share": _response_means,
            "the mask is missing in the sum: padding has losses in it, too": _no_mask,
            "the value is right, but no token has a share: .item(), float() or .detach() on the losses has cut off the "
            "gradient": _cut_off,
            "nothing is divided: the token mean has the number of tokens below it": _no_division,
            "only the last part has a share: its loss has taken the place of the others'. Add them up": _last_part,
            "only the last part has a share: its sum has taken the place of the others'. Add them up": _last_of_all,
            "parts by their share of the responses: right only if all responses are equally long. Count tokens": (
                _part_sizes
            ),
        },
        hints=(
            "What must stand below every token, in whichever part it is? (Of the numbers above, the first is the loss, "
            "the others are the shares of the tokens. A part is shown with lengths in place of its mask.)",
        ),
    ),
    "08.4": Exercise(
        cases=((),),
        oracle=lambda: _push_by_listing(P, SHORT, LONG, GROUP),
        misconceptions={
            "the sign: stopping is punished by 1/4, going on by 1/12, which is less, so going on gains. (Minus this is "
            "the push for going on after a right letter, because (1 - p) b = p (1 - b) here)": (
                lambda: -_push_by_listing(P, SHORT, LONG, GROUP)
            ),
            "a response is part of its own mean: the factor (G - 1) / G is missing": (
                lambda: _push_by_listing(P, SHORT, LONG, GROUP) * GROUP / (GROUP - 1)
            ),
            "that is the response that stops alone. The one that goes on is pushed, too, the other way, by 1/12": (
                lambda: _push_by_listing(P, SHORT, LONG, GROUP) * LONG / (LONG - SHORT)
            ),
            "that is the response that goes on alone, without its sign. The one that stops is pushed, too, by 1/4": (
                lambda: _push_by_listing(P, SHORT, LONG, GROUP) * SHORT / (LONG - SHORT)
            ),
            "only wrong responses pass this place, and they are a share 1 - p": (
                lambda: _push_by_listing(P, SHORT, LONG, GROUP) / (1 - P)
            ),
            "the advantage of a wrong response is 0 - p in the mean, not -1": (
                lambda: _push_by_listing(P, SHORT, LONG, GROUP) / P
            ),
            "going on and stopping have probability 1/2 each, and scores of 1/2 and -1/2: that is 1/4, not 1/2": (
                lambda: 2 * _push_by_listing(P, SHORT, LONG, GROUP)
            ),
            "going on and stopping have probability 1/2 each, and scores of 1/2 and -1/2: that is 1/4 in all": (
                lambda: 4 * _push_by_listing(P, SHORT, LONG, GROUP)
            ),
            "that is the case of the text": lambda: _push_by_listing(0.25, 2, 8, 4),
            "these are the lengths of the text, 2 and 8; here they are 4 and 12": lambda: _push_by_listing(
                P, 2, 8, GROUP
            ),
            "equal shares would give 0; the response mean does not": lambda: 0.0,
        },
        hints=(
            "Take Theorem 8.3 for the response mean. Which two kinds of response pass here, and how likely is each?",
        ),
        tolerance=5e-5,
    ),
    "08.5": Exercise(
        cases=((),),
        oracle=_both_clips,
        misconceptions={
            "the first number: count whole rollouts, and after 17 it is at 0.44": (17, ...),
            "count whole rollouts: after 17 the token is below 0.5, so it takes one more": (17.655, ...),
            "the second number: 0.02, 0.1, 0.5. A goal that is reached exactly needs no rollout more": (18, 3),
            "the first number: each rollout starts from the new probability, so it grows by a factor, not by a step": (
                120,
                ...,
            ),
            "the first number: 0.5 is 25 times 0.02. How many factors of 1.2 make 25?": (25, ...),
            "the second number: each rollout starts from the new probability, and 1 + 4 is the factor": (18, ...),
            "first with 0.2, then with 4": (2, 18),
            "the first number: that is DAPO's 0.28. Here the upper end is 0.2": (14, ...),
        },
        hints=("A rollout multiplies it by 1 + the upper end. How often, until 0.5 is reached?",),
        tolerance=1e-3,
    ),
}
