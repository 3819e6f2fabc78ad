"""The loop of chapter 16 reaches its threshold on three of three seeds; theorems hold, tables say what it says."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rlnotes.chapters.c16.explorers import log_prob, weights
from rlnotes.chapters.explorers import EXPLORERS
from rlnotes.studies import Interval, Table, load_table, paired_interval
from rlnotes.studies.readings import clipped_tokens

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


@SEEDS
def test_chapter_16_dppo_reaches_the_goal_of_the_loop_within_its_stored_band(seed: int):
    from rlnotes.lm.trainer import Trainer
    from rlnotes.studies.methods import METHODS, MISMATCHES
    from rlnotes.studies.stability import PROTOCOL

    trainer = Trainer(
        replace(PROTOCOL, learning_rate=1e-4, seed=seed, **MISMATCHES["stale"]), choices=METHODS["dppo_kl"]
    )
    assert trainer.evaluate(512) == pytest.approx(0.43, abs=0.01)
    measured = {row["step"]: trainer.evaluate(512) for row in trainer.run(14) if row["step"] % 2 == 0}
    assert np.mean([measured[12], measured[14]]) > 0.53
    band = load_table("16_stale").band("dppo_kl, stale 1e-4", "accuracy")
    assert band.low[1] - 0.05 < measured[8] < band.high[1] + 0.05  # after about 36 thousand tokens


def test_chapter_16_the_stored_runs_of_the_loop_and_of_the_question():
    table = load_table("16_stale")

    def median(name: str, rate: str, metric: str = "accuracy") -> np.ndarray:
        return table.band(f"{name}, stale {rate}", metric).median

    plain, dppo, at = (median(name, "1e-4") for name in ("pg_is", "dppo_kl", "dppo_kl at pi_k"))
    assert plain.argmax() == 3 and plain[3] > 0.65 and plain[-1] < 0.5
    assert dppo.argmax() == len(dppo) - 1 and dppo[-1] > 0.84 and abs(at[-1] - at[3]) < 0.01
    grown = {name: median(name, "1e-4", "mismatch") for name in ("pg_is", "dppo_kl", "clip_higher", "minirl")}
    assert grown["pg_is"][-1] > 1.9 * grown["pg_is"][0]
    assert all(own[-1] < own[0] for name, own in grown.items() if name != "pg_is")
    assert median("dppo_kl", "3e-4")[-1] < 0.43, "the question's run ends below its start"
    assert runs(load_table("16_none"), "dppo_kl", "none", "3e-4", "last").min() > 0.43


# --- Equation (23)


def written(name: str, A: np.ndarray, mu: np.ndarray, at: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """M min(r, C) by the words of appendix D.1, sections 5.3 and 6, and appendix F, token by token."""
    found = []
    for a, m, k, p in zip(A, mu, at, pi, strict=True):
        anchor = k if "minirl" in name or "pi_k" in name else m
        high, limit = (1.27, 0.2) if name.endswith("C5") else (1.28, 0.15)
        low, high = (0.2, 5) if name == "wide_clip" else (0.8, high)
        clipped = (a > 0 and p / anchor > high) or (a < 0 and p / anchor < low)
        away = (a > 0 and p > anchor) or (a < 0 and p < anchor)
        kl = anchor * np.log(anchor / p) + (1 - anchor) * np.log((1 - anchor) / (1 - p))
        free = m < 0.1 and (a > 0 or "high" not in name) and (a < 0 or "low" not in name)
        dropped = {
            "clip": clipped, "wide": clipped, "mini": clipped, "rela": clipped and not free,
            "dppo_kl": away and kl > 0.05, "dppo_tv": away and abs(p - anchor) > limit,
            "negative_mask": a < 0 and anchor - p >= 0.5, "negative_mask 0.8": a < 0 and anchor - p >= 0.8,
            "positive_mask": a > 0 and p - anchor >= 0.5,
        }  # fmt: skip
        key = max((key for key in dropped if name.startswith(key)), key=len, default=None)
        cap = 5.0 if name.endswith("C5") else 3.0 if name in ("cispo", "minirl_tis") else np.inf
        found.append(0.0 if key is not None and dropped[key] else min(p / m, cap))
    return np.array(found)


def gradient_weights(name: str, A: np.ndarray, mu: np.ndarray, at: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """The same by autograd of the package's objective: d loss / d log pi of one-token responses."""
    import torch

    from rlnotes.objectives import Batch, policy_loss
    from rlnotes.studies.methods import METHODS

    logp = torch.tensor(np.log(pi))[:, None].requires_grad_()
    old, recomputed = (torch.tensor(np.log(p))[:, None] for p in (mu, at))
    batch = Batch(logp, torch.ones(logp.shape, dtype=torch.bool), torch.tensor(A), old, recomputed)
    (gradient,) = torch.autograd.grad(-policy_loss(METHODS[name], batch), logp)
    return gradient[:, 0].numpy() * len(A) / A


