"""What production libraries computed on shared inputs, and which of our choices say the same.

``golden.npz`` holds inputs and the losses, gradients, weights and advantages that the libraries' own functions
returned on them; ``manifest.json`` says, per case, which function, which commit and which settings. A case id is
``peer/variant@batch``. The tables below hold one entry per ``peer/variant``.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean, group_mean_batch_std, group_mean_std, leave_one_out
from rlnotes.estimators.divergences import KLEstimator, kl_estimate
from rlnotes.objectives import DR_GRPO, GRPO, PPO_CLIP, Batch, Choices, KLPenalty, policy_loss
from rlnotes.objectives.aggregations import Totals, response_mean, response_sum, token_mean
from rlnotes.objectives.diagnostics import no_gradient_fraction
from rlnotes.objectives.gates import Clip, Correction, no_gate
from rlnotes.objectives.masks import MismatchBand, OffPolicyMask
from rlnotes.objectives.ratios import sequence, sequence_mean

FOLDER = Path(__file__).parent / "peers"
PEERS = ("trl", "verl", "openrlhf", "slime", "oat")


@cache
def arrays() -> dict[str, np.ndarray]:
    """Every golden array by its key."""
    with np.load(FOLDER / "golden.npz") as archive:
        return {key: archive[key] for key in archive.files}


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """Every golden case of the five peers by its id."""
    cases = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases if case["peer"] in PEERS}


@cache
def issue_cases() -> dict[str, dict[str, Any]]:
    """The hand-sized cases from public threads by their id."""
    cases = json.loads((FOLDER / "issue_cases.json").read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases}


def variant_of(case_id: str) -> str:
    return case_id.split("@")[0]


def batch_of(case_id: str) -> str:
    return case_id.split("@")[1]


def ids(table: dict[str, Any]) -> list[str]:
    """The ids of the golden cases whose variant is in ``table``."""
    return [case_id for case_id in manifest() if variant_of(case_id) in table]


@cache
def group_size(name: str) -> int:
    """Responses per prompt of a batch. The golden batches keep the responses of a prompt together."""
    group = arrays()[f"in/{name}/group"]
    size = int((group == group[0]).sum())
    np.testing.assert_array_equal(group, np.repeat(np.arange(len(group) // size), size))
    return size


def inputs(name: str, key: str) -> Tensor:
    return torch.from_numpy(arrays()[f"in/{name}/{key}"].copy())


def mask_of(name: str) -> Tensor:
    return inputs(name, "mask").bool()


# --- Losses

Whole = Literal["responses", "tokens"]


@dataclass(frozen=True)
class Loss:
    """Our choices for a peer's loss, and what stands between the two outside of the loss.

    ``divide``: the peer leaves this division to its caller, so its number is divided before it is compared.
    ``behavior``: the array that plays mu where nothing else says so. The libraries compare with ``old_logp``.
    ``max_length``, ``tokens``: T_max and the token count of the whole batch, where the peer is told them.
    ``parts``: the sizes of the micro-batches that the peer accumulates over.
    ``value``: False where the peer's loss has our gradient and by design another value.
    ``loss_atol``: for the loss, in which responses of both signs cancel; ``atol`` is for the gradient, where nothing
    does.
    """

    choices: Choices
    divide: Whole | float = 1.0
    behavior: str = "old_logp"
    max_length: int | None = None
    tokens: int | None = None
    parts: tuple[int, ...] = ()
    value: bool = True
    rtol: float = 1e-6
    atol: float = 1e-12
    loss_atol: float = 1e-12


def clip(low: float = 0.2, high: float = 0.2, dual: float | None = None) -> Choices:
    """PPO's clip, mean over the tokens of the batch."""
    return replace(PPO_CLIP, gate=Clip(low, high, dual))


def corrected(base: Choices, correction: Correction) -> Choices:
    """``base``, anchored on the recomputed log-probabilities, times a weight for the sampler's mismatch."""
    return replace(base, anchor="proximal", correction=correction)


def gspo(low: float, high: float) -> Choices:
    return replace(GRPO, ratio=sequence_mean, gate=Clip(low, high))


def with_k3(base: Choices, weighted: bool = False) -> Choices:
    return replace(base, kl=KLPenalty(0.04, "k3", weighted))


OFF = 1e4  # verl cannot switch its dual clip off; its users set c so high that it does nothing
DUAL3 = Clip(0.2, 0.2, dual=3.0)
# verl and OpenRLHF divide by a response's length + 1e-8, which takes up to 1e-8 of a response's mean away
LENGTH_EPS = 1e-8

