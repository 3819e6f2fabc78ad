"""Exercises of chapter 07, GRPO."""

import itertools
from functools import cache
from typing import Any

import numpy as np

from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

LOG = "90de"  # of exercise 07.2: k1 in the loss, with four passes


@cache
def _factors_of_a_scale() -> tuple[float, float]:
    """By the run itself: the gradient's norm with a reward of 100 for a right answer, by that with a reward of 1."""
    from rlnotes.chapters.c07.rounds import factors_of_a_scale  # only here: it needs torch

    return factors_of_a_scale()


def _no_longer_pushed() -> tuple[str, int]:
    """The setting under which the log was made, and the first step from which on all groups are equal."""
    rows = stored_log(LOG).rows()
    return "b", 1 + max(row["step"] for row in rows if row["wasted_groups"] < 1)


def _setting_and_step(answer: Any) -> Any:
    """A step that is written in quotes is the same step."""
    value = answer() if callable(answer) else answer
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], str) and value[1].strip().isdigit():
        return value[0], int(value[1])
    return value


def _responses_that_push() -> tuple[float, float]:
    """By listing: all outcomes of a group of 4, and of one of 16 by its number of right responses."""
    from math import comb

    def mixed(size: int, p: float = 0.1) -> float:
        if size <= 4:
            each = itertools.product((0, 1), repeat=size)
            return sum(float(np.prod([p if one else 1 - p for one in group])) for group in each if len({*group}) == 2)
        return sum(comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(1, size))

    return 64 * mixed(4), 64 * mixed(16)


def _pair(answer: Any) -> Any:
    """Numbers in a row, whatever holds them; in a mistake ``...`` is any number."""
    value = answer() if callable(answer) else answer
    if not isinstance(value, list | tuple | np.ndarray):
        return value
    return tuple(one if one is ... else float(one) for one in value)


def _to_one_decimal(answer: Any) -> Any:
    """As :func:`_pair`, to the one decimal that is asked for: a mistake is known by it as well."""
    value = _pair(answer)
    return tuple(one if one is ... else round(one, 1) for one in value) if isinstance(value, tuple) else value


# --- 07.3: a penalty in the loss, judged by its mean gradient

_STATES: dict[str, tuple[list[float], list[float]]] = {
    "two tokens, away from the reference": ([0.9, 0.1], [0.5, 0.5]),
    "two tokens, on the other side": ([0.2, 0.8], [0.5, 0.5]),
    "a token that the policy has nearly given up": ([0.98, 0.02], [0.3, 0.7]),
    "three tokens": ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]),
    "policy and reference agree": ([0.7, 0.3], [0.7, 0.3]),
}


def _mean_gradient(penalty, pi: list[float], ref: list[float]) -> np.ndarray:
    """The gradient by the logits of the penalty's mean over samples of the policy, the samples held fixed. Each token
    is a sample of its own, so that a penalty cannot look at the others.
    """
    import torch  # only here: the other exercises work without it

    logits = torch.tensor(pi, dtype=torch.float64).log().requires_grad_()
    log_ref, mean = torch.tensor(ref, dtype=torch.float64).log(), 0 * logits.sum()
    for token, chance in enumerate(pi):
        found = penalty(logits.log_softmax(-1)[[token]], log_ref[[token]])
        if not isinstance(found, torch.Tensor):
            raise TypeError(f"the penalty must give back a tensor, and it gives back {type(found).__name__}")
        if found.shape != (1,):
            raise ValueError("it is added to the loss of each token, so give back a number for each: no sum, no mean")
        if not found.requires_grad:
            raise ValueError("nothing is left to differentiate: all of it is detached, and its gradient is 0")
        mean = mean + chance * found.sum()
    return torch.autograd.grad(mean, logits)[0].numpy()


def _by_hand(pi: list[float], ref: list[float]) -> np.ndarray:
    """Gradient of KL(pi, ref) by the logits: pi (x - mean of x), x the log-ratio."""
    p, x = np.array(pi), np.log(pi) - np.log(ref)
    return p * (x - p @ x)


def _given(logp, logp_ref):
    return logp - logp_ref


def _squared(logp, logp_ref):
    return (logp - logp_ref) ** 2


def _k3(logp, logp_ref):
    return (logp_ref - logp).exp() - 1 - (logp_ref - logp)


def _k3_turned(logp, logp_ref):
    return (logp - logp_ref).exp() - 1 - (logp - logp_ref)


def _absolute(logp, logp_ref):
    return (logp - logp_ref).abs()


def _turned(logp, logp_ref):
    return -((logp - logp_ref) ** 2) / 2


def _all_of_it(logp, logp_ref):
    return logp.exp() * (logp - logp_ref)


