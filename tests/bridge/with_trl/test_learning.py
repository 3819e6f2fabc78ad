"""From a folder to a folder: a pre-trained model learns to reverse by TRL, with recipes that TRL does not have."""

# pyright: reportMissingImports=false, reportArgumentType=false

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlnotes.bridge.models import evaluate, warm_start
from rlnotes.bridge.tasks import prompt_dataset, task_reward
from rlnotes.bridge.trl import RecipeTrainer
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, pytest.mark.slow, *map(pytest.mark.filterwarnings, made.WARNINGS)]
FIRST, LAST = "warm", "trained"


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that is right now and then, and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / FIRST
    model = made.model(sharp=1.0, width=64)
    warm_start(model, made.TOKENIZER, made.TASK, target=0.3)
    model.save_pretrained(folder)
    made.TOKENIZER.save_pretrained(folder)
    return folder


def accuracy(folder: Path) -> float:
    """Of held-out prompts, by the model and the tokenizer that lie in ``folder``."""
    return evaluate(
        AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), made.TASK, prompts=1000
    )


@pytest.mark.parametrize("recipe", ["trm", "dppo_tv"])
def test_reverse_goes_from_below_half_to_above_four_fifths(tmp_path: Path, warm: Path, recipe: str):
    """Each generation serves two updates, so that pi moves away from mu, and mask and gate have work to do."""
    assert accuracy(warm) < 0.5
    trainer = RecipeTrainer(
        str(warm),
        task_reward(made.TASK, made.TOKENIZER),
        made.settings(
            tmp_path,
            max_steps=160,
            per_device_train_batch_size=256,
            num_generations=16,
            steps_per_generation=2,
            max_completion_length=made.TASK.max_response_length,
            optim="adamw_torch",
            adam_beta2=0.95,
            learning_rate=3e-4,
            max_grad_norm=1.0,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=10,
            logging_strategy="steps",
            logging_steps=10,
        ),
        recipe=recipe,
        train_dataset=prompt_dataset(made.TASK, 4096, torch.Generator().manual_seed(0)),
    )
    trainer.train()
    trainer.save_model(str(tmp_path / LAST))
    assert accuracy(tmp_path / LAST) > 0.8
