import itertools
import math

import numpy as np
import pytest

from rlnotes.exact.random_tokens import REGIMES, random_case
from rlnotes.exact.token_divergences import (
    context_chi2,
    context_kl,
    context_tv,
    largest,
    mean_by_position,
    second_moment,
    sequence_kl,
    sequence_tv,
)
from rlnotes.exact.token_surrogates import (
    delta,
    error,
    excess,
    gains,
    improvement_by_position,
    printed_surrogate,
    surrogate,
    surrogate_by_position,
    worst_error,
    worst_surrogate,
)
from rlnotes.exact.tokens import (
    expected_reward,
    force_eos,
    improvement,
    log_token_ratios,
    sequence_probs,
    single_prompt,
    single_prompt_policy,
    token_ratios,
    values,
    variance,
)
from tests.cases import cases
from tests.golden_audit import GOLDEN


def exactly(wanted):
    return pytest.approx(wanted, rel=1e-10, abs=1e-12)


def golden_case(name: str):
    given = GOLDEN[name]["inputs"]
    old, new = ("pi_roll", "pi_theta") if name == "G10" else ("mu", "pi")
    model = single_prompt(given["R_lexicographic"], given["K"], given["T"])
    return model, single_prompt_policy(given[new]), single_prompt_policy(given[old]), GOLDEN[name]["outputs"]


def trm_case():
    """G12: the mask keeps answers that start with token 0."""
    given = GOLDEN["G12"]["inputs"]
    beta, big, small, kappa = (given[key] for key in ("beta", "D", "d", "kappa"))
    old = [[[1 - beta, beta]], [[0.5, 0.5], [1 - kappa, kappa]]]
    new = [[[1 - beta - big, beta + big]], [[0.5 + small, 0.5 - small], [kappa, 1 - kappa]]]
    model = single_prompt([1, 0, given["r"], 0], 2, 2)
    return model, single_prompt_policy(new), single_prompt_policy(old), np.array([[True, True, False, False]])


def listing(model, target, behavior):
    """(weight, mu(y|x), ratios, R) of every answer that mu gives, walked token by token."""
    for prompt, weight in enumerate(model.prompt_weights):
        for index, answer in enumerate(itertools.product(range(model.vocab_size), repeat=model.horizon)):
            prefix, chance, ratios = 0, 1.0, []
            for t, token in enumerate(answer):
                old, new = behavior[t][prompt][prefix, token], target[t][prompt][prefix, token]
                chance *= old
                ratios.append(new / old if old > 0 else math.nan)
                prefix = prefix * model.vocab_size + token
            if chance > 0:
                yield weight * chance, np.array(ratios), model.reward[prompt, index], answer


