"""Stable-RL: DPPO and its relatives."""

import re

import torch

from tests.golden.make.batches import Adapter, Case, Made, Settings, loss_outputs
from tests.golden.make.source import locals_of

UTILS = "verl/workers/actor/utils.py"


def divergences(case: Case) -> dict[str, torch.Tensor]:
    function = case.repository.code(UTILS)["compute_topk_kl"]
    kl, tv = function(case["logits_pi"], case["topk_ids"], case["topk_logp_mu"])
    return {"kl": kl, "tv": tv}


def policy_loss(case: Case) -> Made:
    code, logp = case.code(), case.leaf()
    mode = re.search(r"loss_mode=(\w+)", case.entry["function"])
    assert mode
    topk = "topk" in mode[1]
    found = divergences(case) if topk else {"kl": torch.zeros_like(logp), "tv": None}
    function = code["compute_policy_loss_with_mask"]

    def call() -> tuple[torch.Tensor, dict[str, float]]:
        return function(
            old_log_prob=case["rollout_logp" if topk else "old_logp"],
            log_prob=logp,
            advantages=case.advantages,
            response_mask=case.mask,
            loss_agg_mode=case.settings.get("loss_agg_mode", "token-mean"),
            config=Settings({"clip_ratio": 0.2, "global_batch_info": {}} | case.settings),
            rollout_log_prob=case["rollout_logp"],
            topk_kl=found["kl"],
            topk_tv=found["tv"],
            entropy=torch.zeros_like(logp),
            loss_mode=mode[1],
        )

    (loss, metrics), seen = locals_of(function, call)
    return loss_outputs(loss, logp, seen["pg_losses"] * case.mask, trust_mask=seen["mask"], metrics=metrics)


ADAPTERS: dict[str, Adapter] = {"compute_policy_loss_with_mask": policy_loss, "compute_topk_kl": divergences}
