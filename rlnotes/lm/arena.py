"""The arena: every recipe on every task at the same few learning rates, under one harness.

On one task all recipes sample equally many tokens, start from the same weights with the same seed, and get the same
learning rates. Each one's own is chosen, task by task, on seeds of which nothing else is reported: the same budget of
tuning for all. Seeds that are reported are then run at that one rate only. Sixteen updates on each rollout, as in the
stability laboratory: with one update per rollout many of the recipes are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rlnotes.lm.compare import Comparison, Method
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.stability import MISMATCHES, check_choice, short
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import RECIPES, Choices

RATES = (5e-5, 1.5e-4, 5e-4)
TUNING_SEEDS = (100, 101, 102)
REFERENCE = "grpo"
EVERY = (REFERENCE, *(name for name in RECIPES if name != REFERENCE))
MEASURE_EVERY = 3  # steps
BASE = TrainConfig(prompts=16, epochs=4, minibatches=4)


class ArenaTask(NamedTuple):
    """What a task changes of the common settings, and the response tokens that a run samples on it."""

    changes: dict[str, Any]
    tokens: int


_SORT = dict(task="sort", size=8)

# 24 steps or so, on needle 9, all from weights that come with the package. Tasks differ in how rare right tokens are at
# first, in whether responses have one length, and in what makes mu differ from pi.
ARENA_TASKS: dict[str, ArenaTask] = {
    "reverse": ArenaTask(dict(task="reverse", size=8), 54_000),
    "sort": ArenaTask(_SORT, 54_000),
    "ramble": ArenaTask(dict(task="ramble", size=2), 24_000),
    "needle": ArenaTask(dict(task="needle", size=4), 11_000),
    "sort-int4": ArenaTask(_SORT | MISMATCHES["int4"], 54_000),
    "sort-stale": ArenaTask(_SORT | MISMATCHES["stale"], 54_000),
}


def arena(
    recipes: Sequence[str] | Mapping[str, Choices] = EVERY,
    tasks: Sequence[str] = tuple(ARENA_TASKS),
    rates: Sequence[float] = RATES,
    *,
    tokens: int | None = None,
    device: str = "cpu",
) -> Comparison:
    """Every recipe on every task at every learning rate, as one :class:`Comparison`.

    ``recipes`` are names of ``RECIPES``, or objectives of your own by a name, made of functions that a worker process
    can import; ``tasks`` are names of ``ARENA_TASKS``. ``tokens`` replaces each task's own number. A method of the
    comparison is called ``"dapo, sort 1e-4"``, and its labels are ``recipe``, ``task`` and ``rate``. Raises
    ``ValueError`` naming a name that is unknown, an empty or repeated choice, and no tokens.
    """
    for what, chosen, known in (("tasks", tasks, ARENA_TASKS), ("rates", rates, None)):
        check_choice(what, chosen, known)
    check_choice("recipes", tuple(recipes), recipes if isinstance(recipes, Mapping) else RECIPES)
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens is {tokens}; a run samples at least 1")
    named = recipes if isinstance(recipes, Mapping) else {name: RECIPES[name] for name in recipes}
    methods = {}
    for task in tasks:
        for recipe, choices in named.items():
            for rate in map(short, rates):
                changes = ARENA_TASKS[task].changes | dict(learning_rate=float(rate))
                labels = dict(recipe=recipe, task=task, rate=rate)
                own = ARENA_TASKS[task].tokens if tokens is None else None
                methods[f"{recipe}, {task} {rate}"] = Method(choices, changes, labels, own)
    return Comparison(
        question="Which recipe learns most from equally many tokens, each at the best of the same learning rates?",
        base=replace(BASE, device=device),
        methods=methods,
        tokens=tokens or max(ARENA_TASKS[task].tokens for task in tasks),
        evaluate_every=MEASURE_EVERY,
        record_every=MEASURE_EVERY,
        tuning_seeds=TUNING_SEEDS,
        metrics=("accuracy", "reward", "entropy", "mismatch"),
    )


def try_out(comparison: Comparison) -> None:
    """Take one small step with every recipe on every task of an arena, from random weights.

    Raises ``ValueError`` naming the recipe and the task that the trainer cannot run, before hours of runs have begun.
    """
    tried = {(one.labels["recipe"], one.labels["task"]): name for name, one in comparison.methods.items()}
    for (recipe, task), name in tried.items():
        small = dict(prompts=2, group_size=2, epochs=1, minibatches=1, warm_start="none")
        try:
            Trainer(replace(comparison.config(name, 0), **small), choices=comparison.methods[name].choices).rl_step()
        except Exception as error:  # whatever a reader's own function raises
            raise ValueError(f"recipe {recipe!r} cannot be run on task {task!r}: {error}") from error