def random_cases(divisor: int = 1):
    rng = np.random.default_rng(7)
    for k in range(max(cases() // divisor, len(REGIMES))):
        yield random_case(rng, REGIMES[k % len(REGIMES)])


@pytest.mark.parametrize("name", ["G10", "G14"])
def test_golden_values_of_surrogate_error_and_divergences(name):
    model, target, behavior, golden = golden_case(name)
    tv, kl = context_tv(model, target, behavior), context_kl(model, behavior, target)
    chi2 = context_chi2(model, target, behavior)
    found = {
        "J_mu": expected_reward(model, behavior),
        "J_pi": expected_reward(model, target),
        "dJ": improvement(model, target, behavior),
        "L": surrogate(model, target, behavior),
        "Error": error(model, target, behavior),
        "Delta_004": delta(model, target, behavior),
        "DTV_max": largest(model, tv, target, behavior, contexts="all"),
        "DKL_max": largest(model, kl, target, behavior, contexts="behavior"),
        "chi2_max": largest(model, chi2, target, behavior, contexts="either"),
        "DKL_seq": sequence_kl(model, behavior, target),
        "sum_E_TV": mean_by_position(model, tv, behavior).sum(),
        "seq_TV": sequence_tv(model, target, behavior),
        "E_w2": second_moment(model, target, behavior),
        "var_sum_rho": variance(model, behavior, token_ratios(model, target, behavior).sum(-1)),
    }
    assert found == exactly({key: golden[key] for key in found})


def test_worst_rewards_of_a_golden_pair():
    model, target, behavior, _ = golden_case("G10")
    assert worst_error(model, target, behavior) == exactly(0.00875)
    assert worst_surrogate(model, target, behavior) == exactly(0.075)
    k3 = (token_ratios(model, target, behavior) - 1 - log_token_ratios(model, target, behavior)).sum(-1)
    weighted = sequence_probs(model, behavior) * k3
    assert (weighted * model.reward).sum() == pytest.approx(0.0104944661550, abs=1e-12)
    assert (weighted * (1 - model.reward)).sum() == pytest.approx(0.0087252858419, abs=1e-12)


def test_a_mask_over_answers_certifies_a_worse_policy():
    model, target, behavior, kept = trm_case()
    golden = GOLDEN["G12"]["outputs"]
    mean = expected_reward(model, behavior)
    kl = context_kl(model, behavior, target)
    k3 = token_ratios(model, target, behavior) - 1 - log_token_ratios(model, target, behavior)
    found = {
        "J_roll": mean,
        "J_theta": expected_reward(model, target),
        "dJ": improvement(model, target, behavior),
        "L": surrogate(model, target, behavior),
        "L_masked": printed_surrogate(model, target, behavior, mean, kept),
        "KL_x": kl[0][0, 0],
        "KL_ctxA": kl[1][0, 0],
        "KL_ctxB": kl[1][0, 1],
        "k3_max_on_accepted": k3[kept].max(),
    }
    assert found == exactly({key: golden[key] for key in found})
    seen = largest(model, kl, target, behavior, contexts="behavior", kept=kept)
    there = largest(model, kl, target, behavior, contexts="behavior")
    assert seen == exactly(golden["KL_ctxA"])
    assert there == exactly(golden["KL_ctxB"])
    delta_kl = GOLDEN["G12"]["inputs"]["delta"]
    assert seen <= delta_kl and found["L"] - 4 / 3 * 2**1.5 * delta_kl == exactly(golden["M_certificate"])
    assert golden["M_certificate"] > 0 > found["dJ"]


def test_masked_answers_hide_a_loss_at_ratio_one():
    model = single_prompt([1, 1, 1, 0], 2, 2)
    behavior = single_prompt_policy([[[0.5, 0.5]], [[0.5, 0.5], [0.9, 0.1]]])
    target = single_prompt_policy([[[0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]])
    kept = np.array([[1, 1, 0, 0]])
    assert printed_surrogate(model, target, behavior, expected_reward(model, behavior), kept) == pytest.approx(0.05)
    assert improvement(model, target, behavior) == pytest.approx(-0.4)


def test_everything_equals_a_walk_over_all_answers():
    for model, target, behavior in random_cases(divisor=4):
        walk = list(listing(model, target, behavior))
        found = {
            "mass": sequence_probs(model, behavior).sum(),
            "J": expected_reward(model, behavior),
            "J_new": expected_reward(model, target),
            "L": surrogate(model, target, behavior),
            "printed": printed_surrogate(model, target, behavior, 0.3),
            "worst_error": worst_error(model, target, behavior),
            "worst_surrogate": worst_surrogate(model, target, behavior),
            "w2": second_moment(model, target, behavior),
            "chi2": (mean_by_position(model, context_chi2(model, target, behavior), behavior)).sum(),
        }
        lengths = [len(a) if model.eos is None or model.eos not in a else a.index(model.eos) + 1 for *_, a in walk]
        wanted = {
            "mass": sum(p for p, *_ in walk),
            "J": sum(p * r for p, _, r, _ in walk),
            "J_new": sum(p * rho.prod() * r for p, rho, r, _ in walk),
            "L": sum(p * r * (rho - 1).sum() for p, rho, r, _ in walk),
            "printed": sum(p * (r - 0.3) * rho[:n].sum() for (p, rho, r, _), n in zip(walk, lengths, strict=True)),
            "worst_error": sum(p * abs(rho.prod() - 1 - (rho - 1).sum()) / 2 for p, rho, _, _ in walk),
            "worst_surrogate": sum(p * max(0, -(rho - 1).sum()) for p, rho, _, _ in walk),
            "w2": sum(p * rho.prod() ** 2 for p, rho, _, _ in walk),
            "chi2": sum(p * ((rho - 1) ** 2).sum() for p, rho, _, _ in walk),
        }
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_identities_of_001_and_004():
    for model, target, behavior in random_cases():
        gain, local = improvement(model, target, behavior), surrogate(model, target, behavior)
        missed = error(model, target, behavior)
        scale = 1 + second_moment(model, target, behavior) ** 0.5
        assert gain == pytest.approx(local + missed, abs=1e-12 * scale)
        assert delta(model, target, behavior) == pytest.approx(-missed, abs=1e-12 * scale)
        assert surrogate_by_position(model, target, behavior).sum() == pytest.approx(local, abs=1e-12 * scale)
        assert improvement_by_position(model, target, behavior).sum() == pytest.approx(gain, abs=1e-12)
        x, n = excess(model, target, behavior)
        probs = sequence_probs(model, behavior)
        assert [(probs * x).sum(), (probs * n).sum()] == pytest.approx([0, 0], abs=1e-12 * scale)
        np.testing.assert_allclose(
            sum((p * v).sum() for p, v in zip(probs, values(model, behavior).v[0], strict=True)),
            expected_reward(model, behavior),
            atol=1e-12,
        )


def test_a_constant_added_to_rewards_moves_only_the_printed_surrogate():
    model, target, behavior, _ = golden_case("G10")
    moved = single_prompt(model.reward[0] - 0.4, 2, 3)
    mean = expected_reward(model, behavior)
    assert surrogate(moved, target, behavior) == pytest.approx(surrogate(model, target, behavior), abs=1e-14)
    assert error(moved, target, behavior) == pytest.approx(error(model, target, behavior), abs=1e-14)
    right = printed_surrogate(model, target, behavior, mean)
    assert right == pytest.approx(surrogate(model, target, behavior), abs=1e-14)
    assert printed_surrogate(model, target, behavior, 0.1) - right == pytest.approx(3 * (mean - 0.1), abs=1e-14)


def test_with_lengths_that_vary_the_printed_surrogate_is_not_zero_on_policy():
    model = single_prompt([0, 0, 1, 1], 2, 2, eos=0)
    policy = force_eos(model, single_prompt_policy([[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]))
    assert expected_reward(model, policy) == 0.5
    assert printed_surrogate(model, policy, policy, baseline=0.5) == pytest.approx(0.25, abs=1e-15)
    assert surrogate(model, policy, policy) == 0


def test_chain_rule_and_bounds_between_divergences():
    for model, target, behavior in random_cases():
        p, q = sequence_probs(model, behavior), sequence_probs(model, target)
        backward = sum(a * math.log(a / b) for a, b in zip(q.flat, p.flat, strict=True) if a > 0)
        assert sequence_kl(model, target, behavior) == pytest.approx(backward, rel=1e-9, abs=1e-12)
        tv = mean_by_position(model, context_tv(model, target, behavior), behavior).sum()
        assert sequence_tv(model, target, behavior) <= tv + 1e-12  # 004 Lemma B.1
        for t, gain in enumerate(gains(model, target, behavior)):
            spans = np.ptp(values(model, behavior).q[t], axis=-1)
            assert np.all(np.abs(gain) <= context_tv(model, target, behavior)[t] * spans + 1e-12)


def test_worst_reward_is_the_worst_of_all_0_1_rewards():
    rng = np.random.default_rng(3)
    for _ in range(5):
        target, behavior = ([rng.dirichlet([1, 1], (1, 2**t)) for t in range(3)] for _ in range(2))
        models = [single_prompt(reward, 2, 3) for reward in itertools.product((0.0, 1.0), repeat=8)]
        assert max(abs(error(m, target, behavior)) for m in models) == pytest.approx(
            worst_error(models[0], target, behavior), abs=1e-14
        )
        assert max(abs(surrogate(m, target, behavior)) for m in models) == pytest.approx(
            worst_surrogate(models[0], target, behavior), abs=1e-14
        )


def test_variance_of_ratio_sums():
    for model, target, behavior in random_cases(divisor=4):
        chi2 = mean_by_position(model, context_chi2(model, target, behavior), behavior).sum()
        spread = variance(model, behavior, token_ratios(model, target, behavior).sum(-1))
        assert spread == pytest.approx(chi2, rel=1e-9, abs=1e-12)
    model = single_prompt(np.repeat([1.0, 0.0], 2**9), 2, 10)
    fair = [np.full((1, 2**t, 2), 0.5) for t in range(10)]
    ratio_sum = token_ratios(model, fair, fair).sum(-1)
    assert variance(model, fair, ratio_sum) == 0
    assert variance(model, fair, (model.reward - 0.5) * ratio_sum) == pytest.approx(25, abs=1e-12)
