"""The closed forms give the published numbers, agree with plain sums and exact fractions, and take curves."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.optimize import brentq

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.estimators.divergences import pinsker
from tests.bounds.token_cases import GOLDEN

T, DELTA = 4096, 1e-4
fixed = settings(derandomize=True, deadline=None)
horizons = st.integers(1, 60)
tvs = st.floats(0, 1)
kls = st.floats(0, 20)


# --- Published numbers


def test_golden_values_at_the_quoted_size():
    golden = GOLDEN["G11"]["outputs"]
    measured = {
        "trpo": forms.kl_chain(T, DELTA),
        "pinsker_marginal": forms.pinsker_marginal(T, DELTA),
        "mixed_uniform": forms.mixed(T, DELTA, T * DELTA),
        "mixed_seq": forms.mixed(T, DELTA, 0.01),
        "delta_for_trpo_1": forms.kl_chain_threshold(T),
        "delta_for_pm_1": forms.pinsker_marginal_threshold(T),
        "delta_for_mixed_uniform_1": forms.mixed_threshold(T),
        "Dseq_where_mixed_equals_pm": forms.mixed_crossover(T, DELTA),
        "min_mixed_given_Dseq_le_Tdelta": forms.mixed(T, 0.01 / T, 0.01),
        "trivial_pure_Dseq_bound": pinsker(0.01) + forms.pinsker_sum(T, 0.01),
    }
    assert measured == approx({key: golden[key] for key in measured}, rel=1e-10)
    assert set(measured) == set(golden)


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_golden_penalties_from_golden_divergences(name: str):
    golden, horizon = GOLDEN[name]["outputs"], GOLDEN[name]["inputs"]["T"]
    xi = max(abs(reward) for reward in GOLDEN[name]["inputs"]["R_lexicographic"])
    tv, kl, kl_seq, tv_sum = (golden[key] for key in ("DTV_max", "DKL_max", "DKL_seq", "sum_E_TV"))
    measured = {
        "trpo_tv": forms.tv_chain(horizon, tv),
        "trpo_kl": forms.kl_chain(horizon, kl),
        "pinsker_marginal": forms.pinsker_marginal(horizon, kl),
        "mixed": forms.mixed(horizon, kl, kl_seq),
        "thm32_004": forms.quadratic(horizon, tv, xi),
        "linear_B3": forms.linear(tv_sum, xi),
        "composite_B3": forms.composite(horizon, tv, tv_sum, xi),
    }
    assert measured == approx({key: golden[key] for key in measured}, rel=1e-10)


def test_golden_second_moment_of_independent_tokens():
    golden = GOLDEN["G09"]["outputs"]["div"]
    assert forms.sequence_second_moment(5, golden["chi2_pi_mu"]) == approx(golden["second_moment_T"], rel=1e-10)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (forms.halved(forms.pinsker_marginal(T, DELTA)), 17.476),
        (forms.halved(forms.mixed(T, DELTA, T * DELTA)), 26.214),
        (forms.halved(forms.mixed(T, DELTA, 0.01)), 4.096),
        (forms.position_minimum(T, pinsker(DELTA), DELTA), 17.473),
        (forms.chi2_chain(T, 2e-4), 0.3351),
        (forms.uniform_kl(T, DELTA), 0.4096),
        (forms.surrogate_limit(0.4096), 0.8621),
        (forms.surrogate_limit(0.01), 0.0807),
        (pinsker(0.4096) + forms.pinsker_sum(T, 0.4096), 29.42),
        (forms.kl_chain(T, DELTA) / forms.pinsker_marginal(T, DELTA), 47.99),
        (forms.kl_chain(T, DELTA) / forms.mixed(T, DELTA, 0.01), 204.75),
        (forms.pinsker_marginal_firing(T), 1.72e-8),
        (forms.mixed_firing(T), 7.6e-9),
    ],
)
def test_numbers_at_the_quoted_size(value: np.ndarray, expected: float):
    digits = len(f"{expected:g}".split("e")[0].replace(".", "").lstrip("0"))
    assert value == approx(expected, rel=0.5 * 10 ** (1 - digits)), "to the digits given"


# --- Against plain sums and exact fractions


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("chi2", ["1e-12", "1e-7", "1e-4", "0.00999", "0.5", "20"])
def test_the_chi2_chain_is_exact_down_to_tiny_divergences(horizon: int, chi2: str):
    exact = (1 + Fraction(chi2)) ** horizon - 1 - horizon * Fraction(chi2)
    assert 4 * forms.chi2_chain(horizon, float(chi2)) ** 2 == approx(float(exact), rel=1e-11, abs=0)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("tv", ["0", "1e-12", "1e-7", "1e-4", "0.00999", "0.5", "1"])
def test_the_coupling_chain_is_the_sum_it_stands_for(horizon: int, tv: str):
    d = Fraction(tv)
    exact = 2 * d * sum(1 - (1 - d) ** (t - 1) for t in range(1, horizon + 1))
    assert forms.coupling_chain(horizon, float(tv)) == approx(float(exact), rel=1e-11, abs=0)


@fixed
@given(horizons, tvs, kls)
def test_the_position_minimum_is_the_sum_it_stands_for(horizon: int, tv: float, kl: float):
    total = 0.0
    for before in range(horizon):
        total += min(1 - (1 - tv) ** before, np.sqrt(before * kl / 2), np.sqrt(1 - np.exp(-before * kl)))
    assert forms.position_minimum(horizon, tv, kl) == approx(2 * tv * total, rel=1e-9, abs=1e-12)


@fixed
@given(st.integers(1, 12), tvs)
def test_chains_sum_the_shifts_of_positions(horizon: int, tv: float):
    positions = np.arange(1, horizon + 1)
    shifts = forms.simulation_lemma(positions, tv).sum()
    assert forms.tv_chain(horizon, tv) == approx(4 * tv * shifts, rel=1e-12)
    assert forms.quadratic(horizon, tv, 0.5) == approx(2 * tv * shifts, rel=1e-12)
    assert forms.linear_tv_chain(horizon, tv, 3.0) == approx(6 * shifts, rel=1e-12)
    assert forms.token_gradient_bias(horizon, tv, 1.5) == approx(3 * shifts, rel=1e-12)
    assert forms.coupling_chain(horizon, tv) == approx(2 * tv * forms.coupling(positions, tv).sum(), rel=1e-9)


# --- Which is smaller


@fixed
@given(horizons, tvs, kls)
def test_order_of_the_penalties(horizon: int, tv: float, kl: float):
    slack = 1 + 1e-9
    assert forms.coupling_chain(horizon, tv) <= forms.halved(forms.tv_chain(horizon, tv)) * slack
    assert forms.position_minimum(horizon, tv, kl) <= forms.coupling_chain(horizon, tv) * slack + 1e-12
    assert forms.tv_chain(horizon, min(pinsker(kl).item(), 1)) <= forms.kl_chain(horizon, kl) * slack
    assert forms.uniform_kl(horizon, kl) <= forms.pinsker_marginal(horizon, kl)
    assert forms.uniform_kl(horizon, kl) <= forms.halved(forms.mixed(horizon, kl, horizon * kl)) * slack or horizon < 1
    if horizon >= 3:
        assert forms.uniform_kl(horizon, kl) <= forms.halved(forms.pinsker_marginal(horizon, kl))
    assert forms.improvement_limit(kl) <= min(1, pinsker(kl).item())


@pytest.mark.parametrize("horizon", [1, 2, 50, 4096])
def test_kl_of_answers_beats_its_root_up_to_half_the_horizon(horizon: int):
    kl_seq = horizon / 2 * np.array([0.99, 1.01])
    assert (kl_seq < forms.pinsker_sum(horizon, kl_seq)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("threshold", "penalty"),
    [
        (forms.kl_chain_threshold, forms.kl_chain),
        (forms.pinsker_marginal_threshold, forms.pinsker_marginal),
        (forms.mixed_threshold, lambda horizon, kl: forms.mixed(horizon, kl, horizon * kl)),
    ],
)
@pytest.mark.parametrize("horizon", [2, 100, 4096])
def test_a_threshold_is_where_the_penalty_is_one(threshold: Callable, penalty: Callable, horizon: int):
    assert brentq(lambda kl: penalty(horizon, kl) - 1, 0, 1) == approx(threshold(horizon).item(), rel=1e-6, abs=1e-11)
    assert penalty(horizon, threshold(horizon)) == approx(1, rel=1e-12)


def test_mixed_crosses_pinsker_marginal_where_stated():
    crossing = forms.mixed_crossover(100, 0.01)
    assert forms.mixed(100, 0.01, crossing) == approx(forms.pinsker_marginal(100, 0.01), rel=1e-12)
    assert forms.minoriser(100, 0.01, 0.9 * crossing) == forms.mixed(100, 0.01, 0.9 * crossing)
    assert forms.minoriser(100, 0.01, 1.1 * crossing) == forms.pinsker_marginal(100, 0.01)


@pytest.mark.parametrize("horizon", [4, 64, 4096])
@pytest.mark.parametrize(
    ("firing", "penalty"),
    [
        (forms.pinsker_marginal_firing, lambda horizon, kl, kl_seq: forms.pinsker_marginal(horizon, kl)),
        (forms.mixed_firing, forms.mixed),
    ],
)
def test_above_the_firing_threshold_no_rewards_make_a_certificate_positive(
    horizon: int, firing: Callable, penalty: Callable
):
    """Below it, the limit on L leaves room: with Pinsker's form of the limit the threshold is exact."""
    share = np.linspace(1e-6, 1, 2001)
    for factor, can_fire in ((1.001, False), (0.999, True)):
        kl = factor * firing(horizon)
        kl_seq = share * horizon * kl
        room = pinsker(kl_seq) + kl_seq - penalty(horizon, kl, kl_seq)
        assert (room.max() > 0) == can_fire
    kl = 1.001 * firing(horizon)
    assert (forms.surrogate_limit(share * horizon * kl) - penalty(horizon, kl, share * horizon * kl)).max() <= 0


