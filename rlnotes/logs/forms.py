"""The forms that logs take: each is read line by line, in bounded memory, and nothing is sent anywhere."""

import csv
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from rlnotes.logs.table import meant

LINE = 1 << 20  # bytes of a line that are read at once
DICT = 1 << 16  # characters of a dict that is spread over lines
HEAD = 1 << 16  # bytes by which the form is recognised
CUT = 4096  # characters after which Weights & Biases cuts a line of the console
STEPS = (
    "step", "training/global_step", "global_step", "train/global_step", "train/step", "rollout/step", "_step", "Step",
    "global_step/max_steps",
)  # fmt: skip
BESIDE = ("metrics.jsonl", "trainer_state.json")  # in the folder of a run


class Row(NamedTuple):
    """One line: its step, if it says one, and its numbers by name."""

    step: float | None
    values: dict[str, float]


@dataclass
class Source:
    """A log that is being read: which form it has, and which lines were skipped."""

    path: Path
    form: str = ""
    skipped: int = 0
    first_skipped: int | None = None
    """lines that are broken, and the first of them"""
    other_runs: int = 0
    other_files: int = 0
    decimals: dict[str, bool] = field(default_factory=dict)
    """by name: True as long as all values were written with three decimals, as older versions of verl do"""

    def skip(self, line: int) -> None:
        """A line that lacks metrics though it should have them."""
        self.skipped += 1
        self.first_skipped = self.first_skipped or line

    def rows(self) -> Iterator[Row]:
        """All of it. Raises ``OSError`` or ``ValueError`` for a path that holds no log that can be read."""
        if self.path.is_dir():
            yield from self._folder()
            return
        with self.path.open("rb") as file:
            head = file.read(HEAD)
        if self.path.name.startswith("events.out.tfevents"):
            yield from _events(self, [self.path])
            return
        if b"\0" in head:
            raise ValueError(f"{self.path} is no text; give a log as text, a run's folder, or a folder of TensorBoard")
        text = head.decode(errors="replace").removeprefix("\ufeff")
        if not text.strip():
            raise ValueError(f"{self.path} is empty; give the log of a run that has made a step")
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            yield from _table(self, file, found) if (found := _delimiter(text)) else _text(self, file)

    def _folder(self) -> Iterator[Row]:
        """The log in a run's folder: ours, TRL's of the last checkpoint, TensorBoard's, charts, or a file of lines."""
        found = [self.path / name for name in BESIDE if (self.path / name).is_file()][:1]
        steps = [
            (int(p.parent.name[11:]), p)
            for p in self.path.glob("checkpoint-*/trainer_state.json")
            if p.parent.name[11:].isdigit()
        ]
        found = found or [path for _, path in sorted(steps, reverse=True)[:1]]
        if not found and (events := sorted(self.path.rglob("events.out.tfevents*"))):
            yield from _events(self, events)
            return
        if not found:
            found = sorted(path for ending in ("*.jsonl", "*.log", "*.csv") for path in self.path.glob(ending))
            charts = len(found) if all(path.suffix == ".csv" for path in found) else 1
            found, self.other_files = found[:charts], len(found[charts:])
        if not found:
            raise ValueError(
                f"{self.path} holds no log: no {', no '.join(BESIDE)}, no TensorBoard file, no .jsonl, .log or .csv; "
                "name the file itself"
            )
        folder = self.path
        for self.path in found:
            yield from self.rows()
        if len(found) > 1:
            self.path = folder


# --- Text: dicts of Python or JSON, on a line or over several, and verl's lines

_VERL = re.compile(r"\bstep:(\d+) - (.*)")
_BEFORE = re.compile(r"(?:step|rollout|perf|eval) (\d+)(?:, eval_metrics)?: ?$", re.IGNORECASE)
_OUTER = re.compile(r"[\"']step[\"']\s*:\s*(\d+)")
_PAIR = re.compile(
    r"""\s*["']([^"'\n]+)["']\s*:\s*("[^"\n]*"|'[^'\n]*'|\[[^\]]*\]|\w[\w.]*\([^()]*\)|[^,"'\[\](){}:]+)\s*(?:,|$)"""
)
_CALL = re.compile(r"\w[\w.]*\((.*)\)", re.DOTALL)
_THREE = re.compile(r"-?\d+\.\d{3}")


