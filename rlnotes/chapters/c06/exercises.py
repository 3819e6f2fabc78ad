"""Exercises of chapter 06, PPO."""

import re
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise
from rlnotes.studies.tables import load_rows

LOG = "b1e5"  # of exercise 06.2: 16 updates a round
ALARM, FALL = 0.1, 0.05  # there: of the clip fraction, and of the reward


@cache
def _factor_of_half_a_band() -> float:
    """By the run itself: the largest ratio after the first update, by that with twice the band."""
    from rlnotes.chapters.c06.rounds import one_round, ratios_of  # only here: it needs torch

    made = one_round()
    half, whole = (ratios_of(made, epsilon, 1)[1].max().item() for epsilon in (0.1, 0.2))
    return half / whole


def _rings() -> tuple[int, int]:
    """Over how many falls of the log the alarm rings, and over how many other rounds."""
    falls = others = 0
    for row, after in pairwise(stored_log(LOG).rows()):
        if row["no_gradient"] > ALARM:
            falls += row["reward"] - after["reward"] > FALL
            others += row["reward"] - after["reward"] <= FALL
    return falls, others


def _tools() -> tuple[str, ...]:
    """The names that the stored runs have, looked up by the numbers that the exercise shows."""
    from rlnotes.chapters.c06.readings import one_round_table, without_names  # only here: it needs torch

    rows = load_rows("06_one_round")
    names = {(row["kl"], row["kl_reference"]): row["arm"] for row in one_round_table(rows, "arms")}
    return tuple(names[row["KL(old, new)"], row["KL(new, ref)"]].removeprefix("strong_") for row in without_names(rows))


def _tool_names(answer) -> Any:
    """The answer; a "strong_penalty" is a "penalty" here, and so is a "strong penalty". A name
    that is unknown makes it one text.
    """
    value = answer() if callable(answer) else answer
    if not isinstance(value, list | tuple):
        return value
    names = tuple(re.sub("^strong[ _]", "", name) if isinstance(name, str) else name for name in value)
    unknown = any(isinstance(name, str) and name not in ("clip", "stop", "unclipped", "penalty") for name in names)
    return "unknown name" if unknown else names


_PROBES: dict[str, tuple[list[float], list[float], float]] = {
    "A > 0, ratio 0.5": ([0.5], [1.0], 0.2),
    "A > 0, ratio 1.1": ([1.1], [2.0], 0.2),
    "A > 0, ratio 4": ([4.0], [1.0], 0.2),
    "A < 0, ratio 0.5": ([0.5], [-1.0], 0.2),
    "A < 0, ratio 1.1": ([1.1], [-2.0], 0.2),
    "A < 0, ratio 4": ([4.0], [-1.0], 0.2),
    "A = 0, ratio 4": ([4.0], [0.0], 0.2),
    "A > 0, ratio 1.3, epsilon 0.4": ([1.3], [1.0], 0.4),
    "A < 0, ratio 0.7, epsilon 0.4": ([0.7], [-1.0], 0.4),
    "three tokens at once": ([0.5, 1.0, 4.0], [1.0, -3.0, -1.0], 0.2),
}


def _slopes(loss, ratio: list[float], advantages: list[float], epsilon: float) -> np.ndarray:
    """The derivative of the losses by each token's ratio, and their number if it is not that of the tokens."""
    import torch  # only here: the other exercises work without it

    r = torch.tensor(ratio, dtype=torch.float64, requires_grad=True)
    losses = loss(r, torch.tensor(advantages, dtype=torch.float64), epsilon)
    (slopes,) = torch.autograd.grad(losses.sum(), r)
    return slopes.numpy() if losses.numel() == len(ratio) else np.append(slopes.numpy(), losses.numel())


def _by_regions(ratio: list[float], advantages: list[float], epsilon: float) -> np.ndarray:
    """The same by a drawing: a good token pushes up to 1 + epsilon, a bad one down to 1 - epsilon."""
    is_open = [r <= 1 + epsilon if a > 0 else r >= 1 - epsilon for r, a in zip(ratio, advantages, strict=True)]
    return np.array([-a * gate for a, gate in zip(advantages, is_open, strict=True)])


