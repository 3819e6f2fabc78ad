"""What makes the plain policy gradient come first in the arena, and do its learning rates go far enough? Four tables.

``VANILLA_PG`` and ``RLOO`` differ in their advantages alone. RLOO's are both-sided: responses above the mean of the
others are pushed up, those below are pushed down, and a group of one reward says nothing. The first table takes the two
apart; the second goes one step beyond an end of the arena's grid; the third tries a part on other tasks. A fourth
scales the clip of the gradient's norm with what a recipe's averaging does to it.
"""

from dataclasses import replace

from torch import Tensor

from rlnotes.estimators.baselines import group_mean_std, in_groups, leave_one_out
from rlnotes.objectives import GRPO, RECIPES, RLOO
from rlnotes.studies.arena import arena
from rlnotes.studies.contest import TASKS, contest
from rlnotes.studies.study import Setting, Study


def up(rewards: Tensor, group_size: int) -> Tensor:
    """Leave-one-out advantages without the negative ones: nothing is pushed down."""
    return leave_one_out(rewards, group_size).clamp(min=0)


def tenth_down(rewards: Tensor, group_size: int) -> Tensor:
    """Leave-one-out advantages, the negative ones a tenth as large."""
    advantages = leave_one_out(rewards, group_size)
    return advantages.clamp(min=0) + 0.1 * advantages.clamp(max=0)


def undecided(rewards: Tensor, group_size: int) -> Tensor:
    """The rewards themselves, but 0 in groups of one reward: no imitation where all are alike."""
    groups = in_groups(rewards, group_size)
    return (groups * (groups != groups[:, :1]).any(1, keepdim=True)).reshape(-1)


def above(rewards: Tensor, group_size: int) -> Tensor:
    """The rewards themselves, but 0 where they are not above the mean of the group's others.

    With rewards of 0 and 1 it is :func:`undecided`. They differ where a response may be right in part.
    """
    return rewards * (leave_one_out(rewards, group_size) > 0)


def standardised_up(rewards: Tensor, group_size: int) -> Tensor:
    """GRPO's advantages without the negative ones."""
    return group_mean_std(rewards, group_size).clamp(min=0)


OWN = {
    "rloo_up": replace(RLOO, advantage=up),
    "rloo_tenth": replace(RLOO, advantage=tenth_down),
    "vanilla_undecided": replace(RLOO, advantage=undecided),
    "vanilla_above": replace(RLOO, advantage=above),
    "grpo_up": replace(GRPO, advantage=standardised_up),
}
PARTS = replace(
    arena(OWN, ("sort", "needle")), question="Is it that vanilla_pg pushes nothing down, or that it imitates more?"
)

_LARGER = arena(("grpo", "vanilla_pg", "dppo_tv"), ("reverse", "needle"), (1.5e-3,))
_SMALLER = arena(("pg_is", "rloo"), ("sort",), (1.5e-5,))
WIDER: Study = replace(
    _LARGER,
    question="Would a wider grid of learning rates have found better ones?",
    methods={**_LARGER.methods, **_SMALLER.methods},
)

FRESH = replace(
    arena({"rloo_up": OWN["rloo_up"]}, ("reverse", "ramble")),
    question="Made after a look at sort and needle: is it good on tasks that had no part in it?",
)


# DR_GRPO divides by the longest possible length, 5 on needle and 9 on sort; these sum over tokens. So their gradients
# are that much larger, and a clip at 1 meets them more often.
CLIPS = {("stale_ppo", "needle"): 5.0, ("dppo_kl", "sort"): 9.0, ("dppo_tv", "sort"): 9.0}


def scaled() -> Study:
    """The recipes of ``CLIPS``, the clip of the gradient's norm times the longest length, tuned like all others."""
    methods = {}
    for (recipe, task), clip in CLIPS.items():
        for method in arena((recipe,), (task,)).methods.values():
            name = f"{recipe} clip {clip:g}"
            changes = {**method.changes, "gradient_clip": clip}
            labels = {**method.labels, "recipe": name}
            methods[f"{name}, {task} {labels['rate']}"] = replace(method, changes=changes, labels=labels)
    return replace(
        arena(("stale_ppo",), ("needle",)),
        question=(
            "Does the clip of the gradient's norm decide between a recipe that sums over tokens and one that divides?"
        ),
        methods=methods,
        tokens=54_000,
    )


NORM = scaled()

STUDIES: dict[str, Study] = {"17_parts": PARTS, "17_wider": WIDER, "17_fresh": FRESH, "17_norm": NORM}

# The arena as a contest: three tasks whose likeliest answer is wrong at the start, one of them long, then three others.
# Without dapo, which no batch takes: it stands in 08_dynamic.
_EVERY = tuple(name for name in RECIPES if name not in ("grpo", "dapo"))
STUDIES["17_contest"] = contest(
    "Which recipe learns most where the likeliest answer has to change?",
    _EVERY,
    TASKS,
    columns=("accuracy", "greedy", "entropy"),
)
STUDIES["17_others"] = contest(
    "And where it need not, where nothing is said of length, or where rare and likely tokens stand side by side?",
    _EVERY,
    {
        "reverse": Setting(dict(task="reverse", size=8), 108_000),
        "ramble": Setting(dict(task="ramble", size=2), 72_000),
        "renamed": Setting(dict(task="renamed", size=6), 86_000),
    },
    starts=1,
    columns=("accuracy", "greedy", "entropy"),
)
