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

# M = 1 where max_t |log r| <= delta                                              001 sections 3.4.2, 4.2.1, A.2
# in total, which long responses fail: over="sum"; with the exact KL: DivergenceMask(0.1, RowDivergence("kl"), "max")
TRM_MAX = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.5, "abs", "max"),
)

# M = 1 where mean_t (r - 1 - log r) <= delta                                              001 sections 4.3.1, A.1
TRM_AVG = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.05, "k3", "mean"),
)

# both                                                                                           001 section 4.3.2
TRM = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=Every((DivergenceMask(0.5, "abs", "max"), DivergenceMask(0.05, "k3", "mean"))),
)

# M = 0 on the tokens that move away, in the responses that TRM drops. Ours, for contrast: which half does the work?
TRM_ONE_SIDED = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(Every((DivergenceMask(0.5, "abs", "max"), DivergenceMask(0.05, "k3", "mean")))),
)

# DPPO: M = 0 where D > delta and the token moves away, 004 eqs. (11), (12). Anchored on the recomputed policy, 004
# section 5.2: OneSided(DivergenceMask(0.05, "binary_kl", "token", anchor="proximal"), "proximal").

# D = |mu(a) - pi(a)|, 004 eq. (13); delta of appendix D, 0.2 in appendix F
DPPO_TV = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.15, "binary_tv", "token")),
)

# D = KL of "this token or not", 004 eq. (14); delta of appendices D and F
DPPO_KL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.05, "binary_kl", "token")),
)

# D = TV with mu's K likeliest tokens told apart, 004 eq. (15) with "other"; K and delta of appendix G.2
DPPO_TOPK_TV = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.2, RowDivergence("tv", 20), "token")),
)

# D = KL with them told apart, 004 eq. (16)
DPPO_TOPK_KL = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.05, RowDivergence("kl", 20), "token")),
)

# M = 0 where D > delta, whichever way the token moves. Ours, for contrast
DPPO_SYMMETRIC = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=DivergenceMask(0.15, "binary_tv", "token"),
)

# M = 0 where A < 0 and mu - pi > 0.5, the least that helps: 004 section 5.3. Also with 0.8; as a control with
# side="positive"; and with both anchors "proximal"
NEGATIVE_MASK = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=OneSided(DivergenceMask(0.5, "binary_tv", "token"), side="negative"),
)

# PPO's clip as a mask, 004 eq. (9), let go where mu < 0.1: 004 section 6. One end alone: end="high" or "low". The
# baseline is replace(PG_IS, keep=ClipMask(0.2, 0.28))
RELAX_BOTH = Choices(
    ratio=token,
    anchor="behavior",
    gate=no_gate,
    advantage=group_mean,
    aggregation=response_sum,
    keep=Relaxed(ClipMask(0.2, 0.28), 0.1, "both"),
)

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
