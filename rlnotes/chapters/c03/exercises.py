"""Exercises of chapter 03, policy gradients."""

import itertools

import numpy as np

from rlnotes.chapters.c03.explorers import bias_and_variance
from rlnotes.exact.mdp import MDP, expected_return, softmax
from rlnotes.exact.trajectory_gradients import moments, trajectories
from rlnotes.notebook.exercise import Exercise

# --- Answers, found another way


def _discounted_to_go(rewards: np.ndarray, gamma: float) -> list[float]:
    """gamma^t G_t, each as the sum that defines it: the powers of gamma count from the start of the episode."""
    T = len(rewards)
    return [sum(gamma**j * float(rewards[j]) for j in range(t, T)) for t in range(T)]


def _score_by_differences(logits: np.ndarray, action: int) -> np.ndarray:
    """The slope of log softmax at ``action``, by central differences."""
    eye, h = np.eye(len(logits)), 1e-5
    return np.array([np.log(softmax(logits + h * e) / softmax(logits - h * e))[action] / (2 * h) for e in eye])


def _table_by_differences(states: np.ndarray, actions: np.ndarray, weights: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """The slope of the sum of weights times log pi, by central differences on each logit."""

    def objective(logits: np.ndarray) -> float:
        return float(weights @ np.log(softmax(logits))[states, actions])

    table, h = np.zeros(pi.shape), 1e-5
    for entry in np.ndindex(*pi.shape):
        step = np.zeros(pi.shape)
        step[entry] = h
        table[entry] = (objective(np.log(pi) + step) - objective(np.log(pi) - step)) / (2 * h)
    return table


def _baseline_by_search(probs: np.ndarray, rewards: np.ndarray) -> float:
    """The lowest point of the variance, which is a parabola in b, from its values at three places."""

    def second_moment(b: float) -> float:
        scores = np.eye(len(probs)) - probs
        return float(probs @ (((rewards - b)[:, None] * scores) ** 2).sum(-1))

    low, middle, high = (second_moment(b) for b in (-1.0, 0.0, 1.0))
    return (low - high) / (2 * (low - 2 * middle + high))


def _gae_by_sums(rewards: np.ndarray, values: np.ndarray, last_value: float, gamma: float, lam: float) -> list[float]:
    """The sum over k of (gamma lambda)^k delta_{t+k}, written out."""
    following = [*values[1:].tolist(), last_value]
    delta = [float(r + gamma * n - v) for r, n, v in zip(rewards, following, values, strict=True)]
    return [sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, len(delta))) for t in range(len(delta))]


def _chain(gamma: float, first: float, second: float) -> MDP:
    """Two steps; action 1 pays ``first``, then ``second``."""
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = P[1, :, 2] = P[2, :, 2] = 1
    return MDP(P, np.array([[0, first], [0, second], [0, 0]]), np.eye(3)[0], gamma)


def _true_statements() -> str:
    """Each statement tried on chains with one shared logit: the slope by differences, the rest by listing episodes."""
    holds = dict.fromkeys("abcde", True)
    for gamma, first, second in itertools.product((0.5, 0.9, 1.0), (0.0, 0.95, -1.0), (1.0, -1.0)):
        mdp, theta = _chain(gamma, first, second), np.log(1.5)

        def policy(theta: float) -> np.ndarray:
            return np.tile(softmax(np.array([0.0, theta])), (3, 1))

        slope = (expected_return(mdp, policy(theta + 1e-5)) - expected_return(mdp, policy(theta - 1e-5))) / 2e-5
        pi = policy(theta)
        paths = trajectories(mdp, pi, 2)
        to_go = np.array([paths.rewards[0] + gamma * paths.rewards[1], paths.rewards[1]])
        weights = {"printed": to_go, "whole": to_go[[0, 0]], "right": to_go * [[1.0], [gamma]]}
        mean = {name: moments(paths, pi, weight).mean[:, 1].sum() for name, weight in weights.items()}
        holds["a"] &= gamma < 1 or np.isclose(mean["printed"], slope)
        holds["b"] &= mean["printed"] * slope >= 0
        holds["c"] &= np.isclose(mean["whole"], slope)
        holds["d"] &= np.isclose(mean["right"], slope)
        holds["e"] &= np.isclose(mean["printed"], slope)
    return "".join(letter for letter, true in holds.items() if true)


_REWARDS = np.array([2.0, 0.0, 1.0])
_LONG = np.array([1.0, -1.0, 0.5, 3.0])
_PI = np.array([[0.5, 0.5], [0.8, 0.2], [0.3, 0.7]])
_EPISODE = np.array([0, 1, 0, 2]), np.array([1, 0, 1, 0]), np.array([2.0, -1.0, 0.5, 3.0])
_SHORT = np.array([1, 2]), np.array([1, 1]), np.array([1.0, 4.0])
_V = np.array([0.5, 2.0, -1.0, 1.0])


def _to_go(rewards: np.ndarray, gamma: float) -> np.ndarray:
    return np.array([sum(gamma ** (j - t) * rewards[j] for j in range(t, len(rewards))) for t in range(len(rewards))])


