"""Sample means of ratios against the exact divergences of a model that can be listed, and where they cannot see."""

import math
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.exact.mixtures import step_kernel
from rlnotes.lm.behavior import Behavior, VersionMixture
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_prompt
from rlnotes.lm.model import Transformer
from rlnotes.lm.report import off_policy_metrics
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import ShortReverse
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.versions import Snapshots

TASK = ShortReverse(size=2)
V, T, EOS = 5, 3, 0
SMALL = TrainConfig(prompts=4, group_size=4, steps=3, epochs=2, minibatches=2)
LAGS, ALPHA = (5, 12), np.array([0.7, 0.3])
VERSION = 12


def policies(seed: int = 0) -> list[Transformer]:
    """Two that sample, pi_k, pi_{k+1}: far from uniform, and clearly apart."""
    base = Trainer(TrainConfig(seed=seed, warm_start="none"), task=TASK).model
    generator, made = torch.Generator().manual_seed(seed), []
    with torch.no_grad():
        base.head.weight.mul_(20)
        for spread in (0.001, 0.002, 0.0, 0.001):
            model = deepcopy(base)
            for weight in model.parameters():
                weight += spread * torch.empty_like(weight).normal_(generator=generator)
            made.append(model)
    return made


def row(model: Transformer, prompt: Tensor, prefix: tuple[int, ...]) -> np.ndarray:
    """Next-token probabilities (V,) after one prefix, by a plain forward pass."""
    text = torch.cat([prompt, torch.tensor(prefix, dtype=prompt.dtype)])
    with torch.no_grad():
        return model(text[None])[0, -1].double().softmax(-1).numpy()


class Exact(NamedTuple):
    """Means over the law of prefixes and versions, and over responses."""

    staleness: float
    update_shift: float
    lag: float
    ess: float
    ess_sequence: float


def exact(mus: list[Transformer], pi: Transformer, after: Transformer, prompts: Tensor, kernel: np.ndarray) -> Exact:
    """All prefixes, all versions, one after the other. No samples, no rollout, no sampler."""
    steps = stale = shift = lag = square = whole = 0.0
    for prompt in prompts:
        # by prefix: chance of (prefix, version to write next), and the same times rho^2 of what stands there
        level = {(): (ALPHA, ALPHA)}
        for t in range(T):
            following = {}
            for prefix, (chance, weighted) in level.items():
                *mu, new, old = (row(model, prompt, prefix) for model in (*mus, after, pi))
                for i, p in enumerate(chance):
                    steps += p
                    lag += p * LAGS[i]
                    stale += p * np.abs(old - mu[i]).sum() / 2
                    shift += p * np.abs(new - old).sum() / 2
                    square += p * (old**2 / mu[i]).sum()
                for a in range(V):
                    moved = np.array([chance[i] * mu[i][a] for i in range(2)])
                    heavier = np.array([weighted[i] * old[a] ** 2 / mu[i][a] for i in range(2)])
                    if a == EOS or t == T - 1:
                        whole += heavier.sum()
                    else:
                        following[(*prefix, a)] = (moved @ kernel, heavier @ kernel)
            level = following
    return Exact(stale / steps, shift / steps, lag / steps, steps / square, len(prompts) / whole)


@pytest.mark.parametrize("sigma", [0.0, 0.5], ids=["trajectory", "step"])
def test_sample_means_tend_to_the_exact_divergences(sigma):
    """000 Lemma 7.1, with d the law of prefixes of the mixture. Within four standard errors, and others are not."""
    first, second, pi, after = policies()
    kernel = step_kernel(np.full(2, sigma), np.tile(ALPHA, (2, 1)))
    prompts = every_prompt(TASK)[:3]
    expected = exact([second, first], pi, after, prompts, kernel)  # a lag of 5 reaches version 7, one of 12 version 0
    past = Snapshots(12)
    past.remember(0, first)
    past.remember(7, second)
    sampler = Sampler(T, EOS, behavior=Behavior(mixture=VersionMixture(LAGS, ALPHA.tolist(), kernel)))
    rollout = sampler.sample(pi, prompts, 8000, torch.Generator().manual_seed(1), VERSION, past=past)
    with torch.no_grad():
        before, later = token_logp(pi, rollout), token_logp(after, rollout)
    found = off_policy_metrics(rollout, before, later, VERSION)

    mask, mu = rollout.mask, rollout.logp_behavior
    ratio, shifted = (before - mu).exp(), (later - mu).exp()
    parts = dict(
        staleness=(ratio - 1).abs() / 2,
        update_shift=(shifted - ratio).abs() / 2,
        lag=(VERSION - rollout.version).float(),
    )
    errors = {name: error_of_a_mean_over_tokens(value, mask) for name, value in parts.items()}
    for name, error in errors.items():
        truth = getattr(expected, name)
        assert error < 0.02 * truth
        assert abs(found[name] - truth) < 4 * error
    assert abs(expected.staleness - expected.update_shift) > 40 * max(errors["staleness"], errors["update_shift"])
    assert found["ess"] == pytest.approx(expected.ess, rel=0.02)
    assert found["ess_sequence"] == pytest.approx(expected.ess_sequence, rel=0.05)
    assert expected.ess_sequence + 0.05 < expected.ess < 0.95


