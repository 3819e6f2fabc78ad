"""A rollout that holds every response as often as mu writes it: its estimates are then the court's numbers."""

import math

import numpy as np
import pytest
import torch

from rlnotes.bounds import derived, tokens
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact.token_surrogates import surrogate
from rlnotes.exact.tokens import (
    TokenModel,
    expected_reward,
    force_eos,
    improvement,
    log_token_ratios,
    sequence_probs,
    sequences,
)
from rlnotes.lm.certificate import Certificate, certificate, from_sampled
from rlnotes.lm.rollout import Rollout
from rlnotes.objectives.masks import DivergenceMask, Every

V, T, EOS = 3, 2, 0
EIGHTHS = ([1, 2, 5], [4, 3, 1], [2, 2, 4], [3, 1, 4], [1, 1, 6])
MASK = Every((DivergenceMask(0.5, "abs", "max"), DivergenceMask(0.05, "k3", "mean")))
Case = tuple[TokenModel, list[np.ndarray], list[np.ndarray]]


def random_model(seed: int) -> Case:
    """A model, pi, and mu, whose probabilities are eighths, so that those of responses are 64ths."""
    rng = np.random.default_rng(seed)
    model = TokenModel(rng.random((1, V**T)), V, T, np.ones(1), EOS)
    drawn = [rng.choice(EIGHTHS, size=(1, V**t)) / 8 for t in range(T)]
    moved = [np.exp(np.log(rows) + rng.normal(size=rows.shape)) for rows in drawn]
    pi = [rows / rows.sum(-1, keepdims=True) for rows in moved]
    return model, force_eos(model, pi), force_eos(model, drawn)


def listed(case: Case) -> tuple[torch.Tensor, torch.Tensor, Rollout, torch.Tensor]:
    """mu's and pi's rows, the rollout, and its rewards, 64 responses in all. NaN stands outside the mask."""
    model, pi, mu = case
    times = np.round(sequence_probs(model, mu)[0] * 64).astype(int)
    numbers = np.repeat(np.arange(V**T), times)
    assert len(numbers) == 64
    responses = torch.from_numpy(sequences(V, T)[numbers].astype(np.int64))
    rollout = Rollout.of_responses(torch.zeros(1, 1, dtype=torch.long), responses, EOS)
    before = [numbers // V ** (T - t) for t in range(T)]
    rows = (
        torch.from_numpy(np.stack([np.log(np.maximum(p[t][0, before[t]], 1e-300)) for t in range(T)], 1))
        for p in (mu, pi)
    )
    mu_rows, pi_rows = (torch.where(rollout.mask[..., None], one, torch.nan) for one in rows)
    return mu_rows, pi_rows, rollout, torch.from_numpy(model.reward[0, numbers])


def walk(case: Case, kept: np.ndarray) -> float:
    """E[M R log w - (1 - M) R], answer by answer."""
    model, _, mu = case
    total = 0.0
    for p, gain, log_w, keep in zip(
        sequence_probs(model, mu)[0], model.reward[0], log_token_ratios(*case)[0].sum(-1), kept, strict=True
    ):
        if p > 0:
            total += p * gain * (log_w if keep else -1.0)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_from_every_response_as_often_as_mu_writes_it_the_estimates_are_exact(seed: int):
    case = random_model(seed)
    model, pi, mu = case
    found = certificate(*listed(case), MASK)
    log_ratio, probs = log_token_ratios(*case)[0], sequence_probs(model, mu)[0]
    met = probs > 0
    seen = np.abs(log_ratio[met])
    exact = dict(
        responses=64,
        expected_reward=expected_reward(model, mu),
        surrogate=surrogate(*case),
        sequence_kl=divergences.sequence_kl(model, mu, pi),
        sequence_kl_k3=divergences.sequence_kl(model, mu, pi),
        largest_kl=tokens.kl_max(*case),
        largest_log_ratio=seen.max(),
        minoriser=tokens.minoriser(*case).penalty / float(np.ptp(model.reward[0, met])),
        tv_sum=tokens.tv_sum(*case),
        plain=improvement(*case),
        mean_weight=1.0,
    )
    for name, value in exact.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-10, abs=1e-12), name
    assert found.least_by_kl == pytest.approx(found.surrogate - exact["sequence_kl"], abs=1e-12)
    assert found.least_by_tv == pytest.approx(found.surrogate - exact["tv_sum"], abs=1e-12)
    unit = float(np.ptp(model.reward[0, met]))  # rewards in [0, 1]: what the bounds scale with is at most 1
    assert found.least_by_kl <= derived.sequence_kl(*case).lower + 1e-12 and unit <= 1


