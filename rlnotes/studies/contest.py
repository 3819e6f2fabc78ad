"""A contest: what every comparison of the course keeps to, and the table of what came of it.

There are always an objective that clips, the same ``unclipped``, and the start, ``untrained``. Each has on each task
its own learning rate, chosen on seeds apart from a grid that widens while the best is at an end. Clips of a gradient's
norm are in proportion to what is summed up. Seeds go round several starts, and runs of one are a cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.tasks import make_task
from rlnotes.objectives import Choices
from rlnotes.objectives.gates import no_gate
from rlnotes.studies.methods import METHODS
from rlnotes.studies.run import ACCURACIES
from rlnotes.studies.study import Setting, Study, check_choice, crossed, short
from rlnotes.studies.tables import Table, died, grids
from rlnotes.studies.verdicts import Verdict, judge

UNCLIPPED, UNTRAINED = "unclipped", "untrained"
RATES = (1e-4, 2e-4, 4e-4, 8e-4)  # that are tried first
WIDER = 5  # beyond either end, tried if need be
TUNING_SEEDS = (100, 101, 102)
STARTS = 3
MARGIN = 0.03  # of mean accuracy: less is no reason to choose
BASE = TrainConfig(epochs=4, minibatches=4)
COLUMNS = ("accuracy", "greedy", "entropy", "length", "gradient_norm", "no_gradient", "mismatch")

# Tasks with three starts each, of whose greedy answers 0 to 10 % are right.
TASKS: dict[str, Setting] = {
    "misled": Setting(dict(task="misled"), 72_000),  # 24 rounds
    "needle": Setting(dict(task="needle"), 35_000),  # 14 rounds
    "ledger": Setting(dict(task="ledger", prompts=16, group_size=8, epochs=2), 155_000),  # 30 rounds
}


def on(task: str, tokens: int | None = None, **changes: Any) -> Setting:
    """One of ``TASKS``, with other settings, or another number of tokens."""
    own = TASKS[task]
    return Setting({**own.changes, **changes}, own.tokens if tokens is None else tokens)


def contest(
    question: str,
    objectives: Sequence[str],
    tasks: Mapping[str, Setting],
    tokens: int = 72_000,
    margin: float = MARGIN,
    clipped: str = "grpo",
    own: Mapping[str, Choices] | None = None,
    base: TrainConfig = BASE,
    starts: int = STARTS,
    columns: Sequence[str] = COLUMNS,
) -> Study:
    """``objectives`` on ``tasks``, beside ``clipped`` and the same without its clip: names of ``METHODS``, or of the
    contest's ``own``.

    A method is called ``"gspo, ledger 1e-4"``, and its labels are ``recipe``, ``task`` and ``rate``. ``tokens`` is for
    tasks that have no number of their own, ``columns`` are those of the table.
    :func:`rlnotes.studies.runner.hold` makes the runs. Raises ``ValueError`` for a name that is unknown or there twice.
    """
    known = {**METHODS, **(own or {})}
    check_choice("objectives", (clipped, *objectives), known)
    without = replace(known[clipped], gate=no_gate, keep=None, correction=None)
    named = {clipped: known[clipped], UNCLIPPED: without} | {name: known[name] for name in objectives}
    methods = crossed(named, "task", tasks, widened(RATES))
    settings = {name: replace(base, **setting.changes) for name, setting in tasks.items()}
    longest = {name: make_task(one.task, one.size).max_response_length for name, one in settings.items()}
    for name, method in methods.items():
        task = method.labels["task"]
        norm = settings[task].gradient_clip * longest_push(method.choices, longest[task])
        methods[name] = replace(method, changes={**method.changes, "gradient_clip": norm})
    study = Study(question, base, methods, tokens, evaluate_every=2, record_every=2, tuning_seeds=TUNING_SEEDS)
    return replace(study, first=tuple(map(short, RATES)), starts=starts, margin=margin, metrics=tuple(columns))


def widened(rates: Sequence[float]) -> list[float]:
    """``rates``, and ``WIDER`` more at either end in the ratio of the first two.

    >>> widened([1e-4, 2e-4])[3:9]
    [2.5e-05, 5e-05, 0.0001, 0.0002, 0.0004, 0.0008]
    """
    ratio, further = rates[1] / rates[0], range(1, WIDER + 1)
    every = (*(rates[0] / ratio**i for i in reversed(further)), *rates, *(rates[-1] * ratio**i for i in further))
    return [float(f"{rate:.3g}") for rate in every]


@cache
def longest_push(choices: Choices, length: int) -> int:
    """What the tokens of a response of ``length`` push together where pi is mu: 1 if their mean is taken, ``length`` if
    their sum is. The gradient's norm is as much larger.

    >>> from rlnotes.objectives import GRPO, PG_IS
    >>> longest_push(GRPO, 65), longest_push(PG_IS, 65)
    (1, 65)
    """
    (pushes,) = choices.pushes([[1.0] * length], [1.0], divergence=[[0.0] * length])
    return max(1, round(sum(map(abs, pushes))))


def chosen(table: Table) -> dict[tuple[str, str], str]:
    """The method of each task and recipe of a contest, at the learning rate that was tuned for it."""
    names = (table.best(grid) for grid in grids(table.labels))
    return {(table.labels[name]["task"], table.labels[name]["recipe"]): name for name in names}


def tuned(table: Table) -> dict[tuple[str, str], dict[float, tuple[float, int]]]:
    """By task and recipe of a contest: at each learning rate that was tried, in its order, the mean accuracy of the
    tuning runs, and how many died.
    """
    apart = replace(table, rows=table.tuning)
    found: dict[tuple[str, str], dict[float, tuple[float, int]]] = {}
    for name in apart.rows:
        own = table.labels[name]
        dead = sum(died(accuracy) for _, accuracy in apart.curves(name, "accuracy"))
        mean = float(apart.mean(name, "accuracy").mean())
        found.setdefault((own["task"], own["recipe"]), {})[float(own["rate"])] = mean, dead
    return {key: dict(sorted(own.items())) for key, own in found.items()}


def less(table: Table, ours: str, theirs: str, metric: str | None = None) -> Verdict:
    """The verdict on two methods of a contest, by the mean over each run of a ``metric``, the table's score if None.
    Runs of one start are a cluster; the margin is that which was stated before the runs.
    """
    one, other = (table.mean(name, metric or table.score) for name in (ours, theirs))
    return judge(one, other, table.settings["comparison"]["margin"], table.starts_of(ours))


def results(table: Table) -> list[dict[str, Any]]:
    """A row for the start and for each objective on each task of a contest, at its own rate, or "at an end" of those
    tried: greedy accuracy at the start and the end, sampled accuracy at the end, the share of runs that died, the score
    in the mean after the start, and of this the difference to the one that a contest names first, mostly the one that
    clips, with its word.
    """
    margin, found = table.settings["comparison"]["margin"], []
    clipped = next(iter(table.labels.values()))["recipe"]
    best = {table.best(grid): grid for grid in grids(table.labels)}
    reference = {table.labels[name]["task"]: name for name in best if table.labels[name]["recipe"] == clipped}
    for name, grid in best.items():
        own, against = table.labels[name], reference[table.labels[name]["task"]]
        dead = [died(accuracy) for _, accuracy in table.curves(name, "accuracy")]
        sampled, greedy, begun = (table.start(name, metric) for metric in (*ACCURACIES, table.score))
        rate = own["rate"] + ", at an end" * (name in (grid[0], grid[-1]))
        ends = [table.last(name, metric, 1).mean() for metric in ACCURACIES]
        lines = [(own["recipe"], rate, f"{sum(dead)} of {len(dead)}", *ends, table.mean(name, table.score))]
        if name == against:
            lines.insert(0, (UNTRAINED, "", "", sampled.mean(), greedy.mean(), begun))
        for method, *row, mean in lines:
            told = judge(mean, table.mean(against, table.score), margin, table.starts_of(name))
            begin = {"task": own["task"], "method": method, "start, greedy": greedy.mean()}
            columns = dict(zip(("rate", "died", "sampled", "greedy"), row, strict=True)) | dict(mean=mean.mean())
            found.append(begin | columns | {f"less {clipped}": "" if method == clipped else str(told)})
    return found
