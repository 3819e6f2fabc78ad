"""``python -m rlnotes.lm.make_weights`` makes the warm-start weights again: the same bytes on the same machine."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import SHIPPED, file_name


def make_weights(folder: Path) -> None:
    """Train the shipped warm starts from seed 0 and write them into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for settings in SHIPPED:
        config = TrainConfig(**settings, warm_start="train", steps=0)
        trainer = Trainer(config)
        for _ in trainer.run():
            pass
        weights = {name: value.to(torch.float16) for name, value in trainer.model.state_dict().items()}
        path = folder / file_name(config.task, config.size, config.preset)
        save_file(weights, path)
        path.chmod(0o644)  # safetensors writes files that only their owner may read
        print(f"{path.name}: {trainer.warm_updates} updates, held-out accuracy {trainer.evaluate(1024):.3f}")


if __name__ == "__main__":
    make_weights(Path(__file__).parent / "weights")
