"""Policy losses. Every one is a choice of five parts, and `policy_loss` is the one that puts them together."""

from rlnotes.objectives.batch import Batch
from rlnotes.objectives.loss import Choices, policy_loss
from rlnotes.objectives.penalties import KLPenalty, penalised_rewards
from rlnotes.objectives.recipes import (
    CISPO,
    DAPO,
    DECOUPLED_PPO,
    DR_GRPO,
    GRPO,
    GSPO,
    MINIRL,
    MINIRL_TIS,
    PG_IS,
    PPO_CLIP,
    RECIPES,
    RLOO,
    SAPO,
    VANILLA_PG,
)

__all__ = [
    "CISPO",
    "DAPO",
    "DECOUPLED_PPO",
    "DR_GRPO",
    "GRPO",
    "GSPO",
    "MINIRL",
    "MINIRL_TIS",
    "PG_IS",
    "PPO_CLIP",
    "RECIPES",
    "RLOO",
    "SAPO",
    "VANILLA_PG",
    "Batch",
    "Choices",
    "KLPenalty",
    "penalised_rewards",
    "policy_loss",
]
