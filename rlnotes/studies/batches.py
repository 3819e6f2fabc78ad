"""Runs of a study in batches on one GPU: which go together, and how a batch is made."""

import warnings
from collections.abc import Sequence
from functools import cache

from rlnotes.gpu.batched import BatchedStep, alone, in_common
from rlnotes.lm.config import Metrics
from rlnotes.lm.trainer import Trainer
from rlnotes.studies.run import ACCURACIES, Curve, Row, run
from rlnotes.studies.study import Study

MOST_RUNS = 64  # in a batch: with more, a step takes longer in proportion
MOST_ROWS = 60_000  # responses sampled at once: attention's kernels count them in 16 bits

Run = tuple[str, int]  # method, seed


def batches(study: Study, due: Sequence[Run]) -> list[list[Run]]:
    """The runs that are ``due``, those together that differ in objective and in what a batch allows for alone.

    Runs of one objective stand side by side. A run that cannot be part of a batch is one of its own, and a warning says
    why; on a CPU every run is.
    """
    if not study.base.device.startswith("cuda"):
        return [[one] for one in due]
    together: dict[str, list[Run]] = {}
    reasons: dict[str, list[str]] = {}
    place = {method: i for i, method in enumerate(study.methods)}
    for method, seed in sorted(due, key=lambda one: place[one[0]]):
        config = study.config(method, seed)
        if (reason := alone(config, study.methods[method].choices)) is None:
            together.setdefault(repr(in_common(config)), []).append((method, seed))
        else:
            together[f"{method}, {seed}"] = [(method, seed)]
            reasons.setdefault(reason, []).append(method)
    for reason, methods in reasons.items():
        warnings.warn(f"runs of {', '.join(dict.fromkeys(methods))} are made one by one: {reason}", stacklevel=2)
    return [part for runs in together.values() for part in _parts(runs, study)]


def _parts(runs: list[Run], study: Study) -> list[list[Run]]:
    """Parts of about equal size, as few as the limits allow."""
    config = study.config(*runs[0])
    rows = max(config.prompts * config.group_size, study.prompts_evaluated)
    parts = -(-len(runs) // max(1, min(MOST_RUNS, MOST_ROWS // rows)))
    return [runs[len(runs) * i // parts : len(runs) * (i + 1) // parts] for i in range(parts)]


def run_batch(study: Study, runs: Sequence[Run]) -> list[list[Row]]:
    """:func:`run` of each of ``runs``, which :func:`batches` put together: its rows, up to rounding.

    On a GPU they are made by one CUDA graph. Where that cannot be (a task that waits for the GPU, an objective that
    reads a value, too little memory), they are made one by one, with a warning.
    """
    if len(runs) == 1:
        return [run(study, *runs[0])]
    trainers = [Trainer(study.config(method, seed), choices=study.methods[method].choices) for method, seed in runs]
    for trainer in trainers:
        for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
            pass
    try:
        return follow(study, runs, BatchedStep(trainers).graphed())
    except RuntimeError as error:
        reason = str(error)  # and no more of it: the error holds on to the batch's memory
    warnings.warn(f"{runs[0]} to {runs[-1]} are made one by one: {reason}", stacklevel=2)
    return [run(study, *one) for one in runs]


def follow(study: Study, runs: Sequence[Run], step: BatchedStep) -> list[list[Row]]:
    """Go on by ``step`` until all ``runs``, its own in their order, have ended or are lost. Returns their rows."""

    def measure() -> list[Metrics]:
        found = [step.evaluate(study.prompts_evaluated, how) for how in ACCURACIES.values()]
        return [dict(zip(ACCURACIES, own, strict=True)) for own in zip(*found, strict=True)]

    curves = [Curve(study, method, own) for (method, _), own in zip(runs, measure(), strict=True)]
    while not all(curve.ended for curve in curves):
        found = step()
        measured = cache(measure)
        for r, (curve, metrics, trainer) in enumerate(zip(curves, found, step.trainers, strict=True)):
            if curve.ended:
                continue
            if metrics is None:
                if trainer.step == 0:
                    raise ValueError(f"{runs[r]}: the first gradient is not finite, so the settings are wrong")
                curve.lose(trainer)
            else:
                curve.take(trainer, metrics, lambda r=r, measured=measured: measured()[r])
    return [curve.rows for curve in curves]
