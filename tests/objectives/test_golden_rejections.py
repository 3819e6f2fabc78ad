"""A wrong rejection does not pass for verl's or slime's."""

import math
from dataclasses import replace

import pytest

from rlnotes.objectives.masks import DivergenceMask, Every, Mask, MismatchBand, veto
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from tests.golden import ids, tables
from tests.golden.tables import REJECTIONS


def rejects(variant: str, keep: Mask) -> bool:
    """True if one of the variant's batches tells ``keep`` from what the peer did."""
    for case_id in ids({variant: None}):
        try:
            tables.assert_same_rejections(case_id, keep)
        except AssertionError:
            return True
    return False


def mutations(right: DivergenceMask) -> dict[str, DivergenceMask]:
    """Another estimator, another level, and another bound."""
    wrong = {name: replace(right, estimator=name) for name in ("k1", "k2", "k3") if name != right.estimator}
    wrong |= {over: replace(right, over=over) for over in ("token", "sum", "mean", "max") if over != right.over}
    wrong |= {f"high * {factor}": replace(right, delta=right.delta * factor) for factor in (0.5, 2)}
    if math.isfinite(right.least):
        wrong |= {f"low * {factor}": replace(right, least=right.least * factor) for factor in (0.5, 2)}
        wrong["low is gone"] = replace(right, least=-math.inf)
        wrong["bounds on the ratio, not on its inverse"] = replace(right, least=-right.delta, delta=-right.least)
    return wrong


# bounds that no response of the golden batches lies between
BLIND: dict[str, set[str]] = {
    "verl/reject_token_k1_0.5_2.0": {"bounds on the ratio, not on its inverse"},  # the same: 0.5 = 1 / 2
    "verl/reject_seq_sum_k1_0.5_2.0": {"low * 0.5", "bounds on the ratio, not on its inverse"},
    "verl/reject_seq_sum_k3_0.5": {"k2"},
    "verl/reject_seq_mean_k1_0.9_1.25": {"low * 2"},
    "verl/reject_seq_mean_k1_0.999_1.001": {
        "high * 0.5",
        "high * 2",
        "low * 2",
        "bounds on the ratio, not on its inverse",
    },
    "verl/reject_seq_mean_k2_0.02": {"k3"},
    "verl/reject_seq_mean_k3_0.02": {"k2"},
    "verl/reject_seq_max_k3_0.3": {"k2"},
}


@pytest.mark.parametrize("variant", [name for name, keep in REJECTIONS.items() if isinstance(keep, DivergenceMask)])
def test_another_divergence_mask_is_rejected(variant: str):
    right = REJECTIONS[variant]
    assert isinstance(right, DivergenceMask)
    passed = {name for name, wrong in mutations(right).items() if not rejects(variant, wrong)}
    assert passed == BLIND.get(variant, set())


VETO, BAND = veto(0.2), MismatchBand(0.5, 2.0, token)
WRONG: list[tuple[str, str, Mask]] = [
    ("no mean", "verl/reject_seq_max_k2+seq_mean_k3_0.125+0.02", DivergenceMask(0.125, "k2", policy="proximal")),
    ("nothing", "verl/reject_seq_max_k2+seq_mean_k3_0.125+0.02", Every(())),
    ("no veto", "slime/mis_mask_token_veto", BAND),
    ("no band", "slime/mis_mask_token_veto", VETO),
    ("veto at another place", "slime/mis_mask_token_veto", Every((BAND, veto(0.1)))),
    (
        "veto on the inverse",
        "slime/mis_mask_token_veto",
        Every((BAND, replace(VETO, delta=math.inf, least=-VETO.delta))),
    ),
    ("veto of tokens", "slime/mis_mask_token_veto", Every((BAND, replace(VETO, over="token")))),
    ("band of responses", "slime/mis_mask_token_veto", Every((replace(BAND, ratio=sequence), VETO))),
    ("band of means", "slime/mis_mask_token_veto", Every((replace(BAND, ratio=sequence_mean), VETO))),
    ("another low", "slime/mis_mask_token_veto", Every((replace(BAND, low=0.8), VETO))),
    ("another high", "slime/mis_mask_token_veto", Every((replace(BAND, high=1.5), VETO))),
]


@pytest.mark.parametrize(("variant", "wrong"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_rejection_is_rejected(variant: str, wrong: Mask):
    assert rejects(variant, wrong)
    assert not rejects(variant, REJECTIONS[variant])
