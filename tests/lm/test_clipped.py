"""Bad updates and clipped tokens, against a plain loop over the tokens."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.report import ClippedTokens, bad_updates
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import PG_IS, Batch
from rlnotes.objectives.masks import ClipMask

NAMES = ["EOS", "x", "y", "z"]


def batch(generator: torch.Generator) -> tuple[torch.Tensor, Batch, torch.Tensor, torch.Tensor]:
    """Tokens, a batch, a gradient with zeros in it, and rows of pi; advantages of both signs and 0."""
    log_probs = torch.randn(6, 5, 4, generator=generator).log_softmax(-1)
    tokens = torch.randint(4, (6, 5), generator=generator)
    mask = torch.arange(5) < torch.tensor([5, 3, 5, 1, 4, 5])[:, None]
    logp = log_probs.gather(-1, tokens[..., None])[..., 0]
    mu = torch.randn(6, 5, 4, generator=generator).mul(3).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    gradient = torch.where(torch.rand(6, 5, generator=generator) < 0.5, 0.0, 1.0)
    advantages = torch.tensor([1.0, -1.0, 0.0, -2.0, 0.5, -0.1])
    return tokens, Batch(logp, mask, advantages, mu), gradient, log_probs


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_a_loop(seed: int):
    tokens, made, gradient, log_probs = batch(torch.Generator().manual_seed(seed))
    counted = ClippedTokens(4)
    counted.add(tokens, made, gradient, log_probs)
    expected: dict[tuple[str, str], list[float]] = {}
    bad = 0
    for n in range(6):
        for t in range(5):
            advantage = made.advantages[n].item()
            if not made.mask[n, t] or advantage == 0:
                continue
            assert made.logp_behavior is not None
            mu = made.logp_behavior[n, t].exp().item()
            bad += advantage < 0 and mu - made.logp[n, t].exp().item() >= 0.5
            sums = expected.setdefault(("+" if advantage > 0 else "-", NAMES[int(tokens[n, t])]), [0, 0, 0.0, 0.0])
            sums[0] += 1
            if gradient[n, t] == 0:
                row = log_probs[n, t]
                sums[1:] = sums[1] + 1, sums[2] + mu, sums[3] - (row.exp() * row).sum().item()
    assert bad_updates(made) == bad
    found = {(row["sign"], row["token"]): row for row in counted.rows(NAMES)}
    assert found.keys() == {key for key, sums in expected.items() if sums[1]}
    for key, row in found.items():
        shown, clipped, probability, entropy = expected[key]
        assert (row["shown"], row["clipped"]) == (shown, clipped)
        assert row["probability"] == pytest.approx(probability / clipped)
        assert row["entropy"] == pytest.approx(entropy / clipped, rel=1e-5)
    all_clipped = sum(sums[1] for sums in expected.values())
    mean = sum(sums[2] for sums in expected.values()) / all_clipped
    assert counted.metrics()["clipped_probability"] == pytest.approx(mean)


def test_rows_hold_the_most_often_clipped_of_each_sign_and_sums_add_up():
    tokens, made, gradient, log_probs = batch(torch.Generator().manual_seed(1))
    once, twice = ClippedTokens(4), ClippedTokens(4)
    once.add(tokens, made, gradient, log_probs)
    for _ in range(2):
        twice.add(tokens, made, gradient, log_probs)
    every = once.rows(NAMES)
    once += once
    assert torch.equal(once.sums, twice.sums)
    for sign in "+-":
        clipped = [row["clipped"] for row in every if row["sign"] == sign]
        assert clipped == sorted(clipped, reverse=True)
    assert twice.rows(NAMES, most=1) == [next(row for row in twice.rows(NAMES) if row["sign"] == sign) for sign in "+-"]


def test_nothing_clipped_gives_no_means():
    tokens, made, gradient, log_probs = batch(torch.Generator().manual_seed(0))
    counted = ClippedTokens(4)
    counted.add(tokens, made, torch.ones_like(gradient), log_probs)
    assert counted.metrics() == {} and counted.rows(NAMES) == []


def test_a_step_reports_the_tokens_of_its_own_updates_only_if_asked():
    config = TrainConfig(task="sort", size=8, prompts=8, group_size=4, epochs=2, learning_rate=1e-3, warmup_updates=0)
    narrow = replace(PG_IS, keep=ClipMask(0.01, 0.01))
    plain, counting = (Trainer(replace(config, count_clipped=on), choices=narrow) for on in (False, True))
    rows = [{k: v for k, v in trainer.rl_step().items() if k != "seconds"} for trainer in (plain, counting)]
    assert plain.clipped is None and counting.clipped is not None
    assert rows[1].keys() - rows[0].keys() == {"clipped_probability", "clipped_entropy"}
    assert {key: rows[1][key] for key in rows[0]} == rows[0]  # looking changes nothing
    shown, clipped = counting.clipped.sums[:2].sum((1, 2)).tolist()
    assert 0 < clipped < shown
    assert 0 <= rows[1]["bad_updates"] < 1
    before = counting.clipped
    counting.rl_step()
    assert counting.clipped is not before
