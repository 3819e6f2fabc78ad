"""The command: ``python -m tests.golden.make [--check] [--out DIR] trl=PATH verl=PATH ...``."""

import argparse
import json
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.golden import FOLDER, arrays, manifest
from tests.golden.make import oat, openrlhf, slime, stable_rl, trl, verl
from tests.golden.make.batches import Adapter, Case, Made
from tests.golden.make.inputs import SPREADS, batch
from tests.golden.make.source import Repository, SourceError

TOLERANCE = 1e-12

ADAPTERS: dict[str, dict[str, Adapter]] = {
    "verl": verl.ADAPTERS,
    "trl": trl.ADAPTERS,
    "trl_dppo": trl.ADAPTERS,
    "slime": slime.ADAPTERS,
    "openrlhf": openrlhf.ADAPTERS,
    "stable_rl": stable_rl.ADAPTERS,
    "oat": oat.ADAPTERS,
    "r1zero": oat.ADAPTERS,
}


def adapter_of(entry: dict[str, Any]) -> Adapter:
    """The first adapter whose name the manifest's function starts with."""
    for name, adapter in ADAPTERS[entry["peer"]].items():
        if entry["function"].startswith(name):
            return adapter
    raise SourceError(f"{entry['peer']}: no adapter for {entry['function']}: add one to ADAPTERS of its file")


def as_arrays(made: Made) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    metrics = made.pop("metrics", {})
    found = {k: v.detach().numpy() if isinstance(v, torch.Tensor) else np.asarray(v) for k, v in made.items()}
    return found, {name: float(value) for name, value in metrics.items() if np.ndim(value) == 0 and value is not None}


def difference(made: np.ndarray, stored: np.ndarray) -> float:
    """0 if the two are equal, infinity if they cannot be compared, else the largest difference, relative above 1."""
    if made.shape != stored.shape or made.dtype != stored.dtype:
        return float("inf")
    a, b = made.astype(float), stored.astype(float)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)) or not np.array_equal(
        a[~np.isfinite(a)], b[~np.isfinite(b)], equal_nan=True
    ):
        return float("inf")
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    return float((np.abs(a - b) / np.maximum(1, np.abs(b))).max(initial=0.0))


def place_of(entry: dict[str, Any]) -> tuple[str, str, str]:
    """The library whose folder has a case's file, the commit, and the file.

    One file of the manifest is in another repository: "FILE (owner/verl-recipe@COMMIT)".
    """
    elsewhere = re.fullmatch(r"(\S+) \(\S+/([\w-]+)@(\w+)\)", entry["file"])
    if elsewhere:
        return elsewhere[2], elsewhere[3], elsewhere[1]
    return entry["peer"].removesuffix("_dppo"), entry["commit"], entry["file"]


