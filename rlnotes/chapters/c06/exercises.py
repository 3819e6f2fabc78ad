"""Exercises of chapter 06, PPO."""

import numpy as np
from scipy.optimize import brentq

from rlnotes.notebook.exercise import Exercise


def _surrogate(ratio: float, advantage: float, epsilon: float, dual: float) -> float:
    """Region by region, from a drawing of the objective."""
    if advantage >= 0:
        return advantage * min(ratio, 1 + epsilon)
    return advantage * min(max(ratio, 1 - epsilon), dual)


def _push(ratio: float, advantage: float, epsilon: float, dual: float) -> float:
    """By a central difference in the log-ratio."""
    up, down = (_surrogate(ratio * float(np.exp(h)), advantage, epsilon, dual) for h in (1e-5, -1e-5))
    return (up - down) / 2e-5


def _hardest() -> float:
    return max((0.5, 1.1, 4.0), key=lambda r: abs(_push(r, -1.0, 0.2, np.inf)))


def _gae(r, v, v_next, terminated, truncated, gamma, lam, stops=None, bootstraps=None) -> np.ndarray:
    """Forwards, each entry as a sum of its own up to the end of its episode."""
    stops = terminated | truncated if stops is None else stops
    bootstraps = ~terminated if bootstraps is None else bootstraps
    found = np.zeros(len(r))
    for t in range(len(r)):
        for k in range(t, len(r)):
            error = r[k] + gamma * v_next[k] * bootstraps[k] - v[k]
            found[t] += (gamma * lam) ** (k - t) * error
            if stops[k]:
                break
    return found


_NO = np.zeros(4, dtype=bool)
_SECOND = np.arange(4) == 1
_R, _V, _NEXT = np.ones(4), np.array([10.0, 10.0, 2.0, 2.0]), np.array([10.0, 10.0, 2.0, 2.0])
_OTHER = (np.array([1.0, 0.0, 2.0, -1.0]), np.array([0.5, 1.0, 1.5, 0.2]), np.array([1.0, 0.7, 0.2, 3.0]))


def _true_statements() -> str:
    """Each tried on numbers."""
    rng = np.random.default_rng(0)
    r, a = np.exp(rng.normal(size=1000)), rng.normal(size=1000)
    clipped = np.array([_surrogate(x, y, 0.2, np.inf) for x, y in zip(r, a, strict=True)])
    dual = np.array([_surrogate(x, y, 0.2, 3.0) for x, y in zip(r, a, strict=True)])
    promised, true = 9 * (0.5 * -0.16 + 0.5 * 0.2), 9 * (0.6 * -0.16 + 0.4 * 0.2)  # the fork of the chapter
    mu, pi = np.array([1e-6, 1 - 1e-6]), np.array([1e-3, 1 - 1e-3])
    tv, chi2 = np.abs(pi - mu).sum() / 2, (pi**2 / mu).sum() - 1
    holds = {
        "a": (clipped <= r * a + 1e-12).all(),
        "b": promised <= true,
        "c": _dragged(0.2, 0.2) <= 1.2,
        "d": all(abs(_push(1.0, y, 0.2, 3.0) - y) < 1e-6 for y in a),
        "e": chi2 < 10 * tv,
        "f": np.array_equal(dual[a > 0], clipped[a > 0]),
    }
    return "".join(letter for letter, value in holds.items() if value)


def _sigmoid(x: float) -> float:
    return 1 / (1 + float(np.exp(-x)))


def _dragged(x: float, epsilon: float) -> float:
    """By a root search for the weight at which the second ratio reaches the edge."""
    weight = float(brentq(lambda w: 2 * _sigmoid(x * w) - 1 - epsilon, 0.0, 1e3))  # type: ignore[arg-type]
    return 2 * _sigmoid(weight)


def _logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def _token_advantages(reward: float, values: np.ndarray, lam: float) -> np.ndarray:
    """As a mean of k-step advantages: weights (1 - lam) lam^(k-1), and what is left on the whole return."""
    T = len(values)
    found = np.zeros(T)
    for t in range(T):
        steps = [values[t + k] - values[t] for k in range(1, T - t)]
        found[t] = sum((1 - lam) * lam**i * step for i, step in enumerate(steps))
        found[t] += lam ** (T - t - 1) * (reward - values[t])
    return found


def _errors(reward: float, values: np.ndarray, last: float = 0.0) -> np.ndarray:
    errors = np.append(values[1:], last) - values
    errors[-1] += reward
    return errors


def _carried(errors: np.ndarray, lam: float) -> np.ndarray:
    return np.array([sum(lam ** (k - t) * errors[k] for k in range(t, len(errors))) for t in range(len(errors))])


_PUSHES = (*((r, a, 0.2, 3.0) for r in (0.5, 0.9, 1.1, 2.0, 5.0) for a in (1.0, -2.0)), (2.0, -1.0, 0.1, 1.5))