def _given(ratio, advantages, epsilon):
    import torch

    return -(torch.clamp(ratio, max=1 + epsilon) * advantages)


def _both_sides(ratio, advantages, epsilon):
    import torch

    return -(torch.clamp(ratio, 1 - epsilon, 1 + epsilon) * advantages)


def _larger(ratio, advantages, epsilon):
    import torch

    clipped = torch.clamp(ratio, 1 - epsilon, 1 + epsilon)
    return -torch.maximum(ratio * advantages, clipped * advantages)


def _sign(ratio, advantages, epsilon):
    import torch

    clipped = torch.clamp(ratio, 1 - epsilon, 1 + epsilon)
    return torch.minimum(ratio * advantages, clipped * advantages)


def _fixed(ratio, advantages, epsilon):
    return -_sign(ratio, advantages, 0.2)  # minus a sign: the right loss


def _mean(ratio, advantages, epsilon):
    return -_sign(ratio, advantages, epsilon).mean()


def _sum(ratio, advantages, epsilon):
    return -_sign(ratio, advantages, epsilon).sum()


def _no_clip(ratio, advantages, epsilon):
    return -ratio * advantages


def _no_lower_end(ratio, advantages, epsilon):
    import torch

    return -torch.minimum(ratio * advantages, ratio.clamp(max=1 + epsilon) * advantages)


def _no_upper_end(ratio, advantages, epsilon):
    import torch

    return -torch.minimum(ratio * advantages, ratio.clamp(min=1 - epsilon) * advantages)


def _dual(ratio, advantages, epsilon):
    import torch

    limited = torch.maximum(_sign(ratio, advantages, epsilon), 3 * advantages)
    return -torch.where(advantages < 0, limited, _sign(ratio, advantages, epsilon))


def _max_below(ratio, advantages, epsilon):
    import torch

    return -(torch.where(advantages > 0, ratio.clamp(max=1 + epsilon), ratio.clamp(max=1 - epsilon)) * advantages)


def _other_half(ratio, advantages, epsilon):
    import torch

    return -(torch.clamp(ratio, min=1 - epsilon) * advantages)


def _in_words(answer) -> Any:
    """The answer; one and the same text for every text without a digit, so that all are known."""
    value = answer() if callable(answer) else answer
    return "in words" if isinstance(value, str) and not any(map(str.isdigit, value)) else value