def test_no_certificate_fires_at_the_quoted_numbers():
    assert (forms.best_certificate(T, DELTA, np.array([0.4096, 0.01])) < -8).all()
    assert forms.best_certificate(T, 1e-9, 1e-9 * T) > 0, "and far below they could"


# --- Curves, ends, errors


def test_every_form_takes_curves():
    horizon, share = np.array([1, 2, 4096])[:, None], np.linspace(0, 1, 5)
    curves = [
        *(form(horizon, share) for form in (forms.tv_chain, forms.kl_chain, forms.pinsker_marginal, forms.uniform_kl)),
        *(form(horizon, share) for form in (forms.coupling_chain, forms.pinsker_sum)),
        *(form(horizon, share) for form in (forms.chi2_chain, forms.sequence_second_moment, forms.mixed_crossover)),
        *(form(horizon, share, share) for form in (forms.mixed, forms.minoriser, forms.position_minimum)),
        *(form(horizon, share, 2.0) for form in (forms.quadratic, forms.linear_tv_chain, forms.token_gradient_bias)),
        forms.composite(horizon, share, share, 1.0),
        forms.best_certificate(horizon, share, share),
    ]
    for curve in curves:
        assert curve.shape == (3, 5)
        assert not np.isnan(curve).any()
    for i, t in enumerate((1, 2, 4096)):
        assert curves[11][i] == approx([forms.position_minimum(t, d, d).item() for d in share], rel=1e-12)


