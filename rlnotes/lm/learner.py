"""What learns: a model, its optimiser, the sampler that writes for it, and where its run stands."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor

from rlnotes.lm.behavior import Behavior, mixture_of
from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.lora import add_adapters
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, response_logits, token_logp
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.tasks import Split, Task, make_task
from rlnotes.lm.versions import Snapshots
from rlnotes.lm.warm_start import starts
from rlnotes.objectives import RECIPES, Choices

COUNTS = ("warm_updates", "updates", "step", "tokens")


class Learner:
    """Everything that a step reads and changes. See :class:`rlnotes.lm.trainer.Trainer`, which takes the steps.

    ``updates`` is the number of RL updates behind the weights, their version; ``step`` the number of steps, ``tokens``
    of response tokens sampled in them. ``shard`` is this process's part of the work, where several share it.
    """

    shard: Shard = ALONE

    def __init__(self, config: TrainConfig, task: Task | None = None, choices: Choices | None = None):
        self.task, self.choices, self.device = needed(config, task, choices)
        torch.set_num_threads(min(config.threads, os.cpu_count() or 1))
        self.config = replace(config, recipe="custom") if choices is not None else config
        self.dtype = getattr(torch, config.precision)
        self.data_generator = torch.Generator().manual_seed(config.seed)
        self.generator = torch.Generator(self.device).manual_seed(config.seed + 1)
        context = self.task.prompt_length + self.task.max_response_length
        sizes = preset_config(config.preset, len(self.task.vocabulary), context)
        self.model = Transformer(sizes, torch.Generator().manual_seed(config.seed + 2)).to(self.device)
        self.reference: Transformer | None = None
        self.optimizer = self.make_optimizer(config.warm_learning_rate, (0.9, 0.98))
        self.transform = SamplingTransform(config.temperature)  # pi's own
        divergence = self.choices.needs_divergence
        self.sampler = Sampler(
            self.task.max_response_length,
            self.task.vocabulary.eos,
            SamplingTransform(config.temperature, config.top_k, config.top_p),
            top_logp=divergence.recorded(len(self.task.vocabulary)) if divergence else 0,
            dtype=self.dtype,
            behavior=Behavior(
                config.rollout_weights,
                config.logit_noise,
                config.rollout_kv_cache,
                config.rollout_blocks,
                mixture_of(config),
            ),
        )
        self.past = Snapshots(max(config.lags)) if config.lags else None
        self.warm = False  # ready for RL
        self.warm_updates = self.updates = self.step = self.tokens = 0

    def log_probs(self, rollout: Rollout) -> Tensor:
        """pi's log-probabilities (N, T, V), with gradients."""
        logits = response_logits(self.model, rollout, self.dtype, self.config.routing_replay)
        return self.transform.log_probs(logits)

    def logp(self, rollout: Rollout) -> Tensor:
        """Log-probability (N, T) of the tokens as pi gives it. Without gradients."""
        return self.scorer(self.model, self.config.routing_replay)(rollout)

    @property
    def logp_reference(self) -> Callable[[Rollout], Tensor] | None:
        """The same by the reference; None where the objective has none."""
        return None if self.reference is None else self.scorer(self.reference)

    def scorer(self, model: Transformer, replay: bool = False) -> Callable[[Rollout], Tensor]:
        """:func:`token_logp` of ``model`` at pi's temperature; of several processes each reads its own groups."""
        of_tokens = partial(token_logp, model, dtype=self.dtype, transform=self.transform, replay=replay)
        return self.shard.by_groups(torch.no_grad()(of_tokens))

    def update(self, learning_rate: float, updates_before: int) -> float:
        """Clip the gradient, step, clear it. Returns the norm before clipping.

        A gradient that is not finite raises ``ValueError`` before the weights are touched.
        """
        self.shard.add_up(self.model.parameters())
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip).item()
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise not_finite(norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.warmed_up(learning_rate, updates_before)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def begin_rl(self) -> None:
        """End the warm start: a fresh optimiser, adapters if asked for, a reference if there is a KL penalty."""
        self.warm = True
        if self.choices.kl is not None:
            self.reference = Transformer(self.model.config).to(self.device).requires_grad_(False)
            self.reference.load_state_dict(self.model.state_dict())
        if self.config.lora_rank:
            add_adapters(self.model, self.config.lora_rank, torch.Generator().manual_seed(self.config.seed + 3))
        self.optimizer = self.make_optimizer(self.config.learning_rate, (0.9, 0.95))

    def make_optimizer(self, learning_rate: float, betas: tuple[float, float]) -> torch.optim.AdamW:
        """AdamW for all that is trained."""
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        return torch.optim.AdamW(trained, learning_rate, betas, weight_decay=0.0, fused=True)

    def counts(self) -> dict[str, Any]:
        """Where the run stands."""
        return {name: getattr(self, name) for name in COUNTS}


def needed(
    config: TrainConfig, task: Task | None = None, choices: Choices | None = None
) -> tuple[Task, Choices, torch.device]:
    """What a run with these settings needs. Raises ``ValueError`` if it cannot be had, before anything is made."""
    if choices is None and config.recipe not in RECIPES:
        raise ValueError(
            f"unknown recipe {config.recipe!r}; choose one of {', '.join(RECIPES)}, or pass choices=Choices(...)"
        )
    choices = choices or RECIPES[config.recipe]
    if choices.needs_whole_batch and config.micro_batches > 1:
        raise ValueError(
            f"micro_batches is {config.micro_batches}, and this objective divides by what it keeps (divide_by) or "
            "by its mean weight (normalised), which a part of an update cannot know; set micro_batches=1"
        )
    if task is None:
        task = make_task(config.task, config.size)
        for split in get_args(Split):
            task.sample(1, torch.Generator().manual_seed(0), split)  # a small task may have none
        there = starts(config.task, config.size, config.preset)
        if config.start >= max(1, there) and config.warm_start == "shipped":
            raise ValueError(
                f"start is {config.start}, and with the package come {there} of {config.task} at this size and preset, "
                "counted from 0; take one of them, or warm_start train"
            )
    return task, choices, present(config.device)


def present(name: str) -> torch.device:
    """The device called ``name``. Raises ``ValueError`` if this machine lacks it."""
    device, there = torch.device(name), torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= there:
        has = f"{there} of them, cuda:0 to cuda:{there - 1}" if there else "none"
        raise ValueError(f"device is {name!r}, a GPU, and torch finds {has} here; choose another, or cpu")
    return device


def not_finite(norm: float) -> ValueError:
    """The error of an update whose gradient has no finite ``norm``."""
    return ValueError(f"the gradient norm is {norm}; the weights were left as they were: lower the learning rate")