def _updates_that_may_clip() -> int:
    """By counting: which updates see a policy that is no longer the one that sampled."""
    seen = 0
    for epoch in range(2):
        for minibatch in range(512 // 128):
            seen += (epoch, minibatch) != (0, 0)
    return seen


def _token_advantages(reward: float, values: np.ndarray, lam: float) -> np.ndarray:
    """As a mean of k-step advantages: weights (1 - lam) lam^(k-1), and what is left on the whole return."""
    T = len(values)
    found = np.zeros(T)
    for t in range(T):
        steps = [values[t + k] - values[t] for k in range(1, T - t)]
        found[t] = sum((1 - lam) * lam**i * step for i, step in enumerate(steps))
        found[t] += lam ** (T - t - 1) * (reward - values[t])
    return found


def _errors(reward: float, values: np.ndarray, last: float = 0.0, gamma: float = 1.0) -> np.ndarray:
    errors = gamma * np.append(values[1:], last) - values
    errors[-1] += reward
    return errors


def _carried(errors: np.ndarray, lam: float) -> np.ndarray:
    return np.array([sum(lam ** (k - t) * errors[k] for k in range(t, len(errors))) for t in range(len(errors))])


EXERCISES: dict[str, Exercise] = {
    "06.1": Exercise(
        cases=((),),
        oracle=_factor_of_half_a_band,
        misconceptions={
            "the step does not get half as long: epsilon changes no number before a token has moved": (lambda: 0.5),
            "that is the new edge by the old one. A step does not know where the edge is": lambda: 1.1 / 1.2,
            "that is the old edge by the new one. A step does not know where the edge is": lambda: 1.2 / 1.1,
            "that is half of a half: nothing about the step has been halved even once": lambda: 0.25,
            "that is a half edge, 1.05 or 0.95: no edge is in play while every ratio is 1": lambda: 1.05,
            "no edge is in play while every ratio is 1": lambda: 0.95,
            "a narrower band makes no step longer": lambda: 2.0,
            "that is the largest ratio itself. Asked for is its factor: with 0.1, divided by with 0.2": lambda: 3.98,
            "no factor is 0: the ratio is above 1 with either band": lambda: 0.0,
            "a number is asked for: the factor that leaves a value as it is": lambda: "in words",
        },
        measure=_in_words,
        hints=("Before the first update every ratio is 1, inside either band. What does the clip change there?",),
        tolerance=0.005,
    ),
    "06.2": Exercise(
        cases=((),),
        oracle=_rings,
        misconceptions={
            "4 is how many rounds fell. At how many of these is the clip fraction above 0.1? The second 4 is right": (
                (4, 4)
            ),
            "first the falls over which it rings, then the other rounds": (4, 1),
            "4 is how many rounds fell. At how many of these is the clip fraction above 0.1? The second number is "
            "wrong, too: count the other rounds above 0.1": (4, ...),
            "you compared with the row before. A reward is drawn before its round's updates: what they did is in the "
            "next row": (2, 3),
            "the first number is right. 5 is over how many rounds it rings in all: one of them fell": (1, 5),
            "the first number is right. That is how many other rounds there are: over how many is it above 0.1": (
                1,
                15,
            ),
            "the first number is right. That is how many rounds did not fall: over how many is it above 0.1": (1, 16),
            "the first number is right. Count the other rounds above 0.1 once more": (1, ...),
            "it rings over one of the four: compare the reward of each row above 0.1 with that of the next": (0, ...),
            "the 4 is right. For the first number compare the reward of a row with that of the next": (..., 4),
        },
        hints=("Mark the four rows whose next reward is more than 0.05 lower. Then read the other column there.",),
    ),
    "06.3": Exercise(
        cases=tuple(_PROBES.values()),
        probes=tuple(_PROBES),
        oracle=_by_regions,
        measure=_slopes,
        given=_given,
        misconceptions={
            "a clamp on both sides closes all four gates outside the band. The two on the wrong side must stay open": (
                _both_sides
            ),
            "the larger of the two terms closes the gates that should be open": _larger,
            "the sign: a loss is minimised": _sign,
            "the band has the width of the text, whatever epsilon says": _fixed,
            "one loss per token is asked for, and this is their mean": _mean,
            "one loss per token is asked for, and this is their sum": _sum,
            "no gate closes: every token is pushed everywhere": _no_clip,
            "a bad token at ratio 0.5 has gone where its advantage wants it, and is still pushed": _no_lower_end,
            "a good token at ratio 4 has gone where its advantage wants it, and is still pushed": _no_upper_end,
            "a bad token far above the band has slope 0: that is the dual clip, and the definition has none": _dual,
            "for A < 0 the ratio must not fall below 1 - epsilon: clamp it with min, not with max": _max_below,
            "now it is right for A < 0 only. A good token needs the other end of the band": _other_half,
        },
        hints=("Draw the push over the ratio for A > 0 and for A < 0. The names say in which regions yours differs.",),
    ),
    "06.4": Exercise(
        cases=((),),
        oracle=_tools,
        measure=_tool_names,
        misconceptions={
            "one of these is no name of a run: they are clip, stop, unclipped and strong_penalty": "unknown name",
            "clip and stop both stay near the old policy. Only the stop ends a round early: look at the updates": (
                (..., "clip", ..., "stop")
            ),
            "two runs go far from the old policy. Only one of their tools knows the reference": (
                ("unclipped", ..., "penalty", ...)
            ),
            "a penalty does not hold a round near the old policy, and a clip does not know the reference": (
                ("clip", ..., ..., "penalty")
            ),
            "a stop limits KL(old, new). It does not know the reference": ("stop", "penalty", ..., ...),
            "a stop ends a round early, so its run is not one of the two that go far": (..., "unclipped", "stop", ...),
            "with a clip a round ends nearer to the old policy than without a limit": ((..., ..., "clip", "unclipped")),
        },
        hints=("Which tool ends a round early? Which one pulls to the reference? Of the other two, which one brakes?",),
    ),
    "06.5": Exercise(
        cases=((),),
        oracle=_updates_that_may_clip,
        misconceptions={
            "in the first update every ratio is 1, so nothing can be clipped there": lambda: 8,
            "both passes count: the second starts with a policy that has moved": lambda: 3,
            "`ppo_mini_batch_size` counts prompts, and so does `train_batch_size`: n leaves the number as it is": (
                lambda: 63
            ),
            "that is one pass": lambda: 4,
            "only the first pass begins with a policy that has not moved": lambda: 6,
            "that is the one update in which nothing can be clipped. Count the others": lambda: 1,
            "n does not enter: it multiplies both sizes": lambda: 64,
            "that is two passes over n = 8, less one. A pass has 512 / 128 minibatches, whatever n is": lambda: 15,
            "that is 4 minibatches times n, less one. n multiplies both sizes, and there are two passes": lambda: 31,
            "leave n out of the count: it multiplies both sizes": lambda: 56,
        },
        hints=("How many updates are there in a round, and in which of them has the policy not moved yet?",),
    ),
    "06.6": Exercise(
        cases=(
            (1.0, np.array([0.5, 0.5, 0.5]), 0.0),
            (1.0, np.array([0.4, 0.7, 0.1, 0.9]), 0.95),
            (0.0, np.array([0.8, 0.9, 0.05]), 0.5),
            (1.0, np.array([0.3]), 0.9),
        ),
        oracle=_token_advantages,
        misconceptions={
            "the reward comes once, with the last token": lambda r, v, lam: _carried(
                _errors(0.0, v) + np.full(len(v), r), lam
            ),
            "after the last token nothing is worth having: no value there": lambda r, v, lam: _carried(
                _errors(r, v, v[-1]), lam
            ),
            "this is reward minus value at every token, which is lam = 1": lambda r, v, lam: r - v,
            "these are the TD errors alone, which is lam = 0": lambda r, v, lam: _errors(r, v),
            "these are the value targets: take the values away again": lambda r, v, lam: (
                _token_advantages(r, v, lam) + v
            ),
            "TD errors of later tokens count, not of earlier ones: the sum runs from the end": lambda r, v, lam: (
                _carried(_errors(r, v)[::-1], lam)[::-1]
            ),
            "the sum runs from this token to the end, not from the first token to this one": lambda r, v, lam: (
                np.cumsum(lam ** np.arange(len(v)) * _errors(r, v))
            ),
            "a running sum begins at the first token. Begin at the last, and multiply by lam at each step": (
                lambda r, v, lam: np.cumsum(_errors(r, v))
            ),
            "gamma is 1 here: nothing is discounted": lambda r, v, lam: _carried(_errors(r, v, gamma=0.99), 0.99 * lam),
            "the weight of a TD error is lam to the power of its distance from this token, not from the first one": (
                lambda r, v, lam: np.array(
                    [(lam ** np.arange(len(v)) * _errors(r, v))[t:].sum() for t in range(len(v))]
                )
            ),
            "the reward is missing": lambda r, v, lam: _carried(_errors(0.0, v), lam),
            "that is one TD error for each token, weighted. The advantage is a sum over all that follow, too": (
                lambda r, v, lam: lam ** np.arange(len(v)) * _errors(r, v)
            ),
            "that is the sum of two TD errors. It goes on to the end of the response": (
                lambda r, v, lam: _errors(r, v) + lam * np.append(_errors(r, v)[1:], 0.0)
            ),
        },
        hints=(
            "Try the example of the text. Its TD errors are (0.4, 0.4): do yours agree? If so, look at the sum over j.",
        ),
    ),
}
