"""Questions of the real model's tasks through TRL's trainer, with a tiny Llama."""

# pyright: reportMissingImports=false

from pathlib import Path

import pytest
import torch

from rlnotes.bridge.real.for_trl import for_trl
from rlnotes.bridge.real.models import load
from rlnotes.bridge.real.questions import Question, part
from rlnotes.bridge.trl import RecipeTrainer
from tests.bridge.with_model import tiny
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]


def test_a_folder_is_trained_by_trl_on_questions(tmp_path: Path):
    data, reward = for_trl("add", 8, torch.Generator().manual_seed(0), paid="format")
    prompts = data["prompt"]
    assert len(prompts) == 8 and {part(Question(one[0]["content"], "")) for one in prompts} == {"train"}
    first = [int(word) for word in prompts[0][0]["content"].replace("?", " ").split() if word.isdigit()]
    answers = [str(sum(first)), f"it is {sum(first)}", "0", "none at all"]
    said = [[dict(role="assistant", content=one)] for one in answers]
    assert reward(prompts=[prompts[0]] * 4, completions=said) == [1.0, 0.5, 0.5, 0.0]
    loaded = load(tiny.folder(tmp_path / "model"))
    loaded.tokenizer.pad_token = loaded.tokenizer.eos_token
    trainer = RecipeTrainer(
        recipe="rloo",
        model=loaded.model,
        processing_class=loaded.tokenizer,
        reward_funcs=reward,
        train_dataset=data,
        args=made.settings(tmp_path / "run", max_completion_length=6, logging_strategy="steps", logging_steps=1),
    )
    before = made.weights(trainer).clone()
    made.train(trainer)
    assert "rewards/add/mean" in trainer.state.log_history[0]
    assert not torch.equal(before, made.weights(trainer))
