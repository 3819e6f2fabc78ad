"""Exercises of chapter 12, bounds for mixtures of stale policies."""

import numpy as np
from scipy.optimize import linprog

from rlnotes.bounds.twice_closed_forms import promises
from rlnotes.notebook.exercise import Exercise

# --- 12.0


def _zero_where_nothing_moves() -> str:
    """The explorer's curves at an update of 0, as they stand at first."""
    found = promises(0.5, 0.4, 0.5, 0.5, 0.5, 0.0)
    heights = dict(a=found.true, b=found.surrogate, c=found.split, d=found.geppo)
    return "".join(letter for letter, height in heights.items() if abs(height) < 1e-12)


# --- 12.1


def _kernel_by_coins(sigma: np.ndarray, kappa: np.ndarray) -> list[list[float]]:
    """Entry by entry: the coin says stay, or it says move and kappa draws j, which may be i again."""
    size = range(len(sigma))
    return [[(1 - sigma[i]) * (i == j) + sigma[i] * kappa[i][j] for j in size] for i in size]


_TWO = (np.array([0.5, 0.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))
_THREE = (np.array([0.2, 0.6, 1.0]), np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25], [0.0, 0.4, 0.6]]))

# --- 12.2


def _share_by_walking(sigma: float, length: int, alpha_old: float) -> float:
    """The chance of the old version, token by token."""
    here, total = alpha_old, 0.0
    for _ in range(length):
        total += here
        here *= 1 - sigma
    return total / length


def _discounted(sigma: float, gamma: float) -> float:
    return (1 - gamma) / (1 - gamma * (1 - sigma))


# --- 12.3

_D = np.array([[0.1, 0.4], [0.3, 0.2]])
_POLICIES = np.array([[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], [[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]]])
_CURRENT = np.array([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]])
_SMALL = (np.array([[0.2, 0.8]]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[0.5, 0.5]]))


def _staleness_by_walking(d: np.ndarray, policies: np.ndarray, current: np.ndarray) -> float:
    """Pair by pair; the TV is what the current policy gives more, action by action."""
    total = 0.0
    for s in range(d.shape[0]):
        for i in range(d.shape[1]):
            more = [max(0.0, float(current[s, a] - policies[i, s, a])) for a in range(current.shape[1])]
            total += d[s, i] * sum(more)
    return total


