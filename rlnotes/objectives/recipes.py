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

Most examples push the same tokens, so that two recipes can be compared: a response with A = 1 and ratios 1.25, 0.8, 1,
and one with A = -1 and ratios 8, 0.5. So N = 2, T_i is 3 and 2, N_tok = 5, and T_max = 3. What is shown is
:meth:`Choices.pushes`.
"""

import math

from rlnotes.estimators.baselines import group_mean, group_mean_std, leave_one_out, no_baseline
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, ClipAround, Correction, Soft, SoftOneSided, no_gate
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.masks import MismatchBand, ProximalMask
from rlnotes.objectives.ratios import sequence, sequence_mean, token
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

# The family of 004 eq. (23), with the M and C of its appendix D. A = R - mean:

PG_IS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
)
"""grad J = 1/N sum_i sum_t M min(pi / mu, C) A grad log pi with M = 1, C = infinity: 004 eq. (23), appendix D.

Importance sampling by token. Each push is r A / N, and nothing bounds it.

>>> PG_IS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.625, 0.4, 0.5], [-4.0, -0.25]]
"""

CISPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=3.0),
    advantage=group_mean,
    aggregation=response_sum,
)
"""``PG_IS`` with C = 3, PG-TIS: 004 appendix D. Here 8 counts as 3.

>>> CISPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.625, 0.4, 0.5], [-1.5, -0.25]]
"""

MINIRL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=ProximalMask(0.2, 0.28),
)
"""``PG_IS`` with M = 0 where pi / pi_k is outside [1 - low, 1 + high] and A pushes it further: 004 appendix D.

The weight is pi / mu, the mask looks at pi / pi_k: the token at 1.25 has pi / pi_k = 1.5625 and is dropped, the one at
0.5 has 1 and is kept.

>>> drift = [[0.8, 0.8, 1.0], [8.0, 0.5]]  # pi_k / mu
>>> MINIRL.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1], proximal=drift)
[[0.0, 0.4, 0.5], [-4.0, -0.25]]
"""

MINIRL_TIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=3.0),
    advantage=group_mean,
    aggregation=response_sum,
    keep=ProximalMask(0.2, 0.28),
)
"""``MINIRL`` with C = 3: 004 appendix D.

>>> drift = [[0.8, 0.8, 1.0], [8.0, 0.5]]  # pi_k / mu
>>> MINIRL_TIS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1], proximal=drift)
[[0.0, 0.4, 0.5], [-1.5, -0.25]]
"""

DECOUPLED_PPO = Choices(
    ratio=token,
    anchor="proximal",
    gate=Clip(0.2, 0.28),
    advantage=group_mean,
    aggregation=response_sum,
    correction=Correction(high=2.0),
)
"""J = 1/N sum_i sum_t sg(min(pi_k / mu, 2)) min(r A, clip(r, 1 - low, 1 + high) A), r = pi / pi_k: 000 section 7.2,
Method 2, with its weight bounded.

``MINIRL``'s gradient as long as nothing is truncated. Here pi_k / mu = 8 counts as 2.

>>> drift = [[0.8, 0.8, 1.0], [8.0, 0.5]]  # pi_k / mu
>>> DECOUPLED_PPO.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1], proximal=drift)
[[0.0, 0.4, 0.5], [-1.0, -0.25]]
"""

# The three mechanisms of 000 section 7.2 for old data, A = R - mean:

STALE_PPO = Choices(
    ratio=token,
    anchor="behavior",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=response_sum,
)
"""J = 1/N sum_i sum_t min(r A, clip(r, 1 - eps, 1 + eps) A), r = pi / mu: 000 section 7.2.

Old data starts outside of the interval: here pi is still pi_k, and two of five tokens are clipped all the same.

>>> drift = [[1.25, 0.8, 1.0], [8.0, 0.5]]
>>> STALE_PPO.pushes(drift, [1, -1], proximal=drift)
[[0.0, 0.4, 0.5], [-4.0, 0.0]]
"""

METHOD_1 = Choices(
    ratio=token,
    anchor="behavior",
    gate=ClipAround(0.2),
    advantage=group_mean,
    aggregation=response_sum,
)
"""J = 1/N sum_i sum_t min(r A, clip(r, c - eps, c + eps) A), r = pi / mu, c = pi_k / mu: 000 section 7.2.