LOSSES: dict[str, Loss] = {
    # verl: the dual clip is always on. Its five aggregations are ours, but for a factor.
    "verl/vanilla_default": Loss(clip(dual=3.0)),
    "verl/vanilla_dapo": Loss(clip(high=0.28, dual=10.0)),
    "verl/vanilla_grpo_seqmean": Loss(replace(GRPO, gate=Clip(dual=OFF)), loss_atol=LENGTH_EPS),
    "verl/vanilla_drgrpo": Loss(replace(DR_GRPO, gate=Clip(dual=OFF)), max_length=64),
    "verl/vanilla_seqsum": Loss(replace(PPO_CLIP, gate=DUAL3, aggregation=response_sum)),
    "verl/vanilla_tokensum": Loss(clip(dual=3.0), divide="tokens"),
    # a part of a batch of 1000 tokens; times 2 because a mean over 2 data-parallel ranks follows
    "verl/vanilla_globaltokens": Loss(clip(dual=3.0), divide=2.0, tokens=1000),
    "verl/gspo_paper": Loss(gspo(3e-4, 4e-4), loss_atol=LENGTH_EPS),
    "verl/gspo_wide": Loss(gspo(0.2, 0.2), loss_atol=LENGTH_EPS),
    # PPO whose anchor is the sampler itself: no recomputed log-probabilities
    "verl/bypass_ppo_clip": Loss(clip(dual=3.0), behavior="rollout_logp"),
    # minus ratio times advantage; verl writes -A sg(ratio) logp, whose gradient is the same and whose value is not
    "verl/bypass_pg_is_untruncated": Loss(
        Choices(gate=no_gate, aggregation=response_sum), behavior="rollout_logp", value=False
    ),
    "verl/decoupled_ppo_token_tis": Loss(corrected(clip(dual=3.0), Correction(2.0))),
    "verl/decoupled_ppo_seq_tis": Loss(corrected(clip(dual=3.0), Correction(2.0, ratio=sequence))),
    "verl/decoupled_ppo_token_icepop": Loss(corrected(clip(dual=3.0), Correction(5.0, 0.5, "drop"))),
    # TRL: the loss type is the aggregation
    "trl/grpo": Loss(GRPO),
    "trl/bnpo": Loss(PPO_CLIP),
    "trl/dr_grpo": Loss(DR_GRPO, max_length=64),
    "trl/dapo": Loss(clip(high=0.28)),
    "trl/dapo_delta": Loss(clip(high=0.28, dual=2.0)),
    "trl/grpo_kl": Loss(with_k3(GRPO)),
    "trl/grpo_kl_biascorr": Loss(with_k3(GRPO, weighted=True)),
    "trl/gspo": Loss(gspo(3e-4, 4e-4)),
    "trl/gspo_wide": Loss(gspo(0.2, 0.2)),
    "trl/gspo_dapo_agg": Loss(replace(gspo(0.2, 0.2), aggregation=token_mean)),
    "trl/gspo_kl_biascorr_seq": Loss(with_k3(gspo(0.2, 0.2), weighted=True)),
    "trl/luspo": Loss(replace(gspo(0.2, 0.2), aggregation=response_sum)),
    "trl/dapo_is_token_truncate": Loss(corrected(clip(high=0.28), Correction(2.0))),
    "trl/dapo_is_token_mask": Loss(corrected(clip(high=0.28), Correction(2.0, outside="drop"))),
    "trl/dapo_is_sequence_truncate": Loss(corrected(clip(high=0.28), Correction(2.0, ratio=sequence))),
    "trl/dapo_is_sequence_mask": Loss(corrected(clip(high=0.28), Correction(2.0, 0.0, "drop", sequence))),
    "trl/grpo_opsm": Loss(replace(GRPO, anchor="proximal", keep=OffPolicyMask(0.05))),
    # two micro-batches, 5 and 7 responses: the first three take each part for the whole and average over the parts
    "trl/ga2_grpo": Loss(GRPO, divide=0.5, parts=(5, 7)),
    "trl/ga2_bnpo": Loss(PPO_CLIP, divide=0.5, parts=(5, 7)),
    "trl/ga2_dr_grpo": Loss(DR_GRPO, divide=0.5, parts=(5, 7), max_length=64),
    "trl/ga2_dapo": Loss(PPO_CLIP, parts=(5, 7), tokens=62),
    # OpenRLHF
    "openrlhf/ppo_token": Loss(PPO_CLIP),
    "openrlhf/ppo_sample": Loss(GRPO, loss_atol=LENGTH_EPS),
    "openrlhf/ppo_dual3": Loss(clip(dual=3.0)),
    "openrlhf/gspo": Loss(gspo(3e-4, 4e-4), loss_atol=LENGTH_EPS),
    "openrlhf/tis": Loss(corrected(PPO_CLIP, Correction(5.0, 0.5))),
    "openrlhf/icepop": Loss(corrected(PPO_CLIP, Correction(5.0, 0.5, "drop"))),
    # the response's geometric mean decides, and the token's weight knows no limit
    "openrlhf/seq_mask_tis": Loss(replace(corrected(PPO_CLIP, Correction(math.inf)), keep=MismatchBand(0.5, 5.0))),
    # slime returns sums over responses (or tokens) and divides by their number later, outside the function
    "slime/grpo": Loss(GRPO, divide="responses"),
    "slime/grpo_dual3": Loss(replace(GRPO, gate=DUAL3), divide="responses"),
    "slime/dapo_token": Loss(clip(high=0.28), divide="tokens"),
    "slime/gspo": Loss(gspo(3e-4, 4e-4), divide="responses"),
    "slime/grpo_tis": Loss(corrected(GRPO, Correction(2.0)), divide="responses"),
    "slime/grpo_icepop": Loss(corrected(GRPO, Correction(5.0, 0.5, "drop")), divide="responses"),
    "slime/grpo_opsm": Loss(replace(GRPO, keep=OffPolicyMask(0.05)), divide="responses"),
    # float32 inside the KL estimate: an error of beta times its rounding, also where the gradient is small
    "slime/grpo_kl_unbiased": Loss(
        with_k3(GRPO, weighted=True), divide="responses", rtol=2e-6, atol=2e-8, loss_atol=2e-8
    ),
    # oat
    "oat/grpo": Loss(GRPO),
    "oat/grpo_tis": Loss(corrected(GRPO, Correction(2.0))),
    "oat/grpo_kl": Loss(with_k3(GRPO)),
    "oat/drgrpo": Loss(DR_GRPO, max_length=64),
    "oat/drgrpo_tis": Loss(corrected(DR_GRPO, Correction(2.0)), max_length=64),
    "oat/drgrpo_kl": Loss(with_k3(DR_GRPO), max_length=64),
}


