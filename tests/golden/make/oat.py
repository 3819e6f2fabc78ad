"""oat: the policy loss. understand-r1-zero: the advantages that it gives to oat."""

import functools
from collections import defaultdict

import torch

from tests.golden.make.batches import Adapter, Case, Made, Settings, loss_outputs

GIVEN = (
    "self, args, new_logps, mb_logps, mb_actor_logps, ref_logps, mb_advantage, mb_response_masks, mb_loss_masks, "
    "mini_batch_inds, mb_last_valid_token_pos, kl_v1_sum, kl_v2_sum, act_num_token, stats, infos"
)


def policy_loss(case: Case) -> Made:
    logp, operations = case.leaf(), case.repository.code("oat/utils/ops.py")
    args = Settings({"reinforce_update": False} | case.settings)
    aggregator = operations["masked_mean"]
    if args.critic_type == "drgrpo":
        aggregator = functools.partial(operations["masked_sum"], constant_normalizer=args.generate_max_length)
    rows, length = logp.shape
    block = case.code().block("learning_step", "if args.reinforce_update", "if args.beta > 0", GIVEN)
    found = block(
        Settings(args=args, masked_aggregator=aggregator),
        args,
        logp,
        case["old_logp"],
        case["rollout_logp"],
        case["ref_logp"],
        case.advantages,
        case.mask,
        torch.ones(rows),
        torch.arange(rows),
        length + 1,
        0,
        0,
        0,
        defaultdict(list),
        {},
    )
    return loss_outputs(found["loss"], logp, found["pg_loss_max"] * case.mask)


def advantage(case: Case) -> Made:
    rewards = torch.zeros_like(case["logp"])
    rewards[:, 0] = case["rewards"]
    method = case.code().method("ZeroMathLearner", "compute_monte_carlo_advantages")
    return {"advantage": method(Settings(args=Settings(case.settings, num_samples=case.group_size)), rewards, None)}


ADAPTERS: dict[str, Adapter] = {"PPOLearner.learning_step": policy_loss, "ZeroMathLearner": advantage}
