"""The command behind a small stored table: it makes the rows and writes them with what made them."""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from rlnotes.files import replace_text


def write(out: Path, module: str, rows: Iterable[dict[str, Any]], seconds: float) -> None:
    """The table ``out`` of ``rows``, with the command that makes it, the ``seconds`` of one core, and the machine."""
    made_by = dict(
        command=f"python -m {module} --out {out.name}",
        seconds=round(seconds),
        machine=f"1 core, {platform.machine()}, torch {torch.__version__}",
    )
    lines = ",\n".join(map(json.dumps, rows))
    replace_text(out, f'{json.dumps(made_by)[:-1]}, "rows": [\n{lines}\n]}}\n')


def store_rows(module: str, about: str, rows: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """What ``python -m module --out FILE`` does: make the ``rows`` on one thread and write them, numbers with four
    digits, for :func:`rlnotes.studies.tables.load_rows` to read. ``about`` is the command's help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    began = time.perf_counter()
    write(out, module, [four_digits(row) for row in rows()], time.perf_counter() - began)


def store_runs(module: str, about: str, make: Callable[..., dict[str, Any]], runs: Sequence[tuple[Any, ...]]) -> None:
    """As :func:`store_rows`, a row ``make(*run)`` for each of ``runs``, on ``--workers`` processes of one thread each.
    Until the table is whole its rows stand beside it, and a new call goes on. The seconds are those of all runs.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    own = parser.parse_args()
    part = own.out.with_suffix(".part")
    # a line that was cut short ends without a break
    done = part.read_text(encoding="utf-8").split("\n")[:-1] if part.exists() else []
    replace_text(part, "".join(f"{line}\n" for line in done))
    with (
        ProcessPoolExecutor(own.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool,
        part.open("a", encoding="utf-8") as file,
    ):
        for found in pool.map(partial(timed, make), runs[len(done) :]):
            done.append(json.dumps(found))
            print(done[-1], file=file, flush=True)
    found = [json.loads(line) for line in done]
    write(own.out, module, [row for _, row in found], sum(seconds for seconds, _ in found))
    part.unlink()


def timed(make: Callable[..., dict[str, Any]], run: tuple[Any, ...]) -> tuple[float, dict[str, Any]]:
    """The seconds that a row took, and the row."""
    began = time.perf_counter()
    row = four_digits(make(*run))
    return time.perf_counter() - began, row


def four_digits(value: Any) -> Any:
    """``value``, a number, a text or a nesting of dicts and lists, with every float rounded to four digits.

    Examples:
        >>> four_digits({"J": [0.123456, 1], "arm": "clip"})
        {'J': [0.1235, 1], 'arm': 'clip'}
    """
    if isinstance(value, dict):
        return {key: four_digits(one) for key, one in value.items()}
    if isinstance(value, list):
        return [four_digits(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
