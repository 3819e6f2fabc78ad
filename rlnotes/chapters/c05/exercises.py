"""Exercises of chapter 05, trust region policy optimisation."""

import math

import numpy as np

from rlnotes.bounds import cpi
from rlnotes.bounds.mdp import mean_kl, state_kl
from rlnotes.exact.mdp import softmax
from rlnotes.exact.mdp_families import conservative_trap
from rlnotes.notebook.exercise import Exercise

# --- Answers, found another way


def _length_by_bisection(s: np.ndarray, A: np.ndarray, delta: float) -> float:
    """The quadratic model of the KL grows with the length: halve the interval until it says delta."""
    low, high = 0.0, 1e6
    for _ in range(120):
        middle = (low + high) / 2
        step = middle * s
        bent = sum(step[i] * A[i, j] * step[j] for i in range(len(s)) for j in range(len(s))) / 2
        low, high = (middle, high) if bent < delta else (low, middle)
    return low


def _true_statements() -> str:
    """Each statement tried on a softmax policy, the leap of chapter 04, and the quadratic model."""
    logits, v, h = np.array([[0.3, -0.2, 0.9]]), np.array([[1.0, -0.5, 0.2]]), 1e-3
    old, ahead, behind = (softmax(logits + step * v) for step in (0, h, -h))
    there, back = state_kl(old, ahead)[0], state_kl(ahead, old)[0]
    slope = (there - state_kl(old, behind)[0]) / (2 * h)
    leap = conservative_trap(0.999)
    near = cpi.step(leap.old, leap.new, 0.009)
    bound = cpi.conservative(leap.mdp, leap.old, leap.new, 0.009)
    within = mean_kl(leap.mdp, near, leap.old) <= 0.01 and bound.surrogate > 0
    s, A = np.array([1.0, 2.0]), np.diag([3.0, 5.0])
    holds = {
        "a": state_kl(old, old)[0] < 1e-12 and abs(slope) < 1e-3 * math.sqrt(there / h**2),
        "b": abs(there / back - 1) < 1e-2,
        "c": not (within and bound.true < 0),
        "d": np.isclose(_length_by_bisection(s, A, 0.02), 2 * _length_by_bisection(s, A, 0.01)),
        "e": np.isclose(_length_by_bisection(2 * s, A, 0.01), _length_by_bisection(s, A, 0.01) / 2),
    }
    return "".join(letter for letter, true in holds.items() if true)


def _penalty_by_time(gamma: float, xi: float, D: float) -> float:
    """At time t the two laws of the state differ by 2 t D at most, and a gain is 2 xi D at most."""
    return sum(gamma**t * (2 * t * D) * (2 * xi * D) for t in range(20_000))


def _kl_number_by_number(old: np.ndarray, new: np.ndarray) -> float:
    total = 0.0
    for p, q in zip(old, new, strict=True):
        for a in range(len(p)):
            total += math.exp(p[a]) * (p[a] - q[a]) / len(old)
    return total