def batch_arrays(name: str, behavior: str = "old_logp", proximal: bool = False) -> dict[str, Tensor]:
    """The tensors of a golden batch under our names. ``old_logp`` is what the ratio compares with."""
    found = dict(
        logp=inputs(name, "logp"),
        mask=mask_of(name),
        advantages=inputs(name, "adv"),
        logp_behavior=inputs(name, "rollout_logp" if proximal else behavior),
        logp_reference=inputs(name, "ref_logp"),
    )
    return found | ({"logp_proximal": inputs(name, "old_logp")} if proximal else {})


def batch(tensors: dict[str, Tensor], totals: Totals | None = None) -> Batch:
    """The batch of some tensors, which may be a part of a batch with these ``totals``."""
    return Batch(
        tensors["logp"],
        tensors["mask"],
        tensors["advantages"],
        tensors["logp_behavior"],
        tensors.get("logp_proximal"),
        tensors["logp_reference"],
        totals,
    )


def loss_and_gradient(loss: Loss, tensors: dict[str, Tensor]) -> tuple[float, np.ndarray]:
    """Our loss, summed over the parts, and its gradient with respect to ``logp``."""
    logp = tensors["logp"].clone().requires_grad_()
    rows = len(logp)
    total = torch.zeros((), dtype=logp.dtype)
    start = 0
    for size in loss.parts or (rows,):
        part = {key: value[start : start + size] for key, value in (tensors | {"logp": logp}).items()}
        own = Totals.of(part["mask"], loss.max_length)
        totals = replace(own, tokens=loss.tokens or own.tokens)
        total = total + policy_loss(loss.choices, batch(part, totals))
        start += size
    (gradient,) = torch.autograd.grad(total, logp)
    return float(total.detach()), gradient.numpy()


def no_gradient(choices: Choices, made: Batch) -> float:
    """Share of the tokens with an advantage that ``choices`` gives no gradient."""
    logp = made.logp.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(policy_loss(choices, replace(made, logp=logp)), logp)
    return float(no_gradient_fraction(made, gradient))


