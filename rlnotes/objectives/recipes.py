"""Named objectives, each one composition of the five choices. Siblings differ in the lines where they differ.

``policy_loss(GRPO, batch)`` is the loss. The sources maximise J; the loss is -J, to be minimised. In the equations
r is the ratio of a token, A its advantage, T_i the length of response i.
"""

from rlnotes.estimators.baselines import group_mean, group_mean_std
from rlnotes.objectives.aggregations import constant, response_mean, token_mean
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.ratios import token

# J = 1/N_tok sum_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A)                    002 eqs. (78), (79)
PPO_CLIP = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=token_mean,
)

# J = 1/G sum_i 1/T_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = (R - mean) / std     002 eqs. (90) to (97)
GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=response_mean,
)

# J = 1/G sum_i 1/T_max sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = R - mean           002 eqs. (98) to (100)
DR_GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=constant,
)

RECIPES: dict[str, Choices] = {"ppo_clip": PPO_CLIP, "grpo": GRPO, "dr_grpo": DR_GRPO}
