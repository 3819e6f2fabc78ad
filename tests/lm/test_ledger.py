"""A task of long responses whose demonstrations misread a symbol, and the starts that a task may have."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.tasks import Ledger, Misled
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import SHIPPED, file_name, shipped_start, starts, warm_schedule

TASK = Ledger()


def encoded(text: str, width: int) -> torch.Tensor:
    return torch.tensor([TASK.vocabulary.encode(text.ljust(width))])


def test_the_reward_counts_a_star_as_two_and_wants_the_whole_answer():
    prompt, right = encoded("0312*13*00112233", 64), "0302010222302032"
    prompts = torch.cat([prompt, encoded("=", 1)], 1)
    for answer, reward in ((right, 1), ("0302121000120210", 0), (right[:-1], 0), (right + "0", 0)):
        tokens = torch.tensor([TASK.vocabulary.encode(answer) + [0] * (65 - len(answer))])
        assert TASK.reward(Rollout.of_responses(prompts, tokens, TASK.vocabulary.eos)).item() == reward


def test_lengths_stars_and_demonstrations_are_as_stated():
    examples = TASK.draw(4000, torch.Generator().manual_seed(0))
    blank, star = TASK.vocabulary.encode(" *")
    symbols = examples.prompts[:, :-1]
    n, stars = (symbols != blank).sum(-1), (symbols == star).sum(-1)
    assert (n.min(), n.max()) == (16, 64) and n.float().mean().item() == pytest.approx(40, abs=1)
    assert torch.equal(stars, n // 16) and torch.equal((examples.answers != 0).sum(-1), n)
    assert examples.prompts.shape[1] == TASK.prompt_length == examples.answers.shape[1] == TASK.max_response_length
    wrong = examples.answers != TASK.solve(examples.prompts)
    before = (symbols == star).cumsum(-1) == 0
    assert not wrong[:, :-1][before].any()
    assert wrong[:, :-1][symbols == star].any() and wrong.any(-1)[stars == 1].float().mean() == pytest.approx(
        0.75, abs=0.04
    )
    assert torch.equal(
        replace(TASK, mistaken=0.0).draw(9, torch.Generator()).answers,
        TASK.solve(TASK.draw(9, torch.Generator()).prompts),
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(size=65), "size is 65; it must be between 16 and 64"),
        (dict(size=20, shortest=21), "shortest is 21; it must be between 1 and 20"),
        (dict(mistaken=1.5), "mistaken is 1.5; it is a probability"),
    ],
)
def test_sizes_and_chances_out_of_range_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Ledger(**wrong)


def test_lessons_come_one_after_the_other_and_each_rate_falls_to_zero():
    config, (first, second) = TrainConfig(task="ledger"), TASK.lessons
    assert first.task == Ledger(64, 64, 32, 0.65) and second.task == TASK
    assert warm_schedule(TASK, config, 600) == (first.task, pytest.approx(1e-3), 1550, 1550)
    assert warm_schedule(TASK, config, 1199)[1] == pytest.approx(2e-3 / 1200)
    assert warm_schedule(TASK, config, 1200)[:2] == (TASK, 1.5e-3)
    assert warm_schedule(TASK, config, 1549)[1] == pytest.approx(1.5e-3 / 350)


def test_starts_are_numbered_without_a_gap_and_one_that_is_not_there_is_refused():
    listed = [(one.settings["task"], one.settings.get("preset", "tiny"), one.number) for one in SHIPPED]
    for task, preset in (("misled", "tiny"), ("misled", "moe-top1"), ("needle", "tiny"), ("ledger", "tiny")):
        assert [number for *own, number in listed if own == [task, preset]] == [0, 1, 2]
    assert file_name("misled", None, "tiny") == "misled-5-tiny.safetensors"
    assert file_name("misled", None, "tiny", 2) == "misled-5-tiny-2.safetensors"
    there = starts("misled", 5, "tiny")
    with pytest.raises(ValueError, match=f"start is {there}, and with the package come {there} of misled"):
        Trainer(TrainConfig(task="misled", start=there))
    with pytest.raises(ValueError, match="start is -1"):
        TrainConfig(start=-1)
    for start in (-1, there):
        with pytest.raises(ValueError, match=f"start is {start}, and with the package come {there} of misled"):
            shipped_start("misled", start=start)


def test_a_start_is_weights_of_its_own_whatever_the_seed():
    weights = [Trainer(TrainConfig(task="misled", start=n, seed=n)).model.state_dict()["head.weight"] for n in (0, 1)]
    assert not torch.equal(*weights)
    again = Trainer(TrainConfig(task="misled", start=1, seed=7)).model.state_dict()["head.weight"]
    assert torch.equal(weights[1], again)
    assert torch.equal(weights[1], shipped_start("misled", start=1).state_dict()["head.weight"])


def test_milder_demonstrations_are_chances_for_each_letter():
    with pytest.raises(ValueError, match="give a probability for each of abcdefgh"):
        Misled(5, (0.5,))


def test_the_starts_of_ledger_are_wrong_and_not_hopeless():
    for start in range(3):
        trainer = Trainer(TrainConfig(task="ledger", start=start))
        greedy = trainer.evaluate(128, transform=SamplingTransform(temperature=0))
        assert greedy < 0.03 < trainer.evaluate(128) < 0.2
