"""A recipe of your own in the arena: the same runs as its table holds of every recipe, made in a notebook's cell."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rlnotes.lm.progress import bar
from rlnotes.objectives import RECIPES, Choices
from rlnotes.studies.arena import RATES, arena, try_out
from rlnotes.studies.run import run
from rlnotes.studies.runner import append, begin
from rlnotes.studies.scores import tuned
from rlnotes.studies.tables import Table, read_table


def challenge(
    name: str,
    choices: Choices,
    task: str,
    rates: Sequence[float] = RATES,
    *,
    seeds: int = 5,
    tokens: int | None = None,
) -> Table:
    """Run ``choices`` on a task of the arena as every recipe is run there: first at each learning rate with the tuning
    seeds, then at the best one with seeds 0, 1, ... Returns a table: ``joined(load_table("17_arena"), table)`` puts
    it beside the others, and ``scores(..., [task])`` compares them.

    The runs are made one after the other in this process, so that functions from a cell will do. Raises ``ValueError``
    for the name of a recipe, for an unknown task, for fewer than two seeds, and for what the trainer cannot run.
    """
    if name in RECIPES:
        raise ValueError(f"name is {name!r}, which is a recipe already; choose another")
    if seeds < 2:
        raise ValueError(f"seeds is {seeds}; an interval needs at least 2")
    study = arena({name: choices}, (task,), rates, tokens=tokens)
    try_out(study)
    with TemporaryDirectory() as folder, bar(len(study.methods) * len(study.tuning_seeds) + seeds) as shown:
        table = Path(folder, "challenge.csv")
        begin(study, table)

        def make(method: str, seed: int) -> None:
            shown.set_description(f"{method}, seed {seed}")
            append(study, table, method, seed, run(study, method, seed))
            shown.update()

        for seed in study.tuning_seeds:
            for method in study.methods:
                make(method, seed)
        best = tuned(read_table(name, table, table.with_suffix(".json")), tuple(study.methods))
        for seed in range(seeds):
            make(best, seed)
        return read_table(name, table, table.with_suffix(".json"))
