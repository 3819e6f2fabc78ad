"""slime: the policy loss and its corrections, KL, advantages, filter."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.golden.make.batches import Adapter, Case, Made, Settings, gradient, loss_outputs

DEFAULTS = {
    "advantage_estimator": "grpo",
    "eps_clip": 0.2,
    "eps_clip_high": 0.2,
    "eps_clip_c": None,
    "use_rollout_logprobs": False,
    "use_opsm": False,
    "use_tis": False,
    "tis_clip": 2.0,
    "tis_clip_low": 0.0,
    "get_mismatch_metrics": False,
    "use_kl_loss": False,
    "use_unbiased_kl": False,
    "entropy_coef": 0.0,
}
ONE_RANK = Settings(get_context_parallel_world_size=lambda: 1, get_context_parallel_group=lambda: None)


def policy_loss(case: Case) -> Made:
    code, logp, mask = case.code(), case.leaf(), case.mask
    custom = case.settings["custom_tis"]
    args = Settings(DEFAULTS | case.settings | {"custom_tis_function_path": custom})
    if custom:
        args["use_tis"] = True
    parallel = case.repository.code("slime/backends/megatron_utils/cp_utils.py")
    parallel["mpu"] = ONE_RANK
    rows, length = logp.shape
    reduced: list[Tensor] = []

    def reducer(*arguments: Any, **keywords: Any) -> Callable[[Tensor], Tensor]:
        reduce = parallel["get_sum_of_sample_mean"](*arguments, **keywords)

        def recorded(values: Tensor) -> Tensor:
            reduced.append(values)
            return reduce(values)

        return recorded

    code["get_sum_of_sample_mean"] = reducer
    code["load_function"] = code.__getitem__
    code["get_rollout_top_p_logprob_kwargs"] = lambda *_: {}
    code["get_log_probs_and_entropy"] = lambda *_, **__: (
        None,
        {"log_probs": list(logp), "entropy": list(torch.zeros_like(logp))},
    )
    lengths = [length] * rows
    batch = {
        "advantages": list(case.advantages),
        "log_probs": list(case["old_logp"]),
        "rollout_log_probs": list(case["rollout_logp"]),
        "ref_log_probs": list(case["ref_logp"]),
        "response_lengths": lengths,
        "total_lengths": lengths,
        "unconcat_tokens": None,
        "loss_masks": list(mask),
        "rollout_mask_sums": list(mask.sum(-1)),
    }
    sums = reducer(lengths, lengths, list(mask), None, args.calculate_per_token_loss)
    loss, metrics = code["policy_loss_function"](args, batch, logp, sums)
    # the first thing that is reduced is the loss per token
    return loss_outputs(loss, logp, reduced[0].reshape(rows, length) * mask, metrics=metrics)


def kl(case: Case) -> Made:
    logp, kind = case.leaf(), case.settings["kl_loss_type"]
    ratio = torch.exp(logp - case["old_logp"]) if case.settings["use_unbiased_kl"] else None
    found = case.code()["compute_approx_kl"](logp, case["ref_logp"], kind, ratio)
    return {"kl": found, "grad": gradient(found.sum(), logp)}


def mismatch(case: Case) -> Made:
    weights, kept, _ = case.code()["compute_mis_weights"](
        Settings(case.settings),
        train_log_probs=list(case["old_logp"]),
        rollout_log_probs=list(case["rollout_logp"]),
        loss_masks=list(case.mask),
    )
    return {"weights": torch.stack(weights), "kept_mask": torch.stack(kept)}


def samples(rewards: Tensor) -> list[Settings]:
    return [Settings(get_reward_value=lambda _, value=float(reward): value) for reward in rewards]


def advantage(case: Case) -> Made:
    rewards, size = case["rewards"], case.group_size
    args = {"advantage_estimator": "grpo", "rewards_normalization": True, "n_samples_per_prompt": size}
    args |= {"rollout_batch_size": len(rewards) // size} | case.settings
    method = case.code().method("RolloutManager", "_post_process_rewards")
    _, found = method(Settings(args=Settings(args), custom_reward_post_process_func=None), samples(rewards))
    return {"advantage": torch.tensor(found)}


def dynamic_filter(case: Case) -> Made:
    function = case.code()["check_reward_nonzero_std"]
    return {"keep": [bool(function(None, samples(row)).keep) for row in case["group_rewards"]]}


ADAPTERS: dict[str, Adapter] = {
    "policy_loss_function": policy_loss,
    "compute_approx_kl": kl,
    "compute_mis_weights": mismatch,
    "_post_process_rewards": advantage,
    "check_reward_nonzero_std": dynamic_filter,
}
