"""OpenRLHF: the policy loss, KL, advantages, penalties and filter."""

import torch

from tests.golden.make.batches import Adapter, Case, Made, Settings, gradient, loss_outputs
from tests.golden.make.source import locals_of


def policy_loss(case: Case) -> Made:
    code, logp = case.code(), case.leaf()
    loss = code["PolicyLoss"](**case.settings)
    (value, clip_ratio, ppo_kl, vllm_kl), seen = locals_of(
        code["aggregate_loss"],
        lambda: loss(logp, case["old_logp"], case.advantages, case.mask, case["rollout_logp"]),
    )
    metrics = {"clip_ratio": clip_ratio, "ppo_kl": ppo_kl, "vllm_kl": vllm_kl}
    return loss_outputs(value, logp, seen["loss"] * case.mask, metrics=metrics)


def kl(case: Case) -> Made:
    logp = case.leaf()
    found = case.code()["compute_approx_kl"](logp, case["ref_logp"], **case.settings)
    return {"kl": found, "grad": gradient(found.sum(), logp)}


def advantage(case: Case) -> Made:
    start = "if args.algo.advantage.estimator == 'rloo'"
    block = case.code().block("compute_advantages_and_returns", start, start, "args, rewards")
    rollout = Settings(n_samples_per_prompt=case.group_size)
    args = Settings(algo=Settings(advantage=Settings(case.settings)), rollout=rollout)
    return {"advantage": block(args, case["rewards"].reshape(-1, case.group_size))["rewards"].reshape(-1)}


def overlong(case: Case) -> Made:
    responses = Settings(response_length=case["lengths"], rewards=torch.zeros(len(case["lengths"])).double())
    case.code()["apply_overlong_penalty"]([responses], **case.settings)
    return {"penalty": responses.rewards}


def dynamic_filter(case: Case) -> Made:
    code = case.code()
    code["logger"] = Settings(info=lambda *_: None)
    block = code.block("_generate_vllm", "scores =", "if not", "self, experiences")
    sampler = Settings(args=Settings(algo=Settings(case.settings)))
    return {
        "keep": [
            bool(block(sampler, [Settings(scores=[r]) for r in row])["experiences"]) for row in case["group_rewards"]
        ]
    }


ADAPTERS: dict[str, Adapter] = {
    "PolicyLoss.forward": policy_loss,
    "compute_approx_kl": kl,
    "compute_advantages_and_returns": advantage,
    "apply_overlong_penalty": overlong,
    "samples_generator": dynamic_filter,
}
