"""The one table of a study: its columns, its names, and its reader. Runs too long for a chapter are stored as such."""

import csv
import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlnotes.files import read_lines

LABELS = ("recipe", "task", "rollout", "rate")
COUNTERS = ("seed", "step", "tokens")
TOKEN_COLUMNS = ("sign", "token", "shown", "clipped", "probability")  # of the rows on clipped tokens; entropy is there
TEXT = ("method", *LABELS, "sign", "token")

LABEL_NAMES = {"objective": "recipe"}
"""what older tables call a column, and what it is called"""

METHOD_NAMES = {
    "pg-is": "pg_is",
    "token": "pg_is",
    "no clip": "unclipped",
    "no mask": "unmasked",
    "pg-tis": "cispo",
    "sequence": "sequence_is",
    "seq-tis": "seq_tis",
    "ppo": "stale_ppo",
    "method 1": "method_1",
    "method 2": "method_2",
    "one-sided": "trm_one_sided",
    "trm max": "trm_max",
    "trm avg": "trm_avg",
    "minirl-tis": "minirl_tis",
    "clip-higher": "clip_higher",
    "wide clip": "wide_clip",
    "dppo": "dppo_tv",
    "dppo-tv": "dppo_tv",
    "dppo kl": "dppo_kl",
    "dppo-kl": "dppo_kl",
    "dppo-topk-tv": "dppo_topk_tv",
    "dppo-topk-kl": "dppo_topk_kl",
    "symmetric": "dppo_symmetric",
    "mask 0.5": "negative_mask",
    "mask 0.5 at pi_k": "negative_mask at pi_k",
    "mask 0.5, A > 0": "positive_mask",
    "mask 0.8": "negative_mask 0.8",
    "relax high": "relax_high",
    "relax low": "relax_low",
    "relax both": "relax_both",
}
"""what older tables call a method, and what it is called in every command and table"""

_OLDER = re.compile(f"({'|'.join(sorted(map(re.escape, METHOD_NAMES), key=len, reverse=True))})(?=$|[ ,])")
_PACKAGE = Path(__file__).parents[1]
Runs = dict[str, dict[int, dict[str, np.ndarray]]]


def canonical(method: str, known: Container[str] = ()) -> str:
    """The present name of a method, unless it is ``known``. What follows it, such as a rate or a mismatch, stays."""
    found = None if method in known else _OLDER.match(method)
    return method if found is None else METHOD_NAMES[found[0]] + method[found.end() :]


