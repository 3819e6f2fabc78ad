"""Penalties as functions of a few numbers: by hand, on grids, and refused where they make no sense."""

from collections.abc import Callable

import numpy as np
import pytest

from rlnotes.bounds import mdp_closed_forms as forms


def test_closed_forms_broadcast():
    gamma, tv = np.linspace(0, 0.99, 4)[:, None], np.linspace(0, 1, 5)
    for form in (
        forms.max_tv,
        forms.coupled_tv,
        forms.max_kl,
        forms.mean_tv,
        forms.mean_divergence,
        forms.mixture_bias,
    ):
        curve = form(gamma, 1.5, tv)
        assert curve.shape == (4, 5)
        single = [[float(form(float(g), 1.5, float(d))) for d in tv] for g in gamma[:, 0]]
        np.testing.assert_allclose(curve, single, rtol=1e-12)
    assert forms.coupled_occupancy_shift(gamma, tv).shape == forms.occupancy_shift(gamma, tv).shape == (4, 5)
    assert forms.advantage_replacement(gamma, tv, 2.0).shape == (4, 5)


def test_closed_forms_by_hand():
    """gamma = 1/2 and D = 1/2 throughout."""
    assert forms.occupancy_shift(0.5, 0.5) == pytest.approx(1)
    assert forms.coupled_occupancy_shift(0.5, 0.5) == pytest.approx(2 / 3)
    assert forms.shift_penalty(0.5, 3, 1) == pytest.approx(6)
    assert forms.mean_tv(0.5, 3, 0.5) == pytest.approx(6)
    assert forms.max_tv(0.5, 3, 0.5) == pytest.approx(6)
    assert forms.coupled_tv(0.5, 3, 0.5) == pytest.approx(4)
    assert forms.max_kl(0.5, 3, 0.5) == pytest.approx(6)
    assert forms.max_kl(0.5, 3, np.inf) == forms.max_kl(0.5, 3, 2) == forms.max_tv(0.5, 3, 1)
    assert forms.mean_divergence(0.5, 3, 0.5) == pytest.approx(6)
    assert forms.mean_divergence(0.5, 0, np.inf) == 0
    assert forms.mixture_bias(0.5, 3, 0.5) == pytest.approx(6)
    assert forms.advantage_replacement(0.5, 3, 2) == pytest.approx(12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: forms.max_tv(1.0, 1, 0.5), "gamma is 1.0; a bound over an endless future needs a discount in"),
        (lambda: forms.max_tv(0.5, 1, 1.5), "tv_max is 1.5; a total variation is at most 1"),
        (lambda: forms.mean_tv(0.5, 1, -0.5), "tv_mean is -0.5; it must be 0 or more"),
        (lambda: forms.max_tv(0.5, float("nan"), 0.5), "advantage is nan"),
    ],
)
def test_closed_forms_refuse_what_makes_no_sense(call: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        call()
