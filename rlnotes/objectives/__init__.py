"""Policy losses. Every one is a choice of five parts, and `policy_loss` is the one that puts them together."""

from rlnotes.objectives.loss import Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.recipes import DR_GRPO, GRPO, PPO_CLIP, RECIPES

__all__ = ["DR_GRPO", "GRPO", "PPO_CLIP", "RECIPES", "Batch", "Choices", "KLPenalty", "policy_loss"]
