"""What the sources print and is false fails on its counterexample, and only there where it is meant to."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from rlnotes.bounds import token_closed_forms as forms
from rlnotes.bounds import tokens, tokens_as_printed
from rlnotes.exact import token_families as families
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_divergences import context_kl
from rlnotes.exact.tokens import expected_reward, single_prompt, single_prompt_policy
from tests.bounds.token_cases import GOLDEN, golden_case, random_cases, trials


def test_a_mask_certifies_an_improvement_that_is_a_loss():
    golden, case = GOLDEN["G12"]["outputs"], families.masked_branch()
    kept = families.begins_with_zero(case.model)
    bound = tokens_as_printed.trm_as_printed(*case, kept, 1e-4)
    assert not bound.holds
    measured = (bound.true, bound.surrogate, bound.penalty, bound.lower)
    keys = ("dJ", "L", "PM_bound_with_delta", "M_certificate")
    assert measured == approx([golden[key] for key in keys], rel=1e-10)
    masked = tokens_as_printed.masked_trm_as_printed(*case, kept, 1e-4)
    assert masked.surrogate == approx(golden["L_masked"], rel=1e-10)
    assert tokens.pinsker_marginal(*case).holds, "the bound itself, with the maximum over all contexts, is true"


def test_every_criterion_of_the_mask_keeps_those_answers():
    case = families.masked_branch()
    kept = families.begins_with_zero(case.model)
    for criterion in (tokens_as_printed.kept_by_kl, tokens_as_printed.kept_by_k3):
        assert np.array_equal(criterion(*case, 1e-4), kept)
    assert np.array_equal(tokens_as_printed.kept_by_log_ratio(*case, 0.1), kept)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 0.0])
def test_a_masked_surrogate_can_rise_at_any_threshold(delta: float):
    case = families.hidden_branch()
    kept = tokens_as_printed.kept_by_log_ratio(*case, delta)
    assert np.array_equal(kept, families.begins_with_zero(case.model))
    bound = tokens_as_printed.masked_trm_as_printed(*case, kept, delta)
    assert bound.lower > 0 and not bound.holds
    assert (bound.surrogate, bound.true) == approx((0.05, -0.40))
    assert bound.penalty == approx(4 / 3 * 2**1.5 * delta)


def test_a_ratio_near_one_does_not_bound_kl():
    case = families.unsampled_tokens()
    kept = tokens_as_printed.kept_by_log_ratio(*case, 0.0)
    assert kept.tolist() == [[True, False, False]]
    with pytest.raises(ValueError, match=r"delta is 0\.0, and kept answers pass a context with KL 4\.25"):
        tokens_as_printed.trm_as_printed(*case, kept, 0.0)


def test_any_other_baseline_promises_reward_for_standing_still():
    policy = golden_case("G10").behavior
    case = TokenCase(golden_case("G10").model, policy, policy)
    good = tokens_as_printed.any_baseline_as_printed(*case, expected_reward(case.model, policy))
    none = tokens_as_printed.any_baseline_as_printed(*case, 0)
    assert good.holds and good.surrogate == approx(0, abs=1e-12)
    assert not none.holds and none.surrogate == approx(3 * 0.516)
    lengths = tokens_as_printed.any_baseline_as_printed(*families.two_lengths(), 0.5)
    assert not lengths.holds and lengths.surrogate == approx(0.25)


def test_kl_the_other_way_round_is_no_bound():
    case = families.dropped_branch()
    bound = tokens_as_printed.reversed_sequence_kl_as_printed(*case)
    assert not bound.holds
    assert bound.surrogate - bound.true == approx(0.19602, abs=1e-12)
    assert bound.penalty == approx(0.1053605157, abs=5e-11)


def test_pinsker_marginal_survives_the_other_direction():
    """With the maximum of KL(target, behavior), consistently: 001 4.4.1 is right there."""
    for case in trials():
        turned = forms.pinsker_marginal(case.model.horizon, tokens.kl_max(case.model, case.behavior, case.target))
        bound = tokens.tv_chain(*case)
        assert replace(bound, penalties={"reversed": tokens.scaled(case.model, turned)}).holds


def test_without_support_the_identity_and_its_bound_fail():
    gained = tokens_as_printed.identity_as_printed(*families.no_common_token(1))
    assert (gained.true, gained.lower) == (1, 0)
    lost = families.no_common_token(-1)
    for bound_of in (tokens_as_printed.identity_as_printed, tokens_as_printed.quadratic_as_printed):
        bound = bound_of(*lost)
        assert (bound.true, bound.lower) == (-1, 0) and not bound.holds


def test_with_support_they_are_the_bounds_of_004():
    for case in random_cases()[:50]:
        for printed, right in (
            (tokens_as_printed.identity_as_printed, tokens.identity),
            (tokens_as_printed.quadratic_as_printed, tokens.quadratic),
        ):
            assert printed(*case).lower == approx(right(*case).lower, rel=1e-8, abs=1e-9)


def test_every_certificate_at_the_quoted_numbers_is_idle():
    """001 4.5.2: the largest L that D_seq allows is below the "non-vacuous" penalty, on models as in closed form."""
    model = single_prompt([1.0, 0.0], 2, 1)
    old = single_prompt_policy([[(0.5, 0.5)]])
    new = single_prompt_policy([[(0.6, 0.4)]])
    kl = context_kl(model, old, new)[0].item()
    assert tokens.minoriser(model, new, old).lower <= forms.best_certificate(1, kl, kl)
    assert forms.best_certificate(4096, 1e-4, np.array([0.4096, 0.01])).max() < 0