def _by_outer_products(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The matrix as the mean outer product of scores, then the product."""
    scores = np.eye(len(p)) - p
    return sum(p[a] * np.outer(scores[a], scores[a]) for a in range(len(p))) @ v


def _best_of_krylov_space(H: np.ndarray, b: np.ndarray, iterations: int) -> np.ndarray:
    """The minimiser of x'Hx / 2 - b'x over the span of b, Hb, ..."""
    powers = [np.linalg.matrix_power(H, k) @ b for k in range(iterations)]
    basis = np.linalg.qr(np.stack(powers, axis=1))[0]
    return basis @ np.linalg.solve(basis.T @ H @ basis, basis.T @ b)


def _first_that_serves(gained: list[float], kl: list[float], delta: float) -> int:
    for k in range(len(gained)):
        if gained[k] > 0 and kl[k] <= delta:
            return k
    return -1


# --- Mistakes


def _descent(H: np.ndarray, b: np.ndarray, iterations: int, again: float, straight: bool = False) -> np.ndarray:
    """Conjugate gradient with the old direction counted ``again`` times: 0 is steepest descent, -1 a wrong sign."""
    x, residual = np.zeros_like(b), b.copy()
    direction = residual.copy()
    for _ in range(iterations):
        image = H @ direction
        length = residual @ residual / (direction @ (direction if straight else image))
        x, left = x + length * direction, residual - length * image
        direction = left + again * (left @ left) / (residual @ residual) * direction
        residual = left
    return x


_S, _A = np.array([0.5, -1.0, 2.0]), np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
_H, _G = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])


def _rows(seed: int) -> np.ndarray:
    return np.log(softmax(np.random.default_rng(seed).normal(size=(4, 3))))


EXERCISES: dict[str, Exercise] = {
    "05.1": Exercise(
        cases=((np.array([0.5, 0.5]), np.diag([2.0, 6.0]), 0.01), (_S, _A, 0.1), (_S, _A, 0.001)),
        oracle=_length_by_bisection,
        misconceptions={
            "the model of the KL is one half of s'As: the 2 is missing": lambda s, A, delta: (
                (delta / (s @ A @ s)) ** 0.5
            ),
            "the root is missing: the KL grows with the square of the length": lambda s, A, delta: (
                2 * delta / (s @ A @ s)
            ),
            "this is the length of s in parameters; the KL is measured by A": lambda s, A, delta: (
                (2 * delta / (s @ s)) ** 0.5
            ),
            "delta is the limit itself, not its root: do not square it": lambda s, A, delta: (
                delta * (2 / (s @ A @ s)) ** 0.5
            ),
            "upside down: a longer s needs a smaller factor": lambda s, A, delta: (s @ A @ s / (2 * delta)) ** 0.5,
        },
        hints=(
            "The model of the KL after the step beta s is one half of (beta s)'A(beta s). Set it equal to delta.",
            "beta squared is 2 delta over s'As; s @ A @ s is s'As.",
            "return (2 * delta / (s @ A @ s)) ** 0.5",
        ),
    ),
    "05.2": Exercise(
        cases=((),),
        oracle=_true_statements,
        misconceptions={
            "(c) is wrong: the leap at a discount of 0.999 takes such a step and loses": lambda: "abce",
            "(d) forgets the root: twice the limit makes a step that is 1.41 times as long": lambda: "abde",
            "(a) is true as well: the KL is smallest at the old policy, so its slope there is 0": lambda: "be",
            "(b) is true as well: the two directions differ from the third order on": lambda: "ae",
            "(e) is true as well: beta makes up for the length of s": lambda: "ab",
        },
        hints=(
            "For (a), (b), (d) and (e) look at the quadratic model; for (c) at the leap in What a limit guarantees.",
            "Three of the five are true.",
            "(c) and (d) are false.",
        ),
    ),
    "05.3": Exercise(
        cases=((0.25, 1.0, 0.25), (0.9, 0.5, 0.1), (0.99, 2.0, 0.01), (0.0, 1.0, 0.5)),
        oracle=_penalty_by_time,
        misconceptions={
            "this is source 004's coefficient 2; it belongs to C and the mean distance": (
                lambda gamma, xi, D: 2 * gamma * xi * D**2 / (1 - gamma) ** 2
            ),
            "a gain is at most 2 xi D, not xi: that brings the second D and another 2": (
                lambda gamma, xi, D: 2 * gamma * xi * D / (1 - gamma) ** 2
            ),
            "the sum of t gamma^t has 1 - gamma squared below": lambda gamma, xi, D: (
                4 * gamma * xi * D**2 / (1 - gamma)
            ),
            "the sum of t gamma^t is gamma / (1 - gamma)^2: the gamma above is missing": (
                lambda gamma, xi, D: 4 * xi * D**2 / (1 - gamma) ** 2
            ),
        },
        hints=(
            "Take Theorem 2.13 with the largest distance D for the mean one, and put in C <= 2 xi D.",
            "2 gamma C D / (1 - gamma)^2 with C = 2 xi D.",
            "return 4 * gamma * xi * D**2 / (1 - gamma) ** 2",
        ),
    ),
    "05.4": Exercise(
        cases=(
            (np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])),
            (_rows(0), _rows(1)),
            (_rows(2), _rows(3)),
        ),
        oracle=_kl_number_by_number,
        misconceptions={
            "this is KL(new, old); (70) has the old policy in front": lambda old, new: (
                (np.exp(new) * (new - old)).sum(-1).mean()
            ),
            "the minus has the wrong order: a KL is never negative": lambda old, new: (
                (np.exp(old) * (new - old)).sum(-1).mean()
            ),
            "the log-ratios are not weighted by the old policy's probabilities": lambda old, new: (
                (old - new).sum(-1).mean()
            ),
            "the sum is over actions, and the mean over states only": lambda old, new: (
                np.exp(old) * (old - new)
            ).mean(),
            "(70) is a mean over states, not a sum": lambda old, new: (np.exp(old) * (old - new)).sum(),
        },
        hints=(
            "For one state: the sum over actions of old probability times (old minus new log-probability).",
            "np.exp(old) are the old probabilities; sum over the last axis, then take the mean.",
            "return (np.exp(old) * (old - new)).sum(-1).mean()",
        ),
    ),
    "05.5": Exercise(
        cases=(
            (np.array([0.7, 0.3]), np.array([1.0, -1.0])),
            (np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.0, 2.0])),
            (np.array([0.1, 0.2, 0.3, 0.4]), np.array([-1.0, 0.5, 2.0, 3.0])),
        ),
        oracle=_by_outer_products,
        misconceptions={
            "this is the product with diag(p) only; p p' is to be taken away": lambda p, v: p * v,
            "v minus its mean is still to be multiplied by p": lambda p, v: v - p @ v,
            "the mean of v is one under p, not one in which each action counts alike": lambda p, v: p * (v - v.mean()),
            "p p'v is p times the number p'v; here p'v stands alone": lambda p, v: p * v - p @ v,
            "the sign of the second part is wrong": lambda p, v: p * (v + p @ v),
        },
        hints=(
            "(diag(p) - p p') v is p * v minus p times a number. Which number?",
            "The number is p @ v, the mean of v under p.",
            "return p * (v - p @ v)",
        ),
    ),
    "05.6": Exercise(
        cases=((_H, _G, 1), (_H, _G, 2), (_A, _S, 2), (_A, _S, 3)),
        oracle=_best_of_krylov_space,
        misconceptions={
            "this is steepest descent: each new direction must keep a part of the one before": lambda H, b, n: _descent(
                H, b, n, 0.0
            ),
            "the part of the old direction is added, not taken away": lambda H, b, n: _descent(H, b, n, -1.0),
            "the length has d'Hd below, not d'd": lambda H, b, n: _descent(H, b, n, 1.0, straight=True),
            "this is the exact solution, however few iterations are asked for": lambda H, b, n: np.linalg.solve(H, b),
        },
        hints=(
            "Before the loop: x = 0, and both the residual r and the direction d are b.",
            "Then: a = r'r / d'Hd; x = x + a d; the new r is r - a H d; d = new r + (its square / the old r'r) d.",
            "a = r @ r / (d @ H @ d); x = x + a * d; n = r - a * H @ d; d = n + n @ n / (r @ r) * d; r = n",
        ),
    ),
    "05.7": Exercise(
        cases=(
            ([0.5, 0.4, 0.3], [0.02, 0.013, 0.009], 0.01),
            ([-0.2, 0.1, 0.2, 0.1], [0.005, 0.02, 0.004, 0.003], 0.01),
            ([0.0, -0.1], [0.001, 0.0005], 0.01),
            ([math.nan, 0.3], [0.008, 0.01], 0.01),
            ([0.1, 0.3], [0.009, 0.004], 0.01),
            ([-0.2, -0.1], [0.008, 0.004], 0.01),
        ),
        oracle=_first_that_serves,
        misconceptions={
            "the surrogate must have risen as well": lambda gained, kl, delta: next(
                (k for k, x in enumerate(kl) if x <= delta), -1
            ),
            "the KL must be within the limit as well": lambda gained, kl, delta: next(
                (k for k, x in enumerate(gained) if x > 0), -1
            ),
            "the first that serves is wanted: it is the longest": lambda gained, kl, delta: max(
                (k for k in range(len(kl)) if gained[k] > 0 and kl[k] <= delta), default=-1
            ),
            "the first that serves is wanted, not the one that gains most": lambda gained, kl, delta: max(
                (k for k in range(len(kl)) if gained[k] > 0 and kl[k] <= delta), key=lambda k: gained[k], default=-1
            ),
            "a gain of 0 is no rise": lambda gained, kl, delta: next(
                (k for k in range(len(kl)) if gained[k] >= 0 and kl[k] <= delta), -1
            ),
            "where none serves the answer is -1: the old parameters come back": lambda gained, kl, delta: max(
                0, _first_that_serves(gained, kl, delta)
            ),
            "a KL that is equal to the limit is within it": lambda gained, kl, delta: next(
                (k for k in range(len(kl)) if gained[k] > 0 and kl[k] < delta), -1
            ),
        },
        hints=(
            "Go through k from 0 on and give back the first for which both conditions hold.",
            "gained[k] > 0 and kl[k] <= delta; NaN makes either False. After the loop, return -1.",
            "return next((k for k in range(len(kl)) if gained[k] > 0 and kl[k] <= delta), -1)",
        ),
    ),
}
