"""Random token models with a pair of policies, in regimes that try bounds and estimators from different sides."""

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import softmax

from rlnotes.exact.tokens import TokenModel, force_eos

Regime = Literal["near", "far", "near-deterministic", "heavy-tailed", "sparse", "boosted", "zeros"]
REGIMES: tuple[Regime, ...] = get_args(Regime)

_LARGEST = 1024  # answers per prompt


class TokenCase(NamedTuple):
    """A model, the policy to be judged, and the policy that samples; behavior has every token of target."""

    model: TokenModel
    target: list[np.ndarray]
    behavior: list[np.ndarray]


def random_case(rng: np.random.Generator, regime: Regime) -> TokenCase:
    """V 2-4, T 1-6 (at most 1024 answers), 1-2 prompts, with or without eos, rewards in [0, 1], half of them 0 or 1.

    ``near``: logits moved by 1e-3 to 1. ``far``: independent policies. ``near-deterministic``: both close to one
    token, not always the same. ``heavy-tailed``: log-ratios of Student's t with 1.5 degrees of freedom.
    ``sparse``: far apart at a fifth of the contexts, equal elsewhere. ``boosted``: a token of probability 1e-6 to 1e-2
    becomes likely. ``zeros``: the target drops tokens. Raises ``ValueError`` for any other regime.

    >>> model, target, behavior = random_case(np.random.default_rng(0), regime="near")
    >>> len(target) == model.horizon
    True
    """
    if regime not in REGIMES:
        raise ValueError(f"regime is {regime!r}; choose one of {', '.join(REGIMES)}")
    size = int(rng.integers(2, 5))
    horizon = int(rng.integers(1, min(6, int(np.log(_LARGEST) / np.log(size) + 1e-9)) + 1))
    prompts = int(rng.integers(1, 3))
    eos = int(rng.integers(size)) if rng.random() < 0.5 else None
    reward = rng.random((prompts, size**horizon))
    reward = np.round(reward) if rng.random() < 0.5 else reward
    model = TokenModel(reward, size, horizon, rng.dirichlet(np.ones(prompts)), eos)
    scale = 10 ** rng.uniform(-3, 0)
    pairs = [_rows(rng, regime, (prompts, size**t, size), scale) for t in range(horizon)]
    return TokenCase(model, force_eos(model, [new for new, _ in pairs]), force_eos(model, [old for _, old in pairs]))


def _rows(
    rng: np.random.Generator, regime: Regime, shape: tuple[int, int, int], scale: float
) -> tuple[np.ndarray, ...]:
    """Target and behavior at one position."""
    if regime == "near-deterministic":
        old = softmax(10 * rng.normal(size=shape), axis=-1)
        return softmax(np.log(old) + 3 * rng.normal(size=shape), axis=-1), old
    old = softmax(rng.normal(size=shape), axis=-1)
    other = softmax(2 * rng.normal(size=shape), axis=-1)
    if regime == "near":
        return softmax(np.log(old) + scale * rng.normal(size=shape), axis=-1), old
    if regime == "far":
        return other, old
    if regime == "heavy-tailed":
        jumps = np.clip(scale * rng.standard_t(1.5, size=shape), -30, 30)
        return softmax(np.log(old) + jumps, axis=-1), old
    changed = rng.random((*shape[:2], 1)) < 0.2
    if regime == "sparse":
        return np.where(changed, other, old), old
    token = np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:2])]
    if regime == "boosted":
        rare = 10 ** rng.uniform(-6, -2, size=(*shape[:2], 1))
        boost = rng.uniform(0, 1, size=(*shape[:2], 1))
        old = (1 - rare) * _without(old, token) + rare * token
        return np.where(changed, (1 - boost) * _without(old, token) + boost * token, old), old
    return np.where(changed, _without(old, token), old), old


def _without(rows: np.ndarray, token: np.ndarray) -> np.ndarray:
    """The distributions once one token of each is ruled out."""
    rest = rows * (1 - token)
    return rest / rest.sum(-1, keepdims=True)
