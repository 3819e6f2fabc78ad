"""The explorer of chapter 03: bias and variance of the policy gradient with generalised advantage estimates."""

import json
from functools import cache

import numpy as np

from rlnotes.estimators.returns import gae
from rlnotes.exact.mdp import MDP, policy_gradient, values
from rlnotes.exact.pathologies import two_rooms
from rlnotes.exact.trajectory_gradients import Trajectories, moments, per_trajectory, trajectories, with_bell
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

STEPS = 4
HEADS_FOR_1 = 0.2
LAMBDAS = np.arange(51) / 50
EPISODES = np.arange(1, 301)


@cache
def rooms() -> tuple[MDP, np.ndarray, Trajectories]:
    """The two rooms of chapter 02, stopped after four steps; a policy that heads for room 1 once in five; its episodes.

    The states are (time, room), so with the end there are nine.
    """
    mdp = with_bell(two_rooms(0.9).mdp, STEPS)
    pi = np.tile([1 - HEADS_FOR_1, HEADS_FOR_1], (mdp.states, 1))
    return mdp, pi, trajectories(mdp, pi, STEPS)


def blurred(v: np.ndarray, blur: float) -> np.ndarray:
    """A critic (S,) that is off: at 0 it is ``v``, at 1 it knows the time and not the room, at 2 it mixes them up."""
    by_room = v[:-1].reshape(-1, 2)
    return v + blur * np.append((by_room.mean(1, keepdims=True) - by_room).ravel(), 0.0)


def gae_weights(critic: np.ndarray, lam: float) -> np.ndarray:
    """gamma^t times GAE (T, K) for every episode of :func:`rooms`."""
    mdp, _, paths = rooms()
    never = np.zeros_like(paths.ended)
    advantages = gae(paths.rewards, critic[paths.states], critic[paths.next_states], paths.ended, never, mdp.gamma, lam)
    return mdp.gamma ** np.arange(STEPS)[:, None] * advantages


@cache
def bias_and_variance(blur: float) -> tuple[np.ndarray, np.ndarray]:
    """Squared bias and total variance of one episode's estimate, at each of ``LAMBDAS``, by listing all episodes."""
    mdp, pi, paths = rooms()
    critic, true = blurred(values(mdp, pi).v, blur), policy_gradient(mdp, np.log(pi))
    found = [moments(paths, pi, gae_weights(critic, float(lam))) for lam in LAMBDAS]
    return np.array([((m.mean - true) ** 2).sum() for m in found]), np.array([m.variance for m in found])


@cache
def tables() -> dict[str, list[list[float]]]:
    """Squared bias and variance as polynomials: entry [i][j] belongs to lambda^i blur^j.

    An estimate is linear in the critic and a polynomial of degree STEPS - 1 in lambda, so its moments have twice these
    degrees. The parts are found by interpolation, and multiplied out.
    """
    mdp, pi, paths = rooms()
    v, true = values(mdp, pi).v, policy_gradient(mdp, np.log(pi))
    powers = np.vander(np.arange(STEPS) / (STEPS - 1), increasing=True)
    parts = np.zeros((STEPS, 2, len(paths.probs), true.size))  # power of lambda, power of blur
    for blur in (0, 1):
        critic = blurred(v, blur)
        at_nodes = [per_trajectory(paths, pi, gae_weights(critic, float(node))) for node in powers[:, 1]]
        parts[:, blur] = np.linalg.solve(powers, np.reshape(at_nodes, (STEPS, -1))).reshape(parts[:, blur].shape)
    parts[:, 1] -= parts[:, 0]
    means = np.einsum("k,ijkx->ijx", paths.probs, parts)
    off = means.copy()
    off[0, 0] -= true.ravel()
    spread = parts - means[:, :, None]
    squared_bias, variance = np.zeros((2, 2 * STEPS - 1, 3))
    for i, j in np.ndindex(STEPS, 2):
        for k, m in np.ndindex(STEPS, 2):
            squared_bias[i + k, j + m] += off[i, j] @ off[k, m]
            variance[i + k, j + m] += paths.probs @ (spread[i, j] * spread[k, m]).sum(-1)
    return {"squaredBias": squared_bias.tolist(), "variance": variance.tolist()}


class GaeExplorer(ExplorerModel):
    """Squared error of the gradient over lambda, and the lambda with the smallest, by episodes and critic."""

    script = "gae.js"
    title = "Bias and variance of the policy gradient with GAE"
    controls = (
        Control("lam", "λ", 0.0, 1.0, 0.02, 0.5),
        Control("episodes", "episodes N", 1, 300, 1, 50),
        Control("blur", "how far the critic is off", 0.0, 2.0, 0.1, 1.0),
    )
    panels = (
        Axes("squared error of the gradient", "λ", "squared error", (0, 1)),
        Axes("the λ with the smallest error", "episodes N", "λ", (1, 300), (-0.03, 1.03)),
    )

    def compute(self, values: dict[str, float]) -> str:
        """With the coefficients of :func:`tables`."""
        return f"{super().compute(values)}\nconst TABLES = {json.dumps(tables())};"

    def curves(self, **values: float) -> list[Panel]:
        """By :func:`bias_and_variance`."""
        squared_bias, variance = bias_and_variance(values["blur"])
        noise = variance / values["episodes"]
        best = LAMBDAS[(squared_bias + variance / EPISODES[:, None]).argmin(-1)]
        return [
            [
                ("sum", LAMBDAS, squared_bias + noise),
                ("variance / N", LAMBDAS, noise),
                ("bias²", LAMBDAS, squared_bias),
            ],
            [("best λ", EPISODES, best)],
        ]

    def marks(self, **values: float) -> list[float]:
        """At lambda, and at the number of episodes."""
        return [values["lam"], values["episodes"]]


EXPLORERS: dict[str, ExplorerModel] = {"gae": GaeExplorer()}