class Band(NamedTuple):
    """A curve over tokens sampled: the median over seeds, the lowest and the highest."""

    tokens: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Table:
    """A table of ``rlnotes compare``, ``stability`` or ``arena``: for each method and seed, a metric at each step.

    ``rows[method][seed]`` maps a column to an array over steps, NaN where it was not measured. ``tuning`` holds in the
    same way the runs from which settings were chosen; no other function here looks at them, but :meth:`best`.
    ``labels[method]`` says what the method is, if the table does. ``clipped[method][seed]`` are lines on the tokens
    clipped most often.
    """

    name: str
    rows: Runs
    settings: dict
    tuning: Runs = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    clipped: dict[str, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What makes the table again. An arena reports each recipe at one of its learning rates only."""
        seeds = len(next(iter(self.rows.values())))
        if len(self.rows) < len(self.labels) and "first" not in self.settings["comparison"]:
            return f"rlnotes arena --seeds {seeds} --out {self.name}"
        made = f"rlnotes compare {self.name} --seeds {seeds} --out {self.name}.csv"
        device = self.settings["comparison"]["base"]["device"]
        return made if device == "cpu" else f"{made} --device {device}"

    def curves(self, method: str, metric: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tokens and values of each seed, where ``metric`` was measured."""
        found = []
        for columns in self.rows[method].values():
            measured = ~np.isnan(columns[metric])
            found.append((columns["tokens"][measured], columns[metric][measured]))
        return found

    def band(self, method: str, metric: str) -> Band:
        """Median over seeds and the range of the seeds, at each measurement that all of them have."""
        curves = self.curves(method, metric)
        whole = min(len(tokens) for tokens, _ in curves)
        tokens, values = (np.stack([curve[part][:whole] for curve in curves]) for part in (0, 1))
        return Band(np.median(tokens, 0), np.median(values, 0), values.min(0), values.max(0))

    def last(self, method: str, metric: str, points: int = 3) -> np.ndarray:
        """Mean of the last ``points`` measurements of each seed, (seeds,)."""
        return np.array([values[-points:].mean() for _, values in self.curves(method, metric)])

    def mean(self, method: str, metric: str) -> np.ndarray:
        """Mean of all measurements after the start, of each seed, (seeds,): what is early and lasts is worth most."""
        return np.array([values[tokens > 0].mean() for tokens, values in self.curves(method, metric)])

    def start(self, method: str, metric: str) -> np.ndarray:
        """What was measured at the start of each seed, (seeds,)."""
        return np.array([values[0] for _, values in self.curves(method, metric)])

    def starts_of(self, method: str) -> list[int]:
        """The warm start of each seed, (seeds,); seeds go round them. Where there is one alone each seed is its own."""
        starts = self.settings["comparison"].get("starts", 1)
        return [seed % starts if starts > 1 else seed for seed in self.rows[method]]

    @property
    def score(self) -> str:
        """The metric by which learning rates were chosen."""
        return self.settings["comparison"].get("score", "accuracy")

    def best(self, methods: Sequence[str]) -> str:
        """The one whose tuning runs have the highest :meth:`mean` score. What it then reaches, other seeds tell."""
        apart = replace(self, rows=self.tuning)
        return max(methods, key=lambda method: apart.mean(method, self.score).mean())

    def budget(self, method: str) -> int:
        """Response tokens that a run samples, give or take its last step."""
        made_of = self.settings["comparison"]
        return made_of["methods"][method].get("tokens", made_of["tokens"])

    def where(self, **labels: str) -> list[str]:
        """The methods with these labels: ``where(recipe="pg_is", rollout="int4")``, one for each learning rate."""
        return [method for method, own in self.labels.items() if labels.items() <= own.items()]


def grids(labels: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """The methods, of these ``labels``, that differ in their learning rate alone, the smallest rate first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(labels, key=lambda name: float(labels[name]["rate"])):
        found.setdefault(tuple(value for label, value in labels[name].items() if label != "rate"), []).append(name)
    return list(found.values())


def died(accuracy: Sequence[float] | np.ndarray) -> bool:
    """Whether a run ended below half of the best accuracy that it had reached."""
    return bool(accuracy[-1] < 0.5 * max(accuracy))


def joined(ours: Table, theirs: Table) -> Table:
    """The runs of both tables as one, of the name and the settings of ``ours``.

    Raises ``ValueError`` if they hold the same method, or were made with other settings, so that they say nothing of
    each other. Another device is no other setting.
    """
    if both := [method for method in theirs.labels if method in ours.labels]:
        raise ValueError(f"both tables hold {both[0]!r}; give one of the two another name")
    mine, other = ours.settings["comparison"], theirs.settings["comparison"]
    first, second = (one["base"] | dict(tuning_seeds=one.get("tuning_seeds"), device=None) for one in (mine, other))
    for key in first.keys() & second.keys():  # an older note lacks younger settings
        if first[key] != second[key]:
            raise ValueError(f"the tables differ in {key}: {first[key]} and {second[key]}; make one of them again")
    methods = mine["methods"] | {name: own | dict(tokens=theirs.budget(name)) for name, own in other["methods"].items()}
    settings = ours.settings | dict(comparison=mine | dict(methods=methods))
    parts = ("rows", "tuning", "labels", "clipped")
    return replace(ours, settings=settings, **{part: getattr(ours, part) | getattr(theirs, part) for part in parts})


def load_table(name: str) -> Table:
    """A table that comes with the package. Raises ``FileNotFoundError`` that lists those there are."""
    there = stored()
    if name not in there:
        raise FileNotFoundError(f"no stored table {name!r}; there are: {', '.join(there) or 'none'}")
    return read_table(name, there[name], there[name].with_suffix(".json"))


def load_rows(name: str) -> list[dict[str, Any]]:
    """Where each run of a small stored table ended, one dict a run. The file says which command makes it again."""
    note = _PACKAGE / "chapters" / f"c{name[:2]}" / f"{name}.json"
    return json.loads(note.read_text(encoding="utf-8"))["rows"]


def stored() -> dict[str, Path]:
    """The tables that come with the package, by name: they lie beside the chapters that show them."""
    return {path.stem: path for path in sorted(_PACKAGE.rglob("[0-9][0-9]_*.csv"), key=lambda path: path.stem)}


class Sheet(NamedTuple):
    """A table's file as it stands: ``columns`` as it calls them, and the rows of ``runs[method, seed]``, their cells.

    It is ``torn`` if it ends in the middle of a row. The run that comes last may then lack more.
    """

    columns: list[str]
    runs: dict[tuple[str, int], list[list[str]]]
    torn: bool

    def renamed(self, known: Container[str], methods: Container[str]) -> "Sheet":
        """With the present names of what is not ``known``. Raises ``ValueError`` for one that is not in ``methods``."""
        runs = {(canonical(method, known), seed): rows for (method, seed), rows in self.runs.items()}
        if strange := [method for method, _ in runs if method not in methods]:
            raise ValueError(
                f"the table holds runs of {strange[0]!r}, which its note does not name; remove their lines"
            )
        return self._replace(runs=runs)

    def parts(self, budget: Callable[[str], int]) -> list[tuple[str, int]]:
        """The runs that are not there to their end, ``budget(method)`` tokens."""
        place, last = self.columns.index("tokens"), next(reversed(self.runs), None)
        return [
            run
            for run, rows in self.runs.items()
            if (self.torn and run == last) or max(int(row[place]) for row in rows) < budget(run[0])
        ]


def read_sheet(table: Path) -> Sheet:
    """The file of a table. A byte-order mark and blank lines are no rows.

    Raises ``ValueError`` naming a line that is no row, if it is not the last, and one of a run that is there twice.
    """
    lines, tail = read_lines(table)
    reader = csv.reader(f"{line}\n" for line in lines)
    columns = next(filter(None, reader), [])
    if not {"method", *COUNTERS} <= {*columns}:
        raise ValueError(f"{table} is no table of a study, whose first line names its columns; choose another file")
    method, seed, step, tokens = (columns.index(name) for name in ("method", *COUNTERS))
    sheet, broken, steps = Sheet(columns, {}, torn=False), "", {}
    for row in filter(None, reader):
        if broken:
            raise ValueError(broken)
        where = f"{table}, line {reader.line_num}"
        if len(row) != len(columns) or not all(row[place].isdecimal() for place in (seed, step, tokens)):
            broken = f"{where} is no row of {len(columns)} cells; mend it, or remove all lines of its run"
            continue
        run = row[method], int(row[seed])
        if int(row[step]) < steps.get(run, 0):
            raise ValueError(f"{where} begins {run[0]}, seed {run[1]}, which is there already; remove one of the two")
        steps[run] = int(row[step])
        sheet.runs.setdefault(run, []).append(row)
    return sheet._replace(torn=bool(broken or tail.strip()))


def read_note(note: Path) -> dict[str, Any]:
    """What stands in the note beside a table. Raises ``ValueError`` if that describes no study."""
    try:
        found = json.loads(note.read_text(encoding="utf-8-sig"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"base", "methods", "tokens"} <= {*found.get("comparison", ())}:
        raise ValueError(f"{note} describes no study; choose another file, or remove it")
    return found


def read_table(name: str, table: Path, note: Path) -> Table:
    """The table in the file ``table``, and what stands in the ``note`` beside it.

    Raises ``ValueError`` for a table that does not hold its runs whole.
    """
    settings = read_note(note)
    made_of = settings["comparison"]
    sheet = read_sheet(table)
    known = made_of["methods"] if "recipe" in sheet.columns else ()  # an older table has no such column
    made_of["methods"] = {canonical(method, known): own for method, own in made_of["methods"].items()}
    sheet = sheet.renamed(known, made_of["methods"])
    found = Table(name, {}, settings)
    if (parts := sheet.parts(found.budget)) or sheet.torn:
        which = "{}, seed {}".format(*parts[0]) if parts else "a run"
        raise ValueError(f"{table} holds only a part of {which}; the command that made it makes that again")
    names = [LABEL_NAMES.get(column, column) for column in sheet.columns]
    tuning = made_of.get("tuning_seeds", [])
    for method in made_of["methods"]:  # in the note's order, not in that of their ends
        for seed in sorted(seed for own, seed in sheet.runs if own == method):
            rows = [dict(zip(names, row, strict=True)) for row in sheet.runs[method, seed]]
            steps = [row for row in rows if not row.get("token")]
            columns = {
                key: np.array([float(row[key] or "nan") for row in steps])
                for key in steps[0]
                if key not in (*TEXT, "seed")
            }
            (found.tuning if seed in tuning else found.rows).setdefault(method, {})[seed] = columns
            found.labels[method] = {key: steps[0][key] for key in LABELS if key in steps[0]}
            if "recipe" in found.labels[method] and not known:
                found.labels[method]["recipe"] = canonical(found.labels[method]["recipe"])
            clipped = [dict(row, method=method) for row in rows if row.get("token")]
            found.clipped.setdefault(method, {})[seed] = clipped
    return found