@pytest.mark.parametrize("most", [0.3, 0.8, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_promise_of_a_mask_counts_what_it_drops(seed: int, most: float):
    case = random_model(seed)
    found = certificate(*listed(case), DivergenceMask(most, "abs", "max"))
    kept = np.abs(log_token_ratios(*case)[0]).max(-1) <= most
    assert found.masked_promise == pytest.approx(walk(case, kept), abs=1e-12)
    assert found.kept == pytest.approx(sequence_probs(case[0], case[2])[0] @ kept)


def test_standard_error_and_outliers_are_counted_response_by_response():
    case = random_model(3)
    mu_rows, pi_rows, rollout, rewards = listed(case)
    found = certificate(mu_rows, pi_rows, rollout, rewards, MASK)
    terms, sums = [], []
    for n in range(64):
        excess = kl = 0.0
        for t in range(T):
            if rollout.mask[n, t]:
                token, p, q = int(rollout.tokens[n, t]), mu_rows[n, t].exp(), pi_rows[n, t].exp()
                excess += float(q[token] / p[token] - 1)
                kl += float((p * (p / q).log()).sum())
        terms.append(float(rewards[n] - rewards.mean()) * excess)
        sums.append(kl)
    assert found.surrogate == pytest.approx(np.mean(terms), abs=1e-12)
    assert found.standard_error == pytest.approx(np.std(terms, ddof=1) / 8, rel=1e-10)
    assert found.outlier_share == pytest.approx(sum(sorted(sums)[-20:]) / sum(sums), rel=1e-10)
    assert 20 / 64 < found.outlier_share < 1


def test_the_standard_error_of_the_plain_estimate_counts_each_prompt_once():
    case = random_model(3)
    mu_rows, pi_rows, rollout, rewards = listed(case)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    parts = (mu_rows[order], pi_rows[order], rewards[order])
    shuffled = Rollout.of_responses(torch.zeros(8, 1, dtype=torch.long), rollout.tokens[order], EOS)
    found = certificate(parts[0], parts[1], shuffled, parts[2], MASK)
    means = []
    for prompt in range(8):
        terms = []
        for n in range(8 * prompt, 8 * prompt + 8):
            w = 1.0
            for t in range(T):
                if shuffled.mask[n, t]:
                    token = int(shuffled.tokens[n, t])
                    w *= float((parts[1][n, t, token] - parts[0][n, t, token]).exp())
            terms.append(float(parts[2][n]) * (w - 1))
        means.append(sum(terms) / 8)
    assert found.plain == pytest.approx(np.mean(means), abs=1e-12)
    assert found.plain_error == pytest.approx(np.std(means, ddof=1) / np.sqrt(8), rel=1e-10)


def test_equal_policies_are_certified_no_change():
    mu_rows, _, rollout, rewards = listed(random_model(0))
    found = certificate(mu_rows, mu_rows, rollout, rewards, MASK)
    zeros = ("surrogate", "standard_error", "sequence_kl", "sequence_kl_k3", "largest_kl", "minoriser", "tv_sum")
    zeros += ("plain", "plain_error")
    assert {name: getattr(found, name) for name in zeros} == dict.fromkeys(zeros, 0.0)
    assert found.masked_promise == 0 and found.kept == 1 and found.mean_weight == 1 and np.isnan(found.outlier_share)


def test_it_prints_its_numbers():
    numbers = (2048, 0.62, -0.1, 0.05, 1.27, 1.23, 0.08, 6.3, 6.49, 51.0, 0.39, 0.65, -0.16, -0.14, 0.025, 0.88)
    lines = str(Certificate(*numbers)).splitlines()
    assert lines == [
        "L -0.1000 (standard error 0.0500), J(mu) 0.62",
        "E[R (w - 1)] -0.1400 (standard error 0.0250), mean of w 0.88",
        "D_seq by rows 1.2700, by k3 1.2300",
        "of it 8% from 20 of 2048 responses",
        "D_max seen 6.300, max |log rho| 6.49, smaller bound of 001 51.00",
        "least change: L - D_seq -1.37, L - sum of mean TV -0.49, E[M R log w - (1 - M) R] -0.16",
        "the mask M, used in the last, keeps 65%",
    ]


def test_what_does_not_fit_is_refused():
    mu_rows, pi_rows, rollout, rewards = listed(random_model(0))
    with pytest.raises(ValueError, match=r"pi_rows has shape \(64, 2\); \(64, 2, V\) is needed"):
        certificate(mu_rows, pi_rows[..., 0], rollout, rewards, MASK)
    with pytest.raises(ValueError, match=r"rewards has shape \(63,\); one per response, \(64,\), is needed"):
        certificate(mu_rows, pi_rows, rollout, rewards[1:], MASK)
    with pytest.raises(ValueError, match=r"rewards go from -1 to .*; the bounds are for rewards in \[0, 1\]"):
        certificate(mu_rows, pi_rows, rollout, torch.where(rewards == rewards[0], -1.0, rewards), MASK)
    with pytest.raises(ValueError, match=r"mask drops some tokens of response \d+ and keeps others"):
        certificate(mu_rows, pi_rows, rollout, rewards, DivergenceMask(0.5, "abs", "token"))


def test_what_sampled_tokens_say_is_that_of_a_loop():
    generator = torch.Generator().manual_seed(3)
    logp, mu = (-torch.rand(5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.arange(4) < torch.tensor([4, 1, 3, 2, 4])[:, None]
    rewards = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0], dtype=torch.float64)
    found = from_sampled(logp, mu.masked_fill(~mask, math.nan), mask, rewards)
    tvs, logs, kls, surrogates = [], [], [], []
    for n in range(5):
        x = [(logp[n, t] - mu[n, t]).item() for t in range(4) if mask[n, t]]
        logs += [abs(one) for one in x]
        tvs += [abs(math.exp(one) - 1) / 2 for one in x]
        kls.append(sum(math.exp(one) - 1 - one for one in x))
        surrogates.append((rewards[n].item() - 0.5) * sum(math.exp(one) - 1 for one in x))
    assert found.tv == pytest.approx(sum(tvs) / len(tvs))
    assert sorted(logs)[-2] < found.tail <= max(logs)
    assert found.sequence_kl == pytest.approx(sum(kls) / 5)
    assert found.surrogate == pytest.approx(sum(surrogates) / 5)
    lost = sum(reward * one for reward, one in zip(rewards.tolist(), kls, strict=True)) / 5
    assert found.promise == pytest.approx(sum(surrogates) / 5 - lost)


def test_without_coverage_the_promise_may_lie_above_the_true_change():
    """One token of three: mu never gives the third. The draws are as often as mu gives them, so nothing is noise."""
    mu, pi, reward = np.array([2 / 3, 1 / 3, 0.0]), np.array([0.62, 0.28, 0.10]), np.array([1.0, 0.0, 0.0])
    drawn = np.array([0, 0, 1])
    logp, old = (torch.from_numpy(np.log(policy[drawn]))[:, None] for policy in (pi, mu))
    found = from_sampled(logp, old, torch.ones(3, 1, dtype=torch.bool), torch.from_numpy(reward[drawn]))
    change = (pi - mu) @ reward
    assert change < -0.04 < 0.01 < found.promise
    without_centring = mu[0] * math.log(pi[0] / mu[0])
    assert found.promise == pytest.approx(without_centring + mu @ reward * pi[2])
    assert without_centring < change
    assert found.tv == pytest.approx(np.abs(pi - mu).sum() / 2 - pi[2] / 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(rewards=torch.tensor([0.0, 2.0])), r"rewards lie in \[0, 2\]"),
        (dict(mask=torch.zeros(2, 3, dtype=torch.bool)), "mask is empty"),
        (dict(rewards=torch.ones(3)), r"have shapes \(2, 3\), \(2, 3\), \(2, 3\), \(3,\)"),
    ],
)
def test_sampled_tokens_that_say_nothing_are_refused(change: dict, said: str):
    given = dict(
        logp=torch.zeros(2, 3), logp_behavior=torch.zeros(2, 3), mask=torch.ones(2, 3) > 0, rewards=torch.ones(2)
    )
    with pytest.raises(ValueError, match=said):
        from_sampled(**(given | change))