def theirs(case_id: str, loss: Loss) -> tuple[float, np.ndarray]:
    """The peer's loss and gradient, after the division that it leaves to its caller."""
    lengths = mask_of(batch_of(case_id)).sum(-1)
    number = {"responses": len(lengths), "tokens": int(lengths.sum())}
    divisor = number[loss.divide] if isinstance(loss.divide, str) else loss.divide
    found = arrays()
    return float(found[f"{case_id}/loss"]) / divisor, found[f"{case_id}/grad_logp"] / divisor


def assert_same_loss(case_id: str, loss: Loss) -> None:
    """Fails unless our loss and gradient are the peer's."""
    proximal = loss.choices.needs_proximal
    value, gradient = loss_and_gradient(loss, batch_arrays(batch_of(case_id), loss.behavior, proximal))
    expected, expected_gradient = theirs(case_id, loss)
    np.testing.assert_allclose(gradient, expected_gradient, loss.rtol, loss.atol, err_msg="gradient")
    if loss.value:
        np.testing.assert_allclose(value, expected, loss.rtol, loss.loss_atol, err_msg="loss")


# --- Weights for the sampler's mismatch

WEIGHTS: dict[str, Correction] = {
    "verl/weights_token_tis": Correction(2.0),
    "verl/weights_seq_tis": Correction(2.0, ratio=sequence),
    "verl/weights_token_icepop": Correction(5.0, 0.5, "drop"),
    "verl/weights_seq_icepop": Correction(2.0, 0.5, "drop", sequence),
    "slime/mis_truncate_token": Correction(2.0),
    "slime/mis_truncate_seq": Correction(2.0, ratio=sequence),
    "slime/mis_clip_token": Correction(2.0, 0.5),
    # slime keeps the weight and takes the token out of the mask: the product of the two is our weight
    "slime/mis_mask_geo": Correction(1.1, 0.9, "drop", sequence_mean),
}


def assert_same_weights(case_id: str, correction: Correction) -> None:
    """Fails unless our weights are the peer's under the mask."""
    name, found = batch_of(case_id), arrays()
    mask = mask_of(name)
    log_ratio = torch.where(mask, inputs(name, "old_logp") - inputs(name, "rollout_logp"), 0.0)
    expected = found[f"{case_id}/weights"] * found.get(f"{case_id}/kept_mask", 1.0)
    np.testing.assert_allclose(correction(log_ratio, mask)[mask], expected[mask.numpy()], 1e-6, 1e-12)


# --- Advantages

Advantage = Callable[[Any, int], Any]


def sample_std(eps: float) -> Advantage:
    """What the libraries divide by: sample standard deviation plus ``eps``."""
    return partial(group_mean_std, ddof=1, eps=eps, eps_inside=False)


ADVANTAGES: dict[str, Advantage] = {
    "verl/adv_grpo": sample_std(1e-6),
    "verl/adv_drgrpo": group_mean,
    "verl/adv_grpo_vectorized": sample_std(1e-6),
    "verl/adv_rloo": leave_one_out,
    "verl/adv_rloo_vectorized": leave_one_out,
    "trl/adv_group": sample_std(1e-4),
    "trl/adv_batch": partial(group_mean_batch_std, ddof=1, eps=1e-4),
    "trl/adv_none": group_mean,
    "openrlhf/adv_group_norm": sample_std(1e-9),
    "openrlhf/adv_dr_grpo": group_mean,
    "openrlhf/adv_rloo": leave_one_out,
    "slime/adv_grpo": sample_std(1e-6),
    "slime/adv_grpo_nostd": group_mean,
}
# float32 inside: what is lost when two rewards of size 1 are subtracted
FLOAT32_ADVANTAGES = ("verl/adv_grpo_vectorized", "slime/adv_grpo", "slime/adv_grpo_nostd")


def assert_same_advantages(case_id: str, advantage: Advantage) -> None:
    """Fails unless our advantages are the peer's."""
    name = batch_of(case_id)
    single = variant_of(case_id) in FLOAT32_ADVANTAGES
    ours = advantage(arrays()[f"in/{name}/rewards"], group_size(name))
    rtol, atol = (2e-6, 5e-7) if single else (1e-6, 1e-12)
    np.testing.assert_allclose(ours, arrays()[f"{case_id}/advantage"], rtol, atol)


# --- KL estimates


