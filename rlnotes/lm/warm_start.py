"""The supervised warm start: weights that come with the package, or else what it minimises.

It learns from right answers, or from a base policy that is written down.
"""

from bisect import bisect
from importlib.resources import files
from itertools import accumulate, count
from typing import Any, NamedTuple

import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional as F

from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.tasks import Misled, Task, make_task
from rlnotes.lm.tasks.rare_tokens import DistilledTask
from rlnotes.lm.tasks.task import TimedStart


class Start(NamedTuple):
    """A warm start that comes with the package: what it is trained with, from the ``seed``.

    A ``teacher`` shows how instead of the task; the reward stays that of the task.
    """

    settings: dict[str, Any]
    number: int = 0
    seed: int = 0
    teacher: Task | None = None


MILDER = (0.0, 0.0, 0.0, 0.0, 0.60, 0.80, 0.92, 0.98), (0.0, 0.0, 0.0, 0.0, 0.40, 0.85, 0.95, 0.99)
"""chances of ``misled`` in its second and third start; in the third most demonstrations have an e right"""
_MISLED, _NEEDLE, _LEDGER = (
    dict(task="misled", size=5, warm_batch=128),
    dict(task="needle", size=4),
    dict(task="ledger", size=64),
)
_EXPERTS = _MISLED | dict(preset="moe-top1")

# The warm start of a task whose examples are half wrong stops by its length: their accuracy has a ceiling of 1/2.
SHIPPED = (
    Start(dict(task="reverse", size=8)),
    Start(dict(task="sort", size=6)),
    Start(dict(task="sort", size=8)),
    Start(dict(task="ramble", size=2, warm_target=1.0, warm_limit=300)),
    Start(dict(task="renamed", size=6)),
    Start(_MISLED),
    *(Start(_MISLED, number, number, Misled(5, mistaken)) for number, mistaken in enumerate(MILDER, 1)),
    Start(_EXPERTS),
    *(Start(_EXPERTS, number, number, Misled(5, mistaken)) for number, mistaken in enumerate(MILDER, 1)),
    *(Start(_NEEDLE, number, number) for number in range(3)),
    *(
        Start(_LEDGER, number, seed) for number, seed in enumerate((0, 1, 4))
    ),  # for 2 and 3 the first lesson is too short
)


def file_name(task: str, size: int | None, preset: str, start: int = 0) -> str:
    """File name of a task's weights; ``size`` None is the task's default."""
    chosen = getattr(make_task(task, size), "size", None)
    return f"{task.replace('/', '-')}-{chosen}-{preset}{f'-{start}' * (start > 0)}.safetensors"


def has_weights(task: str, size: int | None, preset: str, start: int = 0) -> bool:
    """True if the package ships weights of the warm start number ``start`` for this task, size and preset."""
    return files("rlnotes.lm").joinpath("weights", file_name(task, size, preset, start)).is_file()


def starts(task: str, size: int | None, preset: str) -> int:
    """How many warm starts the package ships for this task, size and preset."""
    return next(number for number in count() if not has_weights(task, size, preset, number))


def load_weights(model: Transformer, task: str, size: int | None, preset: str, start: int = 0) -> None:
    """Put the shipped weights into ``model``. They are stored in float16 and become the model's own dtype."""
    data = files("rlnotes.lm").joinpath("weights", file_name(task, size, preset, start)).read_bytes()
    model.load_state_dict(load(data))


def shipped_start(task: str, size: int | None = None, preset: str = "tiny", start: int = 0) -> Transformer:
    """The policy that comes with the package for this task, size and preset: its warm start number ``start``.

    Raises ``ValueError`` if there is none.

    >>> policy, other = shipped_start("misled"), shipped_start("misled", start=1)
    """
    there = starts(task, size, preset)
    if not 0 <= start < there:
        raise ValueError(
            f"start is {start}, and with the package come {there} of {task} at size {size} and preset {preset}, "
            "counted from 0; take one of them"
        )
    made = make_task(task, size)
    policy = Transformer(preset_config(preset, len(made.vocabulary), made.prompt_length + made.max_response_length))
    load_weights(policy, task, size, preset, start)
    return policy


def warm_loss(
    model: Transformer,
    task: Task,
    n: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
    shard: Shard = ALONE,
) -> Tensor:
    """Loss on ``n`` examples that ``generator``, on the CPU, draws; the mean over their tokens, in nats.

    With a ``shard`` the part of its examples: the parts add up to the mean over the tokens of all.

    It is the cross-entropy of right answers; for a task with a base policy it is KL(base policy || model), after texts
    that the base policy wrote. That is exact in the next token: no rare one has to be sampled to be learned.
    """
    examples = task.sample(n, generator)
    answers, base = examples.answers, None
    if isinstance(task, DistilledTask):
        base = task.base_policy(examples.prompts)
        answers = torch.multinomial(base.flatten(0, 1), 1, generator=generator).view(answers.shape)
    tokens = int(response_mask(answers, task.vocabulary.eos).sum())
    prompts, answers = shard.of(examples.prompts).to(model.device), shard.of(answers).to(model.device)
    rollout = Rollout.of_responses(prompts, answers, task.vocabulary.eos)
    logits, part = response_logits(model, rollout, dtype)[rollout.mask], int(rollout.mask.sum()) / tokens
    if base is None:
        return F.cross_entropy(logits, answers[rollout.mask]) * part
    target = shard.of(base).to(model.device)[rollout.mask]
    return F.kl_div(logits.log_softmax(-1), target, reduction="batchmean") * part


class Schedule(NamedTuple):
    """Of a warm start's next update: whose examples it learns from and at what rate; and of all its updates how many
    there are at most, and how many lie between two looks at the accuracy.
    """

    task: Task
    learning_rate: float
    limit: int
    every: int


def warm_schedule(task: Task, config: TrainConfig, updates: int) -> Schedule:
    """What comes after so many ``updates``. A task with a timed start knows it itself, and its accuracy is no reason to
    stop.
    """
    if not isinstance(task, TimedStart):
        return Schedule(task, config.warm_learning_rate, config.warm_limit, 2)
    *ends, whole = accumulate(lesson.updates for lesson in task.lessons)
    lesson = task.lessons[bisect(ends, updates)]
    done = updates - max((end for end in ends if end <= updates), default=0)
    learning_rate = lesson.learning_rate * (1 - done / lesson.updates)
    return Schedule(lesson.task, learning_rate, min(config.warm_limit, whole), whole)