def _table(states: np.ndarray, actions: np.ndarray, weights: np.ndarray, pi: np.ndarray) -> np.ndarray:
    table = np.zeros(pi.shape)
    for s, a, w in zip(states, actions, weights, strict=True):
        table[s] += w * (np.eye(pi.shape[1])[a] - pi[s])
    return table


def _one_hot_only(states: np.ndarray, actions: np.ndarray, weights: np.ndarray, pi: np.ndarray) -> np.ndarray:
    table = np.zeros(pi.shape)
    np.add.at(table, (states, actions), weights)
    return table


def _last_visit(states: np.ndarray, actions: np.ndarray, weights: np.ndarray, pi: np.ndarray) -> np.ndarray:
    table = np.zeros(pi.shape)
    table[states] += weights[:, None] * (np.eye(pi.shape[1])[actions] - pi[states])
    return table


def _deltas(rewards: np.ndarray, values: np.ndarray, last_value: float, gamma: float) -> np.ndarray:
    return rewards + gamma * np.append(values[1:], last_value) - values


def _recursion(terms: np.ndarray, factor: float) -> np.ndarray:
    return np.array([sum(factor ** (k - t) * terms[k] for k in range(t, len(terms))) for t in range(len(terms))])


def _best_lambda_moves() -> str:
    """By the exact squared errors of 20 and of 200 episodes, with a critic that is off by 1."""
    squared_bias, variance = bias_and_variance(1.0)
    few, many = ((squared_bias + variance / n).argmin() for n in (20, 200))
    return "a" if many > few else "b" if many < few else "c"


