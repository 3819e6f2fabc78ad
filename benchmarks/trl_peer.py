"""The same task, the same objective and a model of the same size, trained by TRL's GRPOTrainer.

Nothing is fetched: the tokenizer is made here, one token per character, and the model is built from a config.
Call :func:`benchmarks.common.go_offline` before this module is imported.
"""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# TRL is optional: where it is missing, its types are unknown and the rest is checked all the same. The other two are
# about how TRL and transformers export and type what their own manuals use.

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.common import Clock, Json
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.lm.config import PRESETS
from rlnotes.lm.tasks import ExactMatchTask, Vocabulary
from rlnotes.objectives import GRPO, Batch, policy_loss

PAD = 1  # the blank: it occurs in no prompt and no answer of the task, so it is free to be the padding


def make_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """One token per character, with the ids of ``vocabulary``. Goes through a file, as a published one would."""
    ids = {character: i for i, character in enumerate(vocabulary.characters)}
    eos, pad = vocabulary.characters[vocabulary.eos], vocabulary.characters[PAD]
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=pad))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    with tempfile.TemporaryDirectory() as folder:
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos, pad_token=pad).save_pretrained(folder)
        return PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left")


def make_model(task: ExactMatchTask, seed: int, preset: str = "tiny") -> Qwen2ForCausalLM:
    """A Qwen2 with the width, depth, heads and vocabulary of a ``preset``, and about as many parameters."""
    torch.manual_seed(seed)
    sizes = PRESETS[preset]
    config = Qwen2Config(
        vocab_size=len(task.vocabulary),
        hidden_size=sizes["d_model"],
        intermediate_size=8 * sizes["d_model"] // 3,  # SwiGLU has three matrices: 3 * 170 is about 2 * 256
        num_hidden_layers=sizes["n_layers"],
        num_attention_heads=sizes["n_heads"],
        num_key_value_heads=sizes["n_heads"],
        max_position_embeddings=task.prompt_length + task.max_response_length,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=task.vocabulary.eos,
        pad_token_id=PAD,
        dtype="float32",
    )
    return Qwen2ForCausalLM(config)


def warm_start(model: Qwen2ForCausalLM, task: ExactMatchTask, target: float, seed: int) -> float:
    """Supervised training until a sampled response is right as often as ``target``. Returns that accuracy."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, (0.9, 0.98), weight_decay=0.0)
    for update in range(1, 1001):
        examples = task.sample(64, generator)
        tokens = torch.cat([examples.prompts, examples.answers], 1)
        logits = model(input_ids=tokens).logits[:, task.prompt_length - 1 : -1]
        F.cross_entropy(logits.flatten(0, 1), examples.answers.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if update % 10 == 0 and (accuracy := sampled_accuracy(model, task, generator)) >= target:
            return accuracy
    raise RuntimeError(f"the peer's warm start did not reach {target}: there is nothing to compare")


def sampled_accuracy(model: Qwen2ForCausalLM, task: ExactMatchTask, generator: torch.Generator) -> float:
    """Share of right answers among one sampled response to each of 256 prompts."""
    examples = task.sample(256, generator)
    tokens = model.generate(
        input_ids=examples.prompts,
        attention_mask=torch.ones_like(examples.prompts),
        max_new_tokens=task.max_response_length,
        do_sample=True,
        top_k=0,
        pad_token_id=PAD,
    )
    missing = task.prompt_length + task.max_response_length - tokens.shape[1]  # generation ends when every row has
    responses = F.pad(tokens, (0, missing), value=PAD)[:, task.prompt_length :]
    return (responses == examples.answers).all(-1).float().mean().item()


@dataclass
class ExactMatch:
    """The reward function, in TRL's form. It keeps what it saw, for the report."""

    __name__ = "exact_match"
    lengths: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def __call__(self, completion_ids: list[list[int]], answer: list[list[int]], **_: Any) -> list[float | None]:
        """1 where the tokens are the answer's, EOS included, else 0."""
        rewards = [float(given == right) for given, right in zip(completion_ids, answer, strict=True)]
        self.rewards += rewards
        self.lengths += [len(given) for given in completion_ids]
        return [*rewards]

    def summary(self, group_size: int) -> Json:
        """Means over everything seen."""
        groups = torch.tensor(self.rewards).view(-1, group_size)
        return dict(
            reward=groups.mean().item(),
            length=sum(self.lengths) / len(self.lengths),
            wasted_groups=(groups == groups[:, :1]).all(-1).float().mean().item(),
        )