def _tv(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.abs(p - q).sum(-1) / 2


# --- 12.4


def _penalties_by_series(gamma: float, C: float, xi: float, U: float, S: float) -> list[float]:
    """With the sums over time written out: 1 / (1 - gamma), and t gamma^t for gamma / (1 - gamma)^2."""
    t = np.arange(5000)
    steps, late = (gamma**t).sum(), (t * gamma**t).sum()
    return [2 * late * C * U, (2 * late * C + 2 * steps * xi) * S]


# --- 12.5


def _radius_by_programme(p: np.ndarray, q: np.ndarray) -> float:
    """A linear programme over the new policy, its distances by action, and the radius."""
    n = len(p)
    goal = np.r_[np.zeros(3 * n), 1.0]
    rows, limits = [], []
    for k, old in enumerate((p, q)):
        for sign in (1, -1):
            row = np.zeros((n, 3 * n + 1))
            row[:, :n], row[:, (k + 1) * n : (k + 2) * n] = sign * np.eye(n), -np.eye(n)
            rows.append(row)
            limits.append(sign * old)
        total = np.zeros((1, 3 * n + 1))
        total[0, (k + 1) * n : (k + 2) * n], total[0, -1] = 0.5, -1
        rows.append(total)
        limits.append(np.zeros(1))
    one = np.r_[np.ones(n), np.zeros(2 * n + 1)][None]
    return float(linprog(goal, np.vstack(rows), np.concatenate(limits), one, [1.0]).fun)


EXERCISES: dict[str, Exercise] = {
    "12.0": Exercise(
        cases=((),),
        oracle=_zero_where_nothing_moves,
        misconceptions={
            "L estimates the change against J_mix, the return of the data; stale data make that another number": (
                lambda: "abd"
            ),
            "Corollary 12.12 lies below 0 at the update 0: read its curve there again": lambda: "acd",
            "only one is what it is by definition; there is a second": lambda: "a",
            "d is one, but the true change is 0 as well if nothing changes": lambda: "d",
            "stale data shift L, and the penalty of Corollary 12.12 for staleness does not go away": lambda: "abcd",
        },
        hints=(
            "Move the first slider to 0 and read the sentence below.",
            "If nothing is changed, nothing changes: that is one curve. One more knows it.",
            "The true change, and one of the two promises.",
        ),
    ),
    "12.1": Exercise(
        cases=(_TWO, _THREE),
        oracle=_kernel_by_coins,
        misconceptions={
            "stay and move are swapped: sigma is the chance to move": lambda s, k: (
                np.diag(s) + (1 - s)[:, None] * np.asarray(k)
            ),
            "sigma multiplies the columns of kappa; it belongs to the row, the index that is left": lambda s, k: (
                np.diag(1 - s) + s * np.asarray(k)
            ),
            "the chance to stay is missing: the rows do not sum to 1": lambda s, k: s[:, None] * np.asarray(k),
            "the index always stays or moves with certainty here; weigh both by sigma": lambda s, k: (
                np.eye(len(s)) + np.asarray(k)
            ),
        },
        hints=(
            "Row i: with chance 1 - sigma[i] the index stays, and with chance sigma[i] it is drawn from kappa[i].",
            "np.diag puts the chances to stay on the diagonal.",
            "np.diag(1 - sigma) + sigma[:, None] * kappa",
        ),
    ),
    "12.2": Exercise(
        # hardly ever left, and not never: the closed form of Fact 12.15 has no value at 0
        cases=((0.25, 9, 1.0), (0.25, 9, 0.5), (1e-6, 5, 0.5), (1.0, 4, 0.8)),
        oracle=_share_by_walking,
        misconceptions={
            "not all responses begin with the old version: multiply by alpha_old": lambda s, n, a: _share_by_walking(
                s, n, 1.0
            ),
            "this is the chance that the last token is old; take the mean over all tokens": lambda s, n, a: (
                a * (1 - s) ** (n - 1)
            ),
            "this is the number of old tokens; divide by the length": lambda s, n, a: n * _share_by_walking(s, n, a),
            "the first token comes before any switch: the powers begin with 0": lambda s, n, a: (
                (1 - s) * _share_by_walking(s, n, a)
            ),
            "this is the discounted form; a response has an end and no discount": lambda s, n, a: (
                a * _discounted(s, 1 - 1 / n)
            ),
        },
        hints=(
            "Token t, counted from 0, is old if the response began old and t switches did not happen.",
            "That has probability alpha_old * (1 - sigma)**t.",
            "alpha_old * np.mean((1 - sigma) ** np.arange(length))",
        ),
    ),
    "12.3": Exercise(
        cases=(_SMALL, (_D, _POLICIES, _CURRENT)),
        oracle=_staleness_by_walking,
        misconceptions={
            "TV is half of the sum of absolute differences": lambda d, p, c: 2 * _staleness_by_walking(d, p, c),
            "this is the distance to the average policy; errors in opposite directions hide in it": lambda d, p, c: (
                d.sum(1) * _tv(np.einsum("si,isa->sa", d, np.asarray(p)) / d.sum(1, keepdims=True), np.asarray(c))
            ).sum(),
            "every pair of state and version counts equally here; weigh with d": lambda d, p, c: _tv(
                np.asarray(p), np.asarray(c)
            ).mean(),
            "this is the largest distance; S_k is a mean": lambda d, p, c: _tv(np.asarray(p), np.asarray(c)).max(),
            "state and version are taken to be independent: d[s, i] is not d[s] times d[i]": lambda d, p, c: (
                np.outer(d.sum(1), d.sum(0)) * _tv(np.asarray(p), np.asarray(c)).T
            ).sum(),
        },
        hints=(
            "For each state and each version: TV(current, policies[i]) in that state. Then the mean with weights d.",
            "np.abs(policies - current).sum(-1) / 2 has shape (M, S), and d has shape (S, M).",
            "(d * (np.abs(policies - current).sum(-1) / 2).T).sum()",
        ),
    ),
    "12.4": Exercise(
        cases=((0.5, 0.24, 0.625, 0.1, 0.05), (0.9, 1.0, 2.0, 0.01, 0.03)),
        oracle=_penalties_by_series,
        misconceptions={
            "C_2 contains C_1: the distance to the behaviour was split in two parts": lambda g, C, x, U, S: [
                2 * g * C * U / (1 - g) ** 2,
                2 * x * S / (1 - g),
            ],
            "the bias term is missing in C_2: J_mix is not J(pi_k)": lambda g, C, x, U, S: [
                2 * g * C * U / (1 - g) ** 2,
                2 * g * C * S / (1 - g) ** 2,
            ],
            "1 / (1 - gamma) stands once in the first part; it comes twice, for the shift of states and for the sum": (
                lambda g, C, x, U, S: [2 * g * C * U / (1 - g), (2 * g * C + 2 * x) * S / (1 - g)]
            ),
            "the bias term has no gamma and only one 1 / (1 - gamma)": lambda g, C, x, U, S: [
                2 * g * C * U / (1 - g) ** 2,
                2 * g * (C + x) * S / (1 - g) ** 2,
            ],
            "the two norms have changed places": lambda g, C, x, U, S: [
                2 * g * x * U / (1 - g) ** 2,
                (2 * g * x / (1 - g) ** 2 + 2 * C / (1 - g)) * S,
            ],
        },
        hints=(
            "Corollary 12.12 has the coefficients. The first penalty is C_1 U.",
            "C_1 = 2 gamma C / (1 - gamma)^2, and C_2 = C_1 + 2 xi / (1 - gamma).",
            "C1 = 2 * gamma * C / (1 - gamma)**2; return [C1 * U, (C1 + 2 * xi / (1 - gamma)) * S]",
        ),
    ),
    "12.5": Exercise(
        cases=(
            (np.array([1.0, 0.0]), np.array([0.0, 1.0])),
            (np.array([0.7, 0.2, 0.1]), np.array([0.15, 0.25, 0.6])),
            (np.array([0.25, 0.25, 0.25, 0.25]), np.array([0.4, 0.1, 0.4, 0.1])),
        ),
        oracle=_radius_by_programme,
        misconceptions={
            "this is their distance; a policy in the middle is nearer to both": lambda p, q: float(_tv(p, q)),
            "TV is half of the sum of absolute differences, and the middle halves it once more": lambda p, q: float(
                np.abs(p - q).sum()
            ),
            "this is half of the largest difference in one action; TV adds all actions up": lambda p, q: float(
                np.abs(p - q).max() / 4
            ),
        },
        tolerance=1e-5,
        hints=(
            "By the triangle inequality the two distances together are at least TV(p, q).",
            "The midpoint (p + q) / 2 is equally far from both.",
            "np.abs(p - q).sum() / 4",
        ),
    ),
    "12.6": Exercise(
        cases=((),),
        oracle=lambda: "ade",
        misconceptions={
            "(b) is Lemma 12.4's at trajectory level; with switches the versions' weights depend on the state": (
                lambda: "abde"
            ),
            "(c): its right side keeps the penalty for staleness, and L is not 0 either": lambda: "acde",
            "(f): three policies can be near in pairs and have no common neighbour": lambda: "adef",
            "(g): S_k does not contain the new policy; a smaller update cannot make it 0": lambda: "adeg",
            "(d): U_k speaks of the new and the current policy only": lambda: "ae",
            "(e): take the midpoint": lambda: "ad",
            "(a) is the lemma itself": lambda: "de",
        },
        hints=(
            "Two of the statements are theorems of the chapter word for word.",
            "(e) and (f) differ by one word: look at the picture with three hexagons.",
            "There are three.",
        ),
    ),
}
