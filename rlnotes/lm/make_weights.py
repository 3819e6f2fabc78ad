"""``python -m rlnotes.lm.make_weights`` makes the warm-start weights again: the same bytes on the same machine.

With the name of a task only its own: ``python -m rlnotes.lm.make_weights misled``.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import SHIPPED, file_name


def make_weights(folder: Path, only: str = "") -> None:
    """Train the shipped warm starts of all tasks, or of ``only`` one, and write them into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for settings, number, seed, teacher in SHIPPED:
        if only not in ("", settings["task"]):
            continue
        config = TrainConfig(**settings, seed=seed, warm_start="train", steps=0)
        trainer = Trainer(config, task=teacher)
        for _ in trainer.run():
            pass
        weights = {name: value.to(torch.float16) for name, value in trainer.model.state_dict().items()}
        path = folder / file_name(config.task, config.size, config.preset, number)
        save_file(weights, path)
        path.chmod(0o644)  # safetensors writes files that only their owner may read
        greedy = trainer.evaluate(1024, transform=SamplingTransform(temperature=0))
        some = (trainer.task.reward(trainer.sample(256, 16)).view(-1, 16) == 1).any(-1).float().mean()
        print(
            f"{path.name}: {trainer.warm_updates} updates, held-out accuracy {greedy:.3f} greedy, "
            f"{trainer.evaluate(1024):.3f} sampled; one of 16 responses is right for {some:.3f} of the prompts"
        )


if __name__ == "__main__":
    make_weights(Path(__file__).parent / "weights", *sys.argv[1:2])
