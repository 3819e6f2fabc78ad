"""Runs of a real model, by ``python -m rlnotes.studies.real`` on a GPU. They are kept: nothing is trained."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rlnotes.lm.record import read_metrics
from rlnotes.logs.stored_logs import FOLDER
from rlnotes.studies.real import ARMS, BASE
from tests.logs.run import RealRun

LIBRARY, LOG = "rlnotes", "metrics.jsonl"


def task_of(run: RealRun) -> str:
    """What it learns."""
    return config(run)["task"]


def config(run: RealRun) -> dict[str, Any]:
    """What the run was told, whole."""
    return asdict(replace(BASE, model="SmolLM2-135M-Instruct", seed=run.seed, **ARMS[run.arm].changes))


def train(run: RealRun, scratch: Path) -> tuple[str, list[dict[str, float]], float, float]:
    """The stored log as text, its rows, and held-out accuracy before and after."""
    rows = read_metrics(FOLDER / run.name)
    text = (FOLDER / run.name / LOG).read_text(encoding="utf-8")
    return text, rows, rows[0]["start_accuracy"], rows[-1]["accuracy"]
