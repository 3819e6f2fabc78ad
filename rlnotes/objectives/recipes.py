"""Named objectives, each one composition of the five choices. Siblings differ in the lines where they differ.

``policy_loss(GRPO, batch)`` is the loss. The sources maximise J; the loss is -J, to be minimised. In the equations
r is the ratio of a token, A its advantage, T_i the length of response i, N the number of responses, N_tok that of
tokens, sg(...) what has no gradient. What libraries do differently stands in
:mod:`rlnotes.objectives.recipes_in_libraries`.

How hard is a token pushed down that has become e^30 times as likely as at the anchor, while A < 0? Its weight before
A grad log pi, in a response of this one token (nothing is NaN or infinite, also far beyond e^30: see
:mod:`rlnotes.objectives.ratios`):

| recipes | weight |
|---|---|
| VANILLA_PG, RLOO | 1, as always |
| PPO_CLIP, GRPO, DR_GRPO, DAPO, GSPO, PG_IS, MINIRL | e^30: nothing bounds it; ``Clip(dual=3.0)`` would make it 0 |
| SAPO_ONE_SIDED, STALE_PPO, METHOD_1, SEQUENCE_IS | e^30 |
| DECOUPLED_PPO | e^30 times min(pi_k / mu, 2): what is far off from mu is bounded, what is far off from pi_k is not |
| METHOD_2 | e^30 times pi_k / mu: nothing is bounded |
| SAPO | 0 up to rounding: the soft gate closes on both sides |
| CISPO, MINIRL_TIS | 3, the cap |
| TOKEN_TIS, SEQ_TIS | 2, the cap |
| TOKEN_MIS, SEQ_MIS, GEO_MIS | 0: it is dropped |

From PG_IS on they stand in :mod:`rlnotes.objectives.recipes_off_policy`, for data of another policy. Trust regions, TRM
and DPPO, have a table of their own: :mod:`rlnotes.objectives.recipes_trust_region`.

Most examples push the same tokens, so that two recipes can be compared: a response with A = 1 and ratios 1.25, 0.8, 1,
and one with A = -1 and ratios 8, 0.5. So N = 2, T_i is 3 and 2, N_tok = 5, and T_max = 3. What is shown is
:meth:`Choices.pushes`.
"""

from rlnotes.estimators.baselines import group_mean, group_mean_std, leave_one_out, no_baseline
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip, Soft, SoftOneSided, no_gate
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.ratios import sequence_mean, token
from rlnotes.objectives.recipes_off_policy import OFF_POLICY_RECIPES
from rlnotes.objectives.recipes_trust_region import TRUST_REGION_RECIPES

VANILLA_PG = Choices(
    ratio=token,
    anchor="current",
    gate=no_gate,
    advantage=no_baseline,
    aggregation=response_sum,
)
"""grad J = 1/N sum_i R_i sum_t grad log pi: 002 eq. (39).

The reward itself stands before every token, whatever its ratio: here 1 and 0, over N = 2.

>>> VANILLA_PG.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, 0])
[[0.5, 0.5, 0.5], [0.0, 0.0]]
"""

RLOO = Choices(
    ratio=token,
    anchor="current",
    gate=no_gate,
    advantage=leave_one_out,
    aggregation=response_sum,
)
"""grad J = 1/N sum_i A_i sum_t grad log pi, A = R - mean of the group's other rewards: 002 eqs. (41), (42).

>>> import numpy as np
>>> RLOO.advantage(np.array([1.0, 0.0]), 2)
array([ 1., -1.])
>>> RLOO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.5, 0.5, 0.5], [-0.5, -0.5]]
"""

PPO_CLIP = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=token_mean,
)
"""J = 1/N_tok sum_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A): 002 eqs. (78), (79).

Each push is r A / 5: there are five tokens. 1.25 is clipped for A > 0, and 0.5 for A < 0; 8 with A < 0 is not.

>>> PPO_CLIP.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.0, 0.16, 0.2], [-1.6, 0.0]]
"""

GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=response_mean,
)
"""J = 1/N sum_i 1/T_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = (R - mean) / std: 002 eqs. (90) to (97).

Over N T_i, 6 for the first response and 4 for the second: a token of a short response counts for more.

>>> GRPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.0, 0.133, 0.167], [-2.0, 0.0]]
"""

DR_GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=constant,
)
"""J = 1/N sum_i 1/T_max sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = R - mean: 002 eqs. (98) to (100).

Over N T_max = 6 everywhere: the length of a response does not count.

>>> DR_GRPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.0, 0.133, 0.167], [-1.333, 0.0]]
"""

DAPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.28),
    advantage=group_mean_std,
    aggregation=token_mean,
    dynamic_sampling=True,
)
"""J = 1/N_tok sum_i sum_t min(r A, clip(r, 1 - low, 1 + high) A), groups with a signal: 002 eqs. (101), (102).

And, where a task has a length limit, ``replace(DAPO, overlong=OverlongPenalty(limit, buffer))``. The upper end is
1.28, so that the token at 1.25 is still pushed, which ``PPO_CLIP`` does not.

>>> DAPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.25, 0.16, 0.2], [-1.6, 0.0]]
"""

GSPO = Choices(
    ratio=sequence_mean,
    anchor="behavior",
    gate=Clip(3e-4, 4e-4),
    advantage=group_mean_std,
    aggregation=response_mean,  # of T_i equal terms: the term itself
)
"""J = 1/N sum_i min(s A, clip(s, 1 - low, 1 + high) A), s = (prod_t r)^(1/T_i): 002 eqs. (107) to (109).

s is 1 for the first response and 2, the root of 8 times 0.5, for the second. Each token is pushed by s A / (N T_i).

>>> GSPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.167, 0.167, 0.167], [-0.5, -0.5]]
"""

SAPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Soft(1.0, 1.05),
    advantage=group_mean_std,
    aggregation=response_mean,
)
"""J = 1/N sum_i 1/T_i sum_t 4/tau sigmoid(tau (r - 1)) A, tau by the sign of A: 002 eqs. (114) to (119).

At ratio 1 it pushes as ``GRPO`` does, and at 8 hardly at all: the gate closes bit by bit on either side of 1.

>>> SAPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.205, 0.132, 0.167], [-0.005, -0.117]]
"""

SAPO_ONE_SIDED = Choices(
    ratio=token,
    anchor="behavior",
    gate=SoftOneSided(1.0, 1.05),
    advantage=group_mean_std,
    aggregation=response_mean,
)
"""``SAPO``'s soft term where a token moves away from mu, r A where it comes back. Ours, for contrast: SAPO's gate
closes on both sides, and lets go of what should be pulled back, here 8 with A < 0.

>>> SAPO_ONE_SIDED.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.205, 0.133, 0.167], [-2.0, -0.117]]
"""

RECIPES: dict[str, Choices] = (
    {
        "vanilla_pg": VANILLA_PG,
        "rloo": RLOO,
        "ppo_clip": PPO_CLIP,
        "grpo": GRPO,
        "dr_grpo": DR_GRPO,
        "dapo": DAPO,
        "gspo": GSPO,
        "sapo": SAPO,
        "sapo_one_sided": SAPO_ONE_SIDED,
    }
    | OFF_POLICY_RECIPES
    | TRUST_REGION_RECIPES
)
