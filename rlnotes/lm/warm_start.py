"""The supervised warm start: weights that come with the package, or else what it minimises.

It learns from right answers, or from a base policy that is written down.
"""

from importlib.resources import files
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional as F

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.tasks import Task, make_task
from rlnotes.lm.tasks.rare_tokens import DistilledTask
from rlnotes.lm.tasks.task import TimedStart

# The warm start of a task whose examples are half wrong stops by its length: their accuracy has a ceiling of 1/2.
SHIPPED: tuple[dict[str, Any], ...] = (
    dict(task="reverse", size=8),
    dict(task="sort", size=6),
    dict(task="sort", size=8),
    dict(task="ramble", size=2, warm_target=1.0, warm_limit=300),
    dict(task="misled", size=5, warm_batch=128),
    dict(task="needle", size=4),
    dict(task="renamed", size=6),
)


def file_name(task: str, size: int | None, preset: str) -> str:
    """File name of a task's weights; ``size`` None is the task's default."""
    chosen = getattr(make_task(task, size), "size", None)
    return f"{task.replace('/', '-')}-{chosen}-{preset}.safetensors"


def has_weights(task: str, size: int | None, preset: str) -> bool:
    """True if the package ships warm-start weights for this task, size and preset."""
    return files("rlnotes.lm").joinpath("weights", file_name(task, size, preset)).is_file()


def load_weights(model: Transformer, task: str, size: int | None, preset: str) -> None:
    """Put the shipped weights into ``model``. They are stored in float16 and become the model's own dtype."""
    data = files("rlnotes.lm").joinpath("weights", file_name(task, size, preset)).read_bytes()
    model.load_state_dict(load(data))


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


def warm_schedule(task: Task, config: TrainConfig, updates: int) -> tuple[int, int, float]:
    """Most updates of a warm start, how many lie between two looks at the accuracy, and the learning rate of the next.

    A task with a timed start knows the first and the last itself, and its accuracy is no reason to stop.
    """
    if not isinstance(task, TimedStart):
        return config.warm_limit, 2, config.warm_learning_rate
    learning_rate = task.warm_learning_rate * (1 - updates / task.warm_updates)
    return min(config.warm_limit, task.warm_updates), task.warm_updates, learning_rate
