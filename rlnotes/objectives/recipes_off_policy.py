"""Named objectives for data of another policy: importance sampling, MiniRL, decoupled PPO, three clips for old data.

The examples push the tokens of :mod:`rlnotes.objectives.recipes`.
"""

import math

from rlnotes.estimators.baselines import group_mean
from rlnotes.objectives.aggregations import response_mean, response_sum
from rlnotes.objectives.gates import Cap, Clip, ClipAround, Correction, no_gate
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.masks import MismatchBand, ProximalMask
from rlnotes.objectives.ratios import sequence, sequence_mean, token

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
    gate=Cap(3.0),
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
    gate=Cap(3.0),
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
    correction=Correction(2.0),
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
    correction=Correction(math.inf),
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
# a clip around pi_k: replace(METHOD_2, correction=Correction(2.0, ratio=sequence)), or outside="drop" and a low end.
# Over their mean: Correction(..., normalised=True). With slime's veto: keep=veto(1e-4), or Every((veto(), ...)).

TOKEN_TIS = Choices(
    ratio=token,
    anchor="behavior",
    gate=Cap(2.0),
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
    gate=Cap(2.0),
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

OFF_POLICY_RECIPES: dict[str, Choices] = {
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
}
