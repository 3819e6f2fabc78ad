"""Theorems 12.3 and 12.4 where every answer can be listed: both sides, for whole responses of several versions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlnotes.bounds.mdp import state_tv
from rlnotes.chapters.c12.promise import split_penalties
from rlnotes.exact import tokens
from rlnotes.exact.tokens import TokenModel

Policy = list[np.ndarray]  # by t, (B, V**t, V)


class TokenPromises(NamedTuple):
    """The true change J(pi) - J(pi_k), what is promised by either advantages, and Fact 12.15: ``rest`` is what the
    surrogate leaves out of the gain over the data, ``rest_by_place`` and ``rest_by_mean`` its bounds.
    """

    true: float
    split: float
    own: float
    rest: float
    rest_by_place: float
    rest_by_mean: float


def token_promises(
    model: TokenModel, versions: Sequence[Policy], alpha: Sequence[float], current: Policy, new: Policy
) -> TokenPromises:
    """For versions that begin a response with chances ``alpha`` and write all of it."""
    T = model.horizon
    advantages = [tokens.values(model, policy).a for policy in versions]
    own = tokens.values(model, current).a
    shares = list(zip(alpha, versions, strict=True))
    visits = [[share * p for p in tokens.prefix_probs(model, policy)] for share, policy in shares]

    def expected(of: list[np.ndarray]) -> list[np.ndarray]:
        return [(new[t] * of[t]).sum(-1) for t in range(T)]

    def over_contexts(per_version: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        """The mean at each position (T,)."""
        pairs = list(zip(visits, per_version, strict=True))
        return np.array([sum(float((d[t] * x[t]).sum()) for d, x in pairs) for t in range(T)])

    def distances(policy: Policy) -> np.ndarray:
        return over_contexts([[state_tv(policy[t], old[t]) for t in range(T)] for old in versions])

    gains, own_gains = [expected(a) for a in advantages], expected(own)
    update = over_contexts([[state_tv(new[t], current[t]) for t in range(T)]] * len(versions)).mean()
    stale, shift = distances(current).mean(), distances(new)
    xi, own_xi = _largest([g for each in gains for g in each]), _largest(own_gains)
    penalties = split_penalties(T, xi, _largest(own), float(update), float(stale))
    J, J_k = (tokens.expected_reward(model, policy) for policy in (new, current))
    J_mix = sum(share * tokens.expected_reward(model, policy) for share, policy in shares)
    L = over_contexts(gains).sum()
    return TokenPromises(
        true=J - J_k,
        split=L - sum(penalties),
        own=over_contexts([own_gains] * len(versions)).sum() - 2 * T * (T - 1) * own_xi * shift.mean(),
        rest=abs(J - J_mix - L),
        rest_by_place=2 * xi * float((T - 1 - np.arange(T)) @ shift),
        rest_by_mean=2 * T * (T - 1) * xi * shift.mean(),
    )


def _largest(numbers: Sequence[np.ndarray]) -> float:
    return max(float(np.abs(each).max()) for each in numbers)


def random_promises(seed: int, vocab_size: int = 3, horizon: int = 3) -> TokenPromises:
    """On a random model with two versions, all policies within some random distance of each other."""
    rng = np.random.default_rng(seed)
    model = tokens.single_prompt(rng.integers(0, 4, vocab_size**horizon) / 3, vocab_size, horizon)
    shapes = [(1, vocab_size**t, vocab_size) for t in range(horizon)]
    logits, far = [rng.normal(size=shape) for shape in shapes], 10 ** rng.uniform(-3, 0.5)

    def near() -> Policy:
        moved = [np.exp(own + far * rng.normal(size=own.shape)) for own in logits]
        return [rows / rows.sum(-1, keepdims=True) for rows in moved]

    share = float(rng.uniform())
    return token_promises(model, [near(), near()], [share, 1 - share], near(), near())
