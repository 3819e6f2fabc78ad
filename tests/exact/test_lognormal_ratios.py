"""Log-normal ratios of mean 1: closed forms against numerical integration."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from rlnotes.exact import lognormal_ratios as ratios

SPREADS = pytest.mark.parametrize("spread", [0.003, 0.1, 0.7, 1.5])


def mean_under_mu(f, spread: float) -> float:
    """The mean of ``f`` of the ratio; where the ratio passes 1 the integrand has a kink."""

    def integrand(z: float) -> float:
        return norm.pdf(z) * f(np.exp(spread * z - spread**2 / 2))

    return quad(integrand, -14, 14, points=[spread / 2], epsabs=1e-13, epsrel=1e-11, limit=400)[0]


@SPREADS
def test_divergences_are_those_of_the_ratio(spread: float):
    assert mean_under_mu(lambda r: r, spread) == pytest.approx(1, rel=1e-9)
    assert ratios.tv(spread) == pytest.approx(mean_under_mu(lambda r: abs(r - 1) / 2, spread), rel=1e-8)
    assert ratios.kl(spread) == pytest.approx(mean_under_mu(lambda r: -np.log(r), spread), rel=1e-8)
    assert ratios.chi2(spread) == pytest.approx(mean_under_mu(lambda r: (r - 1) ** 2, spread), rel=1e-8)


@SPREADS
@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0, 1.28, 3.0])
def test_chances_add_up_and_are_those_of_the_law(spread: float, ratio: float):
    law = norm(-(spread**2) / 2, spread)
    assert ratios.above(spread, ratio) == pytest.approx(law.sf(np.log(ratio)), rel=1e-10)
    assert ratios.below(spread, ratio) == pytest.approx(law.cdf(np.log(ratio)), rel=1e-10)


def test_no_ratio_is_below_zero():
    np.testing.assert_array_equal(ratios.below(0.1, np.array([-2.0, 0.0])), 0)


def test_one_token_in_a_thousand_is_beyond_the_tail():
    spread = ratios.spread_of(0.01)
    beyond = ratios.above(spread, np.exp(0.01)) + ratios.below(spread, np.exp(-0.01))
    assert beyond == pytest.approx(1e-3, rel=1e-3)  # the mean of the log-ratio is left out


@pytest.mark.parametrize(("chance", "tokens"), [(1e-9, 4096), (0.01, 1), (0.3, 7), (0.0, 5)])
def test_some_token_is_out_as_often_as_a_binomial_is_not_zero(chance: float, tokens: int):
    assert ratios.some_of(chance, tokens) == pytest.approx(binom.sf(0, tokens, chance), rel=1e-9)


def test_a_certain_outlier_is_certain():
    assert ratios.some_of(1.0, 3) == 1


@pytest.mark.parametrize("name", ["tv", "kl", "chi2"])
def test_a_spread_that_is_not_positive_is_named(name: str):
    with pytest.raises(ValueError, match=r"spread is -1; it must be positive"):
        getattr(ratios, name)(np.array([0.5, -1.0]))


def test_a_tail_that_is_not_positive_is_named():
    with pytest.raises(ValueError, match=r"tail is 0; it must be positive"):
        ratios.spread_of(0.0)
