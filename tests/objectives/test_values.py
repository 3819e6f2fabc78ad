"""The critic's loss, by hand."""

import pytest
import torch
from torch import Tensor

from rlnotes.objectives.values import clipped_value_loss


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_the_value_loss_is_the_mean_squared_error():
    assert float(clipped_value_loss(vector(1, 2, 3), vector(1, 2, 3), vector(0, 0, 0), None)) == 0
    assert float(clipped_value_loss(vector(1, 2, 3), vector(1, 4, 0), vector(0, 0, 0), None)) == pytest.approx(13 / 3)


def test_a_column_against_a_row_is_refused_with_both_shapes():
    """Values equal to the targets would have a loss of 1.333333 in place of 0."""
    column = vector(1, 2, 3)[:, None]
    assert float((column - vector(1, 2, 3)).square().mean()) == pytest.approx(1.333333, abs=1e-6)
    with pytest.raises(ValueError, match=r"values has shape \(3, 1\) and targets has shape \(3,\)"):
        clipped_value_loss(column, vector(1, 2, 3), vector(1, 2, 3), None)


@pytest.mark.parametrize(
    ("value", "loss", "slope"),
    [
        (1.1, 1.9**2, -2 * 1.9),  # within 0.2 of its old value: as without a limit
        (1.5, 1.8**2, 0.0),  # farther, towards the target: the kept value 1.2 is worse, and stands still
        (0.5, 2.5**2, -2 * 2.5),  # farther, away from the target: it is pulled back
        (9.0, 6.0**2, 2 * 6.0),  # past the target, and worse than the kept value
    ],
)
def test_a_clipped_value_is_held_only_on_its_way_to_the_target(value: float, loss: float, slope: float):
    v = vector(value).requires_grad_()
    found = clipped_value_loss(v, vector(3.0), vector(1.0), 0.2)
    (gradient,) = torch.autograd.grad(found, v)
    assert (float(found.detach()), float(gradient)) == pytest.approx((loss, slope))
