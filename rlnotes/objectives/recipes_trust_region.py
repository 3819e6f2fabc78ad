"""Named objectives with a trust region: masks of responses (001) and of tokens (004). Each is PG_IS but for its mask.

All have the gradient of 004 eq. (23), grad J = 1/N sum_i sum_t M min(pi / mu, C) A grad log pi, with C = infinity and
A = R - mean, and differ in M, which is 0 or 1 and has no gradient. A cap is one line: ``replace(DPPO_TV,
gate=Cap(high=5.0))``, the C of 004 appendix F. D is always a divergence of mu and pi, as pi stands at each update.

A token *moves away* where A > 0 and pi > mu, or A < 0 and pi < mu. How hard is a token pushed that has become e^30
times as likely as at the anchor, while A < 0, and one that has become e^-30 times as likely, while A < 0? Weights
before A grad log pi, in a response of this one token, whose mu was close to 0 or close to 1:

| recipes | e^30, moving back | e^-30, moving away |
|---|---|---|
| TRM_MAX, TRM_AVG, TRM, DPPO_SYMMETRIC | 0: it is dropped, though it should come back | 0 |
| TRM_ONE_SIDED, DPPO_TV, DPPO_KL, DPPO_TOPK_TV, DPPO_TOPK_KL | e^30: nothing bounds it but a cap | 0 |
| NEGATIVE_MASK, RELAX_BOTH | e^30 | 0 |
"""

from rlnotes.estimators.baselines import group_mean
from rlnotes.objectives.aggregations import response_sum
from rlnotes.objectives.gates import no_gate
from rlnotes.objectives.loss import Choices
from rlnotes.objectives.masks import ClipMask, DivergenceMask, Every
from rlnotes.objectives.one_sided import OneSided, Relaxed
from rlnotes.objectives.ratios import token
from rlnotes.objectives.rows import RowDivergence

# Trust region masking: whole responses, 001 section 4.5.1. It divides by N, all responses; by those that are kept:
# replace(TRM, divide_by="kept"). 001 names no thresholds; these are ours.

TRM_MAX = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.5, "abs", "max"),
)
"""M = 1 where max_t |log r| <= delta: 001 sections 3.4.2, 4.2.1, A.2.

In total, which long responses fail: ``over="sum"``; with the exact KL: ``DivergenceMask(0.1, RowDivergence("kl"),
"max")``. The second response is dropped for its token at 1.75, whose log is 0.56.

>>> TRM_MAX.pushes([[1.5, 1.5], [1.75, 1.0, 1.0, 1.0]], [1, 1])
[[0.75, 0.75], [0.0, 0.0, 0.0, 0.0]]
"""

TRM_AVG = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.05, "k3", "mean"),
)
"""M = 1 where mean_t (r - 1 - log r) <= delta: 001 sections 4.3.1, A.1.

r - 1 - log r is 0.09 at 1.5 and 0.19 at 1.75: the first response is dropped, the mean of the second is 0.048.

>>> TRM_AVG.pushes([[1.5, 1.5], [1.75, 1.0, 1.0, 1.0]], [1, 1])
[[0.0, 0.0], [0.875, 0.5, 0.5, 0.5]]
"""

TRM = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=Every((DivergenceMask(0.5, "abs", "max"), DivergenceMask(0.05, "k3", "mean"))),
)
"""M = 1 where both conditions hold, those of ``TRM_MAX`` and ``TRM_AVG``: 001 section 4.3.2.

Each of the two responses fails one of them.

>>> TRM.pushes([[1.5, 1.5], [1.75, 1.0, 1.0, 1.0]], [1, 1])
[[0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
"""

TRM_ONE_SIDED = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(Every((DivergenceMask(0.5, "abs", "max"), DivergenceMask(0.05, "k3", "mean")))),
)
"""M = 0 on the tokens that move away, in the responses that ``TRM`` drops. Ours, for contrast: which half does the
work? For A > 0 the token at 1.5 moves away, and the one at 0.5 comes back.

>>> TRM_ONE_SIDED.pushes([[1.5, 0.5]], [1])
[[0.0, 0.5]]
>>> TRM.pushes([[1.5, 0.5]], [1])
[[0.0, 0.0]]
"""

# DPPO. Anchored on the recomputed policy, 004 section 5.2: OneSided(DivergenceMask(0.05, "binary_kl", "token",
# anchor="proximal"), "proximal").

