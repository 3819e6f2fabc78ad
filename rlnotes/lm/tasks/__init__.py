"""Tasks by name. A new one is a class in a file of its own in this folder, which ends with its name in ``TASKS``."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from rlnotes.lm.tasks.countdown import Countdown
from rlnotes.lm.tasks.ledger import Ledger
from rlnotes.lm.tasks.misled import Misled
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
    "Ledger",
    "Misled",
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
SIZED: dict[str, Callable[..., Task]] = {}
for _module in iter_modules(__path__):
    SIZED |= getattr(import_module(f"{__name__}.{_module.name}"), "TASKS", {})
TASK_NAMES = (*sorted(SIZED), "countdown", "reasoning-gym/NAME")


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
