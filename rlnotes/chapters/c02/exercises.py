"""Exercises of chapter 02, the performance difference lemma."""

from typing import Any

import numpy as np

from rlnotes.exact.mdp import expected_return, occupancy, surrogate, values, visits
from rlnotes.exact.mdp_families import Case
from rlnotes.exact.pathologies import door_and_buttons, two_rooms
from rlnotes.exact.random_mdps import random_mdp, random_policy
from rlnotes.notebook.exercise import Exercise

# --- Cases: two processes of the chapter and one at random, told apart by their discounts


def _at_random(gamma: float) -> Case:
    rng = np.random.default_rng(2)
    return Case(random_mdp(rng, 3, 2, gamma), random_policy(rng, 3, 2), random_policy(rng, 3, 2))


_PAIRS = {
    case.mdp.gamma: case
    for case in (two_rooms(0.9), door_and_buttons(5.0, 0.1, 0.2, 0.8), _at_random(0.7), _at_random(0.999))
}


def _chain(case: Case, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Transitions (S, S) and rewards (S,) of a policy."""
    return np.einsum("sa,sat->st", pi, case.mdp.P), (pi * case.mdp.r).sum(-1)


def _visited(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    return occupancy(case.mdp, case.new), case.new, values(case.mdp, case.old).a, case.mdp.gamma


def _shifted(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    return occupancy(case.mdp, case.new), occupancy(case.mdp, case.old), *_visited(case)[1:]


# --- Answers, found another way


def _advantages_one_by_one(q: np.ndarray, pi: np.ndarray) -> list[list[float]]:
    """How much better an action is than each action that might have been taken, in the mean."""
    actions = range(q.shape[1])
    return [[sum(pi[s, b] * (q[s, a] - q[s, b]) for b in actions) for a in actions] for s in range(q.shape[0])]


def _q_by_matrix(outcomes: list[tuple[float, int, float, bool]], v: np.ndarray, gamma: float) -> float:
    """A row of probabilities for the next state, with one extra state for the end of the world."""
    row, reward = np.zeros(len(v) + 1), 0.0
    for probability, following, paid, terminated in outcomes:
        row[len(v) if terminated else following] += probability
        reward += probability * paid
    return float(reward + gamma * row @ np.append(v, 0.0))


def _sum_over_time(first: np.ndarray, chain: np.ndarray, gamma: float) -> np.ndarray:
    """first + gamma chain first + ..., until nothing changes."""
    total, term = np.zeros_like(first), first
    while np.abs(term).max() > 1e-12:
        total, term = total + term, gamma * chain @ term
    return total


def _true_difference(*arguments: Any) -> float:
    """By the returns of both policies: no advantage, no occupancy."""
    mdp, new, old = _PAIRS[arguments[-1]]
    return expected_return(mdp, new) - expected_return(mdp, old)


def _missed(*arguments: Any) -> float:
    """The true difference, less the surrogate."""
    return _true_difference(*arguments) - surrogate(*_PAIRS[arguments[-1]])


def _true_statements() -> str:
    """Each statement tried on the two rooms."""
    mdp, new, old = two_rooms()
    before, after = expected_return(mdp, old), expected_return(mdp, new)
    shift = after - before - surrogate(mdp, new, old)  # DSP
    holds = {
        "a": np.isclose(occupancy(mdp, new).sum(), 1) and not np.isclose(visits(mdp, new).sum(), 1),
        "b": np.isclose(before + surrogate(mdp, old, old), 0),
        "c": np.isclose(surrogate(mdp, old, old), 0),
        "d": (shift < 0) == (after < before + surrogate(mdp, new, old)),
        "e": np.isclose(surrogate(mdp, new, old) - (after - before), shift),  # Delta = L' - (J' - J)
    }
    return "".join(letter for letter, true in holds.items() if true)


def _swept(first: np.ndarray, chain: np.ndarray, gamma: float, sweeps: int, change: float = 0.0) -> np.ndarray:
    """first + gamma chain first + ..., but only so many terms, or until one of them is small."""
    total, term = np.zeros_like(first), first
    for _ in range(sweeps):
        total += term
        if np.abs(term).max() < change:
            break
        term = gamma * chain @ term
    return total


def _table_first(outcomes: list[tuple[float, int, float, bool]], v: np.ndarray, gamma: float, paid: bool) -> float:
    """Tables by the next state, each entry assigned: a state that is named twice keeps its last outcome only."""
    row, reward, total = np.zeros(len(v)), np.zeros(len(v)), 0.0
    for probability, following, earned, over in outcomes:
        row[following] = 0.0 if over and not paid else probability
        reward[following] = earned + (0.0 if over else gamma * v[following])
        total += probability * earned
    return float(row @ reward) if paid else float(total + gamma * row @ v)


def _gain(new: np.ndarray, a_old: np.ndarray) -> np.ndarray:
    return (new * a_old).sum(-1)


_OUTCOMES = [(0.8, 1, 1.0, True), (0.2, 0, -1.0, True)]
_SLIPPERY = [(1 / 3, 0, 0.0, False), (1 / 3, 0, 0.0, False), (1 / 3, 2, 1.0, False)]  # one state named twice
_TWICE = [(0.25, 1, 2.0, False), (0.25, 1, -1.0, True), (0.5, 0, 1.0, False)]  # and it may be over once
_MIXED = [(0.5, 1, 2.0, False), (0.25, 2, 4.0, True), (0.25, 0, 0.0, False)]
_V = np.array([3.0, 1.0, 2.0])
_RANDOM = _PAIRS[0.7]

EXERCISES: dict[str, Exercise] = {
    "02.1": Exercise(
        cases=(
            (np.array([[8.0, 6.0], [7.0, 9.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])),
            (values(_RANDOM.mdp, _RANDOM.old).q, _RANDOM.old),
        ),
        oracle=_advantages_one_by_one,
        misconceptions={
            "you subtract the plain mean over actions; V weighs each action by the policy, equation (24)": (
                lambda q, pi: q - q.mean(-1, keepdims=True)
            ),
            "you subtract the best action's value; V is that of the policy, which need not be the best": (
                lambda q, pi: q - q.max(-1, keepdims=True)
            ),
            "the sign is turned round: the advantage is Q - V": lambda q, pi: (pi * q).sum(-1, keepdims=True) - q,
            "this is Q times pi; the advantage is how far Q is above its mean": lambda q, pi: pi * q,
            "one V is subtracted from all states; each state has its own": lambda q, pi: q - (pi * q).sum(),
        },
        hints=(
            "V(s) is the mean of Q(s, a) over the actions of the policy.",
            "(pi * q).sum(-1) is V, with shape (S,); keepdims=True keeps it a column.",
            "q - (pi * q).sum(-1, keepdims=True)",
        ),
    ),
    "02.2": Exercise(
        cases=(
            (_OUTCOMES, _V, 0.9),
            (_OUTCOMES[::-1], _V, 0.9),
            (_SLIPPERY, _V, 0.9),
            (_TWICE, _V, 0.9),
            (_MIXED, _V, 0.5),
        ),
        oracle=_q_by_matrix,
        misconceptions={
            "only the last outcome counts: = in the loop forgets the ones before; add them up with +=": (
                lambda o, v, g: o[-1][0] * (o[-1][2] + (0 if o[-1][3] else g * v[o[-1][1]]))
            ),
            "only the last outcome counts, and without its probability: add up probability times outcome": (
                lambda o, v, g: o[-1][2] + (0 if o[-1][3] else g * v[o[-1][1]])
            ),
            "a state that is named twice loses its first probability: P[s] = p keeps the last; add with P[s] += p": (
                lambda o, v, g: _table_first(o, v, g, paid=False)
            ),
            "a state that is named twice loses its first outcome: add probabilities and rewards, do not assign them": (
                lambda o, v, g: _table_first(o, v, g, paid=True)
            ),
            "after a terminated outcome nothing is worth anything: leave V of the next state out there": (
                lambda o, v, g: sum(p * (r + g * v[s]) for p, s, r, _ in o)
            ),
            "the value of the next state is not discounted": (
                lambda o, v, g: sum(p * (r + (0 if end else v[s])) for p, s, r, end in o)
            ),
            "the outcomes are added without their probabilities": (
                lambda o, v, g: sum(r + (0 if end else g * v[s]) for _, s, r, end in o)
            ),
            "the reward is not weighed by its probability": (
                lambda o, v, g: sum(r + (0 if end else p * g * v[s]) for p, s, r, end in o)
            ),
        },
        hints=(
            "Each outcome that is not over adds probability times (reward, plus gamma times V of the next state).",
            "An outcome that is over adds only probability times reward.",
            "sum(p * (r + gamma * v[s] * (not end)) for p, s, r, end in outcomes)",
        ),
    ),
    "02.3": Exercise(
        cases=tuple((*_chain(case, case.old), gamma) for gamma, case in _PAIRS.items()),
        oracle=lambda P, r, gamma: _sum_over_time(r, P, gamma),
        misconceptions={
            "this looks one step ahead only; the value on the right is the unknown itself": lambda P, r, g: (
                r + g * P @ r
            ),
            "the matrix is transposed: row s of P holds the chances of what follows s": (
                lambda P, r, g: np.linalg.solve(np.eye(len(r)) - g * P.T, r)
            ),
            "this is as if the policy stayed in its state for ever": lambda P, r, g: r / (1 - g),
            "the sign before gamma P is wrong: V - gamma P V = r": (
                lambda P, r, g: np.linalg.solve(np.eye(len(r)) + g * P, r)
            ),
            "this multiplies with I - gamma P; solve with it": lambda P, r, g: (np.eye(len(r)) - g * P) @ r,
            "this stops sweeping when little changes, and is still off by up to gamma / (1 - gamma) times that": (
                lambda P, r, g: _swept(r, P, g, 10**6, change=0.01)
            ),
            "100 sweeps are too few if gamma is near 1: for gamma = 0.999 they leave 0.9 of the error; solve": (
                lambda P, r, g: _swept(r, P, g, 100)
            ),
            "200 sweeps are too few if gamma is near 1: for gamma = 0.999 they leave 0.8 of the error; solve": (
                lambda P, r, g: _swept(r, P, g, 200)
            ),
            "1000 sweeps are too few if gamma is near 1: for gamma = 0.999 they leave 0.37 of the error; solve": (
                lambda P, r, g: _swept(r, P, g, 1000)
            ),
        },
        hints=(
            "Bring all V to one side: V - gamma P V = r.",
            "That is (I - gamma P) V = r, a linear system.",
            "np.linalg.solve(np.eye(len(r)) - gamma * P, r)",
        ),
    ),
    "02.4": Exercise(
        cases=tuple((_chain(case, case.new)[0], case.mdp.start, gamma) for gamma, case in _PAIRS.items()),
        oracle=lambda P, start, gamma: _sum_over_time((1 - gamma) * start, P.T, gamma),
        misconceptions={
            "these are visits, which sum to 1 / (1 - gamma); equation (19) has a factor 1 - gamma": (
                lambda P, start, g: np.linalg.solve(np.eye(len(start)) - g * P.T, start)
            ),
            "visits flow along P, so the system has the transpose of P": (
                lambda P, start, g: (1 - g) * np.linalg.solve(np.eye(len(start)) - g * P, start)
            ),
            "this stops after one step": lambda P, start, g: (1 - g) * (start + g * start @ P),
            "200 steps are too few if gamma is near 1: for gamma = 0.999 they hold 0.18 of the visits; solve": (
                lambda P, start, g: _swept((1 - g) * start, P.T, g, 200)
            ),
            "the first state counts as well: the sum begins at t = 0": (
                lambda P, start, g: (1 - g) * np.linalg.solve(np.eye(len(start)) - g * P.T, g * start @ P)
            ),
        },
        hints=(
            "Take equation (19) and split off t = 0: d = (1 - gamma) start + gamma times what flows in.",
            "What flows into s' is the sum over s of d(s) P(s, s'), which is (P.T @ d).",
            "np.linalg.solve(np.eye(len(start)) - gamma * P.T, (1 - gamma) * start)",
        ),
    ),
    "02.5": Exercise(
        cases=tuple(_visited(case) for case in _PAIRS.values()),
        oracle=_true_difference,
        misconceptions={
            "1 / (1 - gamma) is missing: d sums to 1, and the return is a sum over time": (
                lambda d, new, a, g: d @ _gain(new, a)
            ),
            "1 - gamma stands in the numerator; divide by it": lambda d, new, a, g: (1 - g) * (d @ _gain(new, a)),
            "the advantages are added over all actions; weigh them by the new policy": (
                lambda d, new, a, g: d @ a.sum(-1) / (1 - g)
            ),
            "the states are not weighed by their visits": lambda d, new, a, g: _gain(new, a).sum() / (1 - g),
            "the sign is turned round: this is J(old) - J(new)": lambda d, new, a, g: -(d @ _gain(new, a)) / (1 - g),
        },
        hints=(
            "First, in each state, the mean old advantage of an action of the new policy.",
            "Then the mean of that over the states, with the weights d_new.",
            "d_new @ (new * a_old).sum(-1) / (1 - gamma)",
        ),
    ),
    "02.6": Exercise(
        cases=tuple(_shifted(case) for case in _PAIRS.values()),
        oracle=_missed,
        misconceptions={
            "this is the Delta of source 004, the same with the other sign": (
                lambda dn, do, new, a, g: (do - dn) @ _gain(new, a) / (1 - g)
            ),
            "1 / (1 - gamma) is missing": lambda dn, do, new, a, g: (dn - do) @ _gain(new, a),
            "this is the whole difference of the returns; the surrogate's share is still in it": (
                lambda dn, do, new, a, g: dn @ _gain(new, a) / (1 - g)
            ),
            "this is the surrogate itself": lambda dn, do, new, a, g: do @ _gain(new, a) / (1 - g),
            "the shift has a sign in each state: no absolute values in equation (52)": (
                lambda dn, do, new, a, g: np.abs(dn - do) @ np.abs(_gain(new, a)) / (1 - g)
            ),
        },
        hints=(
            "It is the sum of exercise 02.5, with d_new - d_old in place of d_new.",
            "The policy inside the mean stays the new one.",
            "(d_new - d_old) @ (new * a_old).sum(-1) / (1 - gamma)",
        ),
    ),
    "02.7": Exercise(
        cases=((),),
        oracle=_true_statements,
        misconceptions={
            "b: source 002 has J(old) in its surrogate, so that is what it is worth at the old policy": lambda: "abcd",
            "e: Delta is subtracted and DSP is added, so they have opposite signs": lambda: "acde",
            "b and e are about signs and constants: try both on a pair with new = old, and on the two rooms": (
                lambda: "abcde"
            ),
            "d: J = L + DSP, so a negative DSP takes something from what the surrogate says": lambda: "ac",
            "c: source 000 leaves J(old) out, and the mean advantage of a policy over itself is 0, equation (28)": (
                lambda: "ad"
            ),
            "a: the visits of equation (19) without its factor sum to 1 / (1 - gamma)": lambda: "cd",
        },
        hints=(
            "Put new = old into each surrogate: the mean old advantage of the old policy is 0.",
            "J(new) = L + DSP in 002, and J(new) - J(old) = L - Delta in 004.",
            'Three of the five are true: "acd".',
        ),
    ),
}
