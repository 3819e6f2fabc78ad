"""TRL: GRPOTrainer's losses, advantages and penalty, and the DPPO trainer that TRL removed later."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from tests.golden.make.batches import Adapter, Case, Made, Settings, gradient, loss_outputs
from tests.golden.make.source import locals_of

DEFAULTS = {
    "loss_type": "dapo",
    "epsilon_low": 0.2,
    "epsilon_high": 0.2,
    "delta": None,
    "beta": 0.0,
    "max_completion_length": 64,
    "importance_sampling_level": "token",
    "off_policy_mask_threshold": None,
    "use_bias_correction_kl": False,
    "use_vllm": False,
    "vllm_importance_sampling_correction": False,
    "vllm_importance_sampling_clip_min": None,
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
    "top_entropy_quantile": 1.0,
    "aux_loss_enabled": False,
    "_entropy_bonus_enabled": False,
}


def trainer(fields: dict[str, Any], logp: Tensor) -> Settings:
    """What ``_compute_loss`` asks of ``self``: settings, one process, and a model whose log probabilities are ours."""
    same = Settings(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    metrics = {"train": defaultdict(list)}
    given = (logp, torch.zeros_like(logp), None)
    return Settings(
        fields,
        args=Settings(fields),
        accelerator=same,
        model=Settings(training=True),
        _metrics=metrics,
        current_gradient_accumulation_steps=fields.get("gradient_accumulation_steps", 1),
        _get_per_token_logps_and_entropies=lambda *_, **__: given,
    )


def inputs_of(case: Case) -> dict[str, Tensor]:
    mask = case["mask"]
    nothing = torch.zeros(len(mask), 0, dtype=torch.long)
    return {
        "prompt_ids": nothing,
        "prompt_mask": nothing,
        "completion_ids": torch.zeros_like(mask),
        "completion_mask": case.mask,
        "advantages": case["adv"],
        "num_items_in_batch": case.mask.sum(),
        "sampling_per_token_logps": case["rollout_logp"],
    }


def first_metrics(self: Settings) -> dict[str, float]:
    return {name: values[0] for name, values in self["_metrics"]["train"].items()}


def importance(case: Case, mode: str) -> Tensor:
    """The weights for the mismatch of sampler and trainer, from the block of the trainer that computes them."""
    code = case.code()
    start = "mask = completion_mask if tool_mask is None"
    given = "self, completion_mask, tool_mask, old_per_token_logps, sampling_per_token_logps"
    block = code.block("_generate_and_score_completions", start, "if self.vllm_importance_sampling_mode in", given)
    self = Settings(DEFAULTS, vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_max=2.0)
    return block(self, case.mask, None, case["old_logp"], case["rollout_logp"])["vllm_importance_sampling_ratio"]


def loss_of(case: Case, logp: Tensor, rows: slice = slice(None)) -> tuple[Tensor, dict[str, Any], Settings]:
    code, fields = case.code(), DEFAULTS | case.settings
    batch = inputs_of(case) | {"old_per_token_logps": case["old_logp"], "ref_per_token_logps": case["ref_logp"]}
    if fields["use_vllm"]:
        batch["importance_sampling_ratio"] = importance(case, case.variant.partition("_is_")[2])
    batch = {name: value[rows] if value.ndim else value for name, value in batch.items()}
    self = trainer(fields, logp[rows])
    for name in ("get_off_policy_mask", "get_gamma_weights"):
        self[name] = code.method("GRPOTrainer", name)
    compute = code.method("GRPOTrainer", "_compute_loss")
    loss, seen = locals_of(compute, lambda: compute(self, None, batch))
    return loss, seen | {"batch": batch}, self


def policy_loss(case: Case) -> Made:
    logp = case.leaf()
    loss, seen, self = loss_of(case, logp)
    per_token = seen["per_token_loss"]
    made = loss_outputs(loss, logp, per_token * case.mask if per_token.shape == logp.shape else per_token)
    weights = seen["batch"].get("importance_sampling_ratio")
    return made | {"metrics": first_metrics(self)} | ({} if weights is None else {"is_weights": weights})


def accumulated(case: Case) -> Made:
    """The losses of micro-batches, summed as their gradients are."""
    logp, total, start = case.leaf(), torch.zeros(()).double(), 0
    for size in case.settings["split"]:
        total = total + loss_of(case, logp, slice(start, start + size))[0]
        start += size
    return {"loss": total, "grad_logp": gradient(total, logp)}


def advantage(case: Case) -> Made:
    block = case.code().block(
        "_generate_and_score_completions",
        "if self.multi_objective_aggregation ==",
        "advantages = torch.nan_to_num",
        "self, device, rewards_per_func, num_generations, unscorable_mask",
    )
    self = Settings(case.settings, multi_objective_aggregation="sum_then_normalize", reward_weights=torch.ones(1))
    rewards = case["rewards"].unsqueeze(-1)
    return {"advantage": block(self, "cpu", rewards, case.group_size, torch.isnan(rewards).all(dim=1))["advantages"]}


def overlong(case: Case) -> Made:
    punish = case.code()["get_soft_overlong_punishment"](**case.settings)
    return {"penalty": punish([[0] * int(length) for length in case["lengths"]])}


def dppo_loss(case: Case) -> Made:
    code, logp = case.code(), case.leaf()
    self, batch = trainer(DEFAULTS | case.settings, logp), inputs_of(case)
    if case.settings["divergence_type"].startswith("topk"):
        batch |= {"sampling_topk_token_ids": case["topk_ids"], "sampling_topk_logps": case["topk_logp_mu"]}
        given = (logp, torch.zeros_like(logp), case["topk_logp_pi"])
        self["_get_per_token_logps_with_topk"] = lambda *_, **__: given
    mask = code.method("DPPOTrainer", "_compute_divergence_mask")
    self["_compute_divergence_mask"] = lambda *arguments, **keywords: mask(self, *arguments, **keywords)
    compute = code.method("DPPOTrainer", "_compute_loss")
    loss, seen = locals_of(compute, lambda: compute(self, None, batch))
    return loss_outputs(loss, logp, seen["per_token_loss"] * case.mask, metrics=first_metrics(self))


ADAPTERS: dict[str, Adapter] = {
    "GRPOTrainer._compute_loss, two micro-batches": accumulated,
    "GRPOTrainer._compute_loss": policy_loss,
    "GRPOTrainer._generate_and_score_completions": advantage,
    "get_soft_overlong_punishment": overlong,
    "DPPOTrainer._compute_loss": dppo_loss,
}
