"""Divergences of whole rows on their way through the trainer: recorded by the sampler, computed at each update."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.bucketed import topk_tv
from rlnotes.estimators.divergences import kl
from rlnotes.lm import parts
from rlnotes.lm.collection import Collection
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import DPPO_TOPK_TV, DPPO_TV, PG_IS, TRM, Batch, Choices, policy_loss
from rlnotes.objectives.masks import DivergenceMask
from rlnotes.objectives.one_sided import OneSided
from rlnotes.objectives.rows import RowDivergence

CONFIG = TrainConfig(prompts=4, group_size=4, steps=2, epochs=2, minibatches=2, learning_rate=1e-2, warmup_updates=1)
TOP3 = replace(PG_IS, keep=OneSided(DivergenceMask(0.02, RowDivergence("tv", 3), "token")))
TOP30 = replace(PG_IS, keep=DivergenceMask(0.02, RowDivergence("kl", 30), "mean"))
EXACT = replace(PG_IS, keep=DivergenceMask(0.25, RowDivergence("kl"), "max"))


def full_rows(trainer: Trainer, rollout: Rollout) -> Tensor:
    """Log-probabilities (N, T, V), as pi gives them and, without what makes mu differ, mu too."""
    with torch.no_grad():
        return trainer.transform.log_probs(response_logits(trainer.model, rollout))


def seen_batches(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """Every batch that a loss is taken of from now on."""
    seen: list[Batch] = []

    def watched(choices: Choices, batch: Batch) -> Tensor:
        seen.append(batch)
        return policy_loss(choices, batch)

    monkeypatch.setattr(parts, "policy_loss", watched)
    return seen


def add_gradient(trainer: Trainer, collected: Collection, choices: Choices, micro_batches: int = 1) -> None:
    """That of the loss on all four groups, as a step adds it."""
    trainer.choices, trainer.config = choices, replace(trainer.config, micro_batches=micro_batches)
    for part in trainer.parts.micro_batches(collected, torch.arange(4)):
        trainer.parts.loss(trainer.parts.batch(part, trainer.parts.log_probs(part))).backward()


def moved(choices: Choices, seed: int = 0) -> tuple[Trainer, Rollout, Tensor, Tensor]:
    """A trainer, what it has sampled, and the rows of mu, and of pi after some other training."""
    trainer = Trainer(replace(CONFIG, seed=seed), choices=choices)
    rollout = trainer.parts.draw()
    mu = full_rows(trainer, rollout)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=trainer.generator)
    return trainer, rollout, mu, full_rows(trainer, rollout)


@pytest.mark.parametrize(
    ("choices", "recorded"), [(TOP3, 3), (TOP30, 24), (EXACT, 24), (DPPO_TOPK_TV, 20), (DPPO_TV, 0), (TRM, 0)]
)
def test_the_sampler_records_what_the_objective_asks_for(choices: Choices, recorded: int):
    """Of 24 tokens at most 24."""
    trainer = Trainer(CONFIG, choices=choices)
    assert len(trainer.task.vocabulary) == 24
    assert trainer.sampler.top_logp == recorded
    rollout = trainer.parts.draw()
    if recorded:
        assert rollout.topk_ids is not None and rollout.topk_ids.shape[-1] == recorded
    else:
        assert rollout.topk_ids is None


@pytest.mark.parametrize("choices", [TOP3, EXACT])
def test_the_loss_is_given_the_divergence_of_full_rows(choices: Choices, monkeypatch: pytest.MonkeyPatch):
    trainer, rollout, mu, pi = moved(choices)
    seen, before = seen_batches(monkeypatch), [p.clone() for p in trainer.model.parameters()]
    collected = Collection(rollout, torch.arange(16.0) - 7.5)
    add_gradient(trainer, collected, choices)
    (batch,) = seen
    assert batch.divergence is not None and not batch.divergence.requires_grad
    expected = topk_tv(mu, pi, rollout.tokens, 3) if choices is TOP3 else kl(mu, pi)
    np.testing.assert_allclose(batch.divergence[rollout.mask], expected[rollout.mask], rtol=1e-3, atol=2e-6)
    assert float(expected[rollout.mask].mean()) > 0.01
    assert all(torch.equal(p, q) for p, q in zip(before, trainer.model.parameters(), strict=True))


@pytest.mark.parametrize("choices", [TOP3, EXACT])
def test_the_gradient_is_that_of_a_mask_that_was_fixed_before(choices: Choices):
    """None of it flows through the divergence; and parts of a batch add up to the whole."""
    trainer, rollout, mu, pi = moved(choices, seed=1)
    assert rollout.topk_ids is not None
    advantages = torch.arange(16.0) - 7.5
    logp = pi.gather(-1, rollout.tokens[..., None])[..., 0]
    of = topk_tv(mu, pi, rollout.tokens, 3) if choices is TOP3 else kl(mu, pi)
    assert choices.keep is not None
    kept = choices.keep(Batch(logp, rollout.mask, advantages, rollout.logp_behavior, divergence=of))
    assert 0.05 < kept.float().mean() < 0.95

    def found(choices: Choices, micro_batches: int) -> list[Tensor]:
        add_gradient(trainer, Collection(rollout, advantages), choices, micro_batches)
        own = [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None]
        trainer.optimizer.zero_grad()
        return own

    fixed = found(replace(PG_IS, keep=lambda batch: kept), 1)
    largest = max(float(x.abs().max()) for x in fixed)
    for ours in (found(choices, 1), found(choices, 2)):
        for one, other in zip(ours, fixed, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5 * largest)
    free = found(PG_IS, 1)
    assert max(float((x - y).abs().max()) for x, y in zip(free, fixed, strict=True)) > 0.05 * largest


@pytest.mark.parametrize("choices", [TOP3, EXACT])
def test_training_starts_with_a_divergence_of_zero(choices: Choices, monkeypatch: pytest.MonkeyPatch):
    """At the first update mu and pi are one policy; later ones have moved, and some tokens are held back."""
    seen = seen_batches(monkeypatch)
    rows = list(Trainer(CONFIG, choices=choices).run())
    largest = [float(batch.masked("divergence").max()) for batch in seen]
    assert largest[0] < 1e-5 and max(largest) > 0.02
    assert max(row["no_gradient"] for row in rows) > 0


def test_around_the_recomputed_policy(monkeypatch: pytest.MonkeyPatch):
    """pi_k is recomputed, and stays what it was through the updates of a step."""
    seen = seen_batches(monkeypatch)
    keep = OneSided(DivergenceMask(1e-3, "binary_tv", "token", anchor="proximal"), "proximal")
    trainer = Trainer(CONFIG, choices=replace(PG_IS, keep=keep))
    rows = list(trainer.run(1))
    for batch in seen:
        np.testing.assert_allclose(batch.masked("logp_proximal"), batch.masked("logp_behavior"), atol=1e-5)
    assert rows[0]["no_gradient"] > 0
