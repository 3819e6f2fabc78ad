"""The run of a real model. Its step is :func:`rlnotes.lm.step.step`, with the parts that text needs."""

import math
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import torch
from torch import Tensor

from rlnotes.bridge.real.config import RealConfig
from rlnotes.bridge.real.models import load, spread
from rlnotes.bridge.real.passes import response_logits
from rlnotes.bridge.real.questions import Question, part, questions, reward
from rlnotes.bridge.real.sampler import Sampler
from rlnotes.estimators.pass_at_k import pass_at_k
from rlnotes.lm.checkpoint import (
    KEEP,
    STATE,
    TENSORS,
    BrokenCheckpoint,
    check_fields,
    check_goes_on,
    check_tensors,
    find_checkpoint,
    load_checkpoint,
    load_optimizer,
    moments_of,
    optimizer_tensors,
    save_checkpoint,
)
from rlnotes.lm.checkpoint import part as part_of
from rlnotes.lm.collection import Collection
from rlnotes.lm.config import Metrics, warmed_up
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.learner import not_finite, present
from rlnotes.lm.parts import Parts
from rlnotes.lm.report import ClippedTokens, Watch, WatchClipped, WatchShift
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import taken
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.step import step
from rlnotes.lm.tasks.task import Split
from rlnotes.objectives import RECIPES, Batch, Choices

COUNTS = ("updates", "step", "tokens")
DRAWS = 1000  # for one question of a part, before a task is found to have none
TRIED = 512  # questions whose longest one says how wide prompts are
TOGETHER = 8  # k of pass@k
ADAM = 12  # bytes of a weight in a checkpoint, with its two moments


class Text:
    """A task as the model reads and writes it: prompts of one width in tokens, rewards of responses."""

    def __init__(self, config: RealConfig, tokenizer: Any, vocabulary: int):
        self.config, self.tokenizer, self.questions = config, tokenizer, questions(config.task)
        self.vocabulary = range(vocabulary)  # token ids
        self._ids: dict[str, list[int]] = {}  # of questions that came before
        if not config.plain and not tokenizer.chat_template:
            raise ValueError(
                f"the tokenizer of {config.model} has no chat template; ask without one (--plain), or set its "
                "chat_template, and save it again"
            )
        tried = self.drawn(TRIED, torch.Generator().manual_seed(0), "train", math.inf)
        self.width = -(-max(len(self.ids(one)) for one in tried) // 8) * 8
        for one in tried[:32]:
            self._check(one)

    def _check(self, question: Question) -> None:
        """Raise ``ValueError`` for a question that the tokenizer cannot write, or an answer that has no room."""
        for text in (question.text, question.answer):
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            again = self.tokenizer.decode(ids, skip_special_tokens=True)
            if again.split() != text.split():
                raise ValueError(
                    f"the tokenizer of {self.config.model} cannot write {text!r}: it comes back as {again!r}; take "
                    "another task or another model"
                )
        if len(ids) + 1 > self.config.length:
            raise ValueError(
                f"length is {self.config.length}, and the answer {question.answer!r} has {len(ids)} tokens and an end; "
                "make length larger"
            )

    def ids(self, question: Question) -> list[int]:
        """Tokens of the question, ready to be answered."""
        if question.text not in self._ids:
            self._ids[question.text] = self._encoded(question.text)
        return self._ids[question.text]

    def _encoded(self, text: str) -> list[int]:
        if self.config.plain:
            return self.tokenizer.encode(text)
        asked = [dict(role="user", content=text)]
        whole = self.tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        return self.tokenizer.encode(whole, add_special_tokens=False)

    def drawn(self, n: int, generator: torch.Generator, split: Split, width: float | None = None) -> list[Question]:
        """``n`` questions of one part that are at most ``width`` tokens wide, by default the task's own width."""
        width = self.width if width is None else width
        found: list[Question] = []
        for _ in range(DRAWS * n):
            question = self.questions.ask(generator)
            if part(question) == split and (width == math.inf or len(self.ids(question)) <= width):
                found.append(question)
                if len(found) == n:
                    return found
        raise ValueError(f"task {self.config.task} has too few questions in its {split} part; take another")

    def prompts(self, asked: list[Question]) -> tuple[Tensor, Tensor]:
        """Tokens and mask (B, P) of ``asked``, pads on the left: any token will do as one, since nothing reads it."""
        rows = [self.ids(one) for one in asked]
        tokens = torch.full((len(rows), self.width), self.tokenizer.eos_token_id)
        mask = torch.zeros(len(rows), self.width, dtype=torch.bool)
        for i, row in enumerate(rows):
            tokens[i, self.width - len(row) :] = torch.tensor(row)
            mask[i, self.width - len(row) :] = True
        return tokens, mask

    def responses(self, rollout: Rollout) -> list[str]:
        """Texts (N,) of the responses."""
        rows = [row[own].tolist() for row, own in zip(rollout.tokens.cpu(), rollout.mask.cpu(), strict=True)]
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)

    @property
    def names(self) -> list[str]:
        """A printable name of each token."""
        return [self.tokenizer.decode([token]) for token in self.vocabulary]


