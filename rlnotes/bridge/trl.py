"""TRL's GRPO trainer with any recipe as its loss, so that accelerate, DeepSpeed or FSDP, and vLLM do the scaling.

    from datasets import load_dataset
    from trl import GRPOConfig
    from trl.rewards import accuracy_reward
    from rlnotes.bridge.trl import RecipeTrainer

    trainer = RecipeTrainer(
        recipe="dppo_tv",  # a name of rlnotes.objectives.RECIPES, or Choices(...) of your own
        model="Qwen/Qwen2.5-0.5B-Instruct",
        reward_funcs=accuracy_reward,
        args=GRPOConfig("runs/dppo", per_device_train_batch_size=8, gradient_accumulation_steps=8, use_vllm=True),
        train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
    )
    trainer.train()

Tested with TRL 1.16 and transformers' generate, on a CPU, in one process and in two. vLLM's log-probabilities come the
way those of a ``rollout_func`` do, which is tested; vLLM itself, DeepSpeed and FSDP are not.
"""

# pyright: reportMissingImports=false
# TRL is optional: where it is missing, its types are unknown and the rest is checked all the same.

import copy
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from rlnotes.bridge.extra import missing
from rlnotes.bridge.settings import check_arguments, check_choices, find_recipe
from rlnotes.estimators.divergences import tv_estimate
from rlnotes.objectives import Batch, Choices, penalised_rewards, policy_loss
from rlnotes.objectives.aggregations import Totals
from rlnotes.objectives.diagnostics import active

try:
    from packaging.version import Version
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer
except ModuleNotFoundError as error:
    raise missing(error) from error

INSTALLED, OLDEST = version("trl"), "1.16"
if Version(INSTALLED) < Version(OLDEST):
    raise ImportError(f"TRL {INSTALLED} is installed; the bridge needs {OLDEST}: pip install -U 'trl>={OLDEST}'")

Inputs = dict[str, Any]  # what TRL makes of a part of a generation: tensors by name


