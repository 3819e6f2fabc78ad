"""What production libraries computed on shared inputs, and which of our choices say the same.

``golden.npz`` holds inputs and the losses, gradients, weights and advantages that the libraries' own functions
returned on them; ``manifest.json`` says, per case, which function, which commit and which settings. A case id is
``peer/variant@batch``. The tables of this package hold one entry per ``peer/variant``: losses.py, tables.py, and
not_covered.py for what nothing of ours says.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent / "peers"


@cache
def arrays() -> dict[str, np.ndarray]:
    """Every golden array by its key."""
    with np.load(FOLDER / "golden.npz") as archive:
        return {key: archive[key] for key in archive.files}


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """Every golden case by its id."""
    cases = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases}


@cache
def issue_cases() -> dict[str, dict[str, Any]]:
    """The hand-sized cases from public threads by their id."""
    cases = json.loads((FOLDER / "issue_cases.json").read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases}


def variant_of(case_id: str) -> str:
    return case_id.split("@")[0]


def batch_of(case_id: str) -> str:
    return case_id.split("@")[1]


def ids(table: dict[str, Any]) -> list[str]:
    """The ids of the golden cases whose variant is in ``table``."""
    return [case_id for case_id in manifest() if variant_of(case_id) in table]


@cache
def group_size(name: str) -> int:
    """Responses per prompt of a batch. The golden batches keep the responses of a prompt together."""
    group = arrays()[f"in/{name}/group"]
    size = int((group == group[0]).sum())
    np.testing.assert_array_equal(group, np.repeat(np.arange(len(group) // size), size))
    return size


def inputs(name: str, key: str) -> Tensor:
    return torch.from_numpy(arrays()[f"in/{name}/{key}"].copy())


def mask_of(name: str) -> Tensor:
    return inputs(name, "mask").bool()
