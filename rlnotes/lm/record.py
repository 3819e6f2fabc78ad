"""A run on disk: checkpoints, one line of metrics per step, and TensorBoard if it is installed."""

import importlib.util
import io
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rlnotes.files import append_line, read_lines, replace_text, sole_writer, told_of
from rlnotes.lm.config import Metrics
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.shard import Shard


class Recordable(Protocol):
    """A run that can be kept: :class:`rlnotes.lm.trainer.Trainer`, and whatever has its loop and its checkpoints."""

    shard: Shard
    step: int
    warm_updates: int
    config: Any

    def run(self) -> Iterator[Metrics]:
        """The metrics of the steps that are left."""
        ...

    def evaluate(self) -> float:
        """Accuracy on held-out prompts."""
        ...

    def check_goes_on(self, folder: Path) -> None:
        """Raise ``ValueError`` if ``folder`` holds another run, or this one further on."""
        ...

    def write_checkpoint(self, folder: Path) -> Path:
        """Write what an exact continuation needs."""
        ...


def recorded(trainer: Recordable, out: Path, checkpoint_every: int = 20) -> Generator[Metrics, None, None]:
    """Run ``trainer`` and keep the run in ``out``. Yields the metrics as :meth:`Trainer.run` does.

    ``out/checkpoints`` gets a checkpoint at the start, every ``checkpoint_every`` steps, and at the end, an
    interrupt between steps included. A step that broke off is never saved: the run goes on from before it.
    ``out/metrics.jsonl`` gets one line a step; lines of steps that a kill cut off from their checkpoint are dropped,
    because they will be run again. A new run that fails in its first step leaves nothing in ``out``. Of several
    processes rank 0 keeps the run, and the others do their part.

    Nothing else can write to ``out`` until the run has ended, or was closed: ``run.close()``. Raises ``ValueError``,
    before anything is changed, if something else writes there now, or if ``out`` holds another run, this one further
    on, or metrics that cannot be read.
    """
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every is {checkpoint_every}; it must be at least 1")
    if trainer.shard.rank > 0:
        yield from trainer.run()
        return
    with sole_writer(out / "checkpoints"):
        trainer.check_goes_on(out / "checkpoints")
        with _start_undone(out):
            _begin(trainer, out)
            with (out / "metrics.jsonl").open("ab", buffering=0) as log:
                yield from _kept(trainer, out, log, checkpoint_every)


@contextmanager
def _start_undone(out: Path) -> Iterator[None]:
    """If a run that is new in ``out`` fails before its first step is kept, what it has made there goes again."""
    log, pictures, checkpoints = (out / name for name in ("metrics.jsonl", "tensorboard", "checkpoints"))
    new = not (log.exists() or pictures.exists() or any(checkpoints.glob("step_*")))
    try:
        yield
    except Exception:
        if new and not (log.exists() and log.stat().st_size):
            for path in (*checkpoints.glob("step_*"), *out.glob(pictures.name)):
                shutil.rmtree(path)
            log.unlink(missing_ok=True)
        raise


def _kept(trainer: Recordable, out: Path, log: io.FileIO, checkpoint_every: int) -> Generator[Metrics, None, None]:
    """The steps of the run, each with its record."""
    interrupts = HeldInterrupts()
    run = trainer.run()
    writer = _tensorboard(out)
    whole = True  # the trainer stands between two steps, and their record with it

    def save() -> None:
        os.fsync(log.fileno())  # no checkpoint without the lines before it
        trainer.write_checkpoint(out / "checkpoints")

    try:
        for count in itertools.count(1):
            with interrupts:  # a step and its record are one piece of work
                whole = False
                row = next(run, None)
                if row is not None:
                    append_line(log, json.dumps(row))
                whole = True
                if row is None:
                    return
                if writer is not None:
                    phase = "rl" if row["phase"] else "warm_start"
                    for name, value in row.items():
                        writer.add_scalar(f"{phase}/{name}", value, int(row["step"]))
                if count % checkpoint_every == 0:
                    save()
            yield row
            interrupts.deliver()
    finally:
        with interrupts:
            if whole:
                save()
            if writer is not None:
                with told_of(out / "tensorboard"):
                    writer.close()


def read_metrics(out: Path) -> list[Metrics]:
    """All rows of a run's ``metrics.jsonl``. A last line that was cut off is left out, with a warning.

    Raises ``ValueError`` naming another line that holds no metrics.
    """
    log = out / "metrics.jsonl"
    whole, torn = read_lines(log)
    rows = [_row(line, f"{log}, line {number},") for number, line in enumerate(whole, 1) if line.strip()]
    if torn.strip():
        try:
            rows.append(_row(torn, str(log)))  # all is there but the line break
        except ValueError:
            warnings.warn(f"{log} ends in the middle of a line, which is left out: {torn[:40]!r}", stacklevel=2)
    return rows


def _row(line: str, where: str) -> Metrics:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not {"phase", "step"} <= {*row}:
        raise ValueError(f"{where} holds no metrics of a step; mend it, or remove it: {line[:40]!r}")
    return row


def _begin(trainer: Recordable, out: Path) -> None:
    """The first checkpoint, and of the log the lines up to the trainer's own step."""
    log = out / "metrics.jsonl"
    rows = read_metrics(out) if log.exists() else []
    if rows and not any((out / "checkpoints").glob("step_*")):
        raise ValueError(f"{log} is of a run whose checkpoints are gone; choose another folder, or remove it")
    trainer.write_checkpoint(out / "checkpoints")
    kept = [row for row in rows if row["step"] <= (trainer.step if row["phase"] else trainer.warm_updates)]
    replace_text(log, "".join(json.dumps(row) + "\n" for row in kept))


def _tensorboard(out: Path):
    """A TensorBoard writer, or None if TensorBoard is not installed. A file or folder of that name is none."""
    found = importlib.util.find_spec("tensorboard")
    if found is None or found.origin is None or not found.submodule_search_locations:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / "tensorboard"))
