"""The loop of chapter 09 is that of its stored runs, which learn; and the chapter's statements hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from rlnotes.chapters.c09 import readings
from rlnotes.chapters.c09.live import train
from rlnotes.chapters.c09.rounds import glued_gates, log_ratios, sample
from rlnotes.exact import token_gradients, tokens
from rlnotes.exact.gaussian_ratios import closed_share
from rlnotes.exact.token_families import parity
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import GRPO, GSPO, Batch, Choices, policy_loss
from rlnotes.objectives.gates import Clip, Correction, no_gate
from rlnotes.objectives.ratios import sequence
from rlnotes.studies import load_table, paired_interval

NARROW = replace(GSPO, gate=Clip(0.03, 0.03))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_09_the_stored_runs_are_those_of_the_loop_and_learn(seed: int):
    """The first round again, on another machine to two digits; and what all six rounds made of the start."""
    (kept,) = (row for row in readings.live("0.03") if row["seed"] == seed)
    _, (found,), _ = train("0.03", seed, 1)
    for name in ("reward", "sigma", "spread", "KL"):
        assert found[name] == pytest.approx(kept["rounds"][0][name], rel=0.05)
    assert kept["start"] < 0.12 and kept["greedy"] < 0.003 and kept["end"] > 0.4


# --- The objective and its gradients


def batch(seed: int, spread: float) -> tuple[Batch, list[np.ndarray]]:
    """Five responses of 1 to 5 tokens, and the token ratios of each."""
    rng = np.random.default_rng(seed)
    mask = np.arange(5) < np.arange(1, 6)[:, None]
    log_ratio = spread * rng.normal(size=(5, 5))
    old = -rng.random((5, 5)) - 2
    made = Batch(
        torch.tensor(np.where(mask, old + log_ratio, 0.0), requires_grad=True),
        torch.tensor(mask),
        torch.tensor(rng.normal(size=5)),
        torch.tensor(np.where(mask, old, 0.0)),
    )
    return made, [np.exp(row[own]) for row, own in zip(log_ratio, mask, strict=True)]


def gradient(choices: Choices, made: Batch) -> np.ndarray:
    (slope,) = torch.autograd.grad(-policy_loss(choices, made), made.logp)
    return slope.numpy()


@pytest.mark.parametrize("seed", range(5))
def test_chapter_09_the_objective_is_109_response_by_response(seed: int):
    made, ratios = batch(seed, 0.1)
    total = 0.0
    for r, A in zip(ratios, made.advantages.tolist(), strict=True):
        s = np.prod(r) ** (1 / len(r))
        total += min(s * A, min(max(s, 0.97), 1.03) * A) / 5
    assert policy_loss(NARROW, made).item() == pytest.approx(-total, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_chapter_09_gradients_are_those_of_110_to_112(seed: int):
    made, ratios = batch(seed, 0.3)
    of_gspo, of_grpo = (gradient(replace(choices, gate=no_gate), made) for choices in (GSPO, GRPO))
    for i, (r, A) in enumerate(zip(ratios, made.advantages.tolist(), strict=True)):
        s, T = np.prod(r) ** (1 / len(r)), len(r)
        np.testing.assert_allclose(of_gspo[i, :T], np.full(T, s * A / T / 5), rtol=1e-12)
        np.testing.assert_allclose(of_grpo[i, :T], r * A / T / 5, rtol=1e-12)
        assert abs(of_grpo[i].sum()) >= abs(of_gspo[i].sum()) - 1e-12


def test_chapter_09_the_first_update_is_that_of_grpo():
    made, _ = batch(0, 0.0)
    np.testing.assert_allclose(gradient(GSPO, made), gradient(GRPO, made), rtol=1e-12)


# --- No importance weight


@pytest.mark.parametrize("T", [2, 4, 8, 12])
def test_chapter_09_the_geometric_mean_is_no_importance_weight(T: int):
    model, pi, mu = parity(T, old=0.5, shift=0.1)
    chance, R = tokens.sequence_probs(model, mu), tokens.sequences(2, T).mean(-1)
    w = tokens.token_ratios(model, pi, mu).prod(-1)
    s = w ** (1 / T)
    assert (chance * w * R).sum() == pytest.approx(0.6)
    assert (chance * s * R).sum() < 0.55
    assert 0.9798 < (chance * s).sum() < 1
    assert (chance * np.log(s)).sum() == pytest.approx(0.5 * np.log(0.6 / 0.5) + 0.5 * np.log(0.4 / 0.5))


def test_chapter_09_as_a_weight_it_is_nearer_to_none_than_to_the_right_one():
    """Random models, T = 8: the share in which s is closer to the gradient than r_t, and both errors."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        model = tokens.single_prompt((rng.random(256) < 0.3) * 1.0, 2, 8)
        old = [rng.normal(size=(1, 2**t, 2)) for t in range(8)]
        new = [logits + 0.6 * rng.normal(size=logits.shape) for logits in old]
        pi, mu = (token_gradients.softmax_policy(model, logits) for logits in (new, old))
        A = token_gradients.reinforce_weights(model, tokens.expected_reward(model, mu))
        r = tokens.token_ratios(model, pi, mu)
        w = r.prod(-1, keepdims=True)
        true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
        found = (token_gradients.mean_gradient(model, pi, mu, weight * A) for weight in (1.0, r, w ** (1 / 8), w))
        errors.append([np.linalg.norm(token_gradients.flat(g) - true) / np.linalg.norm(true) for g in found])
    none, of_token, of_response, exact = np.median(errors, 0)
    assert exact < 1e-10
    assert 0.75 * none < of_response < none and 0.75 * none < of_token < none
    assert 0.3 < np.mean([row[2] < row[1] for row in errors]) < 0.9


