"""Families of processes: what each docstring says of its gaps and distances, by hand, from the exact side only."""

from itertools import product

import numpy as np
import pytest

from rlnotes.exact.mdp import expected_return, occupancy, surrogate, values
from rlnotes.exact.mdp_families import (
    Case,
    conservative_trap,
    crossed_fork,
    forgotten_way,
    lagging_bandit,
    late_spoiler,
    one_behavior,
    rare_cost,
    replaced_at_once,
    slow_trap,
)
from rlnotes.exact.mixtures import expected_return as mixture_return
from rlnotes.exact.mixtures import occupancy as mixture_occupancy
from rlnotes.exact.mixtures import surrogate as mixture_surrogate

GAMMAS = [0.1, 0.25, 0.5, 0.9, 0.99]
FAMILIES: dict[str, Case] = {
    "crossed_fork": crossed_fork(0.25, 0.25, 0.25),
    "slow_trap": slow_trap(0.9, 0.05),
    "slow_trap, supported": slow_trap(0.9, 0.05, support=1e-3),
    "slow_trap, wide": slow_trap(0.9, 0.75),
    "rare_cost": rare_cost(0.9, 0.3),
    "conservative_trap": conservative_trap(0.9),
    "late_spoiler": late_spoiler(0.9, 0.1, 1e-3, 1e-3),
    "forgotten_way": forgotten_way(0.9, 0.1, 0.01),
    "lagging_bandit": lagging_bandit(0.9, 0.25),
}


def improvement(case: Case) -> float:
    return expected_return(case.mdp, case.new) - expected_return(case.mdp, case.old)


def gap(case: Case) -> float:
    return surrogate(*case) - improvement(case)


def tv(case: Case) -> np.ndarray:
    return np.abs(case.new - case.old).sum(-1) / 2


@pytest.mark.parametrize("name", FAMILIES)
def test_rewards_lie_between_minus_one_and_one(name: str):
    assert np.abs(FAMILIES[name].mdp.r).max() <= 1


def test_the_crossed_fork_loses_what_the_fractions_say():
    """gamma = 1/4, D = 1/4: L = 0 and J falls by 1/12, although 004 Theorem 2.1 as printed allows 1/18."""
    case = crossed_fork(0.25, 0.25, 0.25)
    assert surrogate(*case) == pytest.approx(0, abs=1e-15)
    assert improvement(case) == pytest.approx(-1 / 12, rel=1e-12)
    assert np.abs(values(case.mdp, case.old).a).max() == pytest.approx(1)
    assert tv(case) == pytest.approx([0.25] * 3)
    assert (case.old > 0).all()


@pytest.mark.parametrize(("gamma", "first", "last"), list(product(GAMMAS, [0.01, 0.5], [0.02, 0.4])))
def test_the_crossed_fork_loses_four_gamma_first_last(gamma: float, first: float, last: float):
    case = crossed_fork(gamma, first, last)
    assert gap(case) == pytest.approx(4 * gamma * first * last / (1 - gamma), rel=1e-9)


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, [0.01, 0.3, 0.5, 0.75, 1.0])))
def test_the_slow_trap_loses_as_much_as_coupling_allows(gamma: float, D: float):
    case = slow_trap(gamma, D)
    allowed = 2 * gamma * D * min(1, 2 * D) / ((1 - gamma) * (1 - gamma * (1 - D)))
    assert gap(case) == pytest.approx(allowed, rel=1e-9)
    assert tv(case).max() == pytest.approx(D)
    shift = np.abs(occupancy(case.mdp, case.new) - occupancy(case.mdp, case.old)).sum()
    assert shift == pytest.approx(2 * gamma * D / (1 - gamma * (1 - D)))


