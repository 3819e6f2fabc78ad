"""Where rounds of the live run of chapter 00 lost much: what its own rollout promised, what a fresh rollout of the
policy before the updates promises, and what Adam's memory does alone.

``python -m rlnotes.chapters.c00.causes --out 00_causes.json`` takes half a minute on one thread.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch

from rlnotes.chapters.c00.promises import GROUP, Run, surrogate, updates
from rlnotes.chapters.c07.rounds import chances
from rlnotes.estimators.baselines import group_mean
from rlnotes.lm.model import Transformer
from rlnotes.studies.store import store_rows

RATE = 1e-3
FALLS = {0: 6, 2: 6, 3: 19, 6: 9, 7: 3, 9: 3}
"""the round of each run at that rate, by seed, in which J fell by more than 0.1"""


def second_look(seed: int, number: int) -> dict[str, Any]:
    """One row: round ``number`` of the run of ``seed``, at ``RATE`` and without a clip."""
    run = Run(RATE, seed)
    for _ in range(number - 1):
        run.round()
    before, optimizer = deepcopy(run.policy), deepcopy(run.optimizer.state_dict())
    rollout, A, promised = run.round()

    def change(policy: Transformer) -> float:
        new, old = (chances(one, run.task, run.asked).mean().item() for one in (policy, before))
        return new - old

    fresh = run.sampler.sample(before, run.asked, GROUP, torch.Generator().manual_seed(seed))
    B = group_mean(run.task.reward(fresh), GROUP)[:, None]
    with torch.no_grad():
        each = surrogate(run.policy, fresh, B).view(-1, GROUP).mean(1)
    remembered = deepcopy(before)
    adam = torch.optim.Adam(remembered.parameters(), RATE)
    adam.load_state_dict(optimizer)
    updates(remembered, adam, rollout, torch.zeros_like(A))
    return dict(
        seed=seed,
        round=number,
        promised=promised,
        fresh=each.mean().item(),
        error=(each.std() / len(each) ** 0.5).item(),
        true=change(run.policy),
        memory=change(remembered),
    )


def rows() -> Iterator[dict[str, Any]]:
    """A row for each of ``FALLS``."""
    for seed, number in FALLS.items():
        yield second_look(seed, number)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c00.causes", str(__doc__), rows)
