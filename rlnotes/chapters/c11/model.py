"""The model of 27 responses of chapter 11, its weights, and what a step along an estimate keeps of an exact one's
guaranteed gain.
"""

from typing import NamedTuple

import numpy as np

from rlnotes.bounds import gradient_ascent
from rlnotes.exact import token_gradients, token_progress, tokens
from rlnotes.exact.tokens import Policy, TokenModel


class Pair(NamedTuple):
    """Responses of three tokens with a reward each, the policy that learns and the one that sampled."""

    model: TokenModel
    pi: Policy
    mu: Policy

    @property
    def baseline(self) -> float:
        """J(mu)."""
        return tokens.expected_reward(self.model, self.mu)

    @property
    def probs(self) -> np.ndarray:
        """(27,) of the responses under mu."""
        return tokens.sequence_probs(self.model, self.mu)[0]

    @property
    def ratios(self) -> np.ndarray:
        """(27,) w of each response."""
        return tokens.sequence_probs(self.model, self.pi)[0] / self.probs


def draw(seed: int) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Rewards (27,), logits of pi by prefix, and what those of mu have more, with two decimals."""
    rng = np.random.default_rng(seed)
    rewards = (rng.random(27) < 0.3).astype(float)
    pi, more = ([rng.normal(size=(1, 3**t, 3)).round(2) for t in range(3)] for _ in range(2))
    return rewards, pi, more


def pair(seed: int = 0, spread: float = 1.0) -> Pair:
    """A random model; mu is as far from pi as ``spread`` says. Seed 0 is the model of the chapter."""
    rewards, logits, more = draw(seed)
    off = [z + spread * d for z, d in zip(logits, more, strict=True)]
    pi, mu = (token_gradients.softmax_policy(tokens.single_prompt(rewards, 3, 3), z) for z in (logits, off))
    return Pair(tokens.single_prompt(rewards, 3, 3), pi, mu)


def uncorrected(one: Pair) -> np.ndarray:
    """(1, 27, 3) what multiplies the scores of the tokens without a weight: the centred reward."""
    return np.repeat((one.model.reward - one.baseline)[..., None], 3, axis=-1)


def token(one: Pair) -> np.ndarray:
    """(1, 27, 3) the same with the ratio of each token."""
    return token_gradients.token_weights(one.model, one.pi, one.mu, one.baseline)


def response(one: Pair, cap: float = np.inf) -> np.ndarray:
    """(1, 27, 3) the same with the ratio of the response, at most ``cap``."""
    return token_gradients.sequence_weights(one.model, one.pi, one.mu, one.baseline, cap=cap)


class Kept(NamedTuple):
    """What a step keeps of an exact one's guaranteed gain, each at its own best length: Fact 11.2."""

    share: float
    direction: float
    noise: float


def kept(one: Pair, weights: np.ndarray, n: float) -> Kept:
    """Of the mean of ``n`` responses' estimates with ``weights`` (1, 27, 3)."""
    m = gradient_ascent.token_moments(one.model, one.pi, one.mu, weights)
    return of_moments(m, n)


def of_moments(m: gradient_ascent.Moments, n: float) -> Kept:
    """From the moments of one response's estimate."""
    along = max(0.0, m.gradient_squared + m.alignment)
    mean = m.gradient_squared + 2 * m.alignment + m.bias_squared
    direction, noise = along**2 / (m.gradient_squared * mean), mean / (mean + m.variance / n)
    return Kept(direction * noise, direction, noise)


def best_gain(one: Pair, weights: np.ndarray) -> float:
    """The largest of the exact mean gains of J by a step along one response's estimate, over 40 lengths of the step."""
    logits = [np.log(rows) for rows in one.pi]
    gains = (
        token_progress.expected_progress(one.model, logits, one.mu, weights, step) for step in np.geomspace(1, 50, 40)
    )
    return max(gains)
