"""What one run is told, and by which number its fault can be seen. Plain data: nothing is trained here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Task
from rlnotes.objectives import Choices

Half = Literal["tuning", "judging"]
Reward = Callable[[Task, Rollout], Tensor]  # in place of the task's own, (N,)


class Sign(NamedTuple):
    """A fault is visible from the first row, at step ``since`` or later, whose ``metric`` is past the ``bound``."""

    metric: str
    side: Literal["above", "below", "nan"]
    bound: float = 0.0
    since: int = 1

    def seen_in(self, row: dict[str, float]) -> bool:
        """True if ``row`` shows it."""
        value = row.get(self.metric)
        if value is None or row["step"] < self.since:
            return False
        return (
            value != value if self.side == "nan" else value > self.bound if self.side == "above" else value < self.bound
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """What both kinds have. A healthy run has no ``fault``, and a ``note`` says what in its log might alarm."""

    name: str
    half: Half
    note: str
    fault: str | None = None
    sign: Sign | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class OurRun(Run):
    """By ``rlnotes train``; ``choices``, ``task``, ``reward`` and ``sampled_at`` are what its options cannot say."""

    settings: dict[str, Any]
    choices: Choices | None = None
    task: Task | None = None
    reward: Reward | None = None
    sampled_at: float | None = None  # temperature of mu, where it is not pi's


@dataclass(frozen=True, kw_only=True)
class RealRun(Run):
    """Of a real model: the log of an ``arm`` of :mod:`rlnotes.studies.real`, made on a GPU and kept as it was."""

    arm: str


@dataclass(frozen=True, kw_only=True)
class TRLRun(Run):
    """By TRL's ``GRPOTrainer``, on a small Qwen2 that can do the task now and then.

    ``warm`` is the share of right answers at which its warm start ends, ``rewards`` are names of
    :data:`tests.logs.by_trl.REWARDS`, ``prompts`` is how many there are to learn from, and ``engine`` what is told to a
    :class:`tests.logs.by_trl.Engine`, which samples in the place of vLLM.
    """

    task: Task
    settings: dict[str, Any] = field(default_factory=dict)
    warm: float = 0.3
    rewards: tuple[str, ...] = ("right",)
    prompts: int = 4096
    engine: dict[str, Any] | None = None