def _k3_detached(logp, logp_ref):
    return _k3(logp, logp_ref).detach() * logp


EXERCISES: dict[str, Exercise] = {
    "07.1": Exercise(
        cases=((),),
        oracle=_factors_of_a_scale,
        misconceptions={
            "the standard deviation grows by the same factor as the rewards, and is divided out": (100, 100),
            "the other way round: which of the two divides by the standard deviation?": (100, 1),
            "the second does not divide by anything that knows the scale: its gradient grows like the rewards": (1, 1),
            "a reward that is 100 times as large is not divided by more than that": (0.01, ...),
            "the first is right. The second takes away a mean and divides by nothing": (1, ...),
            "the second is right. The first divides by the standard deviation of the group, which has the rewards' "
            "scale": (..., 100),
        },
        measure=_pair,
        hints=("Write both advantages of the group 1, 0, 0, 0; then those of 100, 0, 0, 0.",),
        tolerance=0.002,
    ),
    "07.2": Exercise(
        cases=((),),
        oracle=_no_longer_pushed,
        misconceptions={
            "look at the step again: from which one on are the rewards of every group equal?": ("b", ...),
            "without a penalty the loss would be near 0 wherever all groups are equal: every advantage is 0": (
                ("d", ...)
            ),
            "a penalty in the reward is part of the advantages, which add up to 0 in each group: the loss would stay "
            "near 0": ("c", ...),
            "k3 in the loss pulls back. Once nothing but the penalty is left, its loss falls; here it rises to 4.8 and "
            "stays high": ("a", ...),
        },
        measure=_setting_and_step,
        hints=("Find the steps at which no reward pushes. What is left in the gradient there, and does it pull back?",),
    ),
    "07.3": Exercise(
        cases=tuple(_STATES.values()),
        probes=tuple(_STATES),
        oracle=_by_hand,
        measure=_mean_gradient,
        given=_given,
        misconceptions={
            "this has the right direction and twice the gradient: k2 is half of the square": _squared,
            "this is k3: in the loss its mean gradient is that of KL(ref, pi), the other way round": _k3,
            "the ratio stands the wrong way up: a token that the policy has made likely gets a slope without a limit": (
                _k3_turned
            ),
            "the absolute value has only the sign of the log-ratio as its slope, not its size": _absolute,
            "the sign is turned round: a loss is minimised, and this drives the policy away": _turned,
            "this is k3 as a reward: only k1 is right there, and k3 pushes some tokens away from the reference": (
                _k3_detached
            ),
            "the samples come from the policy already: its probability is not multiplied once more": _all_of_it,
        },
        hints=(
            "The mean of f(x) over samples of pi has the gradient: mean of f'(x) times that of log pi. Which slope f' "
            "does the KL ask for?",
        ),
    ),
    "07.4": Exercise(
        cases=((),),
        oracle=_responses_that_push,
        misconceptions={
            "these are shares of one. How many responses are there?": lambda: np.divide(_responses_that_push(), 64),
            "these are groups. How many responses does each of them hold?": lambda: np.divide(
                _responses_that_push(), (4, 16)
            ),
            "these are the responses whose groups push nothing": lambda: np.subtract((64, 64), _responses_that_push()),
            "the other way round: the groups of 4 first": lambda: _responses_that_push()[::-1],
            "the first number is right. For the second there are 4 groups, of 16 responses each": lambda: (
                (_responses_that_push()[0], ...)
            ),
            "the second number is right. For the first there are 16 groups, of 4 responses each": lambda: (
                (..., _responses_that_push()[1])
            ),
            "these are expected right answers. A group pushes if it has a right one and a wrong one": (6.4, 6.4),
        },
        measure=_to_one_decimal,
        hints=("When does a group push? Take from 1 the chance that all its rewards are equal; then count responses.",),
        tolerance=0.004,
    ),
    "07.5": Exercise(
        cases=((),),
        oracle=lambda: "ace",
        misconceptions={
            "b does not hold: that is k1 in the loss": "abce",
            "d does not hold: its default is k1, and in the loss its mean gradient is 0": "acde",
            "b and d are the same case, k1 in the loss: its mean gradient is 0": "abcde",
            "these are the two that do not hold": "bd",
            "one that holds is missing: which estimator does TRL take when told nothing?": "ce",
            "one that holds is missing: what is right in the reward, and beside which advantage?": ("ae"),
            "one that holds is missing: a divergence of either direction counts": "ac",
            "this one holds, and it is not the only one: the loss has a place for a penalty, too": "c",
            "this one holds, and it is not the only one: another estimator in the loss, or k1 in the reward?": "e",
            "this one holds, and it is not the only one: what of verl?": "a",
        },
        hints=("For each: which estimator, and in the reward or in the loss?",),
    ),
}
