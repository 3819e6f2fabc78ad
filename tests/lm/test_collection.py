"""What a step learns from: which groups, which rewards, and the same gradient in one piece or in several."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rlnotes.estimators.divergences import kl_estimate
from rlnotes.lm.collection import Collection, Sampled, collect, kept_groups
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Reverse, Task
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import DAPO, DR_GRPO, GRPO, METHOD_2, RECIPES, VANILLA_PG, Choices, KLPenalty
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Correction
from rlnotes.objectives.masks import not_truncated
from rlnotes.objectives.shaping import OverlongPenalty

SMALL = TrainConfig(prompts=4, group_size=4, steps=4, epochs=2, minibatches=2)


def rollout(rewards: list[list[int]]) -> Rollout:
    """Groups of one prompt each. A response is its reward as a token, and that many tokens more."""
    tokens = torch.tensor([[1 + r] + [1] * r + [0] * (3 - r) for group in rewards for r in group])
    b, g = len(rewards), len(rewards[0])
    return Rollout(
        prompts=torch.arange(b)[:, None] + 10,
        group=torch.arange(b).repeat_interleave(g),
        tokens=tokens,
        mask=response_mask(tokens, 0),
        logp_behavior=torch.full(tokens.shape, -1.0),
        version=torch.zeros_like(tokens),
        transform=SamplingTransform(),
    )


class ByFirstToken(Reverse):
    """The reward is in the first token; so it is known what a rollout is worth."""

    def reward(self, rollout: Rollout) -> Tensor:
        return rollout.tokens[:, 0].float() - 1


class ByLength(Reverse):
    """Rewards for responses of any kind, so that an untrained model has advantages."""

    def reward(self, rollout: Rollout) -> Tensor:
        return (rollout.mask.sum(-1) + rollout.tokens[:, 0]) % 3 / 2


def sampled_by(choices: Choices, most: int, *rounds: list[list[int]]) -> Sampled:
    """What a step has where the sampler writes these rounds."""
    trainer = Trainer(replace(SMALL, most_rounds=most, warm_start="none"), task=ByFirstToken(), choices=choices)
    waiting = [rollout(rewards) for rewards in rounds]
    trainer.parts.rollout = lambda prompts: waiting.pop(0)
    first = trainer.parts.draw()
    return trainer.parts.filled(first, trainer.parts.rewards(first))


class Hopeless(Reverse):
    """Never a reward, so that no group has an advantage."""

    def reward(self, rollout: Rollout) -> Tensor:
        return torch.zeros(len(rollout.tokens))


FLAT, MIXED = [0, 0], [0, 1]


@pytest.mark.parametrize(
    ("rounds", "most", "sampled", "kept"),
    [
        ([[MIXED, MIXED]], 8, 1, [0, 1]),
        ([[FLAT, MIXED], [FLAT, [1, 0]]], 8, 2, [1, 3]),
        ([[MIXED, FLAT], [MIXED, MIXED]], 8, 2, [0, 2]),
        ([[FLAT, FLAT], [FLAT, MIXED], [MIXED, FLAT]], 8, 3, [3, 4]),
        ([[FLAT, FLAT], [FLAT, MIXED]], 2, 2, [0, 3]),
        ([[FLAT, FLAT], [[1, 1], FLAT]], 2, 2, [0, 1]),
    ],
    ids=["at once", "two rounds", "one too many", "three rounds", "limit, filled up", "limit, nothing teaches"],
)
def test_rounds_are_sampled_until_the_batch_is_full(rounds, most, sampled, kept):
    task = ByFirstToken()
    result = sampled_by(DAPO, most, *rounds)
    assert result.rounds == sampled
    assert kept_groups(result, 2).tolist() == kept
    collected = collect(result, 2, DAPO, lambda r: r.logp_behavior, None)
    flat = [group for rewards in rounds for group in rewards]
    whole = rollout(flat)
    expected = whole.groups(torch.tensor(kept))
    assert torch.equal(collected.rollout.tokens, expected.tokens)
    assert torch.equal(collected.rollout.prompts[:, 0] % 2, whole.prompts[kept, 0] % 2)
    assert torch.equal(collected.advantages, DAPO.advantage(task.reward(expected), 2))
    assert len(result.rewards) == 2 * len(flat)


def test_without_dynamic_sampling_there_is_one_round_whatever_it_brings():
    assert sampled_by(GRPO, 8, [FLAT, FLAT], [MIXED, MIXED]).rounds == 1


def test_one_round_at_most_is_training_without_dynamic_sampling():
    plain = Trainer(SMALL, choices=replace(DAPO, dynamic_sampling=False))
    limited = Trainer(replace(SMALL, most_rounds=1), choices=DAPO)
    for a, b in zip(plain.run(), limited.run(), strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}


def test_metrics_count_what_was_thrown_away(monkeypatch):
    trainer = Trainer(replace(SMALL, prompts=8, group_size=2), choices=DAPO)
    rollouts, draw = [], trainer.parts.rollout
    monkeypatch.setattr(trainer.parts, "rollout", lambda prompts: rollouts.append(draw(prompts)) or rollouts[-1])
    seen, most = 0, 0.0
    for row in trainer.run():
        rewards = torch.cat([trainer.task.reward(r) for r in rollouts])
        groups, lengths = rewards.view(-1, 2), torch.cat([r.mask.sum(-1) for r in rollouts])
        informative = int((groups[:, 0] != groups[:, 1]).sum())
        assert row["rounds"] == len(rollouts)
        assert informative >= 8 or len(rollouts) == 8
        assert row["reward"] == pytest.approx(rewards.mean().item())
        assert row["wasted_groups"] == pytest.approx(1 - informative / len(groups))
        assert row["length"] == pytest.approx(lengths.float().mean().item())
        assert row["length_wrong"] == pytest.approx(lengths[rewards == 0].float().mean().item())
        seen += int(lengths.sum())
        assert row["tokens"] == seen
        rollouts.clear()
        most = max(most, row["rounds"])
    assert most > 1


def test_a_resumed_run_with_rounds_goes_on_bit_for_bit(tmp_path):
    config = replace(SMALL, recipe="dapo")

    def rows(trainer: Trainer) -> list[dict[str, float]]:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.run()]

    whole, first = rows(Trainer(config)), Trainer(config)
    list(first.run(2))
    first.save(tmp_path)
    assert rows(Trainer.load(tmp_path)) == whole[2:]
    assert max(row["rounds"] for row in whole) > 1


def test_a_length_penalty_is_in_the_advantage_and_not_in_the_reported_reward():
    choices = replace(DR_GRPO, overlong=OverlongPenalty(max_length=4, buffer=2))
    sampled = Sampled(rollout([[3, 1], [1, 0]]), torch.tensor([3.0, 1.0, 1.0, 0.0]), 1)
    collected = collect(sampled, 2, choices, lambda r: r.logp_behavior, None)
    # lengths 4, 3, 3, 2 (EOS counts); penalties -1, -1/2, -1/2, 0; rewards 2, 1/2, 1/2, 0
    assert collected.advantages.tolist() == [0.75, -0.75, 0.25, -0.25]
    config, shaped = replace(SMALL, warm_start="none"), replace(GRPO, overlong=OverlongPenalty(9, 2))
    (a,), (b,) = (Trainer(config, ByLength(), c).run(1) for c in (GRPO, shaped))
    assert a["reward"] == b["reward"] and a["wasted_groups"] == b["wasted_groups"]
    assert a["gradient_norm"] != b["gradient_norm"]


def test_a_kl_penalty_in_the_reward_is_taken_off_from_the_policy_that_learns():
    """Not from mu, which sampled: here they differ by 0.5 at every token."""
    choices = replace(DR_GRPO, kl=KLPenalty(0.1, "k1", where="reward"))
    sampled = Sampled(rollout([[3, 1]]), torch.tensor([3.0, 1.0]), 1)
    collected = collect(sampled, 1, choices, lambda r: r.logp_behavior + 0.5, lambda r: r.logp_behavior - 0.5)
    # 4 and 3 tokens, each log pi_k - log pi_ref = 1: rewards 2.6 and 0.7
    assert collected.advantages.tolist() == pytest.approx([0.95, -0.95], abs=1e-6)


def test_a_kl_penalty_in_the_reward_changes_training_once_the_reference_is_left():
    config = replace(SMALL, epochs=1, minibatches=1)
    penalised = Trainer(config, choices=replace(DR_GRPO, kl=KLPenalty(1.0, "k1", where="reward")))
    free = Trainer(config, choices=DR_GRPO)
    first, later = [
        [a[name] == b[name] for name in ("reward", "gradient_norm")]
        for a, b in list(zip(penalised.run(), free.run(), strict=True))[::3]
    ]
    assert first == [True, True]  # pi_k is the reference still
    assert later[1] is False
    reference = penalised.reference
    assert reference is not None
    seen = penalised.sample(8)
    with torch.no_grad():
        x = (token_logp(penalised.model, seen) - token_logp(reference, seen))[seen.mask]
    assert kl_estimate(x, "k3").sum() > 0


def test_an_entropy_bonus_keeps_the_policy_wider():
    """Also where no group has an advantage: the bonus has a gradient of its own there."""

    config = replace(SMALL, steps=12, warmup_updates=1, warm_start="none")
    rows = {}
    for bonus in (0.0, 1.0):
        trainer = Trainer(config, task=Hopeless(), choices=replace(GRPO, entropy=bonus))
        trainer.model.load_state_dict(Trainer(SMALL).model.state_dict())
        rows[bonus] = [row["entropy"] for row in trainer.run()]
    assert rows[1.0][0] == pytest.approx(rows[0.0][0], rel=0.5)
    assert rows[1.0][-1] > 1.5 * rows[1.0][0]
    assert rows[1.0][-1] > 1.5 * rows[0.0][-1]


def test_plain_policy_gradient_never_looks_at_mu(monkeypatch):
    """With a record that is nonsense it makes the same update; GRPO does not."""
    for choices, same in ((VANILLA_PG, True), (GRPO, False)):
        norms = []
        for shift in (0.0, -3.0):
            trainer = Trainer(replace(SMALL, epochs=1, minibatches=1), choices=choices)
            draw = trainer.parts.rollout

            def wrong(prompts: Tensor, draw=draw, shift=shift) -> Rollout:
                drawn = draw(prompts)
                return replace(drawn, logp_behavior=(drawn.logp_behavior + shift).where(drawn.mask, 0.0))

            monkeypatch.setattr(trainer.parts, "rollout", wrong)
            (row,) = trainer.run(1)
            norms.append(row["gradient_norm"])
        assert (norms[0] == norms[1]) == same


def gradient(config: TrainConfig, task: Task, **changes: object) -> tuple[dict[str, Tensor], dict[str, float]]:
    """What reaches the optimiser in the first update, and the metrics."""
    trainer = Trainer(config, task=task, choices=replace(GRPO, **changes))  # type: ignore[arg-type]
    caught: dict[str, Tensor] = {}

    def catch(*_: object) -> float:
        caught.update({n: p.grad.clone() for n, p in trainer.model.named_parameters() if p.grad is not None})
        return 0.0

    trainer.update = catch  # type: ignore[method-assign]
    (row,) = trainer.run(1)
    return caught, row


@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize(
    "other",
    [dict(), dict(entropy=0.1), dict(kl=KLPenalty(0.1)), dict(keep=not_truncated)],
    ids=["plain", "entropy", "kl", "keep"],
)
def test_micro_batches_add_up_to_the_gradient_of_the_whole(aggregation, other):
    config = replace(SMALL, prompts=7, minibatches=1, epochs=1, warm_start="none", steps=1)
    whole, whole_row = gradient(config, ByLength(), aggregation=aggregation, **other)
    parts, parts_row = gradient(replace(config, micro_batches=3), ByLength(), aggregation=aggregation, **other)
    largest = max(value.abs().max().item() for value in whole.values())
    assert largest > 0 and whole_row["truncated"] > 0 and 2 < whole_row["length"] < 8.9
    for name, value in whole.items():
        assert (parts[name] - value).abs().max().item() < 1e-5 * largest, name
    for name in ("loss", "entropy", "ratio_deviation", "mismatch", "no_gradient"):
        assert parts_row[name] == pytest.approx(whole_row[name], rel=1e-4, abs=1e-6), name


def test_an_entropy_bonus_counts_in_every_group():
    """A KL term of weight 0 keeps all groups, too."""
    config = replace(SMALL, warm_start="none", minibatches=1, epochs=1)
    bonus, kept = (gradient(config, Hopeless(), entropy=0.1, kl=kl)[0] for kl in (None, KLPenalty(0.0)))
    name = "head.weight"
    assert kept[name].abs().max() > 0
    assert torch.allclose(bonus[name], kept[name], rtol=1e-4, atol=1e-7)


def test_parts_divided_by_their_own_sizes_would_not_add_up():
    """The test above can fail."""
    config = replace(SMALL, prompts=7, minibatches=1, epochs=1, warm_start="none", steps=1)
    whole, _ = gradient(config, ByLength(), aggregation=token_mean)
    own, _ = gradient(replace(config, micro_batches=3), ByLength(), aggregation=lambda m, _: m / m.sum() / 3)
    largest = max(value.abs().max().item() for value in whole.values())
    assert max((own[name] - value).abs().max().item() for name, value in whole.items()) > 1e-2 * largest


def test_what_is_kept_is_known_for_the_whole_only():
    divided = replace(GRPO, keep=not_truncated, divide_by="kept", aggregation=token_mean)
    with pytest.raises(ValueError, match=r"divides by what it keeps .* set micro_batches=1"):
        Trainer(replace(SMALL, micro_batches=2), choices=divided)
    normalised = replace(METHOD_2, correction=Correction(high=2.0, normalised=True))
    with pytest.raises(ValueError, match=r"by its mean weight \(normalised\), .* set micro_batches=1"):
        Trainer(replace(SMALL, micro_batches=2), choices=normalised)
    assert math.isfinite(Trainer(replace(SMALL, warm_start="none"), choices=normalised).rl_step()["loss"])
    config = replace(SMALL, prompts=7, minibatches=1, epochs=1, warm_start="none", steps=1)
    all_, _ = gradient(config, ByLength(), keep=not_truncated, aggregation=token_mean)
    kept, _ = gradient(config, ByLength(), keep=not_truncated, aggregation=token_mean, divide_by="kept")
    sampled = Trainer(config, task=ByLength()).parts.draw()
    ratio = sampled.mask.sum() / sampled.mask[~sampled.truncated(0)].sum()
    assert ratio > 1.1
    name = "head.weight"
    assert torch.allclose(kept[name], ratio * all_[name], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_every_recipe_takes_steps(recipe):
    config = replace(SMALL, recipe=recipe, micro_batches=2)
    for row in Trainer(config).run(2):
        assert row["ratio_deviation"] < 1 and row["gradient_norm"] >= 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(micro_batches=0), "micro_batches is 0; it must be in"),
        (dict(micro_batches=3), "micro_batches is 3, and an update has 2 groups"),
        (dict(most_rounds=0), "most_rounds is 0; it must be in"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


def test_only_what_fits_is_joined():
    with pytest.raises(ValueError, match="one sampler and one group size"):
        Rollout.joined([rollout([[0, 1]]), rollout([[0, 1, 1]])])
    both = Rollout.joined([rollout([[0, 1]]), rollout([[2, 3], [1, 1]])])
    assert both.group.tolist() == [0, 0, 1, 1, 2, 2]
    assert torch.equal(both.groups(torch.tensor([1, 2])).tokens, rollout([[2, 3], [1, 1]]).tokens)
    assert isinstance(Collection(both, torch.zeros(6)).rollout, Rollout)