@pytest.mark.parametrize("form", [forms.kl_chain, forms.chi2_chain])
def test_at_one_token_even_infinite_divergence_costs_nothing(form: Callable):
    assert form(1, np.inf) == 0


def test_infinite_kl_makes_infinite_penalties_of_several_tokens():
    assert forms.kl_chain(2, np.inf) == forms.mixed(2, np.inf, np.inf) == forms.uniform_kl(1, np.inf) == np.inf
    assert forms.mixed(2, np.inf, 0.0) == 0
    assert forms.position_minimum(3, 0.5, np.inf) == approx(forms.coupling_chain(3, 0.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: forms.tv_chain(0, 0.1), "horizon is 0; an answer has at least 1 token"),
        (lambda: forms.tv_chain(2, 1.5), r"tv_max is 1\.5; a total variation is at most 1"),
        (lambda: forms.kl_chain(2, -0.1), r"kl_max is -0\.1; it must be 0 or more"),
        (lambda: forms.mixed(2, 0.1, np.nan), "kl_seq is nan"),
        (lambda: forms.chi2_chain(np.array([2, 0.5]), 0.1), "horizon is"),
        (lambda: forms.linear(0.1, -1.0), "reward_max is -1"),
        (lambda: forms.coupling(0, 0.1), "horizon is 0"),
        (lambda: forms.surrogate_limit(-1.0), "kl_seq is -1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(call: Callable[[], np.ndarray], message: str):
    with pytest.raises(ValueError, match=message):
        call()
