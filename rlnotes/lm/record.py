"""A run on disk: checkpoints, one line of metrics per step, and TensorBoard if it is installed."""

import importlib.util
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from rlnotes.lm.config import Metrics
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.trainer import Trainer


def recorded(trainer: Trainer, out: Path, checkpoint_every: int = 20) -> Iterator[Metrics]:
    """Run ``trainer`` and keep the run in ``out``. Yields the metrics as :meth:`Trainer.run` does.

    ``out/checkpoints`` gets a checkpoint at the start, every ``checkpoint_every`` steps, and at the end, an
    interrupt between steps included. A step that broke off is never saved: the run goes on from before it.
    ``out/metrics.jsonl`` gets one line a step; lines of steps that a kill cut off from their checkpoint are dropped,
    because they will be run again. Of several processes rank 0 keeps the run, and the others do their part.
    """
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every is {checkpoint_every}; it must be at least 1")
    if trainer.shard.rank > 0:
        yield from trainer.run()
        return
    checkpoints, log = out / "checkpoints", out / "metrics.jsonl"
    trainer.save(checkpoints)
    _drop_lines_after(log, trainer)
    interrupts = HeldInterrupts()
    run = trainer.run()
    writer = _tensorboard(out)
    whole = True  # the trainer stands between two steps
    try:
        with log.open("a", encoding="utf-8") as file:
            for count in itertools.count(1):
                with interrupts:  # a step and its record are one piece of work
                    whole = False
                    row = next(run, None)
                    whole = True
                    if row is None:
                        return
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    if writer is not None:
                        phase = "rl" if row["phase"] else "warm_start"
                        for name, value in row.items():
                            writer.add_scalar(f"{phase}/{name}", value, int(row["step"]))
                    if count % checkpoint_every == 0:
                        trainer.save(checkpoints)
                yield row
                interrupts.deliver()
    finally:
        with interrupts:
            if whole:
                trainer.save(checkpoints)
            if writer is not None:
                writer.close()


def read_metrics(out: Path) -> list[Metrics]:
    """All rows of a run's ``metrics.jsonl``."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def _drop_lines_after(log: Path, trainer: Trainer) -> None:
    """Keep the log's whole lines up to the trainer's own step; replace the file in one move."""
    if not log.exists():
        return
    kept = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break  # a kill in the middle of a write: nothing whole follows
        if row["step"] <= (trainer.step if row["phase"] else trainer.warm_updates):
            kept.append(line + "\n")
    temporary = log.with_suffix(".writing")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, log)


def _tensorboard(out: Path):
    """A TensorBoard writer, or None if TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / "tensorboard"))
