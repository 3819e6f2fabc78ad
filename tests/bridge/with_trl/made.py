"""Small models, batches that TRL might have made of them, and trainers: what the tests of the bridge share."""

# pyright: reportMissingImports=false, reportArgumentType=false

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MixtralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)
from trl.trainer.grpo_config import GRPOConfig

from rlnotes.bridge.tasks import make_tokenizer, prompt_dataset, task_reward
from rlnotes.bridge.trl import RecipeTrainer
from rlnotes.lm.tasks import Reverse
from rlnotes.objectives import Choices

TASK = Reverse(4)
TOKENIZER = make_tokenizer(TASK.vocabulary)
WIDTH = TASK.prompt_length + TASK.max_response_length

# what TRL and transformers warn of in their own code, and what a loader of data warns of without an accelerator
WARNINGS = (
    "ignore:`gradient_checkpointing` is deprecated:FutureWarning",
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning",
)


def config(kind: str, width: int = 32, layers: int = 2, vocabulary: int = len(TASK.vocabulary)) -> PreTrainedConfig:
    """Of a Qwen2, a Llama, a GPT-2, or a Mixtral with an auxiliary loss."""
    shape: dict[str, Any] = dict(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4 * WIDTH,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        dtype="float32",
    )
    if kind == "qwen":
        return Qwen2Config(**shape)
    if kind == "llama":
        return LlamaConfig(**shape)
    if kind == "gpt2":
        sizes = dict(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=2)
        return GPT2Config(**sizes, tie_word_embeddings=False, bos_token_id=None, eos_token_id=0, pad_token_id=0)
    return MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.1)


def model(kind: str = "qwen", sharp: float = 5.0, **shape: int) -> PreTrainedModel:
    """Untrained, and yet with distributions far from uniform. The same each time."""
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config(kind, **shape))
    with torch.no_grad():
        made.get_output_embeddings().weight.mul_(sharp)
    return made


def settings(folder: Path, **changed: Any) -> GRPOConfig:
    """One update of 16 responses of up to 20 tokens in groups of 4, by SGD, in float32 on the CPU."""
    chosen: dict[str, Any] = dict(
        max_steps=1,
        per_device_train_batch_size=16,
        num_generations=4,
        max_completion_length=20,  # enough for the end to come early at times
        learning_rate=0.01,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=1e9,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    return GRPOConfig(str(folder), **chosen | changed)


def some_letters(completions: list[str], **_: Any) -> list[float]:
    """A reward that hardly two completions share: the trained-on groups all teach."""
    return [len(set(text)) + sum(map(ord, text)) % 97 / 97 for text in completions]


def arguments(reward: Any = some_letters) -> dict[str, Any]:
    """What every trainer is given besides a model and settings."""
    data = prompt_dataset(TASK, 64, torch.Generator().manual_seed(1))
    reward = task_reward(TASK, TOKENIZER) if reward == "task" else reward
    return dict(reward_funcs=reward, train_dataset=data, processing_class=TOKENIZER)


def trainer(folder: Path, recipe: str | Choices, more: Any = None, **changed: Any) -> RecipeTrainer:
    """A trainer with ``changed`` settings and ``more`` arguments, of a fresh model unless one is among them."""
    given = dict(model=model()) | arguments() | (more or {})
    return RecipeTrainer(args=settings(folder, **changed), recipe=recipe, **given)


def train(trainer: Any) -> None:
    """From the same state of the global generator each time: TRL seeds it when a trainer is made."""
    torch.manual_seed(0)
    trainer.train()


def weights(trained: Any) -> Tensor:
    """All of a trainer's weights in one vector."""
    return torch.cat([weight.detach().flatten() for weight in trained.model.parameters()])


def gradient(trained: Any, loss: Tensor) -> Tensor:
    """The gradient of ``loss`` by all weights, in one vector."""
    found = torch.autograd.grad(loss, list(trained.model.parameters()), allow_unused=True)
    return torch.cat([part.flatten() for part in found if part is not None])


def logp(trained: Any, inputs: dict[str, Tensor], temperature: float = 1.0) -> Tensor:
    """log pi (n, T) from the model's own logits, and not by way of TRL."""
    tokens = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    logits = trained.model(input_ids=tokens, attention_mask=mask).logits / temperature
    every = logits[:, inputs["prompt_ids"].shape[1] - 1 : -1].log_softmax(-1)
    return every.gather(-1, inputs["completion_ids"][..., None])[..., 0]


def part(trained: Any, n: int = 8, length: int = TASK.max_response_length, distance: float = 0.3) -> dict[str, Tensor]:
    """A part of a generation, as TRL makes it: responses of 1 to ``length`` tokens, and old policies nearby."""
    generator = torch.Generator().manual_seed(0)
    prompts = TASK.sample(n, generator).prompts
    lengths = torch.arange(n) % length + 1
    mask = (torch.arange(length) < lengths[:, None]).long()
    tokens = torch.randint(1, len(TASK.vocabulary), (n, length), generator=generator) * mask
    ended = torch.arange(n) % 3 > 0  # the others are cut off
    tokens[torch.arange(n)[ended], lengths[ended] - 1] = 0
    inputs = dict(
        prompt_ids=prompts,
        prompt_mask=torch.ones_like(prompts),
        completion_ids=tokens,
        completion_mask=mask,
        advantages=torch.randn(n, generator=generator),
        num_items_in_batch=mask.sum(),
    )
    with torch.no_grad():
        current = logp(trained, inputs, trained.temperature)
    for name in ("old_per_token_logps", "sampling_per_token_logps", "ref_per_token_logps"):
        inputs[name] = current + distance * torch.randn(current.shape, generator=generator) * mask
    return inputs
