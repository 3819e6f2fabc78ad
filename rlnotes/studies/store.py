"""The command behind a small stored table: it makes the rows and writes them with what made them."""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from rlnotes.files import replace_text


def store_rows(module: str, about: str, rows: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """What ``python -m module --out FILE`` does: make the ``rows`` on one thread and write them, numbers with four
    digits, for :func:`rlnotes.studies.tables.load_rows` to read. ``about`` is the command's help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    began = time.perf_counter()
    lines = ",\n".join(json.dumps(four_digits(row)) for row in rows())
    made_by = dict(
        command=f"python -m {module} --out {out.name}",
        seconds=round(time.perf_counter() - began),
        machine=f"1 core, {platform.machine()}, torch {torch.__version__}",
    )
    replace_text(out, f'{json.dumps(made_by)[:-1]}, "rows": [\n{lines}\n]}}\n')


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