def _text(source: Source, file: IO[str]) -> Iterator[Row]:
    """Rows of dicts and of verl's lines; what lies between them, as on a console, is passed over."""
    strict = source.path.suffix == ".jsonl"
    pending: str | None = None  # what stands behind a brace that is still open
    outer: float | None = None
    number, going_on = 0, False
    while line := file.readline(LINE):
        number += not going_on
        going_on = not line.endswith("\n")
        if (found := _VERL.search(line)) and pending is None:
            yield from _verl(source, found, number)
            continue
        if pending is None and line.startswith("{") and (whole := _json(line)) is not None:
            yield from _row(whole, None)
            continue
        if strict and pending is None and "{" not in line and line.strip():
            source.skip(number)
        start = 0
        for brace in re.finditer(r"[{}]", line):
            before = line[start : brace.start()]
            start = brace.end()
            if brace.group() == "{":
                if pending is not None:
                    outer = _left(source, pending + before, number, strict)
                if said := _BEFORE.search(before):  # also where a text that was logged before has left a brace open
                    outer = float(said.group(1))
                pending = ""
            elif pending is not None:
                if (values := _dict(pending + before)) is not None:
                    yield from _row(values, outer)
                elif strict or _looks_like_metrics(pending + before):
                    source.skip(number)
                pending, outer = None, None
        if pending is not None:
            pending += line[start:]
            if len(pending) > DICT:
                pending = None
    if pending and "[" not in pending and (strict or _looks_like_metrics(pending)):
        source.skip(number)


def _left(source: Source, text: str, number: int, strict: bool) -> float | None:
    """A brace within a brace: the outer one's step. What is torn, and no frame of what is inside, is skipped."""
    if text.endswith("\n") and "[" not in text and (strict or _looks_like_metrics(text)):
        source.skip(number - 1)
        return None
    step = _OUTER.search(text)
    return float(step.group(1)) if step else None


def _looks_like_metrics(text: str) -> bool:
    """True if two metrics that are known are named in ``text``: a broken dict of something else, such as settings, is
    not missed. Nor is a text that a console has broken into pieces in quotes, as verl does with what it logs again.
    """
    names = {name for name in re.findall(r"[\"']([\w/@.-]+)[\"']\s*:", text) if meant(name)}
    return len(names) > 1 and not re.search(r"[\"']\n", text)


def _json(line: str) -> dict[str, Any] | None:
    """A line that is one JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _dict(text: str) -> dict[str, Any] | None:
    """What stands between the braces of a dict without another inside; None if something in it is no pair."""
    found, end = {}, 0
    text = text.strip()
    while end < len(text) and text[end:].strip() != "...":  # as in a log that somebody has shortened
        pair = _PAIR.match(text, end)
        if pair is None:
            return None
        found[pair.group(1)] = pair.group(2)
        end = pair.end()
    return found


def _verl(source: Source, found: re.Match[str], number: int) -> Iterator[Row]:
    """What is whole in a line: the end may be cut off, or other output glued to it."""
    values, parts = {}, found.group(2).strip().split(" - ")
    torn = len(found.string.rstrip("\n")) == CUT
    for part in parts[:-1] if torn else parts:
        name, _, value = part.rpartition(":")
        if not name or (value_ := number_of(value)) is None:
            torn = True
            continue
        values[name] = value_
        source.decimals[name] = source.decimals.get(name, True) and bool(_THREE.fullmatch(value))
    if torn:
        source.skip(number)
    source.form = source.form or "verl's console lines"
    yield Row(float(found.group(1)), values)


def _row(found: dict[str, Any], outer: float | None) -> Iterator[Row]:
    """The row of a dict: verl's file has its metrics one level below; of a whole trainer state those of each step."""
    for inner in found.get("log_history", ()):
        yield from _row(inner, None)
    if isinstance(data := found.get("data"), dict):
        found = data | {"step": found.get("step")}
    values = {name: value_ for name, value in found.items() if (value_ := number_of(value)) is not None}
    if values.get("phase") == 0:  # our own warm start
        return
    if values:
        yield Row(_step(values, outer), values)