def error_of_a_mean_over_tokens(values: Tensor, mask: Tensor) -> float:
    """Of a ratio of two sums over responses, by the delta method."""
    sums, lengths = (values.double() * mask).sum(-1), mask.sum(-1).double()
    residual = sums - sums.sum() / lengths.sum() * lengths
    return (residual.std() / lengths.mean() / math.sqrt(len(sums))).item()


def of_one_token(tokens: list[int], mu: list[float], logps: list[list[float]]) -> tuple[Rollout, list[Tensor]]:
    """One response a token, and the log-probabilities of the tokens under the given rows."""
    taken = torch.tensor(tokens)[:, None]
    plain = Rollout.of_responses(torch.zeros(1, 1, dtype=torch.long), taken, eos=-1)
    scores = [torch.tensor(probs).log()[taken] for probs in (mu, *logps)]
    return replace(plain, logp_behavior=scores[0]), scores[1:]


def test_without_support_the_samples_show_no_shift():
    """mu = (1, 0, 0) never writes the tokens on which pi_k and pi_{k+1} differ: TV is .25, what is seen is 0."""
    mu, old, new = [1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.5, 0.5, 0.0]
    rollout, (before, after) = of_one_token([0, 0, 0, 0], mu, [old, new])
    found = off_policy_metrics(rollout, before, after, 0)
    tv = np.abs(np.subtract(new, old)).sum() / 2, np.abs(np.subtract(old, mu)).sum() / 2
    assert tv == (0.25, 0.5)
    assert found["update_shift"] == 0 and found["staleness"] == pytest.approx(0.25)
    assert found["ess"] == found["ess_sequence"] == pytest.approx(1.0)


def test_the_formulas_on_a_batch_by_hand():
    """Ragged, with anything outside the mask."""
    rng = np.random.default_rng(0)
    tokens = torch.tensor([[3, 1, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    plain = Rollout.of_responses(torch.zeros(1, 2, dtype=torch.long), tokens, eos=0)
    mu, old, new = (torch.from_numpy(-rng.exponential(size=(3, 4))) for _ in range(3))
    versions = torch.tensor([[5, 7, 0, 0], [4, 4, 8, 8], [8, 99, 99, 99]])
    outside = ~plain.mask
    rollout = replace(plain, logp_behavior=mu.masked_fill(outside, 0.0), version=versions)
    found = off_policy_metrics(rollout, old.masked_fill(outside, -7.0), new.masked_fill(outside, torch.nan), 9)
    where = [(n, t) for n, length in enumerate((3, 4, 1)) for t in range(length)]
    before = [math.exp(old[n, t] - mu[n, t]) for n, t in where]
    after = [math.exp(new[n, t] - mu[n, t]) for n, t in where]
    whole = [math.prod(w for (m, _), w in zip(where, before, strict=True) if m == n) for n in range(3)]
    assert found == pytest.approx(
        dict(
            staleness=sum(abs(w - 1) for w in before) / 2 / 8,
            update_shift=sum(abs(w - v) for w, v in zip(after, before, strict=True)) / 2 / 8,
            lag=sum(9 - int(versions[n, t]) for n, t in where) / 8,
            ess=sum(before) ** 2 / sum(w**2 for w in before) / 8,
            ess_sequence=sum(whole) ** 2 / sum(w**2 for w in whole) / 3,
            ratio_tail=np.quantile(np.abs(np.log(before)), 0.999),
        )
    )


def test_the_trainer_measures_before_and_after_its_updates(monkeypatch):
    """All that was sampled, with pi's own transform, whatever mu's is."""
    trainer = Trainer(replace(SMALL, lags=(0, 4), switch=0.3, temperature=0.8, measure_shift=True))
    drawn, draw = [], trainer.parts.rollout
    monkeypatch.setattr(trainer.parts, "rollout", lambda prompts: drawn.append(draw(prompts)) or drawn[-1])
    run = trainer.run()
    next(run)
    start, updates = deepcopy(trainer.model), trainer.updates
    found = next(run)
    rollout = drawn[1]
    with torch.no_grad():
        expected = off_policy_metrics(rollout, token_logp(start, rollout), token_logp(trainer.model, rollout), updates)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert 0 < expected["lag"] < 4 and min(expected["update_shift"], expected["staleness"]) > 1e-4


def test_measuring_changes_nothing_and_is_off_unless_asked_for():
    plain, measured = (list(Trainer(replace(SMALL, measure_shift=on)).run()) for on in (False, True))
    for without, beside in zip(plain, measured, strict=True):
        assert {name: beside[name] for name in without if name != "seconds"} == {
            name: value for name, value in without.items() if name != "seconds"
        }
        assert "staleness" not in without
        assert beside["staleness"] < 1e-6 and beside["lag"] == 0 and beside["ess"] == pytest.approx(1, abs=1e-6)
