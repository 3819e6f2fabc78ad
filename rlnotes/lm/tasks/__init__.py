"""Tasks by name. A new one is a class in a file of its own, and a line here."""

from rlnotes.lm.tasks.countdown import Countdown
from rlnotes.lm.tasks.ramble import Ramble
from rlnotes.lm.tasks.rare_tokens import Needle, Renamed
from rlnotes.lm.tasks.reasoning_gym import ReasoningGym
from rlnotes.lm.tasks.task import Add, ExactMatchTask, Examples, Reverse, ShortReverse, Sort, Split, Task, Vocabulary

__all__ = [
    "SIZED",
    "TASK_NAMES",
    "Add",
    "Countdown",
    "ExactMatchTask",
    "Examples",
    "Needle",
    "Ramble",
    "ReasoningGym",
    "Renamed",
    "Reverse",
    "ShortReverse",
    "Sort",
    "Split",
    "Task",
    "Vocabulary",
    "make_task",
]
SIZED: dict[str, type[Reverse] | type[Add] | type[Needle] | type[Renamed]] = {
    "reverse": Reverse,
    "sort": Sort,
    "add": Add,
    "short-reverse": ShortReverse,
    "ramble": Ramble,
    "needle": Needle,
    "renamed": Renamed,
}
TASK_NAMES = (*SIZED, "countdown", "reasoning-gym/NAME")


def make_task(name: str, size: int | None = None) -> Task:
    """The task called ``name``; ``size`` None is its default.

    Raises ``ValueError`` for an unknown name or size, ``ImportError`` if a task's package is missing.
    """
    if name in SIZED:
        return SIZED[name]() if size is None else SIZED[name](size)
    if name == "countdown":
        if size is not None:
            raise ValueError("countdown has one size: leave size out")
        return Countdown()
    if name.startswith("reasoning-gym/"):
        return ReasoningGym(name.removeprefix("reasoning-gym/"), size)
    raise ValueError(f"unknown task {name!r}; choose one of {', '.join(TASK_NAMES)}")