class StepClock(TrainerCallback):
    """Times TRL's steps. Before each block of ``block`` steps ``others`` takes its turn, off this clock."""

    def __init__(self, block: int, others: Callable[[], None]):
        self.block, self.others, self.clock = block, others, Clock()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """The batch of prompts is at hand; next come generation, reward, loss, backward and update."""
        if len(self.clock.timings) % self.block == 0:
            self.others()
        self.clock.start()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The optimiser has stepped and the gradient is cleared."""
        self.clock.stop()


def settings(
    folder: str,
    sequences: int,
    group_size: int,
    steps: int,
    length: int,
    learning_rate: float,
    checkpointing: bool,
    bf16: bool = False,
    use_cpu: bool = True,
) -> GRPOConfig:
    """One update per rollout on all of it, no KL: what rlnotes does, in its precision, and no work beside it."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=sequences,
        gradient_accumulation_steps=1,
        num_generations=group_size,
        max_completion_length=length,
        learning_rate=learning_rate,
        lr_scheduler_type="constant",
        # the objective of rlnotes' recipe grpo
        loss_type="grpo",
        scale_rewards="group",
        importance_sampling_level="token",
        epsilon=0.2,
        beta=0.0,
        num_iterations=1,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        max_grad_norm=1.0,
        weight_decay=0.0,
        gradient_checkpointing=checkpointing,
        bf16=bf16,
        # what would cost TRL time and give nothing here: its defaults are on for most of these
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        shuffle_dataset=False,
        dataloader_pin_memory=False,
        use_cpu=use_cpu,
        use_vllm=False,
        seed=0,
    )


@dataclass(frozen=True)
class Peer:
    """A finished run of TRL: the clock of its steps, what its samples were like, and how its loss compares."""

    clock: Clock
    batch: Json
    parameters: int
    objective: Json


def run_trl(
    task: ExactMatchTask,
    prompts: Tensor,
    group_size: int,
    steps: int,
    learning_rate: float,
    target: float,
    checkpointing: bool,
    block: int,
    others: Callable[[], None],
) -> Peer:
    """Train for ``steps`` on ``prompts`` (steps * B, P) in order; before each ``block`` of steps call ``others``."""
    model = make_model(task, seed=2)
    warm_start(model, task, target, seed=0)
    clock, reward = StepClock(block, others), ExactMatch()
    rows = [
        dict(prompt=task.vocabulary.decode(prompt), answer=answer)
        for prompt, answer in zip(prompts, task.solve(prompts).tolist(), strict=True)
    ]
    sequences = len(prompts) // steps * group_size
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=[reward],
            args=settings(folder, sequences, group_size, steps, task.max_response_length, learning_rate, checkpointing),
            train_dataset=Dataset.from_list(rows),
            processing_class=make_tokenizer(task.vocabulary),
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    last = (trainer._buffered_inputs or [])[0]
    check_prompts(last["prompt_ids"], prompts[-len(prompts) // steps :])
    return Peer(
        clock=clock.clock,
        batch=reward.summary(group_size),
        parameters=sum(p.numel() for p in model.parameters()),
        objective=compare_objectives(trainer, model, last, reward.rewards[-sequences:], group_size),
    )


def check_prompts(tokens: Tensor, expected: Tensor) -> None:
    """Raise ``RuntimeError`` unless TRL's last batch (N, P) has exactly the ``expected`` prompts (B, P), unpadded."""
    if sorted(set(map(tuple, tokens.tolist()))) != sorted(set(map(tuple, expected.tolist()))):
        raise RuntimeError("TRL's prompts are not those of rlnotes: the comparison would be of two workloads")


def compare_objectives(
    trainer: GRPOTrainer, model: Qwen2ForCausalLM, batch: dict[str, Tensor], rewards: list[float], group_size: int
) -> Json:
    """TRL's advantages and gradient beside rlnotes', on TRL's last batch and TRL's model: largest differences.

    The advantages are compared with TRL's convention for the standard deviation (``ddof=1``, ``eps`` outside). The
    gradient's difference is relative to its largest entry.
    """
    advantages = group_mean_std(torch.tensor(rewards), group_size, ddof=1, eps=1e-4, eps_inside=False)
    # TRL shuffles the batch after scoring it, so only the sorted values can be compared
    off = (advantages.sort().values - batch["advantages"].sort().values).abs().max()
    theirs = gradient(model, trainer._compute_loss(model, batch))
    ours = gradient(model, our_loss(model, batch))
    return dict(
        largest_advantage_difference=off.item(),
        largest_gradient_difference=((theirs - ours).abs().max() / theirs.abs().max()).item(),
    )


def our_loss(model: Qwen2ForCausalLM, batch: dict[str, Tensor]) -> Tensor:
    """rlnotes' GRPO loss of ``model`` on a batch that TRL made."""
    tokens = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    length = batch["completion_ids"].shape[1]
    logits = model(input_ids=tokens, attention_mask=mask).logits[:, -length - 1 : -1]
    logp = logits.log_softmax(-1).gather(-1, batch["completion_ids"][..., None])[..., 0]
    made = Batch(logp, batch["completion_mask"].bool(), batch["advantages"], logp_behavior=logp.detach())
    return policy_loss(GRPO, made)


def gradient(model: Qwen2ForCausalLM, loss: Tensor) -> Tensor:
    """The gradient of ``loss``, all parameters in one vector."""
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
