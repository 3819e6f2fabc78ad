"""Advantages come from the recipe: from all rewards, shaped as it says, in TRL's order of responses."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from rlnotes.bridge.trl import RecipeTrainer, own_tokens
from rlnotes.estimators.baselines import group_mean_std, leave_one_out
from rlnotes.estimators.divergences import kl_estimate
from rlnotes.objectives import GRPO, RLOO, Choices, KLPenalty
from rlnotes.objectives.shaping import OverlongPenalty
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]


def rows(times: int = 4) -> list[dict[str, Any]]:
    """What TRL's loader gives: each of 4 prompts, as often as it is answered."""
    data = made.arguments()["train_dataset"]
    return [data[i] for i in range(4) for _ in range(times)]


def rewards_of(generation: dict[str, Any]) -> torch.Tensor:
    ids = [row[mask].tolist() for row, mask in zip(generation["completion_ids"], own_tokens(generation), strict=True)]
    return torch.tensor(made.some_letters(made.TOKENIZER.batch_decode(ids, skip_special_tokens=True)))


def generated(trainer: Any) -> dict[str, Any]:
    trainer.model.train()
    return trainer._generate_and_score_completions(rows())


@pytest.mark.parametrize(("recipe", "advantage"), [(GRPO, group_mean_std), (RLOO, leave_one_out)])
def test_they_compare_the_rewards_of_a_group(tmp_path: Path, recipe: Choices, advantage: Any):
    trainer = made.trainer(tmp_path, recipe)
    made_of = generated(trainer)
    torch.testing.assert_close(made_of["advantages"], advantage(rewards_of(made_of), 4), rtol=1e-5, atol=1e-5)
    assert list(trainer._logs["advantages"]) == made_of["advantages"].tolist()


def test_several_rewards_are_added_up_by_their_weights(tmp_path: Path):
    def length(completions: list[str], **_: Any) -> list[float]:
        return [float(len(text)) for text in completions]

    def sometimes(completions: list[str], **_: Any) -> list[float | None]:
        return [None if "a" in text else 2.0 for text in completions]

    rewards = dict(reward_funcs=[made.some_letters, length, sometimes])
    trainer = made.trainer(tmp_path, RLOO, more=rewards, reward_weights=[1.0, 0.5, 3.0])
    made_of = generated(trainer)
    texts = made.TOKENIZER.batch_decode(made_of["completion_ids"], skip_special_tokens=True)
    expected = rewards_of(made_of) + 0.5 * torch.tensor(length(texts))
    expected += 3.0 * torch.tensor([0.0 if "a" in text else 2.0 for text in texts])
    torch.testing.assert_close(made_of["advantages"], leave_one_out(expected, 4), rtol=1e-5, atol=1e-5)


def test_overlong_responses_are_penalised_first(tmp_path: Path):
    penalty = OverlongPenalty(20, 10)
    trainer = made.trainer(tmp_path, replace(RLOO, overlong=penalty))
    made_of = generated(trainer)
    lengths = own_tokens(made_of).sum(-1)
    assert lengths.min() < 15
    expected = leave_one_out(rewards_of(made_of) + penalty(lengths), 4)
    torch.testing.assert_close(made_of["advantages"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("iterations", [1, 2])  # with one, TRL leaves pi_k out
def test_a_kl_in_the_reward_is_taken_off_first(tmp_path: Path, iterations: int):
    made.model().save_pretrained(tmp_path / "model")
    recipe = replace(RLOO, kl=KLPenalty(0.3, "k1", where="reward"))
    trainer = made.trainer(tmp_path, recipe, more=dict(model=str(tmp_path / "model")), num_iterations=iterations)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight.mul_(1.5)  # away from the reference
    made_of = generated(trainer)
    log_ratio = made.logp(trainer, made_of).detach() - made_of["ref_per_token_logps"]
    penalty = 0.3 * (kl_estimate(log_ratio, "k1") * own_tokens(made_of)).sum(-1)
    assert penalty.abs().max() > 0.1
    expected = leave_one_out(rewards_of(made_of) - penalty, 4)
    torch.testing.assert_close(made_of["advantages"], expected, rtol=1e-4, atol=1e-4)


def rewarded(*without: int) -> Any:
    """A reward function that says None of the responses in these places."""

    def reward(completions: list[str], **_: Any) -> list[float | None]:
        return [None if i in without else r for i, r in enumerate(made.some_letters(completions))]

    return reward


@pytest.mark.parametrize("without", [(), (5,), (0, 1, 2), (0, 1, 2, 3, 4), tuple(range(16))], ids=str)
def test_a_response_without_any_reward_is_left_out_as_in_trl(tmp_path: Path, without: tuple[int, ...]):
    """Of one, of a group but one, of a group, of all."""
    trls = replace(GRPO, advantage=partial(group_mean_std, ddof=1, eps=1e-4, eps_inside=False))
    trainer = made.trainer(tmp_path, trls, more=dict(reward_funcs=rewarded(*without)))
    trainer.model.train()
    found = []
    for kind in (RecipeTrainer, GRPOTrainer):
        torch.manual_seed(0)
        found.append(kind._generate_and_score_completions(trainer, rows())["advantages"])
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    assert not found[0][list(without)].any()
    assert bool(found[0].any()) == (len(without) < 16)


def test_a_run_goes_on_without_any_reward(tmp_path: Path):
    penalties = dict(overlong=OverlongPenalty(20, 10))
    trainer = made.trainer(tmp_path, replace(GRPO, **penalties), more=dict(reward_funcs=rewarded(*range(16))))
    before = made.weights(trainer)
    made.train(trainer)
    assert torch.equal(made.weights(trainer), before)


def test_evaluation_has_groups_of_its_own_size(tmp_path: Path):
    data = dict(eval_dataset=made.arguments()["train_dataset"].select(range(4)))
    trainer = made.trainer(tmp_path, "rloo", more=data, num_generations_eval=2, per_device_eval_batch_size=8)
    metrics = trainer.evaluate()
    assert metrics["eval_reward"] > 0
    assert metrics["eval_mismatch"] == metrics["eval_tv"] == 0
    assert "eval_no_gradient" not in metrics
    assert len(trainer._logs["advantages"]) == len(trainer._logs["prompt"]) == 8
    trainer.model.eval()
    made_of = trainer._generate_and_score_completions(rows(times=2))
    torch.testing.assert_close(made_of["advantages"], leave_one_out(rewards_of(made_of), 2), rtol=1e-5, atol=1e-5)