@dataclass
class Run:
    """What came of the cases of some libraries."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)
    different: dict[str, dict[str, float]] = field(default_factory=dict)
    """Largest difference by case and output."""
    exact: set[str] = field(default_factory=set)
    not_made: dict[str, str] = field(default_factory=dict)
    """The reason by case."""
    errors: set[str] = field(default_factory=set)
    """Why cases were not made although their library has a folder."""

    def make(self, case: Case, adapter: Adapter, stored: Mapping[str, np.ndarray]) -> None:
        name = case.entry["id"]
        made, metrics = as_arrays(adapter(case))
        known = case.entry.get("metrics") or {}
        outputs = {key.removeprefix(f"{name}/") for key in stored if key.startswith(f"{name}/")}
        made = {key: made[key] for key in sorted(outputs & made.keys())}
        found = {key: difference(value, stored[f"{name}/{key}"]) for key, value in made.items()}
        found |= dict.fromkeys(outputs - made.keys(), float("nan"))
        for key, value in known.items():
            found[key] = difference(np.asarray(metrics.get(key, np.nan)), np.asarray(value))
        self.arrays |= {f"{name}/{key}": value for key, value in made.items()}
        self.cases.append(case.entry | ({"metrics": {key: metrics.get(key) for key in known}} if known else {}))
        self.add(name, found)

    def add(self, name: str, differences: Mapping[str, float]) -> None:
        if wrong := {key: value for key, value in differences.items() if not value <= TOLERANCE}:
            self.different[name] = wrong
        elif not any(differences.values()):
            self.exact.add(name)


def make(folders: Mapping[str, Path], entries: Iterable[dict[str, Any]], stored: Mapping[str, np.ndarray]) -> Run:
    """Every case whose library has a folder."""
    run, repository_of = Run(), cache(Repository)
    for entry in entries:
        library, commit, file = place_of(entry)
        if library not in folders:
            run.not_made[entry["id"]] = f"no folder given: {library}=PATH"
            continue
        try:
            run.make(Case(repository_of(library, folders[library], commit), entry, file), adapter_of(entry), stored)
        except SourceError as error:
            run.not_made[entry["id"]] = str(error)
            run.errors.add(str(error))
    return run


def report(run: Run, entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line per library, and one for each thing that is not equal."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in [entry["id"] for entry in entries]:
        kind = "not made" if name in run.not_made else "different" if name in run.different else "equal"
        counts[name.split("/")[0]].update([kind, *(["exact"] if name in run.exact else [])])
    total = sum(counts.values(), Counter())
    yield f"{'library':<10} {'made':>5} {'equal':>6} {'(exact)':>8} {'different':>10} {'not made':>9}"
    for library, found in [*sorted(counts.items()), ("all", total)]:
        made = found["equal"] + found["different"]
        yield (
            f"{library:<10} {made:>5} {found['equal']:>6} {found['exact']:>8} "
            f"{found['different']:>10} {found['not made']:>9}"
        )
    for name, outputs in run.different.items():
        yield f"different: {name}: " + ", ".join(f"{key} by {value:.1e}" for key, value in outputs.items())
    for reason, number in Counter(run.not_made.values()).items():
        yield f"not made: {number} cases: {reason}"


def report_inputs(stored: Mapping[str, np.ndarray]) -> Iterator[str]:
    """The seeded batches made again. The cases run on the stored ones."""
    found = {
        f"in/{name}/{key}": difference(value, stored[f"in/{name}/{key}"])
        for name in SPREADS
        for key, value in batch(name).items()
    }
    equal, exact = (sum(value <= most for value in found.values()) for most in (TOLERANCE, 0))
    yield f"inputs: {len(found)} arrays of {len(SPREADS)} batches made, {equal} equal ({exact} exact)"
    yield from (f"different: {key} by {value:.1e}" for key, value in found.items() if not value <= TOLERANCE)


def folder_of(text: str) -> tuple[str, Path]:
    library, _, path = text.partition("=")
    known = sorted({place_of(entry)[0] for entry in manifest().values()})
    if library not in known:
        raise argparse.ArgumentTypeError(f"{text!r}: give LIBRARY=PATH with one of {', '.join(known)}")
    if not Path(path).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: no folder {path}: give the library's git directory or checkout")
    return library, Path(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make", description=__doc__)
    parser.add_argument("folders", nargs="+", type=folder_of, metavar="LIBRARY=PATH")
    parser.add_argument("--out", type=Path, help="folder for golden.npz and manifest.json of the cases that are made")
    parser.add_argument("--check", action="store_true", help="compare with the stored data; 1 if something differs")
    options = parser.parse_args(arguments)
    if not (options.out or options.check):
        parser.error("nothing to do: give --out DIR, --check or both")
    warnings.filterwarnings("ignore", "std\\(\\): degrees of freedom")  # groups of one give NaN by design
    entries = manifest().values()
    run = make(dict(options.folders), entries, arrays())
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        given = {key: value for key, value in arrays().items() if key.startswith("in/")}
        np.savez_compressed(options.out / "golden.npz", allow_pickle=False, **given, **run.arrays)
        head = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
        text = json.dumps(head | {"n_cases": len(run.cases), "cases": run.cases}, indent=1) + "\n"
        (options.out / "manifest.json").write_text(text, encoding="utf-8")
    if options.check:
        print(f"torch {torch.__version__} on {torch.backends.cpu.get_cpu_capability()}")
        print(*report_inputs(arrays()), *report(run, entries), sep="\n")
    elif run.errors:
        print(*sorted(run.errors), sep="\n", file=sys.stderr)
    return int(bool(run.errors) or (options.check and bool(run.different)))


if __name__ == "__main__":
    sys.exit(main())
