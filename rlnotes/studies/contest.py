"""A contest: what every comparison of the course keeps to, and the table of what came of it.

Always there are an objective that clips, the same one ``unclipped``, and the start, ``untrained``. Each objective has
on each task its own learning rate, chosen on seeds of which nothing else is reported, from a grid that is widened while
its best is at an end. The gradient's norm is clipped in proportion to what an objective sums up. Seeds go round several
warm starts, and runs of one start are a cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.tasks import make_task
from rlnotes.objectives import Choices
from rlnotes.objectives.gates import no_gate
from rlnotes.studies.methods import METHODS
from rlnotes.studies.study import Setting, Study, check_choice, crossed, short
from rlnotes.studies.tables import Table
from rlnotes.studies.verdicts import judge

CLIPPED, UNCLIPPED, UNTRAINED = "grpo", "unclipped", "untrained"
RATES = (1e-4, 2e-4, 4e-4, 8e-4)
WIDER = 5  # learning rates beyond either end of a grid, tried if need be
TUNING_SEEDS = (100, 101, 102)
BASE = TrainConfig(epochs=4, minibatches=4)


def contest(
    question: str,
    objectives: Sequence[str],
    tasks: Mapping[str, Setting],
    *,
    tokens: int,
    margin: float,
    rates: Sequence[float] = RATES,
    clipped: str = CLIPPED,
    base: TrainConfig = BASE,
    starts: int = 3,
    tuning_seeds: tuple[int, ...] = TUNING_SEEDS,
    evaluate_every: int = 2,
) -> Study:
    """``objectives``, names of ``METHODS``, on ``tasks``, beside ``clipped`` and the same without its clip.

    ``rates``, at least 2 in one ratio, are tried first. A method is called ``"gspo, ledger 1e-4"``, and its labels are
    ``recipe``, ``task`` and ``rate``. :func:`rlnotes.studies.runner.hold` makes the runs. Raises ``ValueError`` for
    names that are unknown or there twice, and for a single rate.
    """
    check_choice("objectives", (clipped, *objectives), METHODS)
    if len(rates) < 2:
        raise ValueError(f"rates is {tuple(rates)}; a grid that can be widened has at least 2")
    named = {clipped: METHODS[clipped], UNCLIPPED: unclipped(METHODS[clipped])}
    methods = crossed(named | {name: METHODS[name] for name in objectives}, "task", tasks, widened(rates))
    for name, method in methods.items():
        config = replace(base, **method.changes)
        length = make_task(config.task, config.size).max_response_length
        norm = config.gradient_clip * longest_push(method.choices, length)
        methods[name] = replace(method, changes={**method.changes, "gradient_clip": norm})
    return Study(
        question,
        base,
        methods,
        tokens,
        evaluate_every,
        record_every=evaluate_every,
        tuning_seeds=tuning_seeds,
        first=tuple(map(short, rates)),
        starts=starts,
        margin=margin,
    )


def unclipped(choices: Choices) -> Choices:
    """The same objective without clip, mask and correction."""
    return replace(choices, gate=no_gate, keep=None, correction=None)


def widened(rates: Sequence[float]) -> list[float]:
    """``rates``, and ``WIDER`` more at either end in the ratio of the first two.

    >>> widened([1e-4, 2e-4])[3:9]
    [2.5e-05, 5e-05, 0.0001, 0.0002, 0.0004, 0.0008]
    """
    ratio, further = rates[1] / rates[0], range(1, WIDER + 1)
    every = (*(rates[0] / ratio**i for i in reversed(further)), *rates, *(rates[-1] * ratio**i for i in further))
    return [float(f"{rate:.3g}") for rate in every]


def longest_push(choices: Choices, length: int) -> int:
    """What the tokens of a response of ``length`` push together where pi is mu: 1 if their mean is taken, ``length`` if
    their sum is. The gradient's norm is as much larger.

    >>> from rlnotes.objectives import GRPO, PG_IS
    >>> longest_push(GRPO, 65), longest_push(PG_IS, 65)
    (1, 65)
    """
    (pushes,) = choices.pushes([[1.0] * length], [1.0], divergence=[[0.0] * length])
    return max(1, round(sum(map(abs, pushes))))


def results(table: Table, clipped: str = CLIPPED) -> list[dict[str, Any]]:
    """A row for the start and for each objective on each task of a contest, at its own rate, or "at an end" of those
    tried: greedy accuracy at the start and the end, sampled accuracy at the end and in the mean after the start, the
    share of runs that died, and of the mean the difference to ``clipped`` with its word.
    """
    margin, found = table.settings["comparison"]["margin"], []
    for task in dict.fromkeys(own["task"] for own in table.labels.values()):
        grids: dict[str, list[str]] = {}
        for name in table.where(task=task):
            grids.setdefault(table.labels[name]["recipe"], []).append(name)
        best = {recipe: table.best(grid) for recipe, grid in grids.items()}
        theirs, clusters = table.mean(best[clipped], "accuracy"), table.starts_of(best[clipped])
        greedy, sampled = (table.start(best[clipped], metric) for metric in ("greedy", "accuracy"))

        def row(method: str, ends: Any, mean: Any, task=task, greedy=greedy, theirs=theirs, clusters=clusters, **own):
            ends = dict(greedy=ends[0].mean(), sampled=ends[1].mean(), mean=mean.mean())
            said = "" if method == clipped else str(judge(mean, theirs, margin, clusters))
            start = {"task": task, "method": method, "start, greedy": greedy.mean()}
            return start | own | ends | {f"less {clipped}": said}

        found.append(row(UNTRAINED, (greedy, sampled), sampled, rate="", died=""))
        for recipe, name in best.items():
            rate, dead = table.labels[name]["rate"], table.died(name)
            rate += ", at an end" if name in (grids[recipe][0], grids[recipe][-1]) else ""
            ends = [table.last(name, metric, 1) for metric in ("greedy", "accuracy")]
            died = f"{dead.sum()} of {len(dead)}"
            found.append(row(recipe, ends, table.mean(name, "accuracy"), rate=rate, died=died))
    return found
