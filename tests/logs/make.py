"""The command that makes the logs of the package again: ``python -m tests.logs.make [--only NAME ...]``."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rlnotes.logs.stored_logs import BESIDE, FOLDER
from tests.logs import by_real, by_us
from tests.logs.run import OurRun, RealRun, Run
from tests.logs.runs import RUNS

HERE = Path(__file__).parent
MANIFEST, README = HERE / "manifest.json", HERE / "README.md"
LARGEST = 60_000  # bytes of a log
GAIN = 0.15  # of held-out accuracy: what a healthy run has more of, and a faulty one less


def maker_of(run: Run) -> Any:
    """The module that makes ``run``. TRL's is loaded when it is needed: it is not always there."""
    if isinstance(run, OurRun):
        return by_us
    if isinstance(run, RealRun):
        return by_real
    from tests.logs import by_trl

    return by_trl


def made(run: Run) -> tuple[str, dict[str, Any]]:
    """The log of ``run`` as text, and what the manifest says of it.

    Raises ``RuntimeError`` if a fault does not show in the log or does no harm, or a healthy run does not learn.
    """
    maker, started = maker_of(run), time.process_time()
    with TemporaryDirectory() as scratch:
        text, rows, before, after = maker.train(run, Path(scratch))
    kept = isinstance(run, RealRun)  # as it was made: its seconds are those of its steps
    taken = sum(row["seconds"] for row in rows) if kept else time.process_time() - started
    entry = dict(
        name=run.name,
        half=run.half,
        fault=run.fault,
        library=maker.LIBRARY,
        task=repr(maker.task_of(run)),
        log=f"{run.name}/{maker.LOG}",
        config=f"{run.name}/{BESIDE}",
        visible_from=visible_from(run, rows),
        sign=run.sign and run.sign._asdict(),
        note=run.note,
        accuracy_before=round(before, 3),
        accuracy_after=round(after, 3),
        seconds=round(taken, 1),
    )
    check(entry, len(text.encode()))
    return text, entry


def visible_from(run: Run, rows: Sequence[dict[str, float]]) -> int | None:
    """The first step whose row shows the sign of the fault; None for a run without."""
    if run.sign is None:
        return None
    return next((int(row["step"]) for row in rows if run.sign.seen_in(row)), None)


def check(entry: dict[str, Any], size: int) -> None:
    """Raise ``RuntimeError`` for a log that is not what its run was made for."""
    gain, faulty = entry["accuracy_after"] - entry["accuracy_before"], entry["fault"] is not None
    if faulty and entry["visible_from"] is None:
        raise RuntimeError(f"{entry['name']}: no row shows {entry['sign']}; set another sign, or plant another fault")
    if faulty and gain >= GAIN:
        raise RuntimeError(f"{entry['name']}: accuracy rises by {gain:.3f} all the same; plant another fault")
    if not faulty and gain < GAIN:
        raise RuntimeError(f"{entry['name']}: accuracy rises by {gain:.3f} only, which is not healthy")
    if size > LARGEST:
        raise RuntimeError(f"{entry['name']}: its log has {size} bytes, more than {LARGEST}; log fewer steps")


def keep(run: Run, text: str, entry: dict[str, Any]) -> None:
    """Write the log, the settings, the manifest and the table."""
    folder = FOLDER / run.name
    folder.mkdir(exist_ok=True)
    (FOLDER / entry["log"]).write_text(text, encoding="utf-8")
    settings = json.dumps(maker_of(run).config(run), indent=1)
    (FOLDER / entry["config"]).write_text(settings + "\n", encoding="utf-8")
    entries = {one["name"]: one for one in manifest()} | {run.name: entry}
    kept = [entries[one.name] for one in RUNS if one.name in entries]
    MANIFEST.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    head = README.read_text(encoding="utf-8").split("| fault")[0]
    README.write_text(head + table(kept), encoding="utf-8")


def manifest() -> list[dict[str, Any]]:
    """What is known of each stored log."""
    return json.loads(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else []


def table(entries: Sequence[dict[str, Any]]) -> str:
    """A row for each fault, with the run of either half; the healthy ones two by two."""
    lines = ["| fault | tuning half | judging half |", "|---|---|---|"]
    kinds = {entry["fault"]: [e for e in entries if e["fault"] == entry["fault"]] for entry in entries}
    for fault, some in kinds.items():
        halves = [[one for one in some if one["half"] == half] for half in ("tuning", "judging")]
        for i in range(max(map(len, halves))):
            cells = [said(half[i]) if i < len(half) else "" for half in halves]
            lines.append(f"| {fault or 'none'} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def said(entry: dict[str, Any]) -> str:
    """A run in one cell."""
    accuracy = f"{entry['accuracy_before']:.2f} to {entry['accuracy_after']:.2f}"
    sign = entry["sign"]
    bound = "" if sign is None or sign["side"] == "nan" else f" {sign['bound']:g}"
    shown = entry["note"] if sign is None else f"{sign['metric']} {sign['side']}{bound}, step {entry['visible_from']}"
    return f"{entry['name']}: {shown}; {accuracy}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the runs that are asked for, one after the other; each is kept when it has ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[run.name for run in RUNS], help="these runs alone"
    )
    only = parser.parse_args(arguments).only
    torch.set_num_threads(1)  # sums in the same order wherever there are more
    for run in RUNS:
        if only is None or run.name in only:
            text, entry = made(run)
            keep(run, text, entry)
            print(f"{said(entry)}; {entry['seconds']} s, {len(text)} B")


if __name__ == "__main__":
    main()
