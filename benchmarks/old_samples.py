"""Chapter 01's loop on five seeds: what its table of seeds shows, from the cells of the notebook themselves.

``python -m benchmarks.old_samples`` takes a few minutes on one thread and rewrites the table that the chapter prints.
"""

import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import HERE, THREADS
from rlnotes.estimators import importance
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer

NOTEBOOK = HERE.parent / "course" / "01_importance_sampling.ipynb"
TABLE = HERE.parent / "rlnotes" / "chapters" / "c01" / "01_old_samples.json"
SEEDS = range(5)
RUNS: dict[str, dict[str, Any]] = {"reverse": dict(updates=80, rate=1e-3), "sort": dict(updates=60, rate=3e-4)}
ARMS: dict[str, dict[str, dict[str, Any]]] = {
    "reverse": {
        "below one half": dict(keep=0.5),
        "every update": dict(keep=2.0),
        "never": dict(keep=0.0),
        "never, clipped at 2": dict(keep=0.0, weigh="clipped at 2"),
        "never, self-normalised": dict(keep=0.0, weigh="self-normalised"),
        "below one half, self-normalised": dict(keep=0.5, weigh="self-normalised"),
    },
    "sort": {"every update": dict(keep=2.0), "never": dict(keep=0.0), "below one half": dict(keep=0.5)},
}


def loop() -> dict[str, Any]:
    """What the cells of the chapter's loop define."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    scope: dict[str, Any] = {"importance": importance}
    for cell in cells:
        if cell["id"] in ("loop-imports", "loop-weights", "loop-train"):
            exec("".join(cell["source"]), scope)
    return scope


def held_out(scope: dict[str, Any], model: torch.nn.Module, task: str, seed: int, rollouts: int) -> dict[str, float]:
    """What rollouts of the start say that took no part in the training."""
    old = Trainer(TrainConfig(task=task, size=8, seed=seed))
    others = [old.sample(32, 8, split="train", seed=90_000 + k) for k in range(rollouts)]
    with torch.no_grad():
        w = torch.cat([scope["response_log_weights"](model, batch) for batch in others])
    found = importance.importance_sampling(w, torch.cat([old.task.reward(batch) for batch in others]))
    share = float(importance.effective_sample_size(w)) / len(w)
    return {f"held_out_{rollouts}": float(found.mean), f"held_out_{rollouts}_size": share}


def run(scope: dict[str, Any], task: str, arm: str, seed: int) -> dict[str, Any]:
    """One row: where a run ends, by its own rollout, by others of the same old policy, and by new samples."""
    choice = ARMS[task][arm]
    weigh = scope["weighings"][choice.get("weigh", "plain")]
    trainer = Trainer(TrainConfig(task=task, size=8, seed=seed))
    *_, last = scope["train"](trainer, keep=choice["keep"], weigh=weigh, **RUNS[task])
    row = dict(task=task, arm=arm, seed=seed, rollouts=last["rollouts"], own=last["estimate"], size=last["size"])
    row |= dict(weight=last["weight"], fresh=trainer.evaluate(1024, "train"))
    if task == "sort":
        for rollouts in (1, 20):
            row |= held_out(scope, trainer.model, task, seed, rollouts)
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def write(rows: list[dict[str, Any]], path: Path = TABLE) -> None:
    """Store the table with the command that made it."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    path.write_text(f'{{"command": "python -m benchmarks.old_samples", "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    torch.set_num_threads(THREADS)
    scope = loop()
    write([run(scope, task, arm, seed) for task, arms in ARMS.items() for arm in arms for seed in SEEDS])


if __name__ == "__main__":
    main()