Where pi is still pi_k, nothing is clipped.

>>> drift = [[1.25, 0.8, 1.0], [8.0, 0.5]]
>>> METHOD_1.pushes(drift, [1, -1], proximal=drift)
[[0.625, 0.4, 0.5], [-4.0, -0.25]]
"""

METHOD_2 = Choices(
    ratio=token,
    anchor="proximal",
    gate=Clip(0.2, 0.2),
    advantage=group_mean,
    aggregation=response_sum,
    correction=Correction(high=math.inf),
)
"""J = 1/N sum_i sum_t c min(r A, clip(r, 1 - eps, 1 + eps) A), r = pi / pi_k, c = pi_k / mu, which nothing bounds: 000
section 7.2.

Here c = 8 and A < 0. At pi / mu = 6, r is 0.75 and clipped; at 7 it is 0.875 and free. ``METHOD_1`` clips below 7.8.

>>> METHOD_2.pushes([[6.0, 7.0]], [-1], proximal=[[8.0, 8.0]])
[[0.0, -7.0]]
>>> METHOD_1.pushes([[6.0, 7.0]], [-1], proximal=[[8.0, 8.0]])
[[0.0, 0.0]]
"""

# Importance sampling by token and by response, plain, truncated at C = 2, and masked (weight 0 outside of a band): what
# verl, TRL, slime and OpenRLHF offer, here on pi / mu. PG_IS is the plain one by token. With weights pi_k / mu beside
# a clip around pi_k: replace(METHOD_2, correction=Correction(high=2.0, ratio=sequence)), or outside="drop" and a low.
# Over their mean: Correction(..., normalised=True). With slime's veto: keep=veto(1e-4), or Every((veto(), ...)).

TOKEN_TIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(high=2.0),
    advantage=group_mean,
    aggregation=response_sum,
)
"""grad J = 1/N sum_i sum_t min(r, C) A grad log pi: ``CISPO`` with another C, 2.

>>> TOKEN_TIS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.625, 0.4, 0.5], [-1.0, -0.25]]
"""

SEQUENCE_IS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_mean,  # of T_i equal terms: the term itself, once
)
"""grad J = 1/N sum_i s A sum_t grad log pi, s = prod_t r, unbiased: 002 eq. (105).

s is 1 for the first response and 4, 8 times 0.5, for the second.

>>> SEQUENCE_IS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.5, 0.5, 0.5], [-2.0, -2.0]]
"""

SEQ_TIS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=Cap(high=2.0),
    advantage=group_mean,
    aggregation=response_mean,
)
"""``SEQUENCE_IS`` with min(s, C), C = 2.

>>> SEQ_TIS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.5, 0.5, 0.5], [-1.0, -1.0]]
"""

TOKEN_MIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=MismatchBand(0.5, 2.0, token, "current"),
)
"""``PG_IS`` on tokens with 1/2 <= r <= 2: here 8 is dropped, and so is 0.4.

>>> TOKEN_MIS.pushes([[1.25, 0.8, 1.0], [8.0, 0.4]], [1, -1])
[[0.625, 0.4, 0.5], [0.0, 0.0]]
"""

SEQ_MIS = Choices(
    ratio=sequence,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_mean,
    keep=MismatchBand(0.5, 2.0, sequence, "current"),
)
"""``SEQUENCE_IS`` on responses with 1/2 <= s <= 2: here s is 1 for the first, and 4 for the second, which is dropped.

>>> SEQ_MIS.pushes([[1.25, 0.8, 1.0], [8.0, 0.5]], [1, -1])
[[0.5, 0.5, 0.5], [0.0, 0.0]]
"""

GEO_MIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=MismatchBand(0.9, 1.1, sequence_mean, "current"),
)
"""``PG_IS`` on responses whose geometric mean s^(1/T_i) is in [0.9, 1.1]: by length, where s is not.

Three tokens at 1.2 are dropped, for their mean is 1.2. One at 1.2 among two at 1 is kept: the mean is 1.06.

>>> GEO_MIS.pushes([[1.2, 1.2, 1.2], [1.2, 1.0, 1.0]], [1, 1])
[[0.0, 0.0, 0.0], [0.6, 0.5, 0.5]]
"""

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