# --- Noise


def test_chapter_09_noise_averages_out_and_its_drift_does_not():
    trainer = Trainer(TrainConfig(task="sort", size=8, seed=0, logit_noise=0.3))
    prompts = trainer.task.sample(128, torch.Generator().manual_seed(5)).prompts
    rollout = trainer.sampler.sample(trainer.model, prompts, 16, torch.Generator().manual_seed(6))
    with torch.no_grad():
        log_r = (token_logp(trainer.model, rollout) - rollout.logp_behavior) * rollout.mask
    log_s, spread = log_r.sum(-1) / rollout.mask.sum(-1), log_r[rollout.mask].std()
    assert log_s.std() < 0.5 * spread
    assert log_s.mean() < -4 * log_s.std() / len(log_s) ** 0.5
    assert (log_s < np.log(0.97)).float().mean() > 0.15
    for spread, share in ((0.01, 0.0), (0.03, 1.0)):
        found = closed_share(-(spread**2) / 2, spread, 1e7, "sequence_mean", 3e-4, positive=False)
        assert found == pytest.approx(share, abs=1e-6)


def test_chapter_09_without_a_correction_the_ratio_to_pi_k_knows_nothing_of_the_sampler():
    noise = torch.tensor([[0.5, -0.3, 0.2, -0.1]], dtype=torch.float64)
    log_pi = torch.full((1, 4), -1.0, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, dtype=torch.float64)
    made = Batch(log_pi, torch.ones(1, 4, dtype=torch.bool), one, log_pi.detach() - noise, log_pi.detach())
    wide = replace(GSPO, gate=Clip(0.2, 0.2))
    to_pi_k = replace(wide, anchor="proximal")
    whole = replace(to_pi_k, correction=Correction(high=2.0, ratio=sequence))
    each = replace(to_pi_k, correction=Correction(high=2.0))
    for choices, weight in (
        (wide, np.exp(0.3 / 4)),
        (to_pi_k, 1.0),
        (whole, np.exp(0.3)),
        (each, noise.exp().mean().item()),
    ):
        np.testing.assert_allclose(4 * gradient(choices, made), np.full((1, 4), weight), rtol=1e-12)


def test_chapter_09_glued_responses_follow_the_formula_where_it_holds():
    sigma, draws = 0.13, torch.Generator().manual_seed(0)
    log_r = sigma * torch.randn(4000, 41, generator=draws) - sigma**2 / 2
    right = torch.rand(4000, generator=draws) < 0.1
    rows = glued_gates(log_r, log_r < 9, right, low=3e-4, high=4e-4)
    for row in rows:
        for name in ("wrong", "right"):
            assert row[name] == pytest.approx(row[f"{name}, by the formula"], abs=0.05)
    assert rows[-1]["wrong"] > 0.98 and rows[-1]["right"] < 0.02


# --- What is said of readings and of the stored tables


def test_chapter_09_token_ratios_are_exact_where_independent_tokens_add_up_and_r_bar_is_not():
    for T, share_bar, all_mean, all_bar in ((4, 0.0615, 0.1458, 0.184), (16, 0.0648, 0.1647, 0.2208)):
        k = np.arange(T + 1)
        mu, pi = (binom.pmf(k, T, p) for p in (0.9, 0.95))
        mean = (k * 0.95 / 0.9 + (T - k) * 0.5) / T
        bar = (0.95 / 0.9) ** (k / T) * 0.5 ** (1 - k / T)
        for R, of_mean, of_bar in ((k / T, 0.05, share_bar), (1.0 * (k == T), all_mean, all_bar)):
            A = R - mu @ R
            assert mu @ (bar**T * A) == pytest.approx(pi @ R - mu @ R)
            assert (T * mu @ (mean * A), T * mu @ (bar * A)) == pytest.approx((of_mean, of_bar), abs=5e-5)


