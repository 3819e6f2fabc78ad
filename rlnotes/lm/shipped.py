"""Warm-start weights that come with the package, so that a reader starts at the RL and not at its preparation.

``python -m rlnotes.lm.shipped`` makes them again: the same bytes on the same machine.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save_file

from rlnotes.lm.model import Transformer
from rlnotes.lm.task_registry import make_task

# The warm start of a task whose examples are half wrong stops by its length: their accuracy has a ceiling of 1/2.
SHIPPED: tuple[dict[str, Any], ...] = (
    dict(task="reverse", size=8),
    dict(task="sort", size=6),
    dict(task="sort", size=8),
    dict(task="ramble", size=2, warm_target=1.0, warm_limit=300),
    dict(task="needle", size=4),
    dict(task="renamed", size=6),
)


def _name(task: str, size: int | None, preset: str) -> str:
    """File name of a task's weights; ``size`` None is the task's default."""
    chosen = getattr(make_task(task, size), "size", None)
    return f"{task.replace('/', '-')}-{chosen}-{preset}.safetensors"


def has_weights(task: str, size: int | None, preset: str) -> bool:
    """True if the package ships warm-start weights for this task, size and preset."""
    return files("rlnotes.lm").joinpath("weights", _name(task, size, preset)).is_file()


def load_weights(model: Transformer, task: str, size: int | None, preset: str) -> None:
    """Put the shipped weights into ``model``. They are stored in float16 and become the model's own dtype."""
    data = files("rlnotes.lm").joinpath("weights", _name(task, size, preset)).read_bytes()
    model.load_state_dict(load(data))


def make_weights(folder: Path) -> None:
    """Train the shipped warm starts from seed 0 and write them into ``folder``."""
    from rlnotes.lm.config import TrainConfig
    from rlnotes.lm.trainer import Trainer

    folder.mkdir(parents=True, exist_ok=True)
    for settings in SHIPPED:
        config = TrainConfig(**settings, warm_start="train", steps=0)
        trainer = Trainer(config)
        for _ in trainer.run():
            pass
        weights = {name: value.to(torch.float16) for name, value in trainer.model.state_dict().items()}
        path = folder / _name(config.task, config.size, config.preset)
        save_file(weights, path)
        path.chmod(0o644)  # safetensors writes files that only their owner may read
        print(f"{path.name}: {trainer.warm_updates} updates, held-out accuracy {trainer.evaluate(1024):.3f}")


if __name__ == "__main__":
    make_weights(Path(__file__).parent / "weights")
