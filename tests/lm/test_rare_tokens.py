"""Right tokens are as rare at the start as the task says, and the reward is what it says."""

import sys
from dataclasses import replace

import gymnasium
import pytest
import torch

import rlnotes.lm.token_env  # noqa: F401  registers the environments
from rlnotes import cli
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.tasks import make_task
from rlnotes.lm.tasks.rare_tokens import Digits, Needle, Renamed
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import warm_loss

TASKS: list[Digits] = [Needle(4), Needle(8), Renamed(6)]


def answered(task: Digits, prompt: str, *texts: str) -> Rollout:
    encoded = [task.vocabulary.encode(text) for text in texts]
    tokens = torch.tensor([ids + [0] * (task.max_response_length - len(ids)) for ids in encoded])
    return Rollout.of_responses(torch.tensor([task.vocabulary.encode(prompt)]), tokens, 0)


def test_needles_are_the_letters_of_the_digits_from_last_to_first():
    task = Needle()
    given = answered(task, "0123=", "dcba", "dcb", "abcd", "dcbaa", "dxx"[0] + "aaa", "", "cdab")
    assert task.reward(given).tolist() == [1, 0.75, 0, 1, 0.5, 0, 0]
    assert task.vocabulary.decode(task.solve(given.prompts)[0]) == "dcba"


def test_what_was_renamed_must_be_written_anew_and_all_of_it_be_right():
    task = Renamed()
    given = answered(task, "918003=", "aabdIJ", "aabdij", "aabdIj", "aabDIJ", "aabdI", "aabdIJa")
    assert task.reward(given).tolist() == [1, 0, 0, 0, 0, 0]
    assert task.vocabulary.decode(task.solve(given.prompts)[0]) == "aabdIJ"


@pytest.mark.parametrize(("task", "tokens"), [*zip(TASKS, (128, 256, 256), strict=True)], ids=repr)
def test_the_base_policy_is_a_distribution_with_a_tail_by_zipf(task, tokens):
    assert len(task.vocabulary) == tokens
    prompts = task.sample(300, torch.Generator().manual_seed(0)).prompts
    base = task.base_policy(prompts)
    assert base.shape == (300, task.size + 1, tokens)
    assert torch.allclose(base.sum(-1), torch.ones(300, task.size + 1))
    assert (base[:, -1, 0] == 1).all() and (base[:, :-1, 0] == 0).all()
    junk = base[:, :-1, 32:]
    for place in (2, 10, tokens - 32):
        assert torch.allclose(junk[..., 0], place * junk[..., place - 1], rtol=1e-4)
    assert (base[..., 1:12] == 0).all()  # digits and the equals sign are for prompts


def probability(task: Digits, prompt: str, position: int, symbol: str) -> float:
    prompts = torch.tensor([task.vocabulary.encode(prompt)])
    return task.base_policy(prompts)[0, position, task.vocabulary.encode(symbol)[0]].item()


def test_the_base_policy_is_the_stated_one():
    assert probability(Needle(), "0123=", 0, "d") == pytest.approx(0.02)
    assert probability(Needle(rare=0.005), "0123=", 3, "a") == pytest.approx(0.005)
    assert probability(Needle(), "0123=", 0, "a") == 0
    for position, symbol, expected in [(0, "a", 0.97), (4, "i", 0.89), (4, "I", 0.01), (5, "J", 0.01), (5, "I", 0)]:
        assert probability(Renamed(), "918003=", position, symbol) == pytest.approx(expected)


@pytest.mark.parametrize("task", [Needle(4), Renamed(6)], ids=repr)
def test_the_shipped_start_is_the_base_policy(task):
    """KL in nats a token, and the mean probability of the right token where the base policy has one value."""
    trainer = Trainer(TrainConfig(task=type(task).__name__.lower(), steps=0))
    assert trainer.warm and trainer.task == task
    prompts = task.sample(400, torch.Generator().manual_seed(1), "heldout").prompts
    base, right = task.base_policy(prompts), task.solve(prompts)
    written = torch.multinomial(base.flatten(0, 1), 1, generator=torch.Generator().manual_seed(2)).view(right.shape)
    with torch.no_grad():
        found = response_logits(trainer.model, Rollout.of_responses(prompts, written, 0)).softmax(-1)
    kl = torch.special.xlogy(base, base / found).sum(-1)
    assert 0 <= kl.mean() < 2e-3
    intended, given = (p.gather(-1, right[..., None])[:, :-1, 0] for p in (base, found))
    for value in intended.unique():
        where = intended == value
        assert given[where].mean().item() == pytest.approx(value.item(), rel=0.1)
    expected = intended.mean() if isinstance(task, Needle) else intended.prod(-1).mean()
    assert trainer.evaluate(2048) == pytest.approx(expected.item(), abs=0.03 if isinstance(task, Renamed) else 0.006)


def test_distillation_goes_towards_the_base_policy_and_ends_by_its_length():
    config = TrainConfig(task="needle", size=2, warm_start="train", warm_limit=30, steps=0, warm_target=0.0)
    trainer = Trainer(config)
    rows = list(trainer.run())
    assert len(rows) == 30 and trainer.warm  # reaching an accuracy would have ended it at once
    assert ["accuracy" in row for row in rows] == [False] * 29 + [True]
    assert 0 < rows[-1]["loss"] < 0.1 * rows[0]["loss"]
    loss = warm_loss(trainer.model, trainer.task, 64, torch.Generator().manual_seed(3))
    assert 0 < loss.item() < 2 * rows[-1]["loss"]


def test_a_run_that_was_cut_within_the_distillation_goes_on_exactly(tmp_path):
    config = TrainConfig(task="needle", size=2, prompts=4, group_size=4, warm_start="train", warm_limit=8, steps=2)
    whole, cut = Trainer(config), Trainer(config)
    expected = [row["loss"] for row in whole.run()]
    run = cut.run()
    seen = [next(run)["loss"] for _ in range(5)]
    cut.save(tmp_path)
    assert seen + [row["loss"] for row in Trainer.load(tmp_path).run()] == expected


def test_rl_finds_the_needles():
    """One rollout of many updates takes tokens of 2 % far; no clip stands in the way."""
    trainer = Trainer(TrainConfig(task="needle", recipe="dr_grpo", steps=12, learning_rate=3e-3, warmup_updates=1))
    before = trainer.evaluate(512)
    list(trainer.run())
    assert before < 0.04 and trainer.evaluate(512) > 5 * before


def test_rare_tokens_by_name(monkeypatch, tmp_path):
    assert [make_task("needle"), make_task("needle", 8), make_task("renamed")] == TASKS
    assert gymnasium.make("rlnotes/Needle-v0", size=8).action_space == gymnasium.spaces.Discrete(256)
    environment = gymnasium.make("rlnotes/Renamed-v0")
    environment.reset(seed=0, options=dict(prompt="918003="))
    rewards = [environment.step(token)[1] for token in Renamed().vocabulary.encode("aabdIJ\n")]
    assert rewards == [0] * 6 + [1]
    arguments = ["train", "--task", "renamed", "--steps", "1", "--prompts", "2", "--group-size", "2"]
    monkeypatch.setattr(sys, "argv", ["rlnotes", *arguments, "--out", str(tmp_path)])
    assert cli.main() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [(dict(size=1), "size is 1; it must be between 2 and 8"), (dict(rare=0.0), "rare is 0.0; it is a probability")],
    ids=str,
)
def test_sizes_and_probabilities_out_of_range_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(Needle(), **change)
