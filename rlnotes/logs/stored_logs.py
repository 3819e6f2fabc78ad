"""Logs that come with the course: short runs of TRL and of our trainer, healthy or with one planted fault."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlnotes.logs.report import Report, read
from rlnotes.notebook.tables import Table, table

FOLDER = Path(__file__).parent / "stored"
BESIDE = "config.json"  # what a run was told


@dataclass(frozen=True)
class StoredLog:
    """A log at ``path``, with the settings of its run beside it."""

    path: Path

    @property
    def key(self) -> str:
        """By which a chapter names it: the name of its folder says what is wrong with the run."""
        return hashlib.sha256(self.path.parent.name.encode()).hexdigest()[:4]

    def rows(self) -> list[dict[str, Any]]:
        """What was logged, step by step."""
        text = self.path.read_text(encoding="utf-8")
        if self.path.suffix == ".jsonl":
            return [row for row in map(json.loads, text.splitlines()) if row["phase"]]  # 0 is the warm start
        return json.loads(text)["log_history"]

    def table(self, *columns: str, every: int = 1) -> Table:
        """The steps and these columns of every so many rows, for a page. Raises ``ValueError`` for another column."""
        rows = self.rows()
        if unknown := [name for name in columns if not any(name in row for row in rows)]:
            names = dict.fromkeys(name for row in rows for name in row)
            raise ValueError(f"columns has {unknown[0]!r}; log {self.key} has {', '.join(names)}")
        kept = [row for row in rows if {*columns} & {*row}][::every]
        return table([{name: row.get(name) for name in ("step", *columns)} for row in kept], f"log {self.key}")

    def first(self, column: str, *, above: float | None = None, below: float | None = None) -> int:
        """The first step at which ``column`` is past a bound. Raises ``ValueError`` if it never is."""
        for row in self.rows():
            value = row.get(column)
            if value is not None and (above is None or value > above) and (below is None or value < below):
                return int(row["step"])
        bounds = " and ".join(f"{name} {one}" for name, one in (("above", above), ("below", below)) if one is not None)
        raise ValueError(f"{column} of log {self.key} is never {bounds}; set another bound")

    def report(self) -> Report:
        """What ``rlnotes read`` says of it, with the settings of its run."""
        return read(self.path, self.path.with_name(BESIDE))


def stored_logs() -> dict[str, StoredLog]:
    """All of them by key."""
    paths = (path for path in sorted(FOLDER.glob("*/*.json*")) if path.name != BESIDE)
    return {log.key: log for log in map(StoredLog, paths)}


def stored_log(key: str) -> StoredLog:
    """The log that a chapter names, such as ``"4b51"``. Raises ``ValueError`` if there is none."""
    logs = stored_logs()
    if key not in logs:
        raise ValueError(f"key is {key!r}; the stored logs are {', '.join(logs)}")
    return logs[key]
