"""A weight comes back within half a step of its format, and what the format holds comes back itself."""

import math
from typing import get_args

import pytest
import torch

from rlnotes.lm.config import RolloutWeights
from rlnotes.lm.quantize import GROUP, cells, fake_quantized, rounded, rounded_in_groups

KINDS: tuple[RolloutWeights, ...] = get_args(RolloutWeights)


def weight(rows: int = 7, columns: int = 65, seed: int = 0) -> torch.Tensor:
    """Rows of very different sizes."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.arange(-3, rows - 3)
    return torch.empty(rows, columns).normal_(generator=generator) * sizes[:, None]


def half_step(w: torch.Tensor, kind: str) -> torch.Tensor:
    """Half the distance of the format's numbers around each entry, by the format's definition."""
    largest = w.abs().amax(-1, keepdim=True)
    if kind == "float32":
        return torch.zeros_like(w)
    if kind in ("int8", "int4"):
        return (largest / {"int8": 127, "int4": 7}[kind] / 2).expand_as(w)
    if kind == "bfloat16":
        return 2.0 ** (w.abs().log2().floor() - 8)  # 8 significant bits: a step of 2**-7 in [1, 2)
    scale = largest / 448
    exponent = (w.abs() / scale).log2().floor().clamp(min=-6)  # e4m3: below 2**-6 the steps stay as they are
    return scale * 2.0 ** (exponent - 4)  # 4 significant bits: a step of 2**-3 in [1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_half_a_step_at_most_and_comes_near_it(kind):
    w = weight(columns=4000)
    error, bound = (fake_quantized(w, kind) - w).abs(), half_step(w, kind)
    assert (error <= bound * (1 + 1e-4)).all()
    if kind != "float32":
        assert ((error / bound).amax(-1) > 0.9).all()  # a bound that is never reached would hide a finer format


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_again_changes_nothing(kind):
    once = fake_quantized(weight(columns=4000), kind)
    assert torch.equal(fake_quantized(once, kind), once)


@pytest.mark.parametrize(("kind", "levels"), [("int8", 255), ("int4", 15), ("float8", 253)])
def test_a_row_holds_as_many_numbers_as_the_format(kind, levels):
    """float8 e4m3 has 256 codes: two are NaN, two are zero."""
    row = torch.linspace(-3, 3, 200_001) if kind != "float8" else torch.logspace(-9, 0, 200_001)
    row = row if kind != "float8" else torch.cat([row, -row, torch.zeros(1)])
    assert len(fake_quantized(row, kind).unique()) == levels


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_see_each_other_and_both_signs_are_alike(kind):
    w = weight()
    together = fake_quantized(w, kind)
    assert torch.equal(together, torch.stack([fake_quantized(row, kind) for row in w]))
    assert torch.equal(fake_quantized(-w, kind), -together)
    assert torch.equal(fake_quantized(w * 4, kind), together * 4)
    assert together.dtype == torch.float32


@pytest.mark.parametrize("kind", ["float8", "int8", "int4"])
def test_the_largest_entry_of_a_row_is_kept(kind):
    w = weight(columns=4000)
    place = w.abs().argmax(-1, keepdim=True)
    assert torch.equal(fake_quantized(w, kind).gather(-1, place), w.gather(-1, place))


@pytest.mark.parametrize("kind", KINDS)
def test_zero_rows_stay_zero(kind):
    w = weight()
    w[2] = 0
    out = fake_quantized(w, kind)
    assert (out[2] == 0).all() and torch.isfinite(out).all()


def test_int4_by_hand():
    row = torch.tensor([0.7, -0.34, 0.06, 0.04, -0.7])
    assert fake_quantized(row, "int4").tolist() == pytest.approx([0.7, -0.3, 0.1, 0.0, -0.7])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_by_name(kind, bad):
    w = weight()
    w[1, 3] = bad
    with pytest.raises(ValueError, match=r"blocks\.0\.up\.weight holds NaN or infinity"):
        fake_quantized(w, kind, "blocks.0.up.weight")


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_pass_a_nan_stays_one(kind):
    w = weight()
    w[1, 3] = math.nan
    out = rounded(w, kind)
    assert out[1, 3].isnan() and torch.isfinite(out[[0, 2, 3]]).all()


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_in_groups_each_number_goes_to_the_nearest_value_of_its_own_grid(bits: int):
    w = weight(columns=3 * GROUP)
    w[0, :GROUP] = 0.5  # one value
    found = rounded_in_groups(w, bits)
    low, step = cells(w, bits)
    gap = (found - w).unflatten(-1, (-1, GROUP)).abs()
    assert (gap <= step / 2 + 1e-6 * w.abs().amax(-1)[:, None, None]).all()
    codes = ((found.unflatten(-1, (-1, GROUP)) - low) / step.where(step > 0, 1.0)).round()
    assert codes.min() == 0 and codes.max() == 2**bits - 1 and (step == 0).sum() == 1
    assert torch.allclose(rounded_in_groups(found, bits), found, rtol=1e-5)


def test_rows_that_are_no_whole_groups_are_refused():
    with pytest.raises(ValueError, match="rows of 65 numbers, no multiple of 32"):
        rounded_in_groups(weight(), 4)
