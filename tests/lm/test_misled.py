"""A task whose demonstrations are wrong for half of the letters."""

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.tasks import Misled
from rlnotes.lm.tasks.misled import MISTAKEN
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import warm_schedule


def responses(task: Misled, prompt: str, answer: str) -> Rollout:
    prompts, tokens = (torch.tensor([task.vocabulary.encode(text)]) for text in (prompt, answer + "\n"))
    return Rollout.of_responses(prompts, tokens, task.vocabulary.eos)


def test_the_reward_knows_the_true_letters():
    task = Misled()
    assert task.reward(responses(task, "abcde=", "edcba")).item() == 1
    assert task.reward(responses(task, "abcde=", "fdcba")).item() == 0, "as most demonstrations have it"


def test_prompts_and_answers_have_the_lengths_that_the_task_says():
    task = Misled(7)
    examples = task.draw(20, torch.Generator().manual_seed(0))
    assert examples.prompts.shape == (20, task.prompt_length) and task.prompt_length == 8
    assert examples.answers.shape == (20, task.max_response_length)


def test_demonstrations_replace_each_letter_as_often_as_stated():
    task = Misled()
    examples = task.draw(20_000, torch.Generator().manual_seed(0))
    true, shown = task.solve(examples.prompts)[:, :-1], examples.answers[:, :-1]
    a = task.vocabulary.encode("a")[0]
    for letter, chance in enumerate(MISTAKEN):
        at = true == letter + a
        next_letter = (letter + 1) % 8 + a
        assert (shown[at] == next_letter).float().mean().item() == pytest.approx(chance, abs=0.01)
        assert ((shown[at] == next_letter) | (shown[at] == letter + a)).all()


def test_a_size_out_of_range_is_refused():
    with pytest.raises(ValueError, match="size is 1; it must be between 2 and 64"):
        Misled(1)


def test_the_warm_start_ends_by_its_length():
    assert warm_schedule(Misled(), TrainConfig(warm_limit=20_000), 400) == (Misled(), pytest.approx(1e-3), 800, 800)


def test_the_shipped_starts_are_sure_of_wrong_answers_and_not_all_alike():
    starts = [Trainer(TrainConfig(task="misled", start=number)) for number in range(3)]
    greedy = [one.evaluate(512, transform=SamplingTransform(temperature=0)) for one in starts]
    assert max(greedy[:2]) < 0.05 < greedy[2] < 0.15
    assert max(one.evaluate(512) for one in starts) < 0.12
