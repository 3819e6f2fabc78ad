"""Runs of TRL's ``GRPOTrainer`` on a small Qwen2."""

# pyright: reportMissingImports=false, reportArgumentType=false
# TRL is optional: where it is missing, its types are unknown and the rest is checked all the same.

import os

os.environ |= dict(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", HF_DATASETS_OFFLINE="1")

import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rlnotes.bridge.models import evaluate, sample, up_to, warm_start
from rlnotes.bridge.tasks import Reward, make_tokenizer, prompt_dataset, task_reward
from rlnotes.lm.config import RolloutWeights
from rlnotes.lm.quantize import fake_quantized
from rlnotes.lm.tasks import Task
from tests.bridge.with_trl import made
from tests.logs.run import TRLRun

LIBRARY, LOG = f"trl {version('trl')}", "trainer_state.json"
QUIET: dict[str, Any] = dict(
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    dataloader_pin_memory=False,
    save_strategy="no",
    per_device_eval_batch_size=256,
    report_to="none",
    disable_tqdm=True,
)
COMMON: dict[str, Any] = dict(
    max_steps=40,
    per_device_train_batch_size=256,
    num_generations=16,
    learning_rate=3e-4,
    adam_beta2=0.95,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=10,
    logging_steps=2,
)


def task_of(run: TRLRun) -> Task:
    """What it learns."""
    return run.task


def config(run: TRLRun) -> dict[str, Any]:
    """The settings of ``GRPOConfig`` that are not its defaults."""
    own = dict(max_completion_length=run.task.max_response_length, seed=run.seed)
    return QUIET | COMMON | own | run.settings


@cache
def warm(task: Task, target: float, seed: int) -> TemporaryDirectory[str]:
    """A folder, gone when this process ends, with a model that is right in ``target`` of its answers."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(made.config("qwen", width=64))
    warm_start(model, make_tokenizer(task.vocabulary), task, target, seed)
    folder = TemporaryDirectory()
    model.save_pretrained(folder.name)
    return folder


def train(run: TRLRun, scratch: Path) -> tuple[str, list[dict[str, float]], float, float]:
    """The log as text, its rows, and held-out accuracy before and after."""
    tokenizer = make_tokenizer(run.task.vocabulary)
    folder = warm(run.task, run.warm, run.seed).name
    before = evaluate(AutoModelForCausalLM.from_pretrained(folder), tokenizer, run.task)
    with warnings.catch_warnings(action="ignore"):
        trainer = (Served if run.engine else GRPOTrainer)(
            folder,
            [REWARDS[name](run.task, tokenizer) for name in run.rewards],
            GRPOConfig(str(scratch), **config(run)),
            train_dataset=prompt_dataset(run.task, run.prompts, torch.Generator().manual_seed(run.seed)),
            eval_dataset=prompt_dataset(run.task, 128, torch.Generator().manual_seed(1), "heldout"),
            processing_class=tokenizer,
            rollout_func=Engine(**run.engine) if run.engine else None,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    trainer.state.save_to_json(str(scratch / LOG))
    after = evaluate(trainer.model, tokenizer, run.task)
    return (scratch / LOG).read_text(encoding="utf-8"), trainer.state.log_history, before, after


class Served(GRPOTrainer):
    """As with vLLM: the mismatch is corrected and logged. Who samples is ``rollout_func``."""

    def _generate(self, prompts: Any) -> Any:
        self.use_vllm, self._last_loaded_step = True, self.state.global_step  # no server waits for weights
        return super()._generate(prompts)


class Engine:
    """Samples as a server does, with weights that are rounded, or ``lag`` updates old. Prompts have one width."""

    def __init__(self, weights: RolloutWeights = "float32", lag: int = 0):
        self.weights, self.lag = weights, lag
        self.past: list[PreTrainedModel] = []

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        asked = trainer.processing_class(prompts, return_tensors="pt", padding=True, padding_side="left")
        ids, mask = asked["input_ids"], asked["attention_mask"]
        model = self.model(trainer.model)
        generator = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
        drawn = sample(model, ids, mask, trainer.max_completion_length, generator)
        with torch.no_grad():
            logits = model(input_ids=torch.cat([ids, drawn], 1)).logits[:, ids.shape[1] - 1 : -1]
        logp = logits.log_softmax(-1).gather(-1, drawn[..., None])[..., 0]
        answers = [up_to(row, trainer.processing_class.eos_token_id) for row in drawn.tolist()]
        return dict(
            prompt_ids=ids.tolist(),
            completion_ids=answers,
            logprobs=[row[: len(answer)] for row, answer in zip(logp.tolist(), answers, strict=True)],
        )

    @torch.no_grad()
    def model(self, model: PreTrainedModel) -> PreTrainedModel:
        """The one that samples now."""
        copy = type(model)(model.config).eval()  # not a deepcopy: accelerate has replaced the method forward
        copy.load_state_dict(model.state_dict())
        for name, weight in copy.named_parameters():
            if name.endswith("proj.weight"):
                weight.copy_(fake_quantized(weight, self.weights, name))
        self.past = [*self.past, copy][-1 - self.lag :]
        return self.past[0]


def long(task: Task, tokenizer: Any) -> Reward:
    """A point for each token: a bonus for work that is shown."""

    def length(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [float(len(ids)) for ids in completion_ids]

    return length


def never(task: Task, tokenizer: Any) -> Reward:
    """A verifier that compares with a text that ends in a full stop, which no answer has."""

    def exact(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(text == prompt[-2::-1] + ".") for prompt, text in zip(prompts, completions, strict=True)]

    return exact


def letters(task: Task, tokenizer: Any) -> Reward:
    """The share of the prompt's letters that stand anywhere in the answer: easier to check than their order."""

    def found(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [
            sum(x in text for x in prompt[:-1]) / len(prompt[:-1])
            for prompt, text in zip(prompts, completions, strict=True)
        ]

    return found


REWARDS: dict[str, Callable[..., Reward]] = dict(right=task_reward, long=long, never=never, letters=letters)