EXERCISES: dict[str, Exercise] = {
    "06.0": Exercise(
        cases=((),),
        oracle=_hardest,
        misconceptions={
            "there the clip holds it: a bad token that is already rare gets no push": lambda: 0.5,
            "inside the band it is pushed, with 1.1; but the push grows with the ratio": lambda: 1.1,
        },
        hints=(
            "Look at the curve `clip` of the second panel, with A at -1.",
            "For A < 0 nothing stops the line on the right.",
        ),
    ),
    "06.1": Exercise(
        cases=(
            (_R, _V, _NEXT, _NO, _SECOND, 0.9, 0.5),
            (_R, _V, _NEXT, _SECOND, _NO, 0.9, 0.5),
            (*_OTHER, _SECOND, np.arange(4) == 3, 0.99, 0.9),
        ),
        oracle=_gae,
        misconceptions={
            "a truncated step loses the value of its last state: only the recording stopped there": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, n, te, tr, g, lam, bootstraps=~(te | tr))
            ),
            "something of the next episode gets in: the sum must stop at a truncated step, too": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, n, te, tr, g, lam, stops=te)
            ),
            "something of the next episode gets in: the sum must stop at both kinds of end": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, n, te, tr, g, lam, stops=te & False)
            ),
            "after a terminated step nothing is worth having: its next value must not count": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, n, te, tr, g, lam, bootstraps=np.ones(len(r), dtype=bool))
            ),
            "the two flags are exchanged": lambda r, v, n, te, tr, g, lam: _gae(r, v, n, tr, te, g, lam),
            "each later TD error counts (gamma lam)^k; the gamma is missing": (
                lambda r, v, n, te, tr, g, lam: _gae(r + g * n * ~te - v, 0 * v, 0 * v, te, tr, 1.0, lam)
            ),
            "the next row may be of the next episode: take `next_values`, not V of the next row": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, np.append(v[1:], n[-1]), te, tr, g, lam)
            ),
            "these are the TD errors alone, which is lam = 0": (
                lambda r, v, n, te, tr, g, lam: _gae(r, v, n, te, tr, g, 0.0)
            ),
        },
        hints=(
            "First all TD errors: r + gamma * v_next - v, where v_next counts as 0 if the step terminated.",
            "Then go backwards. What is carried over a step is 0 if that step ended an episode in either way.",
            "carry = delta[t] + gamma * lam * (0 if terminated[t] or truncated[t] else carry)",
        ),
    ),
    "06.2": Exercise(
        cases=_PUSHES,
        oracle=_push,
        misconceptions={
            "this is the derivative with respect to the ratio; that of the ratio by log pi is the ratio once more": (
                lambda r, a, e, c: _push(r, a, e, c) / r
            ),
            "a huge ratio still pushes: the dual clip is missing": lambda r, a, e, c: _push(r, a, e, np.inf),
            "outside the band two of four regions stay open: those that moved the wrong way": (
                lambda r, a, e, c: r * a if 1 - e <= r <= 1 + e else 0.0
            ),
            "nothing is held": lambda r, a, e, c: r * a,
            "the dual clip is for A < 0 only, and a good token is held much earlier": (
                lambda r, a, e, c: 0.0 if r > c or (a < 0 and r < 1 - e) else r * a
            ),
            "this is the objective itself; its derivative is asked for": _surrogate,
        },
        hints=(
            "Where the gate is open the objective is r A, and d r / d log pi = r.",
            "It is closed for A > 0 above 1 + epsilon, and for A < 0 below 1 - epsilon and above the dual clip.",
            "Write three ifs that return 0.0, and then: return ratio * advantage",
        ),
        tolerance=1e-5,
    ),
    "06.3": Exercise(
        cases=((0.2, 0.2), (1.0, 0.2), (0.5, 0.1), (0.1, 0.05)),
        oracle=_dragged,
        misconceptions={
            "1 + epsilon is where its own push ends; the other sample goes on pushing the weight they share": (
                lambda x, e: 1 + e
            ),
            "this is the probability; the ratio compares it with the old one, 1/2": lambda x, e: _dragged(x, e) / 2,
            "this is the weight at which the second one is held; now put it into the first": (
                lambda x, e: _logit((1 + e) / 2) / x
            ),
            "the weight is multiplied by x in the second probability, so it must be divided by x here": (
                lambda x, e: 2 * _sigmoid(x * _logit((1 + e) / 2))
            ),
        },
        hints=(
            "The second sample stops pushing where 2 sigmoid(x w) = 1 + epsilon. Solve for w.",
            "The inverse of the sigmoid is log(p / (1 - p)), with p = (1 + epsilon) / 2.",
            "p = (1 + epsilon) / 2; w = np.log(p / (1 - p)) / x; return 2 / (1 + np.exp(-w))",
        ),
    ),
    "06.4": Exercise(
        cases=((),),
        oracle=_true_statements,
        misconceptions={
            "(b) is what 'lower-bound style' suggests, and the fork is a counterexample": lambda: "abdf",
            "(c) is false: a step is not limited, and other samples drag": lambda: "acdf",
            "(e) is false: a TV below 0.001 can go with a mean squared ratio of 2": lambda: "adef",
            "(f) is true: the dual clip looks at A < 0 only": lambda: "ad",
            "(d) is true: at ratio 1 nothing is clipped, and the KL and its first gradient are 0": lambda: "af",
        },
        hints=(
            "Three are true.",
            "Of the false ones one is about the return, one about what the clip holds, one about variance.",
        ),
    ),
    "06.5": Exercise(
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
            "the reward is missing": lambda r, v, lam: _carried(_errors(0.0, v), lam),
        },
        hints=(
            "The TD error of token t is V(t + 1) - V(t); that of the last token is reward - V.",
            "Then backwards, as in 06.1 with gamma = 1 and no end in between.",
            "delta = np.append(values[1:], reward) - values; then carry = delta[t] + lam * carry from the back",
        ),
    ),
}
