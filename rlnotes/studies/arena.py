"""The arena: every recipe on every task at the same few learning rates, under one harness.

On one task all recipes sample equally many tokens, start from the same weights with the same seed, and get the same
learning rates. Each one's own is chosen, task by task, on seeds of which nothing else is reported: the same budget of
tuning for all. Seeds that are reported are then run at that one rate only. Sixteen updates on each rollout, as in the
stability laboratory: with one update per rollout many of the recipes are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import RECIPES, Choices
from rlnotes.studies.methods import MISMATCHES
from rlnotes.studies.study import Setting, Study, check_choice, crossed

RATES = (5e-5, 1.5e-4, 5e-4)
TUNING_SEEDS = (100, 101, 102)
REFERENCE = "grpo"
EVERY = (REFERENCE, *(name for name in RECIPES if name != REFERENCE))
MEASURE_EVERY = 3  # steps
BASE = TrainConfig(prompts=16, epochs=4, minibatches=4)

_SORT = dict(task="sort", size=8)

# 24 steps or so, on needle 9, all from weights that come with the package. Tasks differ in how rare right tokens are at
# first, in whether responses have one length, and in what makes mu differ from pi.
ARENA_TASKS: dict[str, Setting] = {
    "reverse": Setting(dict(task="reverse", size=8), 54_000),
    "sort": Setting(_SORT, 54_000),
    "ramble": Setting(dict(task="ramble", size=2), 24_000),
    "needle": Setting(dict(task="needle", size=4), 11_000),
    "sort-int4": Setting(_SORT | MISMATCHES["int4"], 54_000),
    "sort-stale": Setting(_SORT | MISMATCHES["stale"], 54_000),
}


def arena(
    recipes: Sequence[str] | Mapping[str, Choices] = EVERY,
    tasks: Sequence[str] = tuple(ARENA_TASKS),
    rates: Sequence[float] = RATES,
    *,
    tokens: int | None = None,
    device: str = "cpu",
) -> Study:
    """Every recipe on every task at every learning rate, as one :class:`Study`.

    ``recipes`` are names of ``RECIPES``, or objectives of your own by a name, made of functions that a worker process
    can import; ``tasks`` are names of ``ARENA_TASKS``. ``tokens`` replaces each task's own number. A method of the
    study is called ``"dapo, sort 1e-4"``, and its labels are ``recipe``, ``task`` and ``rate``. Raises
    ``ValueError`` naming a name that is unknown, an empty or repeated choice, and no tokens.
    """
    for what, chosen, known in (("tasks", tasks, ARENA_TASKS), ("rates", rates, None)):
        check_choice(what, chosen, known)
    check_choice("recipes", tuple(recipes), recipes if isinstance(recipes, Mapping) else RECIPES)
    if tokens is not None and tokens < 1:
        raise ValueError(f"tokens is {tokens}; a run samples at least 1")
    named = recipes if isinstance(recipes, Mapping) else {name: RECIPES[name] for name in recipes}
    budgets = {task: ARENA_TASKS[task].tokens for task in tasks}
    settings = {
        task: Setting(ARENA_TASKS[task].changes, own if tokens is None else None) for task, own in budgets.items()
    }
    return Study(
        question="Which recipe learns most from equally many tokens, each at the best of the same learning rates?",
        base=replace(BASE, device=device),
        methods=crossed(named, "task", settings, rates),
        tokens=tokens or max(own for own in budgets.values() if own is not None),
        evaluate_every=MEASURE_EVERY,
        record_every=MEASURE_EVERY,
        tuning_seeds=TUNING_SEEDS,
        metrics=("accuracy", "reward", "entropy", "mismatch"),
    )


def try_out(study: Study) -> None:
    """Take one small step with every recipe on every task of an arena, from random weights.

    Raises ``ValueError`` naming the recipe and the task that the trainer cannot run, before hours of runs have begun.
    """
    tried = {(one.labels["recipe"], one.labels["task"]): name for name, one in study.methods.items()}
    for (recipe, task), name in tried.items():
        small = dict(prompts=2, group_size=2, epochs=1, minibatches=1, warm_start="none")
        try:
            Trainer(replace(study.config(name, 0), **small), choices=study.methods[name].choices).rl_step()
        except Exception as error:  # whatever a reader's own function raises
            raise ValueError(f"recipe {recipe!r} cannot be run on task {task!r}: {error}") from error
