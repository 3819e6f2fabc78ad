"""Bias and noise of estimates of a real model's gradient, measured from batches of responses: 003 sections 3.1, 3.2.

The gradient itself is not known. Squared lengths and inner products of means are estimated from pairs of different
batches, so that noise adds nothing to them on average.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from rlnotes.bounds.gradient_ascent import Moments
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import PG_IS, Batch, Choices, policy_loss


def gradient(trainer: Trainer, choices: Choices, rollout: Rollout) -> Tensor:
    """The gradient (D,) of the objective ``choices`` at ``trainer``'s model, by all its parameters in their order.

    ``trainer``'s task scores ``rollout``, whoever sampled it.
    """
    advantages = choices.advantage(trainer.task.reward(rollout), rollout.group_size)
    batch = Batch(token_logp(trainer.model, rollout), rollout.mask, advantages, rollout.logp_behavior)
    slopes = torch.autograd.grad(-policy_loss(choices, batch), list(trainer.model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes])


def batch_gradients(
    old: Trainer,
    new: Trainer,
    estimators: Mapping[str, Choices],
    *,
    batches: int,
    prompts: int,
    group_size: int,
    seed: int,
) -> dict[str, Tensor]:
    """Gradients (``batches``, D) at ``new``'s model, by name, from training prompts of ``old``'s task.

    Those of the ``estimators`` are from responses of ``old``'s sampler, all from the same ones. Those under ``"fresh"``
    are PG-IS from responses of ``new``'s own policy to the same prompts: plain policy gradients. Batch k has a random
    generator of its own, and no two of them share one under any ``seed``. Raises ``ValueError`` for fewer than two
    batches, which have no pair, and for an estimator called ``"fresh"``.
    """
    if batches < 2:
        raise ValueError(f"batches is {batches}; at least 2 are needed, as moments come from pairs of batches")
    if "fresh" in estimators:
        raise ValueError("estimators has 'fresh', the name of the gradients from new responses; choose another name")
    plain = replace(new.sampler, behavior=Behavior())
    found: dict[str, list[Tensor]] = {name: [] for name in ("fresh", *estimators)}
    for k in range(batches):
        generator = torch.Generator().manual_seed(batches * seed + k)
        drawn = old.task.sample(prompts, generator, "train").prompts
        stale = old.sampler.sample(old.model, drawn, group_size, generator)
        for name, choices in estimators.items():
            found[name].append(gradient(new, choices, stale))
        found["fresh"].append(gradient(new, PG_IS, plain.sample(new.model, drawn, group_size, generator)))
    return {name: torch.stack(vectors) for name, vectors in found.items()}


def inner(a: Tensor, b: Tensor) -> float:
    """The inner product of two means, from ``a`` and ``b`` (n, D): the mean of a_i b_j over pairs i != j.

    Unbiased if different rows are independent. A square can come out negative.
    """
    pairs = a.sum(0) @ b.sum(0) - (a * b).sum()
    return pairs.item() / (len(a) * (len(a) - 1))


def moments(estimates: Tensor, fresh: Tensor) -> Moments:
    """Of an estimate, from n batches of it and of the unbiased ``fresh`` one, both (n, D), batch by batch.

    The variance is that of one batch. Raises ``ValueError`` unless both have one shape, with two rows or more.
    """
    if estimates.shape != fresh.shape or estimates.dim() != 2 or len(estimates) < 2:
        raise ValueError(
            f"estimates has shape {tuple(estimates.shape)} and fresh {tuple(fresh.shape)}; both must be (n, D), n >= 2"
        )
    squared = inner(fresh, fresh)
    bias = estimates - fresh
    return Moments(squared, inner(estimates, fresh) - squared, inner(bias, bias), estimates.var(0).sum().item())
