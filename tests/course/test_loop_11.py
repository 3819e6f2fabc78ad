"""The loops of chapter 11 reach their threshold on three of three seeds, and show what the chapter says of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.bounds import gradient_ascent
from rlnotes.estimators import divergences
from rlnotes.exact import token_gradients, tokens
from rlnotes.exact.slips import Slips
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import RolloutWeights, TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import PG_IS, SEQ_TIS, SEQUENCE_IS, Batch, Choices, policy_loss
from rlnotes.studies import Interval, load_table, paired_interval


def config(task: str, seed: int, rate: float, sampler: RolloutWeights) -> TrainConfig:
    return TrainConfig(
        task=task, size=8, seed=seed, epochs=4, minibatches=4, learning_rate=rate, rollout_weights=sampler
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_11_seq_tis_learns_reverse_behind_eight_bits(seed: int):
    trainer = Trainer(replace(config("reverse", seed, 3e-4, "int8"), measure_shift=True), choices=SEQ_TIS)
    assert trainer.evaluate(1024) < 0.45
    rows = list(trainer.run(10))
    assert trainer.evaluate(1024) >= 0.85
    assert min(row["ess_sequence"] for row in rows) > 0.99, "eight bits are no mismatch"
    assert np.median([row["update_shift"] / row["staleness"] for row in rows]) > 100


def gradient(trainer: Trainer, choices: Choices, rollout: Rollout) -> Tensor:
    advantages = choices.advantage(trainer.task.reward(rollout), 16)
    batch = Batch(token_logp(trainer.model, rollout), rollout.mask, advantages, rollout.logp_behavior)
    slopes = torch.autograd.grad(-policy_loss(choices, batch), list(trainer.model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes])


def inner(a: Tensor, b: Tensor) -> float:
    return (a.sum(0) @ b.sum(0) - (a * b).sum()).item() / (len(a) * (len(a) - 1))


NAMED = {"none": replace(PG_IS, anchor="current"), "pg_is": PG_IS, "sequence_is": SEQUENCE_IS, "seq_tis": SEQ_TIS}


def after_sixteen_updates(seed: int) -> dict[str, tuple[float, float, float]]:
    """Of each estimator: along the gradient and variance, in units of its squared length, and Fact 11.10."""
    old, new = (Trainer(config("sort", seed, 1e-4, "int4"), choices=PG_IS) for _ in range(2))
    list(new.run(1))
    sampler = replace(new.sampler, behavior=Behavior())
    found: dict[str, list[Tensor]] = {name: [] for name in ("fresh", *NAMED)}
    for batch in range(32):
        generator = torch.Generator().manual_seed(32 * seed + batch)
        prompts = old.task.sample(8, generator, "train").prompts
        stale = old.sampler.sample(old.model, prompts, 16, generator)
        for name, choices in NAMED.items():
            found[name].append(gradient(new, choices, stale))
        found["fresh"].append(gradient(new, PG_IS, sampler.sample(new.model, prompts, 16, generator)))
    g = {name: torch.stack(vectors) for name, vectors in found.items()}
    unit = inner(g["fresh"], g["fresh"])
    along = {name: inner(vectors, g["fresh"]) / unit for name, vectors in g.items()}
    noise = {name: vectors.var(0).sum().item() / unit for name, vectors in g.items()}
    second = {name: inner(vectors, vectors) / unit + noise[name] for name, vectors in g.items()}
    return {name: (along[name], noise[name], max(along[name], 0) ** 2 / second[name]) for name in g}


def test_chapter_11_what_holds_in_five_sets_after_sixteen_updates_and_what_does_not():
    sets = [after_sixteen_updates(seed) for seed in range(5)]
    for found in sets:
        along, noise = ({name: row[i] for name, row in found.items()} for i in range(2))
        assert 0 < along["seq_tis"] < min(along["pg_is"], along["sequence_is"])
        assert noise["seq_tis"] < noise["fresh"]
    for name in ("pg_is", "sequence_is", "seq_tis"):
        assert np.median([found[name][2] / found["fresh"][2] for found in sets]) < 0.5
    none = [found["none"][0] for found in sets]
    assert min(none) < 0 < max(none), "without a correction the sign depends on the set"
    first = {max(("pg_is", "sequence_is", "seq_tis"), key=lambda name, found=found: found[name][2]) for found in sets}
    assert len(first) > 1, "the table does not rank the corrections"


def test_chapter_11_token_ratios_can_have_more_noise_and_more_bias():
    case = Slips("clean", 24, 0.1, 0.15)
    token, sequence = case.moments(case.token_estimates()), case.moments(case.sequence_estimates())
    assert token.variance > sequence.variance and abs(token.bias) > abs(sequence.bias) + 0.1


def test_chapter_11_what_the_best_cap_depends_on():
    rng = np.random.default_rng(0)
    model = tokens.single_prompt((rng.random(27) < 0.3).astype(float), 3, 3)
    logits = [rng.normal(size=(1, 3**t, 3)) for t in range(3)]
    off = [z + rng.normal(size=z.shape) for z in logits]
    pi, mu = (token_gradients.softmax_policy(model, z) for z in (logits, off))
    b = tokens.expected_reward(model, mu)

    def efficiency(weights: np.ndarray, batch: int) -> float:
        m = gradient_ascent.token_moments(model, pi, mu, weights, batch)
        return 2 * gradient_ascent.best_progress(1.0, m) / m.gradient_squared

    caps = np.geomspace(0.1, 100, 61)
    capped = [token_gradients.sequence_weights(model, pi, mu, b, cap) for cap in caps]
    token = token_gradients.token_weights(model, pi, mu, b)
    best = [caps[np.argmax([efficiency(weights, n) for weights in capped])] for n in (10, 100, 1000, 10_000)]
    assert best == sorted(set(best))
    for n in (10, 1000):
        others = efficiency(token, n), efficiency(capped[-1], n)
        assert max(efficiency(weights, n) for weights in capped) > max(others)
        assert (others[0] > others[1]) == (n == 10)
    assert efficiency(token, 10**9) < 0.65


def test_chapter_11_an_impulse_is_rare_and_the_variance_is_its_square():
    log_mu, log_pi = (np.log([p, 1 - p]) for p in (0.001, 0.9))
    assert np.exp(log_pi - log_mu)[0] == pytest.approx(900)
    assert divergences.chi2(log_pi, log_mu) == pytest.approx(0.899**2 / (0.001 * 0.999))
    assert divergences.chi2(log_pi[::-1], log_mu[::-1]) == pytest.approx(809.0, abs=0.1)


def holds_zero(found: Interval) -> bool:
    return found.low <= 0 <= found.high


def test_chapter_11_what_the_table_of_sixteen_updates_shows():
    evidence = load_table("11_int8")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}
    for bits in ("int8", "int4"):
        ends = [last[f"{name} {bits} 1e-4"] for name in ("pg_is", "sequence_is", "seq_tis")]
        assert 0.05 < paired_interval(ends[2], ends[0]).value < 0.15
        assert paired_interval(ends[2], ends[0]).low > 0
        assert holds_zero(paired_interval(ends[2], ends[1])) and holds_zero(paired_interval(ends[1], ends[0]))
    for bits in ("float32", "int8", "int4"):
        medians = [np.median(last[f"{name} {bits} 3e-4"]) for name in ("pg_is", "sequence_is", "seq_tis")]
        assert medians[0] <= 0.1 and max(medians) < 0.43
    differs = [
        not holds_zero(paired_interval(last[f"{name} {bits} 3e-4"], last[f"{name} float32 3e-4"]))
        for name in ("pg_is", "sequence_is", "seq_tis")
        for bits in ("int8", "int4")
    ]
    assert sum(differs) == 1
    assert np.median(evidence.last("seq_tis int4 3e-4", "ess_sequence")) > 0.8
    assert np.median(evidence.last("seq_tis int8 3e-4", "staleness")) < 1e-3


def test_chapter_11_with_one_update_no_correction_shows():
    evidence = load_table("11_once")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}
    for name in ("none int8", "none int4"):
        assert holds_zero(paired_interval(last[name], last["none float32"]))
    for name in ("pg_is", "sequence_is", "seq_tis"):
        assert holds_zero(paired_interval(last[f"{name} int4"], last["none int4"]))
    assert holds_zero(paired_interval(last["pg_is int8"], last["none int8"]))
