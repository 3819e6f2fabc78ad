"""Bias and noise of each weight's gradient, measured in the middle of the loop of chapter 11.

``python -m rlnotes.chapters.c11.measured --out 11_measured.json`` takes some two minutes on one thread.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlnotes.chapters.c11.live import AGE, RATES, SAMPLER, TASK, WEIGHTS, Trained, train
from rlnotes.chapters.c11.readings import noise_and_signal
from rlnotes.estimators.baselines import group_mean
from rlnotes.lm.gradient_moments import inner
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.studies.store import store_rows

SMALL, PROMPTS = 2, 64  # prompts of a micro-batch and of all of them, 16 responses to each
SEEDS = {AGE: 20, 0: 6}  # states, by how many rounds older the data are than those of the last round


def gradients(
    policy: Transformer, rollout: Rollout, weight: Callable[[Tensor], Tensor], order: Tensor | None = None
) -> Tensor:
    """(micro-batches, parameters) the gradient of each micro-batch, a mean over its 32 responses: of two groups, or,
    with ``order`` (N,), of responses in that order.
    """
    advantages, found = group_mean(TASK.reward(rollout), 16).reshape(-1, 1), []
    if order is None:
        order = torch.arange(len(advantages))
    single = replace(rollout, prompts=rollout.prompts[rollout.group], group=torch.arange(len(order)))
    for picked in order.split(SMALL * 16):
        part, A = single.groups(picked), advantages[picked]
        logp = token_logp(policy, part)
        h = ((logp - part.logp_behavior) * part.mask).detach()
        objective = (weight(h) * A * logp)[part.mask].sum() / len(logp)
        slopes = torch.autograd.grad(objective, list(policy.parameters()))
        found.append(torch.cat([slope.flatten() for slope in slopes]))
    return torch.stack(found)


def noise_number(small: float, large: float, n: int, N: int) -> float:
    """How many responses it takes until noise is no longer than the signal, from gradient norms with n and with N.

    Infinite where no signal is left.

    >>> noise_number(small=2.0, large=1.25**0.5, n=8, N=96)  # signal^2 is 1, noise^2 is 24
    24.0
    """
    noise, signal = noise_and_signal(small, large, n, N)
    return float("inf") if signal <= 0 else round(noise / signal, 9)


def jackknife(statistic: Callable[[Tensor], float], products: Tensor) -> float:
    """The standard error of a number that is computed from the inner products of micro-batches' gradients,
    (micro-batches, micro-batches): by leaving out one of them at a time.

    >>> jackknife(lambda products: products.mean().sqrt().item(), torch.outer(*[torch.tensor([1.0, 2.0, 6.0])] * 2))
    1.5275252316519468
    """
    count = len(products)
    rest = [[i for i in range(count) if i != left_out] for left_out in range(count)]
    found = torch.tensor([statistic(products[own][:, own]) for own in rest], dtype=torch.float64)
    return ((count - 1) * found.var(correction=0)).sqrt().item()


def midway(age: int, seed: int) -> Trained:
    """A learner after eight rounds with token ratios, and the weights that sampled, ``age`` rounds older than those
    that the last round began with.
    """
    return train(WEIGHTS["token"], RATES["token"], seed, rounds=8, age=age)


def measure(run: Trained, seed: int, prompts: int = PROMPTS) -> Iterator[dict[str, Any]]:
    """Each weight's noise number, and its cosine with the gradient of fresh responses, both without the bias that
    noise brings into a squared norm; of 16 responses to each of ``prompts``.
    """
    draws = torch.Generator().manual_seed(100 + seed)
    asked = TASK.sample(prompts, draws).prompts
    old, new = (SAMPLER.sample(policy, asked, 16, draws) for policy in (run.sampler, run.policy))
    fresh = gradients(run.policy, new, WEIGHTS["uncorrected"])
    each = {name: gradients(run.policy, old, weight) for name, weight in WEIGHTS.items()} | {"fresh": fresh}
    for name, found in each.items():
        norms = (found**2).sum(1).mean().sqrt().item(), found.mean(0).norm().item()
        squared = inner(found, found) * inner(fresh, fresh)
        yield {
            "weight": name,
            "noise": noise_number(*norms, SMALL * 16, prompts * 16),
            "cosine": inner(found, fresh) / squared**0.5 if squared > 0 else None,
            "norm, 32": norms[0],
            "norm, all": norms[1],
        }


def rows() -> Iterator[dict[str, Any]]:
    """Twenty states with data that are four rounds older than those of the last round, and six with those."""
    for age, seeds in SEEDS.items():
        for seed in range(seeds):
            run = midway(age, seed)
            state = {"age": age, "seed": seed, "J": run.J[-1]}
            yield from (state | row for row in measure(run, seed))


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c11.measured", str(__doc__), rows)
