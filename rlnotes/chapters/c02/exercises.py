"""Exercises of chapter 02, what old data say about a new policy."""

from itertools import count
from typing import Any

import numpy as np

from rlnotes.exact.mdp import expected_return, occupancy, surrogate, values
from rlnotes.exact.mdp_families import Case
from rlnotes.exact.pathologies import door_and_buttons, two_rooms
from rlnotes.exact.random_mdps import random_mdp, random_policy
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

# --- 02.2


def _what_the_log_says() -> tuple[str, int]:
    """The letter, and the first evaluation at which the reward is more than twice the held-out one."""
    rows = stored_log("d6e4").rows()
    reward = {row["step"]: row["reward"] for row in rows if "reward" in row}
    heldout = {row["step"]: row["eval_reward"] for row in rows if "eval_reward" in row}
    return "b", next(step for step, one in heldout.items() if reward[step] > 2 * one)


# --- 02.3


def per_token(ratio, advantages, mask):
    """What is to be repaired: a mean over all tokens."""
    return ((ratio - 1) * advantages[:, None] * mask).sum() / mask.sum()


def _response_by_response(ratio: np.ndarray, advantages: np.ndarray, mask: np.ndarray) -> float:
    total = 0.0
    for r, A, there in zip(ratio, advantages, mask, strict=True):
        total += sum(float((one - 1) * A) for one, counts in zip(r, there, strict=True) if counts)
    return total / len(ratio)


_RATIO = np.array([[1.5, 1.2, 0.9, 7.0], [0.5, 0.8, 5.0, 3.0], [1.1, 0.7, 1.3, 2.0]])
_A = np.array([1.0, -0.5, -0.25])
_LENGTHS = np.arange(4) < np.array([[3], [2], [4]])
_BATCHES = {
    "responses of two lengths": (_RATIO[:2], _A[:2], _LENGTHS[:2]),
    "responses of one length": (_RATIO, _A, np.ones((3, 4), bool)),
    "three responses, the mask as 0 and 1": (_RATIO, _A, _LENGTHS.astype(float)),
    "one response": (_RATIO[:1], _A[:1], _LENGTHS[:1]),
    "nothing has changed": (np.ones((3, 4)), _A, _LENGTHS),
}