@dataclass(frozen=True)
class KL:
    """Which of our estimators has the peer's value, and which its gradient where that is another one.

    ``weighted``: times the ratio to the old policy, gradient included.
    ``limit``: the peer clamps the result to [-limit, limit]. We do not, so the tokens where it does so are left out.
    """

    value: KLEstimator
    gradient: KLEstimator | None = None
    weighted: bool = False
    limit: float = np.inf
    float32: bool = False


KLS: dict[str, KL] = {
    "verl/kl_k1": KL("k1"),
    "verl/kl_k2": KL("k2"),
    "verl/kl_k3": KL("k3", limit=10),
    "verl/kl_low_var_kl": KL("k3", limit=10),
    # "+" means: this value, and the gradient of k2
    "verl/kl_k1+": KL("k1", "k2"),
    "verl/kl_k3+": KL("k3", "k2", limit=10),
    "openrlhf/kl_k1": KL("k1", limit=10, float32=True),
    "openrlhf/kl_k2": KL("k2", limit=10, float32=True),
    "openrlhf/kl_k3": KL("k3", limit=10, float32=True),
    "slime/kl_k1": KL("k1", float32=True),
    "slime/kl_k2": KL("k2", float32=True),
    "slime/kl_k3": KL("k3", float32=True),
    "slime/kl_low_var_kl": KL("k3", limit=10, float32=True),
    "slime/kl_k1_unbiased": KL("k1", weighted=True, float32=True),
    "slime/kl_k2_unbiased": KL("k2", weighted=True, float32=True),
    "slime/kl_k3_unbiased": KL("k3", weighted=True, float32=True),
    "slime/kl_low_var_kl_unbiased": KL("k3", weighted=True, limit=10, float32=True),
}


def assert_same_kl(case_id: str, kl: KL, sign: int = 1) -> None:
    """Fails unless our estimates and their gradient are the peer's, under the mask and inside its limit."""
    name, found = batch_of(case_id), arrays()
    logp = inputs(name, "logp").requires_grad_()
    log_ratio = sign * (logp - inputs(name, "ref_logp"))
    ratio = (logp - inputs(name, "old_logp")).exp() if kl.weighted else torch.ones_like(logp)
    value = kl_estimate(log_ratio, kl.value) * ratio
    (gradient,) = torch.autograd.grad((kl_estimate(log_ratio, kl.gradient or kl.value) * ratio).sum(), logp)
    value, ratio = value.detach(), ratio.detach()
    mask, inside = mask_of(name), value.abs() < kl.limit
    # where the peer clamps, its value is the limit: nothing else is left out
    assert set(np.abs(found[f"{case_id}/kl"])[(mask & ~inside).numpy()].tolist()) <= {kl.limit}
    # float32 inside: log-probabilities of size 4 are known to 2.4e-7, and a ratio multiplies what is not known
    rtol, atol = (2e-6, 5e-7 * ratio) if kl.float32 else (1e-6, 1e-12 * ratio)
    for ours, key in ((value, "kl"), (gradient, "grad")):
        expected = torch.from_numpy(found[f"{case_id}/{key}"]).double()
        excess = (ours - expected).abs() - rtol * expected.abs() - atol
        worst = float(excess[mask & inside].max())
        assert worst <= 0, f"{key} of {case_id} is off by {worst} more than allowed"


# --- What nothing of ours says

OTHER_OBJECTIVE = "another objective than PPO-clip, GRPO, GSPO or Dr. GRPO"
DETACHED_WEIGHT = "a truncated weight before log pi, without a gradient of its own (the CISPO family): another gate"
NO_REJECTION = "rejects whole responses or tokens by a divergence; we have no such mask"
BATCH_NORMALISED = "divides the weights by their mean over the batch, which couples the responses; we do not"
NO_LOSS = "no policy loss, weight, advantage or KL estimate"