class RealTrainer:
    """Trains a causal language model of transformers on a task with text. ``for metrics in RealTrainer(config).run()``.

    pi is the model, float32 weights, on a GPU with matrices multiplied in bfloat16. mu is the sampler's copy of it
    (:class:`~rlnotes.bridge.real.sampler.Sampler`), whose log-probabilities are recorded as it samples. ``choices``
    replace the recipe that ``config`` names. ``model`` and ``tokenizer`` are what ``config.model`` holds, if that was
    read already; the model is trained in place. On a GPU ``import rlnotes.gpu`` makes sampling
    many times as fast. ``fresh`` is False for a run that goes on: nothing is spread then.

    Raises ``ValueError`` for what cannot be had, before anything is trained.
    """

    shard: Shard = ALONE
    warm_updates = 0

    def __init__(
        self,
        config: RealConfig,
        choices: Choices | None = None,
        model: Any = None,
        tokenizer: Any = None,
        fresh: bool = True,
    ):
        self.choices = checked(config, choices)
        device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.device = present(device)
        config = config.on(device)
        self.config = replace(config, recipe=config.recipe if choices is None else "custom")
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        if model is None:
            model, tokenizer = load(config.model)
        self.task = Text(config, tokenizer, model.config.vocab_size)
        check_context(model, self.task.width + config.length, config.model)
        self.model = model.to(self.device).eval()  # without dropout: pi is what is sampled from
        self.run_id = uuid.uuid4().hex
        self.updates = self.step = self.tokens = 0
        self.data_generator = torch.Generator().manual_seed(config.seed)
        self.generator = torch.Generator(self.device).manual_seed(config.seed + 1)
        if config.spread and fresh:
            spread(self.model, config.spread, torch.Generator().manual_seed(config.seed + 2))
        self.transform = SamplingTransform(config.temperature)
        self.sampler = self._sampler()
        plain = config.rollout_weights == "float32" and config.refresh == 1
        self.judge = self.sampler if plain else None  # samples from pi itself, to measure it
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), config.learning_rate, (0.9, 0.95), weight_decay=0.0, fused=True
        )
        self.parts = TextParts(self)

    def _sampler(self, exact: bool = False) -> Sampler:
        config = self.config
        return Sampler(
            self.model,
            config.length,
            self.task.tokenizer.eos_token_id,
            self.generator,
            self.dtype,
            "float32" if exact else config.rollout_weights,
            config.temperature,
        )

    # what a step is made of

    def log_probs(self, rollout: Rollout) -> Tensor:
        """pi's log-probabilities (N, T, V), with gradients."""
        return self.transform.log_probs(response_logits(self.model, rollout, self.dtype))

    @torch.no_grad()
    def logp(self, rollout: Rollout) -> Tensor:
        """Log-probability (N, T) of the tokens as pi gives it, a part of the groups at a time."""
        rows = torch.arange(len(rollout.prompts), device=self.device)
        pieces = rows.chunk(self.config.minibatches * self.config.micro_batches)
        return torch.cat([taken(self.log_probs(one), one.tokens) for one in map(rollout.groups, pieces)])

    logp_reference = None

    def update(self, learning_rate: float, updates_before: int) -> float:
        """Clip the gradient, step, clear it. Returns the norm before clipping; raises ``ValueError`` if not finite."""
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip).item()
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise not_finite(norm)
        for group in self.optimizer.param_groups:
            group["lr"] = warmed_up(learning_rate, updates_before, self.config.warmup_updates)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    @property
    def clipped(self) -> ClippedTokens | None:
        """With ``count_clipped`` what was counted in the last step."""
        return next((watch.tokens for watch in self.parts.watches if isinstance(watch, WatchClipped)), None)

    # the loop

    def run(self, steps: int | None = None) -> Iterator[Metrics]:
        """RL until ``steps`` (default ``config.steps``) in all. Yields metrics.

        They are those of :meth:`rlnotes.lm.trainer.Trainer.rl_step`, and:

        | metric | meaning |
        |---|---|
        | ``right`` | share of all that was sampled that is right, whatever is paid |
        | ``kl_steps`` | mean over the updates, each before its own step, of the tokens' -log(pi / mu), in nats |
        | ``lag`` | updates between the sampler's weights and pi's |
        | ``sampling_seconds``, ``tokens_per_second`` | of the rollouts |
        | ``accuracy``, ``greedy`` | share of held-out questions answered right, sampled and by the likeliest tokens |
        | ``start_accuracy``, ``start_greedy`` | in the first step: the same before it |
        """
        interrupts = HeldInterrupts()
        last = self.config.steps if steps is None else steps
        while self.step < last:
            with interrupts:
                metrics: Metrics = {}
                if self.step == 0:
                    metrics = {f"start_{name}": value for name, value in self.accuracies().items()}
                started = time.perf_counter()
                metrics = step(self.parts) | metrics
                metrics["seconds"] = time.perf_counter() - started
                if self.step % self.config.evaluate_every == 0 or self.step == last:
                    metrics |= self.accuracies()
            yield metrics
            interrupts.deliver()

    # looking at it

    def answers(
        self, prompts: int, group_size: int = 1, greedy: bool = False, split: Split = "heldout", seed: int = 0
    ) -> list[tuple[Question, str, bool]]:
        """pi's responses to fresh questions, and whether each is right. Training is not disturbed."""
        if self.judge is None:
            self.judge = self._sampler(exact=True)
        asked = self.task.drawn(prompts, torch.Generator().manual_seed(seed), split)
        self.judge.refresh(self.model, self.updates)
        state = self.generator.get_state()
        self.generator.manual_seed(seed)
        try:
            tokens, mask = (one.to(self.device) for one in self.task.prompts(asked))
            rollout = self.judge.sample(tokens, mask, group_size, greedy)
        finally:
            self.generator.set_state(state)
        each = [question for question in asked for _ in range(group_size)]
        said = self.task.responses(rollout)
        return [(one, text, self.task.questions.right(one, text)) for one, text in zip(each, said, strict=True)]

    def evaluate(self) -> float:
        """Share of held-out questions that one sampled answer gets right."""
        return fmean(right for *_, right in self.answers(self.config.heldout))

    def accuracies(self) -> Metrics:
        """That, and the share that the likeliest tokens get right."""
        greedy = fmean(right for *_, right in self.answers(self.config.heldout, greedy=True))
        return dict(accuracy=self.evaluate(), greedy=greedy)

    def pass_at(self, k: int = TOGETHER, samples: int = TOGETHER) -> float:
        """Share of held-out questions that one of ``k`` sampled answers gets right, estimated from ``samples``."""
        prompts = max(1, self.config.heldout // samples)
        rights = [right for *_, right in self.answers(prompts, samples)]
        return fmean(pass_at_k(sum(rights[i : i + samples]), samples, k) for i in range(0, len(rights), samples))

    @torch.no_grad()
    def expected(self) -> tuple[float, float]:
        """About how many seconds a step takes here, and a measurement of both accuracies: from the responses to two
        questions and a pass over them. Training is not disturbed.
        """
        config, asked = self.config, self.task.drawn(2, torch.Generator().manual_seed(0), "train")
        tokens, mask = (one.to(self.device) for one in self.task.prompts(asked))
        like = torch.zeros(2, 2, dtype=torch.long, device=self.device)
        rollout = replace(Rollout.of_responses(tokens, like, -1), prompt_mask=mask)
        self.logp(rollout)  # the first pass is slower
        started = time.perf_counter()
        self.logp(rollout)
        a_token = (time.perf_counter() - started) / tokens.numel()
        started = time.perf_counter()
        self.answers(2, config.group_size)
        a_response = (time.perf_counter() - started) / (2 * config.group_size)
        responses = config.prompts * config.group_size
        passed = config.prompts * self.task.width + responses * config.length
        step = responses * a_response + a_token * passed * (1 + 3 * config.epochs)
        return step, 2 * config.heldout * (a_response + a_token * self.task.width)

    def measurements(self) -> int:
        """How often :meth:`run` measures the accuracies in a whole run."""
        steps, every = self.config.steps, self.config.evaluate_every
        return 1 + -(-steps // every) if steps else 0

    # keeping it

    def check_goes_on(self, folder: Path) -> None:
        """Raise ``ValueError`` if ``folder`` holds another run, or this one further on; ``OSError`` without room."""
        check_goes_on(folder, self.run_id, self.step, asdict(self.config))
        needs = (KEEP + 1) * ADAM * sum(weight.numel() for weight in self.model.parameters())
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if (free := shutil.disk_usage(there).free) < needs:
            raise OSError(
                f"{folder} has {free / 1e9:.1f} GB free, and the checkpoints of this model need {needs / 1e9:.1f} GB; "
                "make room there, or choose another folder"
            )

    def write_checkpoint(self, folder: Path) -> Path:
        """Write everything that an exact continuation needs, atomically. Returns the path."""
        state = dict(run_id=self.run_id, config=asdict(self.config)) | {name: getattr(self, name) for name in COUNTS}
        return save_checkpoint(folder, self.step, self.numbers(), state | dict(version=self.sampler.version))

    def numbers(self) -> dict[str, Tensor]:
        """All numbers of a checkpoint, by name. The sampler's weights are among them where they may be old."""
        found = {f"model.{name}": weight.detach() for name, weight in self.model.named_parameters()}
        if self.config.refresh > 1:
            copied = self.sampler.copy.named_parameters(remove_duplicate=False)
            found |= {f"sampler.{name}": weight.detach().clone() for name, weight in copied}
        found |= optimizer_tensors(self.optimizer)
        return found | {"rng.data": self.data_generator.get_state(), "rng.sample": self.generator.get_state()}

    @classmethod
    def load(
        cls, folder: Path, steps: int | None = None, device: str | None = None, checkpoint: str | None = None
    ) -> Self:
        """The trainer of the newest checkpoint in ``folder``, or of the one called ``checkpoint``.

        On the CPU it goes on bit for bit. The model's folder must still be there: it has the shape of the model and the
        tokenizer. Raises ``FileNotFoundError`` without a checkpoint, :class:`BrokenCheckpoint` for one that cannot be
        gone on from, and ``ValueError`` for another device, where the random numbers would be others.
        """
        path = find_checkpoint(folder, checkpoint)
        tensors, state = load_checkpoint(path)
        check_fields(path / STATE, state, ("run_id", "config", "version", *COUNTS), "field")
        check_fields(path / STATE, state["config"], (one.name for one in fields(RealConfig)), "setting")
        try:
            saved = RealConfig(**state["config"])
        except (TypeError, ValueError) as error:
            raise BrokenCheckpoint(path / STATE, f"has a setting that cannot be: {error}") from error
        if device is not None and torch.device(device).type != torch.device(saved.device or "cpu").type:
            raise ValueError(f"device is {device!r}, and this run is on {saved.device}: it goes on there only")
        if saved.recipe == "custom":
            raise ValueError("this run used an objective of its own; go on with it in Python")
        config = replace(saved, steps=saved.steps if steps is None else steps, device=device or saved.device)
        trainer = cls(config, fresh=False)
        for name in ("run_id", *COUNTS):
            setattr(trainer, name, state[name])
        trainer.take(tensors, path / TENSORS)
        trainer.sampler.version = state["version"]
        return trainer

    @torch.no_grad()
    def take(self, tensors: dict[str, Tensor], file: Path) -> None:
        """Put the numbers of a checkpoint, of ``file``, in their places, if they all fit."""
        expected = self.numbers() | (moments_of(self.optimizer) if self.updates else {})
        check_tensors(file, tensors, expected)
        self.data_generator.set_state(tensors["rng.data"])
        self.generator.set_state(tensors["rng.sample"])
        self.model.load_state_dict(part_of(tensors, "model"), strict=False)  # a tied weight is there once
        if self.updates:
            load_optimizer(self.optimizer, tensors)
        self.sampler.refresh(self.model, self.updates)
        if self.config.refresh > 1:
            for name, own in self.sampler.copy.named_parameters(remove_duplicate=False):
                own.copy_(tensors[f"sampler.{name}"])


def checked(config: RealConfig, choices: Choices | None) -> Choices:
    """The objective of a run. Raises ``ValueError`` for an unknown one, and for one that this run has no place for."""
    if choices is None and config.recipe not in RECIPES:
        raise ValueError(f"unknown recipe {config.recipe!r}; choose one of {', '.join(RECIPES)}")
    choices = choices or RECIPES[config.recipe]
    if choices.needs_divergence is not None:
        raise ValueError(
            f"recipe {config.recipe} needs {choices.needs_divergence}, and only the sampled token is recorded here; "
            "take one that looks at the sampled token: dppo_tv, dppo_kl"
        )
    if choices.kl is not None:
        raise ValueError(f"recipe {config.recipe} has a KL penalty, and no reference is kept here; leave kl out")
    if choices.needs_whole_batch and config.micro_batches > 1:
        raise ValueError(
            f"micro_batches is {config.micro_batches}, and recipe {config.recipe} divides by what it keeps or by its "
            "mean weight, which a part of an update cannot know; set micro_batches 1"
        )
    return choices


def check_context(model: Any, needed: int, name: str) -> None:
    """Raise ``ValueError`` if ``model`` cannot read as many tokens as are needed."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and needed > most:
        raise ValueError(
            f"the model {name} reads {most} tokens at most, and question and response together have up to {needed}; "
            "make length smaller, or take another task"
        )


class TextParts(Parts):
    """The parts of a step that differ where prompts and responses are text."""

    learner: Any

    def __init__(self, learner: RealTrainer):
        config = learner.config
        possible = ((config.measure_shift, WatchShift), (config.count_clipped, WatchClipped))
        given: Any = learner  # it has all that is asked of a Learner
        watches: list[Watch] = [watch(given) for wanted, watch in possible if wanted]
        super().__init__(given, watches)
        self.seen: defaultdict[str, float] = defaultdict(float)  # in this step
        self.gone: list[tuple[float, float]] = []  # of this update: sums of log mu - log pi, and numbers of tokens
        self.gone_steps: list[float] = []

    def prompts(self) -> Tensor:
        """Fresh questions, as tokens (B, P)."""
        learner = self.learner
        self.asked = learner.task.drawn(learner.config.prompts, learner.data_generator, "train")
        tokens, mask = learner.task.prompts(self.asked)
        self.mask = mask.to(learner.device)
        return tokens.to(learner.device)

    def rollout(self, prompts: Tensor) -> Rollout:
        """mu's responses to them."""
        learner = self.learner
        if learner.step % learner.config.refresh == 0 and learner.sampler.version != learner.updates:
            learner.sampler.refresh(learner.model, learner.updates)
        started = time.perf_counter()
        rollout = learner.sampler.sample(prompts, self.mask, learner.config.group_size)
        self.seen["sampling_seconds"] += time.perf_counter() - started
        self.seen["sampled"] += int(rollout.mask.sum())
        self.seen["lag"] = learner.updates - learner.sampler.version
        return rollout

    def rewards(self, rollout: Rollout) -> Tensor:
        """What each response earns, (N,)."""
        learner, task = self.learner, self.learner.task.questions
        each = [question for question in self.asked for _ in range(rollout.group_size)]
        pairs = list(zip(each, learner.task.responses(rollout), strict=True))
        self.seen["right"] += sum(task.right(*pair) for pair in pairs)
        self.seen["responses"] += len(pairs)
        paid = [reward(task, *pair, learner.config.paid) for pair in pairs]
        return torch.tensor(paid, device=rollout.tokens.device)

    def look(self, part: Collection, batch: Batch, log_probs: Tensor, loss: Tensor) -> None:
        """Count what metrics are made of."""
        super().look(part, batch, log_probs, loss)
        self.gone.append((batch.log_ratio("logp_behavior", "logp").sum().item(), int(batch.mask.sum())))

    def update(self) -> None:
        """Step the optimiser."""
        super().update()
        sums, tokens = (sum(one) for one in zip(*self.gone, strict=True))
        self.gone_steps.append(sums / tokens)
        self.gone = []

    def metrics(self) -> Metrics:
        """What the step reports, see :meth:`RealTrainer.run`."""
        seen, sampling = self.seen, self.seen["sampling_seconds"]
        metrics = super().metrics() | dict(
            right=seen["right"] / seen["responses"],
            kl_steps=fmean(self.gone_steps),
            lag=seen["lag"],
            sampling_seconds=sampling,
            tokens_per_second=seen["sampled"] / sampling,
        )
        self.seen, self.gone_steps = defaultdict(float), []
        return metrics
