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

Trust regions, TRM and DPPO, with a table of their own: :mod:`rlnotes.objectives.recipes_trust_region`.
"""

import math

from rlnotes.estimators.baselines import group_mean, group_mean_std, leave_one_out, no_baseline
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, ClipAround, Correction, Soft, SoftOneSided, no_gate
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.masks import MismatchBand, ProximalMask
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from rlnotes.objectives.recipes_trust_region import TRUST_REGION_RECIPES

# grad J = 1/N sum_i R_i sum_t grad log pi                                                  002 eq. (39)
VANILLA_PG = Choices(
    ratio=token,
    anchor="current",
    gate=no_gate,
    advantage=no_baseline,
    aggregation=response_sum,
)

# the same with A = R - mean of the group's other rewards, a baseline: 002 eqs. (41), (42)
RLOO = Choices(
    ratio=token,
    anchor="current",
    gate=no_gate,
    advantage=leave_one_out,
    aggregation=response_sum,
)

# J = 1/N_tok sum_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A)                    002 eqs. (78), (79)
PPO_CLIP = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=token_mean,
)

# J = 1/N sum_i 1/T_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = (R - mean) / std     002 eqs. (90) to (97)
GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean_std,
    aggregation=response_mean,
)

# J = 1/N sum_i 1/T_max sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), A = R - mean           002 eqs. (98) to (100)
DR_GRPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=constant,
)

# J = 1/N_tok sum_i sum_t min(r A, clip(r, 1 - low, 1 + high) A), groups with a signal      002 eqs. (101), (102)
# and, where a task has a length limit, replace(DAPO, overlong=OverlongPenalty(limit, buffer))
DAPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.28),
    advantage=group_mean_std,
    aggregation=token_mean,
    dynamic_sampling=True,
)

# J = 1/N sum_i min(s A, clip(s, 1 - low, 1 + high) A), s = (prod_t r)^(1/T_i)              002 eqs. (107) to (109)
GSPO = Choices(
    ratio=sequence_mean,
    anchor="behavior",
    gate=Clip(3e-4, 4e-4),
    advantage=group_mean_std,
    aggregation=response_mean,  # of T_i equal terms: the term itself
)

# J = 1/N sum_i 1/T_i sum_t 4/tau sigmoid(tau (r - 1)) A, tau by the sign of A              002 eqs. (114) to (119)
SAPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Soft(1.0, 1.05),
    advantage=group_mean_std,
    aggregation=response_mean,
)

# the same soft term where a token moves away from mu, r A where it comes back. Ours, for contrast: SAPO's gate closes
# on both sides, and lets go of what should be pulled back
SAPO_ONE_SIDED = Choices(
    ratio=token,
    anchor="behavior",
    gate=SoftOneSided(1.0, 1.05),
    advantage=group_mean_std,
    aggregation=response_mean,
)

# The family of 004 eq. (23): grad J = 1/N sum_i sum_t M min(pi / mu, C) A grad log pi, A = R - mean. 004 appendix D:

# M = 1, C = infinity
PG_IS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
)

# M = 1, C = 3: PG-TIS
CISPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=3.0),
    advantage=group_mean,
    aggregation=response_sum,
)

# M = 0 where pi / pi_k is outside [1 - low, 1 + high] and A pushes it further; C = infinity
MINIRL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=ProximalMask(0.2, 0.28),
)

# the same M, C = 3
MINIRL_TIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=3.0),
    advantage=group_mean,
    aggregation=response_sum,
    keep=ProximalMask(0.2, 0.28),
)

# J = 1/N sum_i sum_t sg(min(pi_k / mu, 2)) min(r A, clip(r, 1 - low, 1 + high) A), r = pi / pi_k     000 section 7.2,
# Method 2, with its weight bounded. MiniRL's gradient as long as nothing is truncated.
DECOUPLED_PPO = Choices(
    ratio=token,
    anchor="proximal",
    gate=Clip(0.2, 0.28),
    advantage=group_mean,
    aggregation=response_sum,
    correction=Correction(high=2.0),
)

# The three mechanisms of 000 section 7.2 for old data. Each is J = 1/N sum_i sum_t of a term, A = R - mean:

# min(r A, clip(r, 1 - eps, 1 + eps) A), r = pi / mu. Old data starts outside of the interval
STALE_PPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=response_sum,
)

# min(r A, clip(r, c - eps, c + eps) A), r = pi / mu, c = pi_k / mu
METHOD_1 = Choices(
    ratio=token,
    anchor="behavior",
    gate=ClipAround(0.2),
    advantage=group_mean,
    aggregation=response_sum,
)

# c min(r A, clip(r, 1 - eps, 1 + eps) A), r = pi / pi_k, c = pi_k / mu without a bound
METHOD_2 = Choices(
    ratio=token,
    anchor="proximal",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=response_sum,
    correction=Correction(high=math.inf),
)

# Importance sampling by token and by response, plain, truncated at C = 2, and masked (weight 0 outside of a band): what
# verl, TRL, slime and OpenRLHF offer, here on pi / mu. PG_IS is the plain one by token. With weights pi_k / mu beside
# a clip around pi_k: replace(METHOD_2, correction=Correction(high=2.0, ratio=sequence)), or outside="drop" and a low.
# Over their mean: Correction(..., normalised=True). With slime's veto: keep=veto(1e-4), or Every((veto(), ...)).

# grad J = 1/N sum_i sum_t min(r, C) A grad log pi. CISPO with another C
TOKEN_TIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=2.0),
    advantage=group_mean,
    aggregation=response_sum,
)

# grad J = 1/N sum_i s A sum_t grad log pi, s = prod_t r: unbiased                                      002 eq. (105)
SEQUENCE_IS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_mean,  # of T_i equal terms: the term itself, once
)

# the same with min(s, C)
SEQ_TIS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=Cap(high=2.0),
    advantage=group_mean,
    aggregation=response_mean,
)

# PG_IS on tokens with 1/2 <= r <= 2
TOKEN_MIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=MismatchBand(0.5, 2.0, token, "current"),
)

# SEQUENCE_IS on responses with 1/2 <= s <= 2
SEQ_MIS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_mean,
    keep=MismatchBand(0.5, 2.0, sequence, "current"),
)

# PG_IS on responses whose geometric mean s^(1/T_i) is in [0.9, 1.1]: by length, where s is not
GEO_MIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=MismatchBand(0.9, 1.1, sequence_mean, "current"),
)

RECIPES: dict[str, Choices] = {
    "vanilla_pg": VANILLA_PG,
    "rloo": RLOO,
    "ppo_clip": PPO_CLIP,
    "grpo": GRPO,
    "dr_grpo": DR_GRPO,
    "dapo": DAPO,
    "gspo": GSPO,
    "sapo": SAPO,
    "sapo_one_sided": SAPO_ONE_SIDED,
    "pg_is": PG_IS,
    "cispo": CISPO,
    "minirl": MINIRL,
    "minirl_tis": MINIRL_TIS,
    "decoupled_ppo": DECOUPLED_PPO,
    "stale_ppo": STALE_PPO,
    "method_1": METHOD_1,
    "method_2": METHOD_2,
    "token_tis": TOKEN_TIS,
    "sequence_is": SEQUENCE_IS,
    "seq_tis": SEQ_TIS,
    "token_mis": TOKEN_MIS,
    "seq_mis": SEQ_MIS,
    "geo_mis": GEO_MIS,
} | TRUST_REGION_RECIPES
