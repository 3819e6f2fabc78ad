"""Checkpoints that survive a kill at any moment: safetensors for numbers, JSON for the rest, no pickle.

A checkpoint is a folder ``step_00000040`` with ``tensors.safetensors`` and ``state.json``. It is written beside its
place under a temporary name, flushed to the disk, and renamed: it is there whole or not at all.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

KEEP = 2  # the newest, and the one before in case a disk fails
FORMAT = 1  # of what a checkpoint holds
TENSORS, STATE = "tensors.safetensors", "state.json"
_NAME = re.compile(r"step_(\d{8})")


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write a checkpoint under ``folder`` and drop all but the newest ``KEEP``. Returns its path.

    Raises ``OSError`` naming the checkpoint if it cannot be written, as on a full disk: nothing of it is left then,
    and those before it stay.
    """
    final = folder / f"step_{step:08d}"
    temporary = folder / f".writing_{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".writing_*"):  # by a kill
        shutil.rmtree(left)
    temporary.mkdir()
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary / TENSORS)
        (temporary / STATE).write_text(json.dumps(dict(format=FORMAT) | state, indent=1), encoding="utf-8")
        for path in temporary.iterdir():
            _flush(path)
        if not final.exists():  # else the same step was saved before: leave it, never a moment without it
            os.replace(temporary, final)
            _flush(folder)
    except (OSError, SafetensorError) as error:
        raise OSError(f"{final} cannot be written ({error}); make room there, or choose another folder") from error
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)
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
        theirs, there = state["config"], state["run_id"]
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


def find_checkpoint(folder: Path, name: str | None = None) -> Path:
    """The checkpoint called ``name`` under ``folder``, or the newest.

    Raises ``FileNotFoundError`` saying which there are.
    """
    newest = latest_checkpoint(folder)
    if name is None:
        return newest
    found = {path.name: path for path in _all(folder)}
    if name not in found:
        raise FileNotFoundError(f"no checkpoint {name} in {folder}; there are {', '.join(found)}")
    return found[name]


def is_of_text(folder: Path) -> bool:
    """Whether the newest checkpoint under ``folder`` is of a real model, which was read from a place of its own."""
    try:
        state = json.loads((_all(folder)[-1] / STATE).read_text(encoding="utf-8"))
    except (IndexError, OSError, ValueError):  # who loads it says what is wrong
        return False
    return isinstance(state, dict) and "model" in (state.get("config") or ())


class BrokenCheckpoint(ValueError):
    """A checkpoint that nothing can go on from: ``file`` and what is ``wrong`` with it.

    ``older`` is the name of the newest one before it whose files can be read, or None.
    """

    def __init__(self, file: Path, wrong: str):
        self.wrong = f"{file} {wrong}"
        self.older = next((path.name for path in reversed(_all(file.parents[1])) if _older(path, file.parent)), None)
        super().__init__(f"{self.wrong}; {self.way_out(f'load with checkpoint={self.older!r}')}")

    def way_out(self, command: str) -> str:
        """What to do, if ``command`` takes the older one."""
        if self.older is None:
            return "there is no older one that can be read: start the run again"
        return f"the one before it can be read: {command}"


def _older(path: Path, than: Path) -> bool:
    """Whether ``path`` is older than the checkpoint ``than``, and its files can be read."""
    if path.name >= than.name:
        return False
    try:
        load_checkpoint(path)
    except BrokenCheckpoint:
        return False
    return True


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of one checkpoint, on the CPU.

    Raises :class:`BrokenCheckpoint` for a file that is missing or cannot be read, and for numbers that are not finite.
    """
    file = path / TENSORS
    try:
        tensors = load_file(file)
    except FileNotFoundError as error:
        raise BrokenCheckpoint(file, "is missing") from error
    except (OSError, SafetensorError) as error:
        raise BrokenCheckpoint(file, f"cannot be read ({error})") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise BrokenCheckpoint(file, f"has values in {name} that are not finite")
    return tensors, _load_state(path / STATE)


def _load_state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BrokenCheckpoint(file, "is missing") from error
    except (OSError, ValueError) as error:  # not UTF-8 is a ValueError, and so is what is not JSON
        raise BrokenCheckpoint(file, f"cannot be read ({error})") from error
    if not isinstance(state, dict):
        raise BrokenCheckpoint(file, "holds no settings, but something else")
    if (found := state.pop("format", None)) != FORMAT:
        raise BrokenCheckpoint(file, f"is of format {found}, and this version of rlnotes reads {FORMAT}")
    return state


def check_fields(file: Path, found: Mapping[str, Any], expected: Iterable[str], what: str) -> None:
    """Raise :class:`BrokenCheckpoint` if ``found`` has not just the fields ``expected``, of ``what`` in ``file``."""
    expected = list(expected)
    for name in expected:
        if name not in found:
            raise BrokenCheckpoint(file, f"lacks the {what} {name!r}")
    for name in found:
        if name not in expected:
            raise BrokenCheckpoint(file, f"has the {what} {name!r}, which this version of rlnotes does not know")


def check_tensors(file: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Raise :class:`BrokenCheckpoint` if ``found`` has not just the names, shapes and types of ``expected``."""
    for name, tensor in expected.items():
        if name not in found:
            raise BrokenCheckpoint(file, f"lacks {name}, without which the run cannot go on exactly")
        own, wanted = ((tuple(one.shape), str(one.dtype)) for one in (found[name], tensor))
        if own != wanted:
            raise BrokenCheckpoint(file, f"has {name} of shape {own[0]}, {own[1]}; here it is {wanted[0]}, {wanted[1]}")
    for name in found:
        if name not in expected:
            raise BrokenCheckpoint(file, f"holds {name}, for which there is no place in this run")


def set_aside_after(path: Path) -> None:
    """Rename the checkpoints that are newer than ``path``, which a run goes on from: they stay, and count no more."""
    for newer in _all(path.parent):
        if newer.name > path.name:
            names = (newer.with_name(f"{newer.name}.aside{number}") for number in count(1))
            newer.rename(next(name for name in names if not name.exists()))


def part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part (``model``, ``optimizer``, ...), under their own names."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The moments of an optimiser, named ``optimizer.INDEX.NAME`` by the number of their parameter."""
    return {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def moments_of(optimizer: Optimizer) -> dict[str, Tensor]:
    """Tensors like those of :func:`optimizer_tensors` that AdamW has after an update: for their names and shapes."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    like = {
        index: dict(step=torch.tensor(0.0), exp_avg=weight, exp_avg_sq=weight) for index, weight in enumerate(weights)
    }
    return {f"optimizer.{index}.{name}": value for index, own in like.items() for name, value in own.items()}


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