EXERCISES: dict[str, Exercise] = {
    "03.0": Exercise(
        cases=((),),
        oracle=_best_lambda_moves,
        misconceptions={
            "more episodes make the noise small, and a smaller lambda was there to make it small": lambda: "b",
            "the squared error is bias squared plus variance / N, and N stands under one of the two only": lambda: "c",
            "only one of them can be right": lambda: "ab",
        },
        hints=(
            "Set the critic to 1, and move N from 20 to 200; look at the lowest point of the sum.",
            'In the right panel the best lambda rises with N: "a".',
        ),
    ),
    "03.1": Exercise(
        cases=((_REWARDS, 0.5), (_LONG, 0.9), (np.array([4.0]), 0.7)),
        oracle=_discounted_to_go,
        misconceptions={
            "this is G_t without the factor gamma^t: what practice uses, and not the gradient of J": _to_go,
            "this is the discounted reward of one step; what comes after the action is its merit as well": (
                lambda r, g: g ** np.arange(len(r)) * r
            ),
            "this is G_0 at every step, equation (34): right in the mean, and noisier": (
                lambda r, g: np.full(len(r), _to_go(r, g)[0])
            ),
            "the sum goes back to the start; the return goes forward to the end": (
                lambda r, g: np.cumsum(g ** np.arange(len(r)) * r)
            ),
            "gamma^t is there twice: a sum of gamma^j r_j, the powers counted from the start, has it already": (
                lambda r, g: g ** (2 * np.arange(len(r))) * _to_go(r, g)
            ),
        },
        hints=(
            "gamma^t G_t is the sum of gamma^j r_j over all j from t on.",
            "Discount the rewards first, then add from the end: a cumulative sum of the reversed array, reversed.",
            "(gamma ** np.arange(len(rewards)) * rewards)[::-1].cumsum()[::-1]",
        ),
    ),
    "03.2": Exercise(
        cases=((np.array([0.0, 0.0]), 1), (np.array([1.0, -0.5, 0.3]), 0), (np.array([2.0, 1.0, 0.0, -1.0]), 3)),
        oracle=_score_by_differences,
        misconceptions={
            "these are the probabilities; the score is the one-hot vector of the action minus them": (
                lambda logits, a: softmax(logits)
            ),
            "the sign is turned round: the taken action's logit must have a positive slope": (
                lambda logits, a: softmax(logits) - np.eye(len(logits))[a]
            ),
            "this is the gradient of pi; the gradient of log pi is it divided by pi(a)": (
                lambda logits, a: softmax(logits)[a] * (np.eye(len(logits))[a] - softmax(logits))
            ),
            "the other logits have a slope too: they share the denominator": (
                lambda logits, a: np.eye(len(logits))[a] * (1 - softmax(logits))
            ),
            "this is the logit, not its slope": lambda logits, a: np.eye(len(logits))[a] - logits,
        },
        hints=(
            "log pi(a) = logit_a - log of the sum of exp(logits).",
            "The first has slope 1 at a and 0 elsewhere; the second has the slope softmax(logits).",
            "np.eye(len(logits))[action] - np.exp(logits) / np.exp(logits).sum()",
        ),
    ),
    "03.3": Exercise(
        cases=((*_EPISODE, _PI), (*_SHORT, _PI)),
        oracle=_table_by_differences,
        misconceptions={
            "a state that is visited twice counts once: with repeated indices += keeps only the last; "
            "use a loop, or np.add.at": _last_visit,
            "minus pi is missing: this only counts the weights of the actions taken": _one_hot_only,
            "this is a mean over steps; equation (39) is a sum over steps": lambda s, a, w, pi: (
                _table(s, a, w, pi) / len(s)
            ),
            "every step has the same weight here; each has its own": lambda s, a, w, pi: _table(
                s, a, np.full(len(s), w.sum()), pi
            ),
            "the sign is turned round: this goes down": lambda s, a, w, pi: -_table(s, a, w, pi),
        },
        hints=(
            "Each step adds to one row of the table, that of its state.",
            "It adds its weight times the score: one-hot of the action, minus pi[state].",
            "for s, a, w in zip(states, actions, weights): table[s] += w * (np.eye(pi.shape[1])[a] - pi[s])",
        ),
    ),
    "03.4": Exercise(
        cases=((),),
        oracle=_true_statements,
        misconceptions={
            "b: with rewards 0.95 and -1 and gamma = 0.9 the two slopes have different signs": lambda: "abcd",
            "c: the factor is hidden in G_0, which is discounted from the start; earlier rewards have mean 0 there": (
                lambda: "ad"
            ),
            "(e) is true only for gamma = 1": lambda: "acde",
            "b and e: try them on the two-step chain above, with gamma below 1": lambda: "abcde",
            "a: at gamma = 1 the factor is 1": lambda: "cd",
        },
        hints=(
            "Take the chain with one shared weight: its true slope is p(1 - p)(r_0 + gamma r_1).",
            "(34) has G_0 = r_0 + gamma r_1 at both steps. What came before an action has mean 0 beside its score.",
            'Three of the five are true: "acd".',
        ),
    ),
    "03.5": Exercise(
        cases=(
            (np.array([0.2, 0.8]), np.array([1.0, 0.0])),
            (np.array([0.1, 0.3, 0.6]), np.array([5.0, 1.0, 2.0])),
            (np.array([0.7, 0.2, 0.1]), np.array([-1.0, 4.0, 10.0])),
        ),
        oracle=_baseline_by_search,
        misconceptions={
            "this is the mean reward, V: a good baseline and not the best; weigh by the squared length of the score": (
                lambda p, r: p @ r
            ),
            "these are not weighed by the probabilities": (
                lambda p, r: (((np.eye(len(p)) - p) ** 2).sum(-1) @ r) / ((np.eye(len(p)) - p) ** 2).sum()
            ),
            "the plain mean over actions is not a mean over samples": lambda p, r: r.mean(),
            "the length of the score must be squared": lambda p, r: (
                (p * np.sqrt(((np.eye(len(p)) - p) ** 2).sum(-1)))
                @ r
                / (p @ np.sqrt(((np.eye(len(p)) - p) ** 2).sum(-1)))
            ),
            "divide by the mean squared length of the score": lambda p, r: (
                (p * ((np.eye(len(p)) - p) ** 2).sum(-1)) @ r
            ),
        },
        hints=(
            "The mean of the estimate does not depend on b, so minimise its second moment, E (R - b)^2 |score|^2.",
            "Set the derivative to 0: b = E[R |score|^2] / E[|score|^2].",
            "scores = np.eye(len(probs)) - probs; w = probs * (scores**2).sum(-1); w @ rewards / w.sum()",
        ),
    ),
    "03.6": Exercise(
        cases=(
            (_LONG, _V, 2.0, 0.9, 0.5),
            (_LONG, _V, 0.0, 0.9, 0.95),
            (_REWARDS, _V[:3], 1.0, 0.5, 0.0),
            (_REWARDS, _V[:3], 1.0, 0.8, 1.0),
        ),
        oracle=_gae_by_sums,
        misconceptions={
            "these are the TD errors, which is lambda = 0; later errors count (gamma lambda)^k": (
                lambda r, v, last, g, lam: _deltas(r, v, last, g)
            ),
            "this is the return minus V, which is lambda = 1": lambda r, v, last, g, lam: _recursion(
                _deltas(r, v, last, g), g
            ),
            "the carry is multiplied by lambda only; by gamma times lambda": (
                lambda r, v, last, g, lam: _recursion(_deltas(r, v, last, g), lam)
            ),
            "the value after the last step is left out: the recording stopped, not the world": (
                lambda r, v, last, g, lam: _recursion(_deltas(r, v, 0.0, g), g * lam)
            ),
            "in the TD error the next value is not discounted": (
                lambda r, v, last, g, lam: _recursion(_deltas(r, v, last, 1.0), g * lam)
            ),
            "this is a value target, GAE plus V": (
                lambda r, v, last, g, lam: _recursion(_deltas(r, v, last, g), g * lam) + v
            ),
        },
        hints=(
            "First all TD errors: r_t + gamma V_{t+1} - V_t, with last_value after the last step.",
            "Then from the end: carry = delta_t + gamma * lam * carry.",
            "Loop over reversed(range(T)), store carry, and turn the list round at the end.",
        ),
    ),
}