def test_chapter_09_the_mean_log_ratio_scatters_by_sigma_over_the_root_of_the_length():
    points = readings.scatter_points()
    off = np.array([point["spread"] / point["sigma / sqrt(T)"] for point in points])
    assert len(points) > 400 and 0.9 < np.median(off) < 1.15 and np.mean((off > 0.5) & (off < 2)) > 0.95


def test_chapter_09_a_range_made_for_tokens_does_not_act_and_a_measured_one_does():
    rows = readings.idle_gates()
    idle = {row["range"]: row["alarm"] for row in rows}
    assert [row["rounds below 0.02"].split()[0] for row in rows] == ["29", "9", "0", "5", "30"]
    others = ("0.03", "4e-4", "measured", "0.2, one update")
    assert idle == dict.fromkeys(others, "0 of 6 runs") | {"0.2": "6 of 6 runs"}


def test_chapter_09_the_rule_is_known_to_a_factor_of_two():
    rule, last, three, law, by_k3 = readings.steadiness()
    assert [row["within a factor of 2"] for row in (rule, last, three)] == ["83%", "73%", "74%"]
    assert [round(float(rule[name]), 2) for name in ("least", "most")] == [0.41, 3.58]
    assert 0.95 < law["10 %"] < law["90 %"] < 1.53 and 1.3 < by_k3["median"] < 1.4 and by_k3["most"] > 10
    ends = {row["range"]: row for row in readings.live_ends()}
    assert ends["4e-4"]["lowest on"] == "6 of 6 seeds" and ends["0.2"]["end"] == "0.36 to 0.82"
    for arm in ("0.2", "0.03", "4e-4"):  # an interval with 0 inside
        low, high = ends[arm]["end less measured"].split(" ", 1)[1].strip("[]").split(", ")
        assert float(low) < 0 < float(high)


def test_chapter_09_the_rule_feeds_on_itself_and_bounds_no_round():
    ranges = [one["range"] for run in readings.rounds_of("measured") for one in run]
    assert (len(ranges), round(min(ranges), 4), round(max(ranges), 3)) == (30, 0.0055, 0.055)
    fixed = [one["sigma / sqrt(T)"] for run in readings.live("0.03") for one in run["rounds"][:-1]]
    assert (round(min(fixed), 4), round(max(fixed), 3)) == (0.0055, 0.067)
    rows = {
        row["range"]: {name: float(text.split()[0]) for name, text in row.items() if name != "range"}
        for row in readings.live_rounds()
    }
    assert [rows[arm]["σ/√T"] for arm in ("4e-4", "0.03", "0.2")] == [0.01, 0.022, 0.03]
    assert rows["measured"]["closed at the end"] == 0.28
    far = readings.farthest()
    measured, narrow = ([row[f"{arm} over 0.2"] for row in far] for arm in ("measured", "0.03"))
    assert measured == pytest.approx([0.88, 1.18, 0.39, 0.26, 0.985, 0.52], abs=0.005)
    assert narrow == pytest.approx([0.65, 1.43, 0.485, 0.42, 0.97, 1.01], abs=0.005)


def test_chapter_09_in_tuning_a_narrow_range_wants_a_larger_rate():
    rows = {(row["clip of"], row["range"]): row for row in readings.by_rate("ledger")}
    gain = {width: row["2e-4"] - row["1e-4"] for (kind, width), row in rows.items() if kind == "responses"}
    assert (gain["4e-4"], gain["0.003"]) == pytest.approx((0.080, 0.025), abs=6e-4)
    assert (gain["0.1"], gain["none"]) == pytest.approx((-0.109, -0.199), abs=6e-4)
    table = replace(readings.stored("09_ranges"), rows=readings.stored("09_ranges").tuning)
    for recipe, sign in (("gspo", 1), ("gspo open", -1)):
        slow, fast = (table.mean(f"{recipe}, ledger {rate}", "accuracy") for rate in ("1e-4", "2e-4"))
        assert len(slow) == 3 and (sign * (fast - slow) > 0).all()


@pytest.mark.slow
def test_chapter_09_one_reading_swings_farther_than_the_distance():
    swings, below = [], []
    for seed in (2, 3):
        policy, start = train("0.2", seed, 1)[0], shipped_start("ledger", start=seed % 3)
        fresh, _ = sample(start, torch.Generator().manual_seed(100), prompts=64)
        length = fresh.mask.sum(1)
        read = -log_ratios(policy, fresh).sum(1) / length
        for low, high in ((17, 24), (33, 48), (57, 65)):
            some = read[(length >= low) & (length <= high)]
            swings.append((some.std() / some.mean()).item())
            below.append((some < 0).float().mean().item())
    assert 1.5 < min(swings) < 2 and 8 < max(swings) < 12
    assert 0.15 < min(below) < 0.22 and 0.45 < max(below) < 0.56


