"""Enumerable token models: every answer of a small vocabulary and horizon, with its probability and its reward.

A prefix of t tokens is a number from 0 to V**t - 1: its digits in base V, first token most significant. A policy is a
list of T arrays; ``policy[t]`` (B, V**t, V) holds the distribution of token t after every prefix, for B prompts.
Expectations run over prompts too. ``behavior`` is mu (001's roll), ``target`` is pi (001's theta).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlnotes.exact.checks import SupportError, distribution, finite

Policy = Sequence[np.ndarray]

MEMORY_LIMIT = 2 * 1024**3  # bytes that one enumeration may take: what a laptop can spare
_PER_ANSWER, _PER_TOKEN = 8, 4  # arrays alive at once: one number per answer, one per token of an answer


def require_memory(vocab_size: int, horizon: int, prompts: int = 1) -> None:
    """Raises ``MemoryError``, before anything is allocated, where listing all answers would pass ``MEMORY_LIMIT``."""
    if vocab_size < 2 or horizon < 1 or prompts < 1:
        raise ValueError(
            f"vocab_size is {vocab_size}, horizon is {horizon}, with {prompts} prompts; "
            "at least 2 tokens, 1 step and 1 prompt are needed"
        )
    log_bytes = math.log2(8 * prompts * (_PER_TOKEN * horizon + _PER_ANSWER)) + horizon * math.log2(vocab_size)
    if log_bytes > math.log2(MEMORY_LIMIT):
        needed = f"{2 ** (log_bytes - 30):,.1f} GiB" if log_bytes < 60 else f"2^{log_bytes:.0f} bytes"
        raise MemoryError(
            f"{prompts} prompts with {vocab_size}^{horizon} answers each need about {needed} of memory; the limit is "
            f"{MEMORY_LIMIT / 2**30:.3g} GiB (MEMORY_LIMIT). Take a smaller horizon or vocab_size"
        )


@dataclass(frozen=True, eq=False)
class TokenModel:
    """Prompts, and the reward of every answer.

    ``reward`` (B, V**T), answers in lexicographic order; ``prompt_weights`` (B,) sum to 1. With ``eos``, every policy
    must emit ``eos`` after ``eos``, so that an answer stands once, padded, and padding changes nothing (ratios are 1).
    Raises ``ValueError`` for shapes and numbers that do not fit, ``MemoryError`` for too many answers.

    >>> model = TokenModel([[0, 1], [1, 0]], 2, horizon=1, prompt_weights=[0.5, 0.5])
    >>> expected_reward(model, [np.array([[[0.25, 0.75]], [[0.25, 0.75]]])])
    0.5
    """

    reward: np.ndarray
    vocab_size: int
    horizon: int
    prompt_weights: np.ndarray
    eos: int | None = None

    def __post_init__(self) -> None:
        weights = distribution("prompt_weights", self.prompt_weights, (None,))
        require_memory(self.vocab_size, self.horizon, len(weights))
        if self.eos is not None and not 0 <= self.eos < self.vocab_size:
            raise ValueError(f"eos is {self.eos}; it must be a token, 0 to {self.vocab_size - 1}, or None")
        reward = finite("reward", self.reward, (len(weights), self.vocab_size**self.horizon))
        object.__setattr__(self, "prompt_weights", weights)
        object.__setattr__(self, "reward", reward)

    @property
    def prompts(self) -> int:
        """B."""
        return len(self.prompt_weights)


def single_prompt(reward: object, vocab_size: int, horizon: int, eos: int | None = None) -> TokenModel:
    """The model of one prompt: ``reward`` (V**T,).

    >>> model = single_prompt(reward=[0, 1, 1, 0], vocab_size=2, horizon=2)
    >>> model.reward.shape, model.prompts
    ((1, 4), 1)
    """
    return TokenModel(np.asarray(reward, dtype=np.float64)[None], vocab_size, horizon, np.ones(1), eos)


def single_prompt_policy(rows: Sequence[object]) -> list[np.ndarray]:
    """The policy of one prompt: ``rows[t]`` (V**t, V).

    >>> policy = single_prompt_policy([[(0.5, 0.5)], [(0.5, 0.5), (0.25, 0.75)]])
    >>> policy[0].shape, policy[1].shape
    ((1, 1, 2), (1, 2, 2))
    """
    return [np.asarray(row, dtype=np.float64)[None] for row in rows]


def sequences(vocab_size: int, horizon: int) -> np.ndarray:
    """All answers (V**T, T) as tokens, in lexicographic order. Raises ``MemoryError`` where they are too many.

    >>> print(sequences(vocab_size=2, horizon=2).tolist())
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    require_memory(vocab_size, horizon)
    index = np.arange(vocab_size**horizon)
    return np.stack([index // vocab_size ** (horizon - 1 - t) % vocab_size for t in range(horizon)], axis=1)


def ended(vocab_size: int, t: int, eos: int | None) -> np.ndarray:
    """Which prefixes (V**t,) of t tokens hold ``eos`` already."""
    over = np.zeros(1, dtype=bool)
    for _ in range(t):
        over = (over[:, None] | (np.arange(vocab_size) == eos)).reshape(-1)
    return over


def own_tokens(model: TokenModel) -> np.ndarray:
    """(V**T, T) bool: True on an answer's own tokens, its first ``eos`` included, nothing after it.

    >>> print(own_tokens(single_prompt([0, 1, 0, 0], vocab_size=2, horizon=2, eos=1)))
    [[ True  True]
     [ True  True]
     [ True False]
     [ True False]]
    """
    size, horizon = model.vocab_size, model.horizon
    over = [np.repeat(ended(size, t, model.eos), size ** (horizon - t)) for t in range(horizon)]
    return ~np.stack(over, axis=1)


def force_eos(model: TokenModel, policy: Policy) -> list[np.ndarray]:
    """The policy with every row after ``eos`` set to ``eos`` with probability 1.

    >>> model = single_prompt(reward=[0, 1, 0, 0], vocab_size=2, horizon=2, eos=1)
    >>> print(force_eos(model, single_prompt_policy([[(0.5, 0.5)], [(0.5, 0.5)] * 2]))[1])
    [[[0.5 0.5]
      [0.  1. ]]]
    """
    forced = [np.array(rows, dtype=np.float64) for rows in policy]
    if model.eos is not None:
        for t, rows in enumerate(forced):
            rows[:, ended(model.vocab_size, t, model.eos)] = np.eye(model.vocab_size)[model.eos]
    return forced


def check_policy(model: TokenModel, policy: Policy, name: str = "policy") -> list[np.ndarray]:
    """The policy in float64. Raises ``ValueError`` for a shape, a row that is no distribution, a token after eos."""
    if len(policy) != model.horizon:
        raise ValueError(f"{name} has {len(policy)} steps; the model's horizon is {model.horizon}")
    size = model.vocab_size
    checked = [distribution(f"{name}[{t}]", policy[t], (model.prompts, size**t, size)) for t in range(model.horizon)]
    if model.eos is not None:
        for t, rows in enumerate(checked):
            loose = np.argwhere(ended(size, t, model.eos) & (rows[..., model.eos] != 1))
            if loose.size:
                prompt, prefix = loose[0].tolist()
                raise ValueError(
                    f"{name}[{t}][{prompt}, {prefix}] goes on after eos (prefix {tokens_of(prefix, t, size)}); "
                    f"eos must follow with probability 1: force_eos does that"
                )
    return checked


def tokens_of(prefix: int, t: int, vocab_size: int) -> list[int]:
    """The t tokens of a prefix number."""
    return [prefix // vocab_size ** (t - 1 - s) % vocab_size for s in range(t)]


def prefix_probs(model: TokenModel, policy: Policy) -> list[np.ndarray]:
    """For t = 0..T, the probability (B, V**t) of every prompt with prefix: 001 2.1.2. Each array sums to 1."""
    probs = [model.prompt_weights[:, None]]
    for rows in check_policy(model, policy):
        probs.append((probs[-1][..., None] * rows).reshape(model.prompts, -1))
    return probs


def sequence_probs(model: TokenModel, policy: Policy) -> np.ndarray:
    """The probability (B, V**T) of every prompt with answer; they sum to 1.

    >>> model = single_prompt(reward=[0, 0, 0, 1], vocab_size=2, horizon=2)
    >>> policy = single_prompt_policy([[(0.5, 0.5)], [(0.5, 0.5), (0.25, 0.75)]])
    >>> print(sequence_probs(model, policy))
    [[0.25  0.25  0.125 0.375]]
    """
    return prefix_probs(model, policy)[-1]


def expected_reward(model: TokenModel, policy: Policy) -> float:
    """J: the mean reward.

    >>> model = single_prompt(reward=[0, 0, 0, 1], vocab_size=2, horizon=2)
    >>> policy = single_prompt_policy([[(0.5, 0.5)], [(0.5, 0.5), (0.25, 0.75)]])
    >>> expected_reward(model, policy)
    0.375
    """
    return float((sequence_probs(model, policy) * model.reward).sum())


def improvement(model: TokenModel, target: Policy, behavior: Policy) -> float:
    """J(target) - J(behavior). Needs no common support.

    >>> from rlnotes.exact.token_families import parity
    >>> improvement(*parity(horizon=2, old=0.5, shift=0.25))  # 2 * 3/4 * 1/4 - 1/2
    -0.125
    """
    return float(((sequence_probs(model, target) - sequence_probs(model, behavior)) * model.reward).sum())


class TokenValues(NamedTuple):
    """By t: ``v[t]`` (B, V**t), ``q[t]`` and ``a[t]`` (B, V**t, V)."""

    v: list[np.ndarray]
    q: list[np.ndarray]
    a: list[np.ndarray]


def values(model: TokenModel, policy: Policy) -> TokenValues:
    """Mean final reward after every prefix (V), prefix with token (Q), and their difference: 001 2.3.1.

    >>> model = single_prompt(reward=[0, 0, 0, 1], vocab_size=2, horizon=2)
    >>> v, q, a = values(model, single_prompt_policy([[(0.5, 0.5)], [(1, 0), (0, 1)]]))
    >>> print(v[0], q[0])
    [[0.5]] [[[0. 1.]]]
    """
    v, q, after = [], [], model.reward
    for t, rows in reversed(list(enumerate(check_policy(model, policy)))):
        q.insert(0, after.reshape(model.prompts, model.vocab_size**t, model.vocab_size))
        after = (rows * q[0]).sum(-1)
        v.insert(0, after)
    return TokenValues(v, q, [of_token - of_prefix[..., None] for of_token, of_prefix in zip(q, v, strict=True)])


def require_support(model: TokenModel, target: Policy, behavior: Policy) -> None:
    """Raises ``SupportError`` where the behavior reaches a prefix and never gives a token that the target gives."""
    target, behavior = check_policy(model, target, "target"), check_policy(model, behavior, "behavior")
    for t, reach in enumerate(prefix_probs(model, behavior)[:-1]):
        missing = np.argwhere((reach > 0)[..., None] & (behavior[t] == 0) & (target[t] > 0))
        if missing.size:
            prompt, prefix, token = missing[0].tolist()
            raise SupportError(
                f"behavior never gives token {token} after prefix {tokens_of(prefix, t, model.vocab_size)} of prompt "
                f"{prompt}, and target gives it with probability {target[t][prompt, prefix, token]:.6g}: importance "
                "ratios cannot make up for it. Give the behavior all tokens of the target, or use a function that "
                "needs no ratios (improvement, surrogate_by_position)"
            )


def context_ratios(model: TokenModel, target: Policy, behavior: Policy) -> list[np.ndarray]:
    """By t, target over behavior (B, V**t, V); 1 where the behavior gives 0, which no sample of it meets."""
    target, behavior = check_policy(model, target, "target"), check_policy(model, behavior, "behavior")
    return [
        np.divide(new, old, out=np.ones_like(new), where=old > 0) for new, old in zip(target, behavior, strict=True)
    ]


def on_answers(model: TokenModel, by_context: Sequence[np.ndarray]) -> np.ndarray:
    """(B, V**T, T): what stands by context, ``by_context[t]`` (B, V**t, V) or (B, V**t, 1), met along every answer.

    >>> model = single_prompt(reward=[0, 0, 0, 1], vocab_size=2, horizon=2)
    >>> print(on_answers(model, [np.array([[[0.1]]]), np.array([[[0.2], [0.3]]])])[0])
    [[0.1 0.2]
     [0.1 0.2]
     [0.1 0.3]
     [0.1 0.3]]
    """
    size = model.vocab_size
    along = np.empty((*model.reward.shape, model.horizon))
    for t, numbers in enumerate(by_context):
        by_token = np.broadcast_to(numbers, (model.prompts, size**t, size)).reshape(model.prompts, -1)
        along[..., t] = np.repeat(by_token, size ** (model.horizon - 1 - t), axis=1)
    return along


def token_ratios(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """The ratio rho_t of every token of every answer (B, V**T, T), as :func:`context_ratios`.

    >>> from rlnotes.exact.token_families import parity
    >>> print(token_ratios(*parity(horizon=2, old=0.5, shift=0.25))[0])
    [[0.5 0.5]
     [0.5 1.5]
     [1.5 0.5]
     [1.5 1.5]]
    """
    return on_answers(model, context_ratios(model, target, behavior))


def log_token_ratios(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """log rho_t (B, V**T, T), -inf where the target gives 0.

    >>> from rlnotes.exact.token_families import parity
    >>> print(log_token_ratios(*parity(horizon=2, old=0.5, shift=0.25))[0].round(3))
    [[-0.693 -0.693]
     [-0.693  0.405]
     [ 0.405 -0.693]
     [ 0.405  0.405]]
    """
    with np.errstate(divide="ignore"):
        return on_answers(model, [np.log(ratio) for ratio in context_ratios(model, target, behavior)])


def variance(model: TokenModel, policy: Policy, numbers: np.ndarray) -> float:
    """The variance, over prompts and the policy's answers, of ``numbers`` (B, V**T).

    >>> model = single_prompt(reward=[1, 0], vocab_size=2, horizon=1)
    >>> variance(model, single_prompt_policy([[(0.25, 0.75)]]), model.reward)  # 1/4 * 3/4
    0.1875
    """
    probs = sequence_probs(model, policy)
    return float((probs * (numbers - (probs * numbers).sum()) ** 2).sum())