def _sum(ratio: np.ndarray, advantages: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The surrogate of each response."""
    return ((ratio - 1) * advantages[:, None] * mask).sum(1)


# --- 02.4

OLD, NEW = (0.5, 0.8), (0.9, 0.6)  # the chances of the right token, at either place


def _by_all_answers() -> tuple[float, float, float]:
    """By the four answers: the change from their chances, the surrogate from the ratios of their tokens."""
    change = said = 0.0
    for answer in np.ndindex(2, 2):
        old, new = (np.where(answer, chances, 1 - np.array(chances)) for chances in (OLD, NEW))
        reward = float(all(answer))
        change += (new.prod() - old.prod()) * reward
        said += old.prod() * (new / old - 1).sum() * reward
    return said, change, change - said


# --- 02.5


def _at_random(gamma: float) -> Case:
    rng = np.random.default_rng(2)
    return Case(random_mdp(rng, 3, 2, gamma), random_policy(rng, 3, 2), random_policy(rng, 3, 2))


_PAIRS = {
    case.mdp.gamma: case
    for case in (two_rooms(0.9), door_and_buttons(5.0, 0.1, 0.2, 0.8), _at_random(0.7), _at_random(0.999))
}


def _shifted(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    seen = occupancy(case.mdp, case.new), occupancy(case.mdp, case.old)
    return *seen, case.new, values(case.mdp, case.old).a, case.mdp.gamma


def _missed(*arguments: Any) -> float:
    """By the returns of both policies, less the surrogate."""
    mdp, new, old = _PAIRS[arguments[-1]]
    return expected_return(mdp, new) - expected_return(mdp, old) - surrogate(mdp, new, old)


def _gain(new: np.ndarray, a_old: np.ndarray) -> np.ndarray:
    return (new * a_old).sum(-1)


# --- 02.6

DISTANCE, ALLOWED = 0.005, 0.5


def _longest() -> int:
    """By trying one length after the other."""
    return next(T for T in count(1) if 2 * (T + 1) * T * DISTANCE * DISTANCE > ALLOWED)


EXERCISES: dict[str, Exercise] = {
    "02.1": Exercise(
        cases=((),),
        oracle=lambda: "c",
        misconceptions={
            "all ten batches come from one policy; but its own walks chose the step by what they happened to see": "a",
            "other walks say still less": "b",
        },
        hints=("By chance some actions did well in a batch. Did they do well in the other batches, too?",),
    ),
    "02.2": Exercise(
        cases=((),),
        oracle=_what_the_log_says,
        misconceptions={
            "the letter: reward and rewards/sort/mean are one number here. A second, true reward that falls would show "
            "a hack": ("a", ...),
            "the letter: too large a rate makes both rewards fall": ("c", ...),
            "the letter: a sampler that is not the trainer shows in the log-probabilities of the first step; and the "
            "reward would not rise to 0.9": ("d", ...),
            "the step: twice is asked for, and there it is 1.4 times": (..., 12),
            "the step: it was twice as much before that": (..., 36),
            "the step: there the held-out reward is lowest; it was left behind before": (..., 60),
        },
        hints=("Hold the five evaluations beside the reward of the same steps.",),
    ),
    "02.3": Exercise(
        cases=tuple(_BATCHES.values()),
        probes=tuple(_BATCHES),
        oracle=_response_by_response,
        given=per_token,
        misconceptions={
            "a mean over the tokens of each response: its tokens' gains add up, they are not averaged": (
                lambda r, A, m: (_sum(r, A, m) / m.sum(1)).mean()
            ),
            "the sum over all responses: J is the mean of a response": lambda r, A, m: _sum(r, A, m).sum(),
            "what lies outside the mask counts: those are no tokens of the response": lambda r, A, m: _sum(
                r, A, np.ones_like(m)
            ).mean(),
            "at ratio 1 this is not 0: each token adds its advantage. Subtract 1 from the ratio": lambda r, A, m: (
                (r * A[:, None] * m).sum(1).mean()
            ),
            "the product of the ratios is the weight of the whole response: right in the mean, and another estimate. "
            "Asked is the surrogate, a sum over tokens": lambda r, A, m: (
                (np.where(np.asarray(m, bool), r, 1.0).prod(1) - 1) * A
            ).mean(),
            "divided by the longest length, padding and all": lambda r, A, m: _sum(r, A, m).mean() / r.shape[1],
            "the sign is turned round: a gain is positive, a loss to minimise is not asked for": (
                lambda r, A, m: -_sum(r, A, m).mean()
            ),
        },
        hints=("J is the mean reward of a response, and the lemma adds up over its tokens. Which sum, which mean?",),
    ),
    "02.4": Exercise(
        cases=((),),
        oracle=_by_all_answers,
        misconceptions={
            "the first two are swapped": (0.14, 0.22, ...),
            "the first number: the second token's gain counts where the old policy's first token was right, 0.5": (
                0.14,
                ...,
                ...,
            ),
            "the first number: at the first token a right one is worth 0.8, what the old policy makes of it": (
                0.3,
                ...,
                ...,
            ),
            "the third number: change less what old data say, in this order": (..., ..., 0.08),
            "the second number: J is the product of the two chances": (..., 0.2, ...),
            "the first number: of each place, (new less old) times what a right token is worth, times the chance to "
            "get there": (0.2, ..., ...),
        },
        hints=("At each place: how likely is the old policy to get there, and what is a right token worth to it?",),
        tolerance=1e-3,
    ),
    "02.5": Exercise(
        cases=tuple(_shifted(case) for case in _PAIRS.values()),
        oracle=_missed,
        misconceptions={
            "the sign is turned round: it is what is added to the surrogate": (
                lambda dn, do, new, a, g: (do - dn) @ _gain(new, a) / (1 - g)
            ),
            "1 / (1 - gamma) is missing: d sums to 1, and the return is a sum over time": (
                lambda dn, do, new, a, g: (dn - do) @ _gain(new, a)
            ),
            "1 - gamma stands in the numerator; divide by it": (
                lambda dn, do, new, a, g: (1 - g) * ((dn - do) @ _gain(new, a))
            ),
            "this is the whole change of the return; what old data say is still in it": (
                lambda dn, do, new, a, g: dn @ _gain(new, a) / (1 - g)
            ),
            "this is the surrogate itself": lambda dn, do, new, a, g: do @ _gain(new, a) / (1 - g),
            "each state has a sign; no absolute values": (
                lambda dn, do, new, a, g: np.abs(dn - do) @ np.abs(_gain(new, a)) / (1 - g)
            ),
            "the advantages are added over all actions; weigh them by the new policy": (
                lambda dn, do, new, a, g: (dn - do) @ a.sum(-1) / (1 - g)
            ),
        },
        hints=("First, in each state, the mean old advantage of an action of the new policy.",),
    ),
    "02.6": Exercise(
        cases=((),),
        oracle=_longest,
        misconceptions={
            "one token more, and the penalty is above one half": 101,
            "tokens come whole: the longest that is still below": (ALLOWED / 2) ** 0.5 / DISTANCE + 0.5,
            "the penalty has the distance twice: once as it is, once in place of the largest gain": 7,
            "a factor 2 is missing": 141,
            "of T (T - 1) one factor is missing": 10_000,
        },
        hints=("Put the distance in for both numbers that are not known, and solve for T.",),
        tolerance=1e-3,
    ),
}