class RecipeTrainer(GRPOTrainer):
    """``GRPOTrainer`` whose loss, and whose advantages, are those of a recipe. All else is TRL's.

    ``recipe`` is a name of ``RECIPES`` or :class:`~rlnotes.objectives.Choices`; the other arguments are TRL's.

    | in a recipe | here |
    |---|---|
    | behavior, mu | what the sampler recorded (vLLM, ``rollout_func``). transformers' generate records nothing: |
    | | then mu is pi before the updates, which is the same on policy, up to rounding |
    | proximal, pi_k | pi before the updates on a generation |
    | reference | TRL's: the model as it stands in the folder it came from, or without its adapter (PEFT) |
    | advantage | of the weighted sum of all rewards; ``overlong``, and ``kl`` in the reward, act before it |
    | whole batch | an update: all its gradient-accumulation steps, on all processes |
    | T_max | ``max_completion_length`` |

    A token whose log-probability vLLM could not tell counts as if pi_k had sampled it, as in TRL. A response without
    own tokens, where an environment wrote all of them, is counted and has no loss; a recipe that needs the whole batch
    does not count it. A response to which every reward function says None has advantage 0, and the others of its group
    are compared without it, as in TRL; an advantage that looks beyond its group sees groups with as many rewards. A
    mixture of experts keeps TRL's auxiliary loss beside the recipe's.

    Logged beside TRL's metrics, in the place of its clip fractions, as means over all tokens since the last log:
    ``entropy`` of pi in nats; ``mismatch``, the mean abs(pi - mu) of the tokens' probabilities; ``tv``, the mean
    abs(pi / mu - 1) / 2, which estimates the mean TV(mu, pi) if mu covers pi, while ``mismatch`` may be far below it
    (000 section 7.1); and ``no_gradient``, the share of tokens with an advantage and no gradient.

    Raises ``ValueError`` for an unknown recipe, for a choice that TRL has no place for and for a setting in ``args``
    that goes against the recipe (:mod:`rlnotes.bridge.settings`).
    """

    _tag_names = ["trl", "rlnotes"]  # noqa: RUF012, a list as in TRL
    _paper: Any = {}  # noqa: RUF012, or model cards would cite that of GRPO

    # what TRL has, and where its own types would have to be narrowed again and again
    accelerator: Any
    args: Any
    max_completion_length: Any
    model: Any
    num_generations: Any
    num_generations_eval: Any
    _buffered_inputs: Any

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: GRPOConfig | None = None,
        *,
        recipe: str | Choices,
        **others: Any,
    ):
        self.choices = find_recipe(recipe)
        settings: Any = copy.copy(args) if args is not None else GRPOConfig()
        check_choices(self.choices, settings.world_size, settings.gradient_accumulation_steps)
        check_arguments(self.choices, settings, records=settings.use_vllm or others.get("rollout_func") is not None)
        if self.choices.kl is not None:
            _check_reference(model, others)
            settings.beta = self.choices.kl.beta  # all that TRL still does with it is to load the reference
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}  # of what is logged: its total, and of how many
        self._name = f"the recipe {recipe!r} of rlnotes" if isinstance(recipe, str) else "a loss made with rlnotes"
        super().__init__(model, reward_funcs, settings, **others)
        if self._is_vlm:
            raise ValueError("processing_class takes images, and the bridge is for text; pass a tokenizer")

    # advantages

    def _calculate_rewards(self, *args: Any, **named: Any) -> Tensor:
        """Rewards (N, functions) of all processes, as TRL's; kept, because TRL returns the advantages only."""
        self._rewards = super()._calculate_rewards(*args, **named)
        return self._rewards

    def _generate_and_score_completions(self, inputs: list[Inputs]) -> Inputs:
        """What TRL makes, with the recipe's advantages (n,) of this process's responses."""
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        made = super()._generate_and_score_completions(inputs)
        advantages = advantages_of(self.choices, self._shaped_rewards(made), group_size)
        self._replace_logged(advantages)
        rows = len(made["advantages"])
        first = self.accelerator.process_index * rows
        return made | dict(advantages=advantages[first : first + rows].to(made["advantages"].dtype))

    def _shaped_rewards(self, made: Inputs) -> Tensor:
        """Rewards (N,) of the responses of all processes, as the recipe shapes them; NaN where there is none."""
        rewards = (self._rewards * self.reward_weights.to(self._rewards.device)).nansum(-1)
        rewards[self._rewards.isnan().all(-1)] = torch.nan
        mask = own_tokens(made)
        if self.choices.overlong is not None:
            rewards = rewards + self.choices.overlong(self.accelerator.gather(mask.sum(-1)))
        kl = self.choices.kl
        if kl is not None and kl.where == "reward":
            none = torch.zeros(len(mask), device=mask.device)
            change = penalised_rewards(kl, none, self._before(made) - made["ref_per_token_logps"], mask)
            rewards = rewards + self.accelerator.gather(change)
        return rewards

    def _before(self, made: Inputs) -> Tensor:
        """log pi_k (n, T) of a whole generation."""
        if "old_per_token_logps" in made:
            return made["old_per_token_logps"]
        with torch.no_grad():
            return self._score(self.model, made, self.args.per_device_train_batch_size)[0]

    def _replace_logged(self, advantages: Tensor) -> None:
        """Put ours in the place of TRL's in the table of completions."""
        logged = self._logs["advantages"]
        for _ in range(min(len(logged), len(advantages))):
            logged.pop()
        logged.extend(advantages.tolist())

    # the loss

    def _compute_loss(self, model: Any, inputs: Inputs) -> Tensor:
        """The loss () of a part of an update: over the parts of a process the sum is meant, over processes the mean."""
        logp, entropy, balance = self._score(model, inputs)
        batch = self._batch(inputs, logp, entropy)
        loss = policy_loss(self.choices, batch)
        self._log(batch, loss)
        loss = loss * self.accelerator.num_processes  # accelerate takes the mean
        if balance is not None:
            loss = loss + self.router_aux_loss_coef * balance / self._parts
        return loss

    def _score(self, model: Any, inputs: Inputs, rows: int | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """log pi (n, T), entropies (n, T), the auxiliary loss () of a mixture of experts; ``rows`` at a time."""
        tokens, mask = (
            torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], 1) for name in ("ids", "mask")
        )
        return self._get_per_token_logps_and_entropies(
            model,
            tokens,
            mask,
            inputs["completion_ids"].shape[1],
            batch_size=rows,
            compute_entropy=True,
            compute_aux_loss=self.aux_loss_enabled,
        )

    def _batch(self, inputs: Inputs, logp: Tensor, entropy: Tensor) -> Batch:
        """What the recipe's loss is computed from: the responses with tokens of their own."""
        proximal = inputs.get("old_per_token_logps")
        proximal = logp.detach() if proximal is None else proximal  # TRL leaves it out before the only update
        behavior = inputs.get("sampling_per_token_logps")
        behavior = proximal if behavior is None else torch.where(behavior.isnan(), proximal, behavior)
        reference = inputs.get("ref_per_token_logps")
        mask = own_tokens(inputs)
        some = mask.any(-1)
        return Batch(
            logp=logp[some],
            mask=mask[some],
            advantages=inputs["advantages"][some],
            logp_behavior=behavior[some],
            logp_proximal=proximal[some],
            logp_reference=None if reference is None else reference[some],
            totals=None if self.choices.needs_whole_batch else self._totals(inputs),
            entropy=entropy[some],
            truncated=self._truncated(inputs)[some],
            max_length=self.max_completion_length,
        )

    def _truncated(self, inputs: Inputs) -> Tensor:
        """(n,) bool: True for a response whose last token does not end it."""
        last = inputs["completion_mask"].sum(-1, keepdim=True) - 1
        ends = torch.tensor(self.eos_token_ids, device=last.device)
        return ~torch.isin(inputs["completion_ids"].gather(1, last)[:, 0], ends)

    @property
    def _parts(self) -> int:
        """Parts of an update on this process."""
        return self.args.gradient_accumulation_steps if self.model.training else 1

    def _totals(self, inputs: Inputs) -> Totals:
        """Sizes of the update that ``inputs`` are a part of, on all processes."""
        update = [inputs]
        if self.model.training:
            first = self._step % self.args.steps_per_generation // self._parts * self._parts
            update = self._buffered_inputs[first : first + self._parts]
        masks = [own_tokens(part) for part in update]
        here = torch.stack([torch.tensor([len(mask), int(mask.sum())], device=mask.device) for mask in masks]).sum(0)
        responses, tokens = self.accelerator.reduce(here, "sum").tolist()
        return Totals(responses, tokens, self.max_completion_length)

    def _log(self, batch: Batch, loss: Tensor) -> None:
        """Add this part's tokens, on all processes, to the means that TRL logs next."""
        pi, mu, entropy = (batch.masked(name)[batch.mask] for name in ("logp_current", "logp_behavior", "entropy"))
        seen = dict(entropy=entropy.detach(), mismatch=(pi.exp() - mu.exp()).abs(), tv=tv_estimate(pi - mu))
        if loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, batch.logp, retain_graph=True)
            seen["no_gradient"] = (gradient[active(batch)] == 0).to(pi.dtype)
        sums = torch.stack([torch.stack([values.sum(), torch.ones_like(values).sum()]) for values in seen.values()])
        mode = "train" if self.model.training else "eval"
        metrics = self._metrics[mode]
        for name, (total, count) in zip(seen, self.accelerator.reduce(sums, "sum").tolist(), strict=True):
            before = self._sums[mode, name] if metrics[name] else (0.0, 0.0)  # TRL empties its metrics as it logs them
            self._sums[mode, name] = total, count = total + before[0], count + before[1]
            metrics[name] = [total / max(count, 1)]