DPPO_TV = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.15, "binary_tv", "token")),
)
"""M = 0 where D > delta and the token moves away, D = |mu(a) - pi(a)|: 004 eqs. (11) to (13). delta is that of
appendix D; 0.2 in appendix F.

With mu = 0.1 the token at 4 is 0.3 away: dropped where A > 0, kept where A < 0, when it comes back. At 2 it is 0.1
away and kept.

>>> DPPO_TV.pushes([[4.0, 2.0], [4.0, 2.0]], [1, -1], mu=0.1)
[[0.0, 1.0], [-2.0, -1.0]]
"""

DPPO_KL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.05, "binary_kl", "token")),
)
"""The same with D = KL of "this token or not": 004 eq. (14); delta of appendices D and F.

From 0.1 to 0.2 it is 0.1 log(1/2) + 0.9 log(0.9/0.8) = 0.037, and to 0.4 it is 0.226. At mu = 0.01 the same ratios
are kept.

>>> DPPO_KL.pushes([[4.0, 2.0]], [1], mu=0.1)
[[0.0, 2.0]]
>>> DPPO_KL.pushes([[4.0, 2.0]], [1], mu=0.01)
[[4.0, 2.0]]
"""

DPPO_TOPK_TV = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.2, RowDivergence("tv", 20), "token")),
)
"""The same with D = TV, mu's K likeliest tokens told apart: 004 eq. (15) with "other"; K and delta of appendix G.2.

D depends on more than the token drawn, and is passed as ``divergence``. Here it is 0.25 and 0.1, and delta 0.2.

>>> DPPO_TOPK_TV.pushes([[1.5, 1.5]], [1], divergence=[[0.25, 0.1]])
[[0.0, 1.5]]
"""

DPPO_TOPK_KL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.05, RowDivergence("kl", 20), "token")),
)
"""The same with D = KL, mu's K likeliest tokens told apart: 004 eq. (16). delta is 0.05.

>>> DPPO_TOPK_KL.pushes([[1.5, 1.5]], [1], divergence=[[0.1, 0.04]])
[[0.0, 1.5]]
"""

DPPO_SYMMETRIC = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.15, "binary_tv", "token"),
)
"""M = 0 where D > delta, whichever way the token moves. Ours, for contrast: here 4 is dropped also where A < 0.

>>> DPPO_SYMMETRIC.pushes([[4.0, 2.0], [4.0, 2.0]], [1, -1], mu=0.1)
[[0.0, 1.0], [0.0, -1.0]]
"""

NEGATIVE_MASK = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.5, "binary_tv", "token"), side="negative"),
)
"""M = 0 where A < 0 and mu - pi > 0.5, the least that helps: 004 section 5.3.

Also with 0.8; as a control with ``side="positive"``; and with both anchors ``"proximal"``. From 0.9 to 0.36 is 0.54.

>>> NEGATIVE_MASK.pushes([[0.4, 0.5], [0.4, 0.5]], [1, -1], mu=0.9)
[[0.2, 0.25], [0.0, -0.25]]
"""

RELAX_BOTH = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=Relaxed(ClipMask(0.2, 0.28), 0.1, "both"),
)
"""PPO's clip as a mask, 004 eq. (9), let go where mu < 0.1: 004 section 6.

One end alone: ``end="high"`` or ``"low"``. The baseline is ``replace(PG_IS, keep=ClipMask(0.2, 0.28))``.

>>> RELAX_BOTH.pushes([[1.5, 0.5]], [1], mu=0.2)
[[0.0, 0.5]]
>>> RELAX_BOTH.pushes([[1.5, 0.5]], [1], mu=0.05)
[[1.5, 0.5]]
"""

TRUST_REGION_RECIPES: dict[str, Choices] = {
    "trm_max": TRM_MAX,
    "trm_avg": TRM_AVG,
    "trm": TRM,
    "trm_one_sided": TRM_ONE_SIDED,
    "dppo_tv": DPPO_TV,
    "dppo_kl": DPPO_KL,
    "dppo_topk_tv": DPPO_TOPK_TV,
    "dppo_topk_kl": DPPO_TOPK_KL,
    "dppo_symmetric": DPPO_SYMMETRIC,
    "negative_mask": NEGATIVE_MASK,
    "relax_both": RELAX_BOTH,
}