def random_tokens(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Advantages, and odds of mu, pi_k and pi that are not independent, so that every mask opens and closes."""
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, n) + rng.normal(0, 1.5, (3, n)) * rng.choice([0.1, 1.0], n)
    mu, at, pi = 1 / (1 + np.exp(-odds))
    return rng.choice([-1.0, 0.5], n), mu, at, pi


def test_chapter_16_every_objective_has_the_gradient_of_equation_23():
    from rlnotes.studies.methods import VARIANTS

    tokens = random_tokens()
    of_004 = ("pg_is", "cispo", "minirl", "minirl_tis", "dppo_kl", "dppo_tv", "negative_mask", "relax_both")
    for name in (*of_004, *VARIANTS):  # the top-k ones look at whole rows: tests/objectives
        found = gradient_weights(name, *tokens)
        np.testing.assert_allclose(found, written(name, *tokens), rtol=1e-9, err_msg=name)
        assert (found == 0).any() or name in ("pg_is", "cispo", "cispo C5")


def test_chapter_16_the_explorer_shows_the_weights_of_the_objectives():
    names = (
        ("pg_is", "cispo", "negative_mask", "negative_mask at pi_k"),
        ("clip_higher", "minirl", "minirl_tis"),
        ("dppo_tv", "dppo_kl", "dppo_tv at pi_k", "dppo_kl at pi_k"),
    )
    A, mu, at, pi = random_tokens()
    for sign in (-1.0, 1.0):
        own = np.sign(A) == sign
        groups = weights(np.log(mu[own]), np.log(at[own]), np.log(pi[own]), sign)
        for group, objectives in zip(groups, names, strict=True):
            for found, name in zip(group.values(), objectives, strict=True):
                np.testing.assert_allclose(found, gradient_weights(name, A[own], mu[own], at[own], pi[own]), rtol=1e-9)


def test_chapter_16_the_explorer_has_two_that_drop_the_token_before_an_update():
    values = EXPLORERS["weights"].defaults()
    mu, at = (log_prob(np.array([values[name]])) for name in ("before", "at"))
    groups = weights(mu, at, at, 1.0)
    dropped = [name for group in groups for name, weight in group.items() if weight == 0]
    assert dropped == ["clip, μ", "KL, μ"]


def test_chapter_16_what_the_least_mask_drops_every_other_drops():
    A, mu, _, pi = random_tokens(100_000)
    for delta, others in ((0.2, ("clip_higher", "dppo_tv", "dppo_kl")), (0.5, ("clip_higher", "dppo_kl C5"))):
        bad = (A < 0) & (mu - pi >= delta)
        assert bad.sum() > 100
        for name in others:
            assert (gradient_weights(name, A[bad], mu[bad], mu[bad], pi[bad]) == 0).all()
    bad = (A < 0) & (mu - pi >= 0.1)
    assert (gradient_weights("clip_higher", A[bad], mu[bad], mu[bad], pi[bad]) > 0).any(), "a smaller one it may keep"


# --- Theorem 16.5

Edges = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]
CLIP: Edges = (lambda nu: 0.8 * nu, lambda nu: 1.28 * nu)
BAND: Edges = (lambda nu: nu - 0.15, lambda nu: nu + 0.15)
INTERVALS: dict[str, Edges] = {
    "dppo_tv": BAND, "dppo_tv at pi_k": BAND, "clip_higher": CLIP, "minirl": CLIP,
    "negative_mask": (lambda nu: nu - 0.5, lambda nu: nu + 2), "pg_is": (lambda nu: nu - 2, lambda nu: nu + 2),
}  # fmt: skip


@pytest.mark.parametrize("name", INTERVALS)
def test_chapter_16_on_coins_a_mask_is_a_spring_to_its_anchor(name: str):
    """The mean over tokens and coins of (23), against finite differences of half the distance outside."""
    rng, h, pulled = np.random.default_rng(1), 1e-6, 0.0
    for _ in range(60):
        x, mu, at = rng.normal(0, 2, 5), *rng.dirichlet(np.full(5, 0.4) + 0.05, 2)
        mu, at = (0.98 * p + 0.004 for p in (mu, at))

        def softmax(logits: np.ndarray) -> np.ndarray:
            return np.exp(logits) / np.exp(logits).sum()

        pi, nu = softmax(x), at if name == "minirl" or "pi_k" in name else mu
        mean = np.zeros(5)
        for sign in (-1.0, 1.0):
            weight = gradient_weights(name, np.full(5, sign), mu, at, pi)
            mean += 0.5 * (mu * weight * sign) @ (np.eye(5) - pi)

        def outside(logits: np.ndarray, nu: np.ndarray = nu) -> float:
            low, high = (edge(nu) for edge in INTERVALS[name])
            return float((np.maximum(low - softmax(logits), 0) + np.maximum(softmax(logits) - high, 0)).sum())

        slope = np.array([(outside(x + h * e) - outside(x - h * e)) / (2 * h) for e in np.eye(5)])
        np.testing.assert_allclose(mean, -slope / 2, atol=1e-7)
        pulled = max(pulled, np.abs(mean).max())
    assert pulled > 0.02 or name == "pg_is"


# --- Two anchors

ANSWERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def two_tokens(mismatch: str, anchor: str, seed: int = 0, lag: int = 8, delta: float = 0.05) -> np.ndarray:
    """J and |pi - mu| of the last 40 of 60 rollouts, (2, 40), token by token and answer by answer."""
    noise, logits, curve = np.random.default_rng(seed).standard_normal(60), [-1.4], []

    def prob(x: float) -> float:
        return 1 / (1 + np.exp(-x))

    for n in range(60):
        stale = logits[max(0, n - lag)] if mismatch == "stale" else logits[-1]
        off = {"noise": noise[n], "offset": 0.6}.get(mismatch, 0)
        m, at, x = prob(stale + off), prob(logits[-1]), logits[-1]
        value = 2 * m * (1 - m)
        for _ in range(100):
            p, slope = prob(x), 0.0
            for answer in ANSWERS:
                chance = np.prod([m if y else 1 - m for y in answer])
                A = float(answer.sum() == 1) - value
                for y in answer:
                    pi, mu, nu = (q if y else 1 - q for q in (p, m, at if anchor == "pi_k" else m))
                    far = A * (pi - nu) > 0 and abs(pi - nu) > delta
                    slope += chance * pi / mu * A * (y - p) * (anchor == "unmasked" or not far)
            x += 0.1 * slope
        logits.append(x)
        p = prob(x)
        curve.append((2 * p * (1 - p), abs(p - m)))
    return np.array(curve)[-40:].T


def test_chapter_16_with_old_weights_the_anchor_at_mu_is_right():
    (none, _), (mu, near), (at, far) = (two_tokens("stale", anchor) for anchor in ("unmasked", "mu", "pi_k"))
    assert mu.mean() > 0.48 and none.mean() < 0.1 and 0.35 < at.mean() < 0.42
    assert at.min() < 0.22 and mu.min() > 0.45
    assert near.max() < 0.06  # delta, and what one step may go beyond
    assert 0.4 < far.max() < (8 + 1) * (0.05 + 0.005)


NOISE = pytest.mark.parametrize("seed", range(5))


@NOISE
def test_chapter_16_with_a_noisy_sampler_the_anchor_at_pi_k_is_right(seed: int):
    none, mu, at = (two_tokens("noise", anchor, seed)[0].mean() for anchor in ("unmasked", "mu", "pi_k"))
    assert none < mu < at


@NOISE
def test_chapter_16_with_a_wide_limit_the_anchor_at_mu_is_right_behind_noise_too(seed: int):
    mu, at = (two_tokens("noise", anchor, seed, delta=0.15)[0].mean() for anchor in ("mu", "pi_k"))
    assert mu > at


def test_chapter_16_the_order_turns_with_the_limit_for_old_weights_and_for_an_offset():
    def ahead(mismatch: str, delta: float) -> float:
        mu, at = (two_tokens(mismatch, anchor, delta=delta)[0].mean() for anchor in ("mu", "pi_k"))
        return mu - at

    assert ahead("stale", 0.02) < -0.04 < 0.3 < ahead("stale", 0.15)
    assert ahead("offset", 0.05) < -0.2 < 0.03 < ahead("offset", 0.15)
    none, mu = (two_tokens("offset", anchor)[0].mean() for anchor in ("unmasked", "mu"))
    assert mu < none - 0.1


def test_chapter_16_truncation_takes_the_surplus():
    rng = np.random.default_rng(2)
    for _ in range(50):
        mu, pi = rng.dirichlet(np.full(6, 0.5), 2)
        f, C = rng.normal(size=6), rng.uniform(1, 6)
        w = np.minimum(pi / mu, C)
        bias = sum(m * c * x for m, c, x in zip(mu, w, f, strict=True)) - pi @ f
        assert bias == pytest.approx(-np.maximum(pi - C * mu, 0) @ f)
        assert mu @ (w * f) ** 2 <= C * np.minimum(pi, C * mu) @ f**2 + 1e-12


# --- The tables


def runs(table: Table, objective: str, rollout: str, rate: str = "", what: str = "mean") -> np.ndarray:
    methods = table.where(recipe=objective, rollout=rollout)
    return getattr(table, what)(f"{objective}, {rollout} {rate}" if rate else table.best(methods), "accuracy")


def lead(name: str, ours: str, theirs: str, rate: str = "", what: str = "mean", rollout: str = "") -> Interval:
    table = load_table(f"16_{name}")
    return paired_interval(*(runs(table, one, rollout or name, rate, what) for one in (ours, theirs)))


def holds_0(interval: Interval) -> bool:
    return interval.low <= 0 <= interval.high


def test_chapter_16_takeaway_1_a_mask_is_ahead_of_none():
    for name in ("stale", "int4", "none"):
        for ours in ("dppo_kl", "dppo_tv"):
            assert min(lead(name, ours, theirs).low for theirs in ("pg_is", "cispo")) > 0
            assert (lead(name, ours, "pg_is", "5e-5").low > 0) or name == "int4"
        assert all(holds_0(lead(name, ours, "clip_higher")) for ours in ("dppo_kl", "dppo_tv"))
    assert lead("stale", "dppo_kl", "minirl").low > 0 > lead("int4", "dppo_kl", "minirl").high


def test_chapter_16_no_mismatch_is_needed_for_the_fall_and_no_small_rate_brings_it():
    for name in ("stale", "int4", "none"):
        table = load_table(f"16_{name}")
        assert runs(table, "pg_is", name, "5e-5", "last").min() > 0.6
        assert runs(table, "pg_is", name, "1e-4", "last").min() > 0.43
        assert runs(table, "pg_is", name, "3e-4", "last").max() < 0.1
        for clip in ("clip_higher", "dppo_kl"):
            assert np.median(runs(table, clip, name, "1e-4", "last")) > 0.8


def test_chapter_16_takeaway_2_holds_for_old_weights_and_is_not_seen_for_rounding():
    assert min(lead("stale", "dppo_kl", "dppo_kl at pi_k", what=what).low for what in ("mean", "last")) > 0
    for pair in (("dppo_kl", "dppo_kl at pi_k"), ("clip_higher", "minirl")):
        assert lead("stale", *pair, rate="3e-4").low > 0.1
        for what in ("mean", "last"):
            assert lead("int4", *pair, what=what).high < 0
        for rate in ("5e-5", "3e-4"):
            assert holds_0(lead("int4", *pair, rate=rate))
    assert lead("none", "clip_higher", "minirl") == (0, 0, 0), "then pi_k is mu, to the last digit"
    assert lead("gpu", "clip_higher", "minirl", "1e-4", rollout="stale").low > 0.1
    assert holds_0(lead("gpu", "clip_higher", "minirl", rollout="stale"))


def test_chapter_16_takeaway_3_the_least_mask_helps_and_is_not_enough():
    for name in ("stale", "int4"):
        assert holds_0(lead(name, "negative_mask", "pg_is")) and lead("none", "negative_mask", "pg_is").low > 0
        assert min(lead(name, "negative_mask", other, "3e-4").low for other in ("pg_is", "positive_mask")) > 0.05
        assert holds_0(lead(name, "negative_mask", "negative_mask at pi_k", "3e-4"))
        table = load_table(f"16_{name}")
        assert runs(table, "negative_mask", name, "3e-4", "last").max() < 0.43
        bad, good = (
            table.mean(f"{mask}, {name} 3e-4", "no_gradient").mean() for mask in ("negative_mask", "positive_mask")
        )
        assert bad > 20 * good, "the control hardly acts"
        assert min(lead(name, other, "negative_mask").low for other in ("clip_higher", "dppo_tv")) > 0
    assert holds_0(lead("stale", "negative_mask", "negative_mask 0.8", "3e-4"))


def test_chapter_16_truncation_is_a_weak_finding():
    assert lead("int4", "pg_is", "cispo").low > 0
    assert lead("int4", "minirl", "minirl_tis").value < 0.01
    for name in ("stale", "none"):
        assert holds_0(lead(name, "pg_is", "cispo"))
    assert holds_0(lead("stale", "minirl", "minirl_tis"))


def test_chapter_16_rare_tokens_relaxed():
    assert lead("needle", "relax_both", "clip_higher", rollout="none").low > 0.1
    assert holds_0(lead("renamed", "relax_both", "clip_higher", rollout="none"))
    assert lead("renamed", "relax_low", "relax_high", rollout="none").high < 0
    assert lead("needle", "relax_both", "relax_low", rollout="none").low > 0
    assert lead("needle", "relax_low", "clip_higher", rollout="none").low > 0.1
    assert holds_0(lead("renamed", "relax_low", "clip_higher", rollout="none"))
    for name in ("needle", "renamed"):
        assert lead(name, "relax_high", "clip_higher", rollout="none").low > 0
        assert lead(name, "relax_both", "pg_is", rollout="none").low < 0
        assert lead(name, "dppo_topk_kl", "dppo_kl", rollout="none").high < 0
        assert holds_0(lead(name, "dppo_topk_tv", "dppo_tv", rollout="none"))


def test_chapter_16_dppo_is_ahead_of_the_clip_where_right_tokens_are_rare_and_not_of_no_mask():
    for ours in ("dppo_kl", "dppo_tv"):
        assert lead("needle", ours, "clip_higher", rollout="none").low > 0.1
        assert lead("needle", ours, "pg_is", rollout="none").high < 0
        assert holds_0(lead("renamed", ours, "pg_is", rollout="none"))
    assert lead("renamed", "dppo_kl", "clip_higher", rollout="none").low > 0.02
    assert holds_0(lead("renamed", "dppo_tv", "clip_higher", rollout="none"))


def test_chapter_16_the_clip_holds_back_the_right_letters():
    def most(name: str, sign: str) -> str:
        table = load_table(f"16_{name}")
        return "".join(line["token"] for line in clipped_tokens(table, ["clip_higher, none 3e-4"], sign, most=6))

    assert set(most("needle", "+")) <= set("abcdefghij")
    assert min(map(ord, most("needle", "-"))) >= 0x100, "junk"
    assert set(most("renamed", "+")[:2]) == set("IJ")
    assert set(most("renamed", "-")[:2]) == set("ij")


def test_chapter_16_experts_adapters_and_a_larger_model():
    experts, free, replayed = load_table("16_experts"), "experts", "experts, routes replayed"
    for ours in ("dppo_kl C5", "dppo_tv C5"):
        assert paired_interval(runs(experts, ours, free), runs(experts, "cispo C5", replayed)).low > 0
        assert lead("adapters", ours, "cispo C5").low > 0
        assert holds_0(lead("adapters", ours, "clip_higher C5"))
        assert lead("experts", ours, "cispo C5").low > 0
        for rollout in (free, replayed):
            assert holds_0(lead("experts", ours, "clip_higher C5", rollout=rollout))
        gaps = [np.median(experts.mean(f"{ours}, {rollout} 1e-4", "mismatch")) for rollout in (free, replayed)]
        assert 0.003 > gaps[0] > 2 * gaps[1]
    assert holds_0(lead("experts", "dppo_tv C5", "cispo C5", rollout=replayed))
    assert holds_0(paired_interval(runs(experts, "dppo_tv C5", free), runs(experts, "clip_higher C5", replayed)))
    assert paired_interval(runs(experts, "dppo_kl C5", replayed), runs(experts, "dppo_kl C5", free)).high < 0
    for ours in ("dppo_tv", "clip_higher"):
        assert lead("gpu", ours, "pg_is", rollout="stale").low > 0.1
    assert holds_0(lead("gpu", "dppo_tv", "clip_higher", rollout="stale"))
