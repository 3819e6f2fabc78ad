"""The code of chapter 09 that logs sigma / sqrt(T) in TRL, against the ratios by hand."""

# pyright: reportMissingImports=false

import json
import re
from pathlib import Path

import pytest
import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]

PAGE = Path(__file__).parents[3] / "course/deeper/09_gspo.ipynb"


def printed() -> type[GRPOTrainer]:
    """The class as the page prints it."""
    text = "\n".join("".join(cell["source"]) for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"])
    found = re.search(r"```python\n(class WithRange.*?)```", text, re.DOTALL)
    assert found
    names = dict(torch=torch, GRPOTrainer=GRPOTrainer)
    exec(found[1], names)
    return names["WithRange"]  # pyright: ignore[reportReturnType]


def test_the_printed_trainer_logs_sigma_over_the_root_of_the_length(tmp_path: Path):
    by_hand = []

    class Watched(printed()):
        def _generate_and_score_completions(self, inputs):
            for part in (kept := self._buffered_inputs or []):
                part["new"] = made.logp(self, part).detach()
            if kept:
                own = [part["completion_mask"].bool() for part in kept]
                log_r = [(part["new"] - part["old_per_token_logps"])[m] for part, m in zip(kept, own, strict=True)]
                T = torch.cat([m.sum(1) for m in own]).float().mean()
                by_hand.append((torch.cat(log_r).std() / T**0.5).item())
            return super()._generate_and_score_completions(inputs)

    steps = dict(per_device_train_batch_size=8, steps_per_generation=2, gradient_accumulation_steps=1)
    args = made.settings(tmp_path, max_steps=12, num_iterations=2, learning_rate=0.1, **steps)
    trainer = Watched(made.model(), args=args, **made.arguments())
    logged = trainer._metrics["train"]["range"]
    made.train(trainer)
    assert len(logged) == len(by_hand) == 2
    assert min(by_hand) > 1e-3
    assert logged == pytest.approx(by_hand, rel=1e-4)