NOT_COVERED: dict[str, str] = {
    **{f"verl/{name}": OTHER_OBJECTIVE for name in ("sapo_default", "sapo_sharp", "geo_mean")},
    **{f"verl/{name}": DETACHED_WEIGHT for name in ("cispo_default", "cispo_onesided")},
    **{f"verl/{name}": DETACHED_WEIGHT for name in ("bypass_pg_token_tis", "bypass_pg_seq_tis")},
    **{
        f"verl/{name}": "DPPO: another gate"
        for name in ("dppo_tv_c20", "dppo_kl_c20", "dppo_tv_configdefault_c3", "dppo_kl_seqsumnorm")
    },
    **{f"verl/trm_{mask}_divide{by}": NO_REJECTION for mask in ("max", "avg", "both") for by in ("N", "Accepted")},
    **{
        f"verl/reject_{name}": NO_REJECTION
        for name in (
            "token_k1_0.5_2.0",
            "token_k1_0.5_5.0",
            "token_k2_0.05",
            "token_k3_0.05",
            "seq_sum_k1_0.5_2.0",
            "seq_sum_k3_0.5",
            "seq_mean_k1_0.9_1.25",
            "seq_mean_k1_0.999_1.001",
            "seq_mean_k2_0.02",
            "seq_mean_k3_0.02",
            "seq_max_k2_0.125",
            "seq_max_k3_0.3",
            "seq_max_k2+seq_mean_k3_0.125+0.02",
        )
    },
    "verl/weights_token_tis_norm": BATCH_NORMALISED,
    "verl/weights_seq_tis_norm": BATCH_NORMALISED,
    "verl/kl_abs": "|x| is no estimate of KL(pi || ref); we have no such estimator",
    "verl/offpolicy_metrics": NO_LOSS,
    "verl/overlong": NO_LOSS,
    "verl/dynamic_filter": NO_LOSS,
    "trl/sapo": OTHER_OBJECTIVE,
    "trl/vespo": OTHER_OBJECTIVE,
    "trl/cispo_eps5": DETACHED_WEIGHT,
    "trl/cispo_eps0.28": DETACHED_WEIGHT,
    "trl/overlong": NO_LOSS,
    "openrlhf/overlong": NO_LOSS,
    "openrlhf/dynamic_filter": NO_LOSS,
    "slime/cispo": DETACHED_WEIGHT,
    "slime/mis_mask_token_veto": NO_REJECTION,
    "slime/mis_truncate_token_norm": BATCH_NORMALISED,
    "slime/dynamic_filter": NO_LOSS,
}

# --- Where the manifest's settings are found in our choices

AGGREGATIONS = {
    "token-mean": token_mean,
    "token-sum": token_mean,
    "seq-mean-token-mean": response_mean,
    "seq-mean-token-sum": response_sum,
    "seq-mean-token-sum-norm": DR_GRPO.aggregation,
    "grpo": response_mean,
    "bnpo": token_mean,
    "dapo": token_mean,
    "dr_grpo": DR_GRPO.aggregation,
    "drgrpo": DR_GRPO.aggregation,
    "luspo": response_sum,
}


def settings(loss: Loss) -> dict[str, Any]:
    """Our choices under the names that the peers give them."""
    gate, correction, kl = loss.choices.gate, loss.choices.correction, loss.choices.kl
    found: dict[str, Any] = {}
    if isinstance(gate, Clip):
        found |= dict.fromkeys(("clip_ratio_low", "epsilon_low", "clip_eps_low", "eps_clip", "cliprange"), gate.low)
        found |= dict.fromkeys(("clip_ratio_high", "epsilon_high", "clip_eps_high", "eps_clip_high"), gate.high)
        found |= dict.fromkeys(("clip_ratio_c", "delta", "dual_clip", "eps_clip_c"), gate.dual)
    found |= dict.fromkeys(("beta", "kl_loss_coef"), kl.beta if kl else 0.0)
    found |= dict.fromkeys(("use_bias_correction_kl", "use_unbiased_kl"), bool(kl and kl.weighted))
    found |= {"use_kl_loss": kl is not None, "kl_loss_type": kl and kl.estimator}
    found |= dict.fromkeys(("tis_c", "tis_clip"), correction and correction.high)
    found |= {"tis_clip_low": correction and correction.low}
    keep = loss.choices.keep
    band = keep if isinstance(keep, MismatchBand) else correction
    found |= {"vllm_is_truncated_threshold": band and [band.low, band.high]}
    off_policy = keep if isinstance(keep, OffPolicyMask) else None
    found |= dict.fromkeys(("opsm_delta", "off_policy_mask_threshold"), off_policy and off_policy.delta)
    found |= {"use_opsm": off_policy is not None}
    found |= {"token_level_loss": loss.choices.aggregation is token_mean, "split": list(loss.parts)}
    found |= {"importance_sampling_level": "sequence" if loss.choices.ratio is sequence_mean else "token"}
    found |= {"gradient_accumulation_steps": len(loss.parts)}
    for name in ("max_completion_length", "generate_max_length", "loss_scale_factor"):
        found[name] = loss.max_length
    return found | {"batch_num_tokens": loss.tokens, "dp_size": loss.divide}