def test_chapter_09_what_its_contests_are_said_to_show():
    def word(task: str, ours: str, theirs: str, contest: str = "09_ranges") -> str:
        return readings.less(contest, task, ours, theirs).word

    assert {
        task: [readings.name_of(kind, readings.best_range(task, kind)) for kind in readings.KINDS]
        for task in readings.LENGTHS
    } == {
        "misled": ["none", "0.1"],
        "needle": ["none", "none"],
        "ledger": ["0.5", "0.01"],
    }
    best = {task: [readings.best_range(task, kind) for kind in ("responses", "tokens")] for task in readings.LENGTHS}
    assert [word(task, *pair) for task, pair in best.items()] == ["not told", "within 0.03 of each other", "not told"]
    assert {word(task, f"gspo {e}", "grpo") for task in ("misled", "needle") for e in ("0.03", "0.1")} == {"better"}
    assert {word("needle", recipe, "grpo") for recipe in ("grpo 0.5", "unclipped", "gspo open")} == {"better"}
    narrow = [recipe for recipe in readings.RESPONSES.values() if recipe != "gspo open"]
    assert {word("needle", recipe, "gspo open") for recipe in narrow} == {"worse"}
    assert "better" not in {word(task, recipe, "gspo open") for task in readings.LENGTHS for recipe in narrow}
    of_ledger = [recipe for widths in readings.KINDS.values() for recipe in widths.values() if recipe != "grpo"]
    told = {recipe: word("ledger", recipe, "grpo") for recipe in of_ledger}
    assert {recipe for recipe, said in told.items() if said != "not told"} == {"gspo 0.003"}
    for task in readings.DRIFT_TASKS:
        for pair in readings.PAIRS:
            assert word(task, *pair, "09_drift") == "not told"
    assert word("misled int4", "gspo 0.03 at pi_k", "grpo", "09_drift") == "better"
    died = {(row["task"], row["method"]): row["died"] for row in readings.all_rows("09_ranges") if row["died"]}
    assert {name for name, count in died.items() if not count.startswith("0 ")} == {
        ("ledger", "gspo open"),
        ("ledger", "grpo 0.5"),
        ("misled", "unclipped"),
        ("misled", "grpo 0.5"),
    }
    assert len(died) == 30 and sum(int(count.split()[0]) for count in died.values()) == 5  # of 12 each


def test_chapter_09_gspo_is_ahead_in_the_median_and_of_noise_five_seeds_say_nothing():
    clean, noisy = load_table("09_gspo"), load_table("09_noise")

    def gain(table, ours: str, theirs: str) -> np.ndarray:
        return table.last(ours, "accuracy") - table.last(theirs, "accuracy")

    pairs = [(noisy, f"gspo {kind}", f"grpo {kind}") for kind in ("to mu", "to pi_k", "corrected", "bfloat16")]
    pairs += [(clean, "gspo 0.03", "grpo 0.2"), (clean, "gspo 0.03", "grpo 0.05")]
    assert all(np.median(gain(*pair)) > 0 for pair in pairs)
    for pair in pairs:  # an interval of five seeds is their range
        found = paired_interval(gain(*pair), np.zeros(5))
        assert (found.low, found.high) == pytest.approx((gain(*pair).min(), gain(*pair).max()))
    same_range = paired_interval(gain(clean, "gspo 0.2", "grpo 0.2"), np.zeros(5))
    assert same_range.low < 0 < same_range.high
    between = paired_interval(gain(*pairs[0]), gain(*pairs[4]))
    assert between.low < 0 < between.high
    ranges = paired_interval(clean.last("gspo 0.03", "accuracy"), clean.last("gspo 4e-4", "accuracy"))
    assert ranges.low < 0 < ranges.high


def test_chapter_09_behind_the_measured_range_the_mean_log_ratio_is_below_0_and_more_wrong_gates_close():
    every = [one for run in readings.rounds_of("measured") for one in run]
    assert len(every) == 30 and all(-0.52 < one["mean"] / one["spread"] < -0.06 for one in every)
    assert sum(one["closed, wrong"] > one["closed, right"] for one in every) == 23
    found, centred, around_mean = readings.by_sign()
    shares = [[float(row[sign].split()[0]) for sign in ("wrong", "right")] for row in (found, centred, around_mean)]
    assert shares == [[0.43, 0.15], [0.21, 0.21], [0.3, 0.14]]
