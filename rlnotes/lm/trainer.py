"""The training loop: a supervised warm start, then RL, one step at a time."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from rlnotes.lm.behavior import Behavior
from rlnotes.lm.checkpoint import load_latest, load_optimizer, optimizer_tensors, part, save_checkpoint
from rlnotes.lm.clipped import ClippedTokens
from rlnotes.lm.collection import collect, sample_rounds
from rlnotes.lm.config import Metrics, TrainConfig, preset_config
from rlnotes.lm.gradient import add_gradient, minibatches, not_finite, of_updates
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.lora import add_adapters, merged
from rlnotes.lm.model import Transformer
from rlnotes.lm.off_policy import off_policy_metrics
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, response_logits, score
from rlnotes.lm.share import ALONE, Share
from rlnotes.lm.shipped import has_weights, load_weights
from rlnotes.lm.static_step import StaticStep, graphed_step
from rlnotes.lm.task_registry import make_task
from rlnotes.lm.tasks import Split, Task
from rlnotes.lm.versions import Snapshots, mixture_of
from rlnotes.lm.warm_start import warm_loss, warm_schedule
from rlnotes.objectives import RECIPES, Choices


class Trainer:
    """Trains a tiny transformer on a token task. ``for metrics in Trainer(config).run(): ...``

    ``task`` and ``choices`` replace what ``config`` names, for a task or an objective of your own.

    pi, the policy that learns, is the model's distribution at ``config.temperature``. mu, which samples, is the same
    unless the config makes it differ: by top-k or top-p, by rounded weights, by noise, by older weights. Its
    log-probabilities are recorded as sampled, and the metrics ``mismatch`` and ``ratio_deviation`` say how far apart
    the two are.

    Every random number comes from two generators made from ``config.seed``: ``data_generator`` draws prompts, and
    ``generator`` draws tokens. An interrupt (Ctrl-C, or the stop button) takes effect between steps, so the trainer
    is always in the state after a whole step and can go on, be saved, or be used. A second one stops at once.
    """

    share: Share = ALONE

    def __init__(self, config: TrainConfig, task: Task | None = None, choices: Choices | None = None):
        if choices is None and config.recipe not in RECIPES:
            raise ValueError(
                f"unknown recipe {config.recipe!r}; choose one of {', '.join(RECIPES)}, or pass choices=Choices(...)"
            )
        torch.set_num_threads(config.threads)
        self.choices = choices or RECIPES[config.recipe]
        if self.choices.needs_whole_batch and config.micro_batches > 1:
            raise ValueError(
                f"micro_batches is {config.micro_batches}, and this objective divides by what it keeps (divide_by) or "
                "by its mean weight (normalised), which a part of an update cannot know; set micro_batches=1"
            )
        self.task = task or make_task(config.task, config.size)
        self.config = replace(config, recipe="custom") if choices is not None else config
        self.device = torch.device(config.device)
        self.dtype = getattr(torch, config.precision)
        self.data_generator = torch.Generator().manual_seed(config.seed)
        self.generator = torch.Generator(self.device).manual_seed(config.seed + 1)
        context = self.task.prompt_length + self.task.max_response_length
        sizes = preset_config(config.preset, len(self.task.vocabulary), context)
        self.model = Transformer(sizes, torch.Generator().manual_seed(config.seed + 2)).to(self.device)
        self.reference: Transformer | None = None
        self.optimizer = self._make_optimizer(config.warm_learning_rate, (0.9, 0.98))
        self.transform = SamplingTransform(config.temperature)  # pi's own
        self.sampler = Sampler(
            self.task.max_response_length,
            self.task.vocabulary.eos,
            SamplingTransform(config.temperature, config.top_k, config.top_p),
            top_logp=asked.recorded(len(self.task.vocabulary)) if (asked := self.choices.needs_divergence) else 0,
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
        self.warm_updates = 0
        self.updates = 0  # RL updates: the version of the weights
        self.step = 0
        self.tokens = 0
        self.clipped: ClippedTokens | None = None  # of the last step
        self.warm = config.warm_start == "none"
        if config.warm_start == "shipped" and task is None and has_weights(config.task, config.size, config.preset):
            load_weights(self.model, config.task, config.size, config.preset)
            self.warm = True
        if self.warm:
            self._begin_rl()

    # the loop

    def run(self, steps: int | None = None) -> Iterator[Metrics]:
        """Warm start if still due, then RL until ``steps`` (default ``config.steps``) in all. Yields metrics.

        Metrics of a warm-start update: ``phase`` 0, ``loss``, and now and then ``accuracy``. Of an RL step: see
        :meth:`rl_step`.
        """
        interrupts = HeldInterrupts()
        while not self.warm:
            with interrupts:
                metrics = self.warm_step()
            yield metrics
            interrupts.deliver()
        while self.step < (self.config.steps if steps is None else steps):
            with interrupts:
                metrics = self.rl_step()
            yield metrics
            interrupts.deliver()

    def warm_step(self) -> Metrics:
        """One supervised update on right answers; every second one measures sampled accuracy on training prompts.

        For a :class:`DistilledTask` one towards its base policy; ``loss`` is then a KL in nats, and accuracy is
        measured at the end only.
        """
        config = self.config
        loss = warm_loss(self.model, self.task, config.warm_batch, self.data_generator, self.dtype, self.share)
        limit, every, learning_rate = warm_schedule(self.task, config, self.warm_updates)
        loss.backward()
        gradient_norm = self._update(learning_rate, self.warm_updates)
        self.warm_updates += 1
        whole = self.share.total(loss.detach()).item()
        metrics: Metrics = dict(phase=0, step=self.warm_updates, loss=whole, gradient_norm=gradient_norm)
        if self.warm_updates % every == 0 or self.warm_updates >= limit:
            metrics["accuracy"] = self.share.first(self.evaluate(256, "train"))
            if metrics["accuracy"] >= config.warm_target or self.warm_updates >= limit:
                self._begin_rl()
        return metrics

    def rl_step(self) -> Metrics:
        """One rollout and the updates on it.

        | metric | meaning |
        |---|---|
        | ``reward`` | mean reward of all that was sampled, by the task alone, before the updates |
        | ``loss``, ``gradient_norm`` | of the last update; the loss of centred advantages is near 0 and means little |
        | ``entropy`` | of pi's next token, in nats; mean over the tokens of the first update's groups that teach |
        | ``mismatch`` | mean abs(pi - mu) of those tokens' probabilities, before the first update |
        | ``ratio_deviation`` | largest abs(pi / mu - 1) among them: 0 up to rounding, unless mu differs on purpose |
        | ``no_gradient`` | share of tokens with an advantage that got no gradient (a closed gate), over all updates |
        | ``bad_updates`` | share of tokens with A < 0 and mu - pi >= 0.5, over all updates: 004 section 5.3 |
        | ``clipped_probability``, | with ``count_clipped``: mean mu of the tokens without gradient, and mean |
        | ``clipped_entropy`` | entropy of pi's next token there; left out where there are none |
        | ``wasted_groups`` | share of the sampled groups whose rewards are all equal, so that they teach nothing |
        | ``length``, ``truncated`` | mean response length; share that hit the limit |
        | ``length_wrong`` | mean length of the responses with reward 0; left out where there are none |
        | ``rounds`` | rollouts sampled for this step: 1, or more with dynamic sampling |
        | ``staleness`` to ``ratio_tail`` | with ``measure_shift``: see :func:`off_policy_metrics` |
        | ``tokens``, ``seconds`` | response tokens sampled so far, unused ones too; wall time of this step |
        """
        if self._graphed is not None:
            return self._graphed()
        started, config = time.perf_counter(), self.config
        if self.past is not None:
            self.past.remember(self.updates, merged(self.model))
        sampled = sample_rounds(self._draw, self.share.by_groups(self.task.score), self.choices, config.most_rounds)
        pi = self._scorer(self.model, config.routing_replay)
        collected = collect(sampled, config.prompts, self.choices, pi, self._reference_scorer())
        metrics: Metrics = dict(phase=1, step=self.step + 1) | sampled.metrics(self.sampler.eos)
        version, before = self.updates, pi(sampled.rollout) if config.measure_shift else None
        updates: list[Metrics] = []
        self.clipped = ClippedTokens(len(self.task.vocabulary)) if config.count_clipped else None
        for epoch in range(config.epochs):
            for i, rows in enumerate(minibatches(config, epoch, self.data_generator)):
                look = epoch == 0 and i == 0
                seen = add_gradient(
                    *(collected, rows.to(self.device), self.choices, self._log_probs, self.sampler.eos),
                    *(config.micro_batches, look, self.clipped, self.share),
                )
                updates.append(seen | dict(gradient_norm=self._update(config.learning_rate, self.updates)))
                self.updates += 1
        metrics |= of_updates(updates)
        if before is not None:
            metrics |= off_policy_metrics(sampled.rollout, before, pi(sampled.rollout), version)
        if self.clipped is not None:
            self.clipped.sums = self.share.total(self.clipped.sums)
            metrics |= self.clipped.metrics()
        self.step += 1
        self.tokens += int(sampled.rollout.mask.sum())
        return metrics | dict(tokens=self.tokens, seconds=time.perf_counter() - started)

    @cached_property
    def _graphed(self) -> StaticStep | None:
        """With ``cuda_graph`` the whole step, recorded at the first one; None where it cannot be, or is not wanted."""
        return graphed_step(self) if self.config.cuda_graph else None

    def _draw(self) -> Rollout:
        """Fresh prompts, and mu's responses to them."""
        prompts = self.task.sample(self.config.prompts, self.data_generator).prompts.to(self.device)
        return self.sampler.sample(
            merged(self.model), prompts, self.config.group_size, self.generator, self.updates, past=self.past
        )

    def _log_probs(self, rollout: Rollout) -> Tensor:
        """pi's log-probabilities (N, T, V), with gradients."""
        logits = response_logits(self.model, rollout, self.dtype, self.config.routing_replay)
        return self.transform.log_probs(logits)

    def _scorer(self, model: Transformer, replay: bool = False) -> Callable[[Rollout], Tensor]:
        """Log-probability (N, T) of sampled tokens as pi gives it with the weights of ``model``. Without gradients."""
        return torch.no_grad()(partial(score, model, dtype=self.dtype, transform=self.transform, replay=replay))

    def _reference_scorer(self) -> Callable[[Rollout], Tensor] | None:
        return None if self.reference is None else self._scorer(self.reference)

    def _update(self, learning_rate: float, updates_before: int) -> float:
        """Clip the gradient, step, clear it. Returns the norm before clipping.

        A gradient that is not finite raises ``ValueError`` before the weights are touched.
        """
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip).item()
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise not_finite(norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.warmed_up(learning_rate, updates_before)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def _begin_rl(self) -> None:
        """End the warm start: a fresh optimiser, adapters if asked for, a reference if there is a KL penalty."""
        self.warm = True
        if self.choices.kl is not None:
            self.reference = Transformer(self.model.config).to(self.device).requires_grad_(False)
            self.reference.load_state_dict(self.model.state_dict())
        if self.config.lora_rank:
            add_adapters(self.model, self.config.lora_rank, torch.Generator().manual_seed(self.config.seed + 3))
        self.optimizer = self._make_optimizer(self.config.learning_rate, (0.9, 0.95))

    def _make_optimizer(self, learning_rate: float, betas: tuple[float, float]) -> torch.optim.AdamW:
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        return torch.optim.AdamW(trained, learning_rate, betas, weight_decay=0.0, fused=True)

    # looking at it

    def sample(
        self,
        prompts: int = 8,
        group_size: int = 1,
        split: Split = "heldout",
        seed: int = 0,
        transform: SamplingTransform | None = None,
    ) -> Rollout:
        """pi's responses to fresh prompts, drawn from generators of their own, so that training is not disturbed.

        ``transform`` replaces pi's own; ``SamplingTransform(temperature=0)`` is greedy. What makes mu differ from pi in
        training is off.
        """
        drawn = self.task.sample(prompts, torch.Generator().manual_seed(seed), split).prompts.to(self.device)
        generator = torch.Generator(self.device).manual_seed(seed)
        sampler = replace(self.sampler, transform=transform or self.transform, behavior=Behavior())
        return sampler.sample(merged(self.model), drawn, group_size, generator, version=self.updates)

    def evaluate(
        self,
        prompts: int = 512,
        split: Split = "heldout",
        seed: int = 0,
        transform: SamplingTransform | None = None,
    ) -> float:
        """Mean reward of one response to each of ``prompts`` fresh prompts, drawn as :meth:`sample` does."""
        return self.task.score(self.sample(prompts, 1, split, seed, transform)).mean().item()

    # keeping it

    def save(self, folder: Path) -> Path:
        """Write everything that an exact continuation needs, atomically, into ``folder``. Returns the path."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.reference is not None:
            tensors |= {f"reference.{name}": value for name, value in self.reference.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        if self.past is not None:
            tensors |= self.past.tensors()
        tensors["rng.data"] = self.data_generator.get_state()
        tensors["rng.sample"] = self.generator.get_state()
        state: dict[str, Any] = dict(config=asdict(self.config))
        state |= {name: getattr(self, name) for name in ("warm", "warm_updates", "updates", "step", "tokens")}
        return save_checkpoint(folder, self.warm_updates + self.step, tensors, state)

    @classmethod
    def load(
        cls,
        folder: Path,
        task: Task | None = None,
        choices: Choices | None = None,
        steps: int | None = None,
        **settings: Any,
    ) -> Self:
        """The trainer of the newest checkpoint in ``folder``. On a CPU it goes on bit for bit.

        ``steps`` replaces the number of RL steps in all. An objective or a task of your own must be passed again, and
        so must ``settings``, which a subclass may have besides.
        Raises ``FileNotFoundError`` without a checkpoint, ``ValueError`` naming a missing part.
        """
        tensors, state = load_latest(folder)
        config = TrainConfig(**state["config"])
        if config.recipe == "custom" and choices is None:
            raise ValueError("this run used an objective of its own; pass it again as choices=Choices(...)")
        steps = config.steps if steps is None else steps
        start = "none" if state["warm"] else "train"  # where the run was: in RL, or before it
        trainer = cls(replace(config, warm_start=start, steps=steps), task, choices, **settings)
        trainer.config = replace(trainer.config, warm_start=config.warm_start)
        for name in ("warm_updates", "updates", "step", "tokens"):
            setattr(trainer, name, state[name])
        trainer.model.load_state_dict(part(tensors, "model"))
        if trainer.reference is not None:
            trainer.reference.load_state_dict(part(tensors, "reference"))
        if (trainer.updates if trainer.warm else trainer.warm_updates) > 0:  # a fresh optimiser has no moments yet
            load_optimizer(trainer.optimizer, tensors)
        if trainer.past is not None:
            trainer.past.restore(tensors, merged(trainer.model))
        rng = part(tensors, "rng")
        trainer.data_generator.set_state(rng["data"].cpu())
        trainer.generator.set_state(rng["sample"].cpu())
        return trainer