@pytest.mark.parametrize(
    ("gamma", "D", "support", "known"), [(0.9, 0.05, 1e-3, 0.6113586359), (0.9, 0.01, 1e-6, 0.0330270)]
)
def test_the_slow_trap_with_common_support_comes_close(gamma: float, D: float, support: float, known: float):
    case = slow_trap(gamma, D, support)
    assert (case.old > 0).all()
    assert gap(case) == pytest.approx(known, rel=1e-5)


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, [0.01, 0.3, 1.0])))
def test_the_rare_cost_is_seen_by_the_new_policy_only(gamma: float, D: float):
    """L = 0, J falls by gamma D / (1 - gamma), and the states shift by 2 gamma D: Lemma 3.1 with a mean TV."""
    case = rare_cost(gamma, D)
    assert gap(case) == pytest.approx(gamma * D / (1 - gamma))
    old, new = occupancy(case.mdp, case.old), occupancy(case.mdp, case.new)
    assert np.abs(new - old).sum() == pytest.approx(2 * gamma / (1 - gamma) * (old @ tv(case)))
    assert new[2] > 0 == old[2]


@pytest.mark.parametrize(("gamma", "alpha"), list(product(GAMMAS, [0.01, 0.5, 1.0])))
def test_steps_into_the_conservative_trap_lose_what_kakade_and_langford_allow(gamma: float, alpha: float):
    mdp, other, old = conservative_trap(gamma)
    step = Case(mdp, (1 - alpha) * old + alpha * other, old)
    np.testing.assert_allclose((other * values(mdp, old).a).sum(-1), [1, -1], atol=1e-12)
    allowed = 2 * gamma * alpha**2 / ((1 - gamma) * (1 - gamma * (1 - alpha)))
    assert gap(step) == pytest.approx(allowed, rel=1e-9)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_late_spoiler_nears_gamma_times_the_mean_kl(gamma: float):
    case = late_spoiler(gamma, 1e-3, 1e-9, 1e-5)
    kl = (case.old * np.log(case.old / case.new)).sum(-1)
    ratio = gap(case) * (1 - gamma) ** 2 / (occupancy(case.mdp, case.old) @ kl)
    assert ratio == pytest.approx(gamma, rel=2e-3)


def test_the_forgotten_way_deceives_the_other_direction():
    case = forgotten_way(0.9, 0.1, 0.01)
    reached = case.new > 0
    kl = np.where(reached, case.new * np.log(np.where(reached, case.new, 1) / case.old), 0.0).sum(-1)
    assert gap(case) > (occupancy(case.mdp, case.new) @ kl) / (1 - 0.9) ** 2
    assert (case.old[~reached] > 0).any()  # KL(old, new) is infinite


@pytest.mark.parametrize(("gamma", "D"), list(product(GAMMAS, [0.01, 0.5])))
def test_the_lagging_bandit_is_worse_by_twice_the_distance(gamma: float, D: float):
    case = lagging_bandit(gamma, D)
    assert improvement(case) == pytest.approx(2 * D / (1 - gamma))
    assert tv(case) == pytest.approx([D])
    np.testing.assert_allclose(values(case.mdp, case.new).a, [[1, -1]], atol=1e-12)


def test_one_behavior_is_the_old_policy():
    case = crossed_fork(0.5, 0.25, 0.1)
    mdp, mixture, new = one_behavior(case, copies=3)
    assert new is case.new
    assert mixture_return(mdp, mixture) == pytest.approx(expected_return(mdp, case.old))
    assert mixture_surrogate(mdp, mixture, new) == pytest.approx(surrogate(*case))
    np.testing.assert_allclose(mixture_occupancy(mdp, mixture).sum(-1), occupancy(mdp, case.old))


def test_the_replaced_policy_was_never_paid():
    mdp, mixture, new = replaced_at_once(0.9, 0.25, 0.5)
    assert mixture_return(mdp, mixture) == pytest.approx(0, abs=1e-12)
    assert expected_return(mdp, new) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: crossed_fork(0.5, 0.6, 0.1), r"new\[0, 1\] is -0\.\d+; a probability cannot be negative"),
        (lambda: rare_cost(1.5, 0.1), "gamma is 1.5"),
        (lambda: lagging_bandit(0.5, 0.6), r"old\[0, 0\] is -0\.\d+; a probability cannot be negative"),
    ],
)
def test_numbers_that_make_no_policy_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()
