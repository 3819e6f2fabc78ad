"""Checkpoints that survive a kill at any moment: safetensors for numbers, JSON for the rest, no pickle.

A checkpoint is a folder ``step_00000040`` with ``tensors.safetensors`` and ``state.json``. It is written beside its
place under a temporary name, flushed to the disk, and renamed: it is there whole or not at all.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

KEEP = 2  # the newest, and the one before in case a disk fails
_NAME = re.compile(r"step_(\d{8})")


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write a checkpoint under ``folder`` and drop all but the newest ``KEEP``. Returns its path."""
    final = folder / f"step_{step:08d}"
    temporary = folder / f".writing_{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".writing_*"):  # by a kill
        shutil.rmtree(left)
    temporary.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary / "tensors.safetensors")
    (temporary / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
    for path in temporary.iterdir():
        _flush(path)
    if final.exists():  # the same step was saved before: leave it, never a moment without it
        shutil.rmtree(temporary)
    else:
        os.replace(temporary, final)
        _flush(folder)
    for old in _all(folder)[:-KEEP]:
        shutil.rmtree(old)
    return final


def latest_checkpoint(folder: Path) -> Path:
    """The newest checkpoint under ``folder``. Raises ``FileNotFoundError`` saying what was looked for."""
    found = _all(folder)
    if not found:
        raise FileNotFoundError(f"no checkpoint (a folder step_00000000) in {folder}; start a run with rlnotes train")
    return found[-1]


def check_goes_on(folder: Path, run_id: str, step: int, config: dict[str, Any]) -> None:
    """Raise ``ValueError`` if ``folder`` holds another run than that of ``run_id``, or a later step of the same.

    A run is one that went on from a checkpoint, or from its start, whatever its settings; ``config`` are those of
    ``run_id``, so that the message can name what differs.
    """
    found = _all(folder)
    if not found:
        return
    newest = found[-1]
    try:
        state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
        theirs, there = state["config"], state.get("run_id", "")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{newest} cannot be read ({error!r}); choose another folder, or remove it") from error
    if there != run_id:
        ours = json.loads(json.dumps(config))  # lists for tuples, as theirs
        differ = [f"{name} {theirs.get(name)}, here {own}" for name, own in ours.items() if theirs.get(name) != own]
        raise ValueError(
            f"{folder} holds another run ({'; '.join(differ[:3]) or 'of the same settings'}); choose another folder, "
            "or go on with that run: rlnotes resume, or Trainer.load"
        )
    if (ahead := _step(newest)) > step:
        raise ValueError(
            f"{folder} holds step {ahead} of this run, which stands at {step} here; load it again, or choose another "
            "folder"
        )


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of one checkpoint. Raises ``ValueError`` naming a file that is missing or broken."""
    for name in ("tensors.safetensors", "state.json"):
        if not (path / name).is_file():
            raise ValueError(f"checkpoint {path} lacks {name}; resume from another, or start again")
    return load_file(path / "tensors.safetensors"), json.loads((path / "state.json").read_text(encoding="utf-8"))


def load_latest(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """:func:`load_checkpoint` of :func:`latest_checkpoint`."""
    return load_checkpoint(latest_checkpoint(folder))


def part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part (``model``, ``optimizer``, ...), under their own names.

    Raises ``ValueError`` naming the part if the checkpoint lacks it.
    """
    found = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
    if not found:
        raise ValueError(f"the checkpoint lacks its part {name!r}; a run cannot go on from it exactly")
    return found


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The moments of an optimiser, named ``optimizer.INDEX.NAME`` by the number of their parameter."""
    return {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put the moments of :func:`optimizer_tensors` into an optimiser of the same parameters."""
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in part(tensors, "optimizer").items():
        index, name = key.split(".")
        moments.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(dict(state=moments, param_groups=optimizer.state_dict()["param_groups"]))


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step_"))


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step_*") if _NAME.fullmatch(path.name))


def _flush(path: Path) -> None:
    """Have the system write ``path`` to the disk now."""
    if os.name == "nt":
        return  # Windows flushes neither a folder nor a file opened for reading
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