def advantages_of(choices: Choices, rewards: Tensor, group_size: int) -> Tensor:
    """The recipe's advantages (N,) of ``rewards`` (N,), among those of a group that are not NaN; 0 for those that are.

    Also 0 for a response that is the only one of its group with a reward: it has nothing to be compared with.
    """
    groups = rewards.view(-1, group_size)
    scored = ~groups.isnan()
    counts = scored.sum(-1, keepdim=True)
    advantages = torch.zeros_like(groups)
    for count in range(2, group_size + 1):
        which = scored & (counts == count)
        if bool(which.any()):
            advantages[which] = choices.advantage(groups[which], count)
    return advantages.flatten()


def own_tokens(inputs: Inputs) -> Tensor:
    """(n, T) bool: the tokens that the model wrote itself; what a tool answered is not among them."""
    mask = inputs["completion_mask"].bool()
    return mask & inputs["tool_mask"].bool() if "tool_mask" in inputs else mask


def _check_reference(model: Any, others: Inputs) -> None:
    """Raise ``ValueError`` for a model that was made in memory: TRL could not load it again."""
    adapters = others.get("peft_config") is not None or hasattr(model, "peft_config")
    if not adapters and not isinstance(model, str) and not model.config.name_or_path:
        raise ValueError(
            "model was made in memory, and TRL loads the reference of a KL penalty from the folder that a model came "
            "from; save_pretrained(folder) it and pass the folder, or model.from_pretrained(folder)"
        )
