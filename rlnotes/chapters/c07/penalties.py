"""Exercises of chapter 07 on the KL penalty."""

import math

import numpy as np

from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.exact.token_gradients import flat, mean_gradient, softmax_policy
from rlnotes.exact.tokens import TokenModel, log_token_ratios, single_prompt, single_prompt_policy
from rlnotes.notebook.exercise import Exercise


def _best_by_odds(reference: np.ndarray, rewards: np.ndarray, beta: float) -> list[float]:
    """One over the sum of all responses' odds against this one."""
    shares = []
    for own, reward in zip(reference.tolist(), rewards.tolist(), strict=True):
        pairs = zip(reference.tolist(), rewards.tolist(), strict=True)
        odds = [other / own * math.exp(min((r - reward) / beta, 700)) for other, r in pairs] if own > 0 else [math.inf]
        shares.append(1 / sum(odds))
    return shares


def _overflowing(reference: np.ndarray, rewards: np.ndarray, beta: float) -> np.ndarray:
    """The formula as it stands: inf / inf for a small beta."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = reference * np.exp(rewards / beta)
        return weights / weights.sum()


def _policy(model: TokenModel, logits: np.ndarray) -> list[np.ndarray]:
    """The policy of flat logits: two of the first token, then two after each first token."""
    return softmax_policy(model, [logits[:2].reshape(1, 1, 2), logits[2:].reshape(1, -1, 2)][: model.horizon])


def _true_of_penalties() -> str:
    """Exact mean gradients on responses of one and of two tokens, against central differences of the divergence."""
    slopes = {"k1": np.ones_like, "k2": lambda x: x, "k3": lambda x: 1 - np.exp(-x)}  # of the values
    values = {"k1": lambda x: x, "k2": lambda x: x**2 / 2, "k3": lambda x: np.exp(-x) - 1 + x}
    right: set[tuple[str, str, int]] = set()
    zero: set[tuple[str, str, int]] = set()
    for T in (1, 2):
        model = single_prompt(np.zeros(2**T), 2, T)
        point = np.array([0.0, 0.3, 2.0, 0.0, 0.0, 1.0][: 2 * 2**T - 2])
        ref = single_prompt_policy([[[0.4, 0.6]], [[0.5, 0.5], [0.6, 0.4]]][:T])
        pi = _policy(model, point)
        x = log_token_ratios(model, pi, ref)
        ahead, behind = (
            np.array([sequence_kl(model, _policy(model, point + sign * e), ref) for e in 1e-5 * np.eye(len(point))])
            for sign in (1, -1)
        )
        true = (ahead - behind) / 2e-5
        for name in values:
            in_reward = np.broadcast_to(values[name](x).sum(-1, keepdims=True), x.shape)
            for where, weights in (("loss", slopes[name](x)), ("reward", in_reward)):
                found = flat(mean_gradient(model, pi, pi, weights))
                if np.allclose(found, true, atol=1e-6):
                    right.add((name, where, T))
                if np.allclose(found, 0, atol=1e-6):
                    zero.add((name, where, T))
    holds = {
        "a": not {("k1", "loss", 1), ("k1", "loss", 2)} <= zero,
        "b": ("k3", "loss", 1) in right,
        "c": ("k2", "loss", 1) in right,
        "d": ("k2", "loss", 2) in right,
        "e": {found for found in right if found[1:] == ("reward", 2)} == {("k1", "reward", 2)},
    }
    return "".join(letter for letter, true in holds.items() if true)


PENALTIES: dict[str, Exercise] = {
    "07.8": Exercise(
        cases=(
            (np.full(4, 0.25), np.array([1.0, 0.0, 0.75, 0.75]), 0.5),
            (np.array([0.7, 0.2, 0.1]), np.array([0.0, 1.0, 2.0]), 1.0),
            (np.array([0.5, 0.5, 0.0]), np.array([0.0, -1.0, 5.0]), 2.0),
            (np.array([0.9, 0.1]), np.array([0.0, 1.0]), 0.001),
        ),
        oracle=_best_by_odds,
        misconceptions={
            "the reference is missing: this is the best policy under an entropy bonus": lambda ref, r, b: (
                np.exp((r - r.max()) / b) / np.exp((r - r.max()) / b).sum()
            ),
            "it is not normalised: divide by the sum": lambda ref, r, b: ref * np.exp((r - r.max()) / b),
            "the rewards are multiplied by beta; a large penalty must count them less: divide": lambda ref, r, b: (
                ref * np.exp((r - r.max()) * b) / (ref * np.exp((r - r.max()) * b)).sum()
            ),
            "this takes the best response always, and so forgets the penalty": lambda ref, r, b: (
                np.where(ref > 0, r, -np.inf) == r[ref > 0].max()
            ).astype(float),
            "exp overflows where beta is small: subtract the largest reward first": lambda ref, r, b: _overflowing(
                ref, r, b
            ),
        },
        hints=(
            "Multiply each probability by exp(reward / beta), then divide by the sum.",
            "Taking the largest reward off all rewards changes nothing but the size of the numbers.",
            "weights = reference * np.exp((rewards - rewards.max()) / beta); weights / weights.sum()",
        ),
    ),
    "07.9": Exercise(
        cases=((),),
        oracle=_true_of_penalties,
        misconceptions={
            "a is wrong: the mean gradient of k1 in the loss is 0, and so it is times any beta": lambda: "ace",
            "b is wrong: with the samples held fixed, the gradient of k3 is that of the KL the other way round": (
                lambda: "bce"
            ),
            "d is wrong: in the loss the first token does not answer for the divergence of the second": lambda: "cde",
            "e is one; there is another": lambda: "e",
            "c is one; there is another": lambda: "c",
        },
        hints=(
            "Fact 7.8 has an answer to each of the five.",
            "Two are true. One of them is about the loss, the other about the reward.",
            "For responses of one token, k2 in the loss is right. In the reward, k1 is.",
        ),
    ),
}
