"""A wrong DPPO does not pass for that of verl, Stable-RL or TRL."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from rlnotes.estimators.divergences import kl, tv
from rlnotes.objectives import Batch, rows
from rlnotes.objectives.aggregations import token_mean
from rlnotes.objectives.gates import Cap, no_gate
from rlnotes.objectives.masks import ClipMask, DivergenceMask, Mask
from rlnotes.objectives.one_sided import OneSided
from rlnotes.objectives.rows import RowDivergence
from tests.golden import ids, tables, variant_of
from tests.golden.comparison import assert_same_loss
from tests.golden.losses import LOSSES, TOPK_KL, TOPK_TV, Loss, to
from tests.golden.tables import DIVERGENCES

DPPO = [variant for variant, loss in LOSSES.items() if isinstance(loss.choices.keep, OneSided)]


def inside(mask: OneSided, **change: Any) -> OneSided:
    """Another mask inside, of the same sides."""
    assert isinstance(mask.mask, DivergenceMask)
    return replace(mask, mask=replace(mask.mask, **change))


class WrongSide(OneSided):
    """Drops what moves towards the anchor."""

    def __call__(self, batch: Batch) -> Tensor:
        """(N, T) bool."""
        return super().__call__(replace(batch, advantages=-batch.advantages))


def mutations(right: OneSided) -> dict[str, Mask | None]:
    """Thresholds, divergences, sides: one thing wrong at a time."""
    assert isinstance(right.mask, DivergenceMask)
    measure, delta = right.mask.estimator, right.mask.delta
    wrong: dict[str, Mask | None] = {
        "no mask": None,
        "symmetric": right.mask,
        "wrong side": WrongSide(right.mask, right.anchor),
    }
    wrong |= {f"delta * {factor}": inside(right, delta=delta * factor) for factor in (0.5, 2)}
    wrong |= {side: replace(right, side=side) for side in ("positive", "negative")}
    if isinstance(measure, RowDivergence):
        wrong["binary"] = inside(right, estimator=f"binary_{measure.kind}")
        wrong["k = 1"] = inside(right, estimator=replace(measure, k=1))
        wrong["the other kind"] = inside(right, estimator=TOPK_KL if measure is TOPK_TV else TOPK_TV)
    else:
        others = {"binary_tv", "binary_kl", "abs", "k3"} - {measure}
        wrong |= {str(other): inside(right, estimator=other) for other in others}
        wrong |= {over: inside(right, over=over) for over in ("sum", "mean", "max")}
        wrong["clip"] = ClipMask(delta, delta, right.anchor)
        other = "proximal" if right.anchor == "behavior" else "behavior"
        wrong["the other anchor"] = OneSided(replace(right.mask, anchor=other), other)
    return wrong


def rejects(variant: str, keep: Mask | None) -> bool:
    """True if one of the variant's batches tells ``keep`` from what the peer did."""
    loss = LOSSES[variant]
    wrong = replace(loss, choices=replace(loss.choices, keep=keep))
    for case_id in ids({variant: None}):
        try:
            assert_same_loss(case_id, wrong)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("variant", DPPO)
def test_another_mask_is_rejected(variant: str):
    right = LOSSES[variant].choices.keep
    assert isinstance(right, OneSided)
    assert [name for name, wrong in mutations(right).items() if not rejects(variant, wrong)] == []


WRONG: list[tuple[str, str, Callable[[Loss], Loss]]] = [
    ("another cap, TV", "verl/dppo_tv_configdefault_c3@extreme", to(gate=Cap(high=20.0))),
    ("another cap, KL", "verl/dppo_kl_c20@extreme", to(gate=Cap(high=3.0))),
    ("no cap", "stable_rl/dppo_binary_tv_c5@extreme", to(gate=no_gate)),
    ("the weight of the old policy", "stable_rl/dppo_binary_kl_recompute@stale", to(anchor="proximal")),
    ("tokens' mean", "verl/dppo_kl_seqsumnorm@extreme", to(aggregation=token_mean)),
    ("divided by what is kept", "trl_dppo/binary_tv@extreme", to(divide_by="kept")),
    ("divided by the responses", "stable_rl/dppo_binary_kl_sumnorm@mild", lambda loss: replace(loss, divide=1.0)),
    ("an objective's value", "trl_dppo/binary_kl@mild", lambda loss: replace(loss, value="objective")),
    ("anchored on the old policy", "trl_dppo/binary_tv@stale", lambda loss: replace(loss, behavior="old_logp")),
]


@pytest.mark.parametrize(("case_id", "mutate"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_another_weight_is_rejected(case_id: str, mutate: Callable[[Loss], Loss]):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same_loss(case_id, mutate(LOSSES[variant_of(case_id)]))


@pytest.mark.parametrize("wrong", [RowDivergence(kind, k) for kind in ("tv", "kl") for k in (1, 2, 3)], ids=str)
def test_a_divergence_of_fewer_tokens_is_rejected(wrong: RowDivergence):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tables.assert_same_divergence("stable_rl/topk_divergences@topk", wrong.kind, wrong)


def test_another_divergence_is_rejected(monkeypatch: pytest.MonkeyPatch):
    """The other kind; KL(pi || mu); and a TV without "other", as 004 prints eq. (15)."""
    case_id = "stable_rl/topk_divergences@topk"
    for key, wrong in dict(tv=TOPK_KL, kl=TOPK_TV).items():
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            tables.assert_same_divergence(case_id, key, wrong)
    monkeypatch.setattr(rows, "kl", lambda mu, pi: kl(pi, mu))
    monkeypatch.setattr(rows, "tv", lambda mu, pi: tv(mu[..., :-1], pi[..., :-1]))
    for key, right in DIVERGENCES["stable_rl/topk_divergences"].items():
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            tables.assert_same_divergence(case_id, key, right)
