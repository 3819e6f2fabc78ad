"""A task whose reward says nothing about length, so that a loss which changes the length has itself to thank."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.tasks.ramble import Ramble
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import DR_GRPO, GRPO, Choices

TASK = Ramble()


def rollout(*texts: str, prompt: str = "ab=") -> Rollout:
    width = TASK.max_response_length
    encoded = [TASK.vocabulary.encode(text) for text in texts]
    tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids in encoded])
    return Rollout(
        prompts=torch.tensor([TASK.vocabulary.encode(prompt)]),
        group=torch.zeros(len(texts), dtype=torch.long),
        tokens=tokens,
        mask=response_mask(tokens, 0),
        logp_behavior=torch.zeros(tokens.shape),
        version=torch.zeros_like(tokens),
        transform=SamplingTransform(),
    )


def test_only_the_first_letter_counts():
    given = rollout("b", "b---", "b**", "bab=", "b" + "-" * 15, "a", "a**", "")
    assert TASK.reward(given).tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert given.truncated(0).tolist() == [False] * 4 + [True] + [False] * 3


def test_the_shortest_right_answer():
    prompts = TASK.sample(50, torch.Generator().manual_seed(0)).prompts
    for prompt, answer in zip(prompts, TASK.solve(prompts), strict=True):
        assert TASK.vocabulary.decode(answer) == TASK.vocabulary.decode(prompt)[-2]


def test_examples_show_how_one_who_knows_goes_on():
    n = 4000
    examples = TASK.draw(n, torch.Generator().manual_seed(0))
    right, lengths = [], []
    for prompt, answer in zip(examples.prompts, examples.answers, strict=True):
        text = TASK.vocabulary.decode(answer)
        assert answer[-1] == 0 and text[0] in "abcdefgh"
        right.append(text[0] == TASK.vocabulary.decode(prompt)[1])
        assert set(text[1:]) <= ({"-"} if right[-1] else {"*"})
        lengths.append(len(text) - 1)
    assert sum(right) / n == pytest.approx(0.5, abs=0.04)
    fillers = torch.tensor(lengths, dtype=torch.float)
    assert (fillers == 0).float().mean().item() == pytest.approx(0.2, abs=0.03)
    ended = fillers < 14
    assert (~ended).float().mean().item() == pytest.approx(0.8**14, abs=0.02)


def test_the_shipped_policy_knows_when_it_was_wrong():
    trainer = Trainer(TrainConfig(task="ramble", steps=0))
    assert trainer.warm
    seen = trainer.sample(128, 8, split="train")
    wrong, filler = trainer.task.reward(seen) == 0, seen.tokens[:, 1]
    dash, star = TASK.vocabulary.encode("-*")
    goes_on = (filler == dash) | (filler == star)
    assert 0.4 < wrong.float().mean() < 0.6
    assert ((filler == star) == wrong)[goes_on].float().mean() > 0.9


def gap(choices: Choices, steps: int, seed: int) -> tuple[float, float]:
    """Mean length of wrong and of right responses after ``steps``."""
    trainer = Trainer(TrainConfig(task="ramble", learning_rate=3e-4, steps=steps, seed=seed), choices=choices)
    list(trainer.run())
    seen = trainer.sample(64, 16, split="train", seed=7)
    lengths, wrong = seen.mask.sum(-1).float(), trainer.task.reward(seen) == 0
    return lengths[wrong].mean().item(), lengths[~wrong].mean().item()


def test_the_mean_over_each_response_makes_wrong_ones_longer_and_a_constant_does_not():
    before = gap(GRPO, 0, 0)
    assert abs(before[0] - before[1]) < 1.5
    grpo, dr_grpo = gap(GRPO, 25, 0), gap(DR_GRPO, 25, 0)
    assert grpo[0] > before[0] + 3 and grpo[1] < before[1] - 1
    assert dr_grpo[0] < before[0] + 1 and abs(dr_grpo[0] - dr_grpo[1]) < 3


def test_sizes_out_of_range_are_refused():
    with pytest.raises(ValueError, match="size is 1; it must be between 2 and 64"):
        replace(TASK, size=1)