def _step(values: dict[str, float], otherwise: float | None = None) -> float | None:
    return next((values[name] for name in STEPS if math.isfinite(values.get(name, math.nan))), otherwise)


def number_of(value: Any) -> float | None:
    """The number that a log means: ``0.1``, ``"1.867e+04"``, ``tensor(0.1)``, ``nan``; the first of ``5/3766``."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return value
    if not isinstance(value, int | str):
        return None
    text = str(value).strip().strip("\"'")
    if (plain := _float(text)) is not None:  # nearly all
        return plain
    if call := _CALL.fullmatch(text):
        text = call.group(1).split(",")[0]
    if re.fullmatch(r"\d+/\d+", text):
        text = text.split("/")[0]
    return _float(text)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# --- Tables: an export of Weights & Biases, a table of a notebook


def _delimiter(text: str) -> str | None:
    """What stands between the cells, if the first two lines are the head of a table and a row of it."""
    lines = [line.strip(" |\r") for line in text.splitlines() if line.strip(" |\r-:+")][:2]
    for mark in ",\t|":
        rows = list(csv.reader(lines, delimiter=mark))
        if len(rows) == 2 and len(rows[0]) == len(rows[1]) > 1 and "{" not in lines[0]:
            numbers = [[number_of(cell) is not None for cell in row] for row in rows]
            if not any(numbers[0]) and any(numbers[1]):
                return mark
    return None


def _table(source: Source, file: IO[str], mark: str) -> Iterator[Row]:
    source.form = "a table"
    lines = csv.reader(
        (line.strip(" |\n\r") + "\n" for line in file if line.strip()) if mark == "|" else file, delimiter=mark
    )
    names = [name.strip() for name in next(lines)]
    if {"Name", "State", "Created"} <= {*names}:
        raise ValueError(f"{source.path} is a table of runs, with a row for each; export the history of one run")
    runs: dict[str, None] = {}
    columns: dict[int, str] = {}
    for i, name in enumerate(names):
        run, dash, metric = name.rpartition(" - ")  # Weights & Biases: RUN - METRIC, RUN - METRIC__MIN, __MAX
        if metric.endswith(("__MIN", "__MAX")):
            continue
        if dash:
            runs[run] = None
        if not dash or run == next(iter(runs)):
            columns[i] = metric
    source.other_runs = max(0, len(runs) - 1)
    for cells in _whole(source, lines):
        if len(cells) != len(names):
            if cells:
                source.skip(lines.line_num)
            continue
        if mark == "|" and not "".join(cells).strip("-: "):
            continue
        values = {name: value for i, name in columns.items() if (value := number_of(cells[i])) is not None}
        if values:
            yield Row(_step(values), values)
        elif any(cell.strip() for cell in cells):
            source.skip(lines.line_num)


def _whole(source: Source, lines: Any) -> Iterator[list[str]]:
    """The rows of a table, but for those that are none."""
    while True:
        try:
            yield next(lines)
        except StopIteration:
            return
        except csv.Error:
            source.skip(lines.line_num)


# --- TensorBoard


def _events(source: Source, paths: list[Path]) -> Iterator[Row]:
    """One row for each scalar."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise ImportError("reading a TensorBoard folder needs tensorboard: pip install 'rlnotes[test]'") from None
    source.form = "TensorBoard"
    for path in paths:
        for event in LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    yield Row(float(event.step), {value.tag: value.simple_value})
                elif (
                    value.HasField("tensor")
                    and (found := make_ndarray(value.tensor)).size == 1
                    and found.dtype.kind in "fiu"
                ):
                    yield Row(float(event.step), {value.tag: float(found)})
