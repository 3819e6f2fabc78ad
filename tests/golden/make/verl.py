"""verl: policy losses, rollout correction, advantages, KL."""

import re

import numpy as np
import torch

from tests.golden import batch_of, manifest
from tests.golden.make.batches import Adapter, Case, Made, Settings, gradient, loss_outputs
from tests.golden.make.source import locals_of

HELPER = "verl/trainer/ppo/rollout_corr_helper.py"


class Tensors(Settings):
    """What stands for verl's DataProto."""

    @classmethod
    def from_dict(cls, tensors: dict[str, torch.Tensor]) -> "Tensors":
        return cls(batch=tensors)


def config(case: Case) -> Settings:
    fields = {"clip_ratio": 0.2, "global_batch_info": {}, "policy_loss": Settings()} | case.settings
    if "rollout_correction" in fields:
        fields["policy_loss"] = Settings(rollout_correction=fields["rollout_correction"])
    return Settings(fields)


def policy_loss(case: Case) -> Made:
    code, logp = case.code(), case.leaf()
    code["ActorConfig"] = Settings
    code["AlgoConfig"] = Tensors
    function = code[case.entry["function"].split()[0]]
    bypass = "bypass" in function.__name__
    if bypass:
        case.repository.code(HELPER)["DataProto"] = Tensors
    weights = decoupled_weights(case)
    old, mode = case["rollout_logp" if bypass else "old_logp"], case.settings["loss_agg_mode"]
    (loss, metrics), seen = locals_of(
        code["agg_loss"],
        lambda: function(old, logp, case.advantages, case.mask, mode, config(case), rollout_is_weights=weights),
    )
    made = loss_outputs(loss, logp) | {"metrics": metrics}
    if seen:
        made["per_token"] = seen["loss_mat"] * case.mask
    if bypass:
        made["effective_mask"] = seen["loss_mask"]
    return made if weights is None else made | {"is_weights": weights}


def log_ratio(case: Case) -> torch.Tensor:
    found = re.match(r"(\w+) - (\w+)", case.entry["argument_mapping"]["log_ratio"])
    assert found
    return case[found[1]] - case[found[2]]


def correction(case: Case) -> Made:
    function = case.repository.code(HELPER)["compute_rollout_correction_weights"]
    weights, metrics = function(log_ratio(case), case.mask, **case.settings)
    return {"weights": weights, "ess": metrics["rollout_is_eff_sample_size"]}


def decoupled_weights(case: Case) -> torch.Tensor | None:
    """The weights of a ``decoupled_ppo`` case: those of the ``weights`` case of the same name."""
    if not case.variant.startswith("decoupled_ppo_"):
        return None
    name = case.variant.replace("decoupled_ppo", "weights")
    return correction(Case(case.repository, manifest()[f"verl/{name}@{batch_of(case.entry['id'])}"]))["weights"]


def rejection(case: Case) -> Made:
    function = case.code()["compute_rollout_rejection_mask"]
    return {"kept_mask": function(log_ratio(case), case.mask, **case.settings)[0]}


def offpolicy_metrics(case: Case) -> Made:
    function = case.code()["compute_offpolicy_metrics"]
    return {"metrics": function(case["old_logp"], case["rollout_logp"], case.mask)}


def advantage(case: Case) -> Made:
    rewards = torch.zeros_like(case["logp"])
    rewards[:, 0] = case["rewards"]
    function = case.code()[case.entry["function"]]
    found, _ = function(rewards, torch.ones_like(rewards), case["group"].numpy(), **case.settings)
    return {"advantage": found[:, 0]}


def kl(case: Case) -> Made:
    logp = case.leaf()
    found = case.code()["kl_penalty"](logp, case["ref_logp"], **case.settings)
    return {"kl": found, "grad": gradient(found.sum(), logp)}


def overlong(case: Case) -> Made:
    settings = case.settings
    block = case.code().block("run_single", "overlong_buffer_len =", "overlong_reward =", "self, valid_response_length")
    buffer = Settings(len=settings["overlong_buffer_len"], penalty_factor=settings["penalty_factor"])
    manager = Settings(overlong_buffer_cfg=buffer, max_resp_len=settings["max_resp_len"])
    return {"penalty": [float(block(manager, length)["overlong_reward"]) for length in case["lengths"]]}


def recipe_filter(case: Case) -> Made:
    """The lines of verl-recipe's trainer that keep a prompt, on one batch with every group."""
    block = case.code().block(
        "fit", "prompt_uid2metric_vals = defaultdict", "kept_prompt_uids =", "new_batch, metric_name"
    )
    rewards = case["group_rewards"].numpy()
    uids = np.repeat(np.arange(len(rewards)), rewards.shape[1])
    batch = Settings(non_tensor_batch={"uid": uids, "seq_reward": rewards.ravel()})
    kept = block(batch, "seq_reward")["kept_prompt_uids"]
    return {"keep": [group in kept for group in range(len(rewards))]}


ADAPTERS: dict[str, Adapter] = {
    "compute_policy_loss": policy_loss,
    "compute_rollout_correction_weights": correction,
    "compute_rollout_rejection_mask": rejection,
    "compute_offpolicy_metrics": offpolicy_metrics,
    "compute_grpo": advantage,
    "compute_rloo": advantage,
    "kl_penalty": kl,
    "DAPORewardManager": overlong,
    "RayDAPOTrainer.fit": recipe_filter,
}
