"""What chapter 07 says of its stored runs, and how it reads them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.chapters.c07 import readings
from rlnotes.chapters.c07.live import live_run
from rlnotes.chapters.c07.penalty_gradients import mean_gradient, policy_of
from rlnotes.chapters.c07.readings import frontier
from rlnotes.chapters.c07.rounds import chances, held_out, start_chances
from rlnotes.chapters.c07.studies import BETAS, TWICE
from rlnotes.exact import tokens
from rlnotes.exact.groups import mean_deviation
from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Misled, Needle
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import PG_IS, Batch, KLPenalty, policy_loss
from rlnotes.studies.contest import STARTS, less
from rlnotes.studies.tables import Table, died, load_rows, load_table
from rlnotes.studies.verdicts import paired_difference


def test_the_frontier_is_where_the_best_policy_is_and_a_penalty_of_its_slope_touches_it():
    chances = np.array([0.5, 0.01, 1e-6])
    betas = np.array([0.05, 0.2, 1.0])
    J, KL = frontier(chances, betas)
    best = [beta * np.log1p(chances * np.expm1(1 / beta)).mean() for beta in betas]  # beta log Z
    assert J - betas * KL == pytest.approx(best)
    other = J[:, None] - betas * KL[:, None]  # every point of it, under every penalty
    assert (other.max(0) == np.diag(other)).all()


def test_what_is_best_on_needle_and_that_k1_in_the_reward_ends_there():
    task = Needle()
    asked = task.sample(64, torch.Generator().manual_seed(0), "heldout").prompts
    for start in range(STARTS):
        policy = shipped_start("needle", start=start)
        with torch.no_grad():
            logp = token_logp(policy, Rollout.of_responses(asked, task.solve(asked), task.vocabulary.eos))
        assert logp[:, : task.size].exp() == pytest.approx(task.rare, rel=0.06)
    J, KL = frontier(np.array([task.rare]), np.array([BETAS["needle"]]), task.size)
    assert (round(J[0], 3), round(KL[0], 2)) == (0.568, 6.19)
    (row,) = (row for row in readings.penalties(RUNS, ["needle"]) if row["arm"] == "k1 in reward")
    assert (round(row["accuracy"], 3), round(row["KL"], 2)) == (0.556, 6.25)


def test_the_star_of_misled_is_a_mean_over_prompts():
    p = np.concatenate(start_chances())
    assert [round(float(x), 3) for x in (p.mean(), np.median(p))] == [0.077, 0.003]
    found = [frontier(np.array([chance]), np.array([0.2]))[0][0] for chance in (p.mean(), np.median(p))]
    assert [round(float(x), 2) for x in (*found, frontier(p, np.array([0.2]))[0][0])] == [0.93, 0.30, 0.42]


def test_the_success_rate_as_baseline_is_right_at_one_half_and_worse_than_none_at_nine_tenths():
    def variance(p: float, b: float) -> float:
        gradients = np.array([(1 - p) * (1 - b), p * b])  # of the right token's logit: right, and wrong
        chances = np.array([p, 1 - p])
        return float(chances @ gradients**2 - (chances @ gradients) ** 2)

    assert [variance(0.5, b) for b in (0, 0.5)] == pytest.approx([1 / 16, 0])
    assert [variance(0.9, b) for b in (0, 0.9)] == pytest.approx([0.0009, 0.0576])
    assert variance(0.3, 0.2) == pytest.approx(0.3 * 0.7 * (1 - 0.3 - 0.2) ** 2)


def test_k3_in_the_loss_lets_the_odds_grow_beyond_the_bound_of_k1_in_the_reward():
    p, start, beta = np.arange(1, 10_000) / 10_000, 0.01, 0.5
    turned = start * np.log(start / p) + (1 - start) * np.log((1 - start) / (1 - p))  # KL of reference to policy
    best = p[(p - beta * turned).argmax()]
    assert round(best, 2) == 0.51 and best / (1 - best) / (start / (1 - start)) > 100 > np.exp(1 / beta)
    J, _ = frontier(np.array([start]), np.array([beta]))
    assert J[0] / (1 - J[0]) / (start / (1 - start)) == pytest.approx(np.exp(1 / beta)) == pytest.approx(7.39, abs=0.01)


def test_the_root_of_g_less_1_bounds_the_factor_and_not_the_ratio_of_hard_to_even():
    p = np.array([1e-6, 0.5])
    hard, even = mean_deviation(16, p) / (p * (1 - p))
    assert [round(float(x), 2) for x in (hard, even, hard / even)] == [3.87, 1.93, 2.0] and hard < 15**0.5


def test_the_live_run_is_the_stored_one():
    stored = load_rows("07_live")[0]
    assert stored["seed"] == 0
    for row, step in zip(live_run(0, steps=2), range(2), strict=True):
        assert row["gradient norm"] == pytest.approx(stored["gradient norm"][step], rel=0.01)
        assert row["J"] == pytest.approx(stored["J"][step], abs=0.01)


def test_the_loss_reads_0_and_the_policy_learns_on_all_seeds():
    for row in load_rows("07_live"):
        assert max(map(abs, row["loss"])) < 1e-6 and np.median(row["gradient norm"]) > 0.1
        assert row["start"] < 0.07 and row["J"][-1] > 0.98
        assert 1e-3 < max(map(abs, row["token mean"])) < 0.01  # nearly all responses are of one length
        norms = row["gradient norm"]
        assert norms[0] < np.median(norms) / 2  # small at first


def test_only_k1_in_the_reward_descends_the_kl_of_whole_responses():
    theta = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]], dtype=torch.float64).log()
    pair = tokens.single_prompt([0, 0, 0, 0], vocab_size=2, horizon=2)
    even = policy_of(torch.zeros(3, 2, dtype=torch.float64))
    steps = 1e-5 * torch.eye(6, dtype=torch.float64).view(6, 3, 2)
    ahead, behind = (
        np.array([sequence_kl(pair, policy_of(theta + sign * step), even) for step in steps]) for sign in (1, -1)
    )
    true = (ahead - behind).reshape(3, 2) / 2e-5
    found = {
        (name, where): mean_gradient(theta, KLPenalty(1.0, name, where=where), torch.zeros(4, dtype=torch.float64))
        for name in ("k1", "k2", "k3")
        for where in ("reward", "loss")
    }
    assert [key for key, own in found.items() if np.allclose(own, true, atol=1e-6)] == [("k1", "reward")]
    assert [key for key, own in found.items() if np.allclose(own, 0, atol=1e-12)] == [("k1", "loss")]


# --- What the chapter says of its two tables

GROUPS, RUNS = load_table("07_groups"), load_table("07_penalties")


def words(table: Table, task: str, other: str, metric: str) -> dict[str, str]:
    own = readings.chosen(table, task)
    return {arm: less(table, name, own[other], metric).word for arm, name in own.items() if arm != other}


def test_only_64_is_told_from_pairs_and_what_one_set_of_seeds_says_of_8_and_16_another_denies():
    found = {task: words(GROUPS, task, "grpo, G = 2", "accuracy") for task in readings.TASKS}
    told = [(task, arm, word) for task, own in found.items() for arm, word in own.items() if word != NOT_TOLD]
    assert told == [("misled", "grpo, G = 64", WORSE)]
    rows = readings.eight_or_sixteen(GROUPS, load_rows("07_again"))
    assert [row["8 less 16, seed by seed"][:6] for row in rows] == ["+0.032", "-0.032", "-0.013"]
    assert [row["died"] for row in rows] == ["0 and 0", "0 and 0", "1 and 1"]
    assert {row["G = 8"] > row["G = 16"] for row in rows} == {True, False}
    own = readings.chosen(GROUPS, "misled"), readings.chosen(GROUPS, "needle")
    means = [{arm: GROUPS.mean(name, "accuracy") for arm, name in arms.items()} for arms in own]
    gaps = [paired_difference(mean, of[SIXTEEN]) for of in means for arm, mean in of.items() if arm != SIXTEEN]
    assert (len(gaps), sum(gap.low > 0 or gap.high < 0 for gap in gaps)) == (10, 2)
    ends = [row["accuracy"] for row in load_rows("07_again") if died(row["accuracy"])]
    assert [round(end[3 if end[3] else 2], 1) for end in ends] == [0.9, 0.4] and not any(sum(end[4:]) for end in ends)


def test_at_twice_the_best_rate_one_of_three_runs_died_with_groups_of_4_to_32():
    fast = {row["rate"]: row for row in readings.deaths_by_rate(GROUPS, "misled")}
    assert [fast["8e-3"][f"grpo, G = {size}"] for size in (2, 4, 8, 16, 32)] == ["0 of 3", *["1 of 3"] * 4]
    assert {row[arm] for rate, row in fast.items() if rate != "8e-3" for arm in list(row)[1:]} == {"0 of 3"}


def test_what_the_card_counts():
    early = readings.equal_early(GROUPS, "misled")
    assert ((early >= 0.8).sum(), early.size) == (28, 60)
    assert sum(int(row.get("mostly equal", 0)) for row in readings.groups(GROUPS, ["misled"])) == 28
    norms = np.concatenate([row["gradient norm"] for row in load_rows("07_live")])
    assert (sum(norms < 1e-3), norms.size, round(norms.max(), 1)) == (1, 300, 8.4)


def test_in_pairs_a_penalty_has_its_own_weight_and_in_groups_of_16_less_of_it():
    weight = {(size, p): p * (1 - p) / float(mean_deviation(size, p)) for size in (2, 16) for p in (0.5, 0.02)}
    assert {key: round(one, 2) for key, one in weight.items()} == {
        (2, 0.5): 1.0, (2, 0.02): 1.0, (16, 0.5): 0.52, (16, 0.02): 0.28,
    }  # fmt: skip


def test_the_share_of_equal_groups_is_a_mean_over_prompts():
    task, policy = Misled(), shipped_start("misled")
    p = chances(policy, task, held_out(task)).double().numpy()
    assert (round(p.mean(), 2), round(float(np.median(p)), 3)) == (0.06, 0.001)
    found = [round(row[name], 2) for row in readings.equal_shares(p, (16, 64)) for name in list(row)[1:]]
    assert found == [0.83, 0.37, 0.71, 0.02]


SIXTEEN = "grpo, G = 16"
ALIKE, BETTER, WORSE, NOT_TOLD = "within 0.02 of each other", "better", "worse", "not told"
HELD = ("k1 in reward", "k2 in loss")


def test_k1_in_the_loss_is_no_penalty():
    for task in readings.TASKS:
        assert words(RUNS, task, "unpenalised", "penalised")["k1 in loss"] == ALIKE
    rows = readings.by_rate(RUNS, "misled")
    both = [(float(row["k1 in loss"]), float(row["unpenalised"])) for row in rows]
    assert len(both) == 9 and max(abs(a - b) for a, b in both) < 0.01


def test_two_penalties_hold_and_a_third_is_one_of_them_again():
    for task in readings.TASKS:
        against = words(RUNS, task, "unpenalised", "penalised")
        among = words(RUNS, task, "k1 in reward", "penalised")
        assert {against[arm] for arm in HELD} == {BETTER}
        assert among["k2 in loss"] == ALIKE
        assert {among["k2 in reward"], among["k3 in reward"]} == {WORSE}
        assert against["k3 in loss"] == {"misled": NOT_TOLD, "needle": BETTER}[task]
        assert words(RUNS, task, "k2 in loss", "penalised")[TWICE] == ALIKE
        assert TWICE not in readings.held(RUNS, task)
    gains = [
        round(float(np.mean(RUNS.mean(own[arm], "penalised") - RUNS.mean(own["unpenalised"], "penalised"))), 2)
        for own in (readings.chosen(RUNS, task) for task in readings.TASKS)
        for arm in HELD
    ]
    assert gains == [0.03, 0.03, 0.07, 0.05]


def test_three_penalties_end_above_the_untrained_policy_on_both_tasks_in_one_order():
    for task in readings.TASKS:
        start = RUNS.start(readings.chosen(RUNS, task)["unpenalised"], "accuracy").mean()
        scores = {arm: readings.score(task, accuracy, kl) for arm, (kl, accuracy) in readings.held(RUNS, task).items()}
        holds = sorted((arm for arm in scores if scores[arm].min() > start), key=lambda arm: -scores[arm].mean())
        assert holds[:3] == [*HELD, "k3 in loss"] == sorted(holds[:3], key=lambda arm: -scores[arm].min())
        assert holds[3:] == {"misled": [], "needle": ["k3 in reward", "k2 in reward"]}[task]
    _, best = readings.best_under("misled", start_chances())
    for arm in HELD:
        kl, _ = readings.held(RUNS, "misled")[arm]
        assert min(kl) / best > 0.25 and max(kl) / best < 0.53


def test_k3_times_the_live_ratio_has_the_gradient_of_k2_for_every_token():
    logp = torch.linspace(-3, -0.1, 7, dtype=torch.float64).requires_grad_()
    ref = torch.linspace(-0.2, -4, 7, dtype=torch.float64)
    batch = Batch(logp[None], torch.ones(1, 7) > 0, torch.zeros(1), logp.detach()[None], logp_reference=ref[None])
    found = [
        torch.autograd.grad(policy_loss(replace(PG_IS, kl=kl), batch), logp)[0]
        for kl in (KLPenalty(1.0, "k2"), KLPenalty(1.0, "k3", weighted=True))
    ]
    assert torch.allclose(*found, rtol=1e-12)


def test_where_all_end_at_one_rate():
    rows = {row["arm"]: row for row in readings.at_rate(RUNS, readings.SAME_RATE)}

    def nats(task: str, *arms: str) -> list[float]:
        ends = [float(end) for arm in arms for end in rows[arm][f"{task}: KL"].split(" to ")]
        return [round(min(ends), 1), round(max(ends), 1)]

    assert [nats(task, "k3 in loss") for task in readings.TASKS] == [[0.4, 1.2], [9.3, 10.3]]
    assert [nats(task, *HELD) for task in readings.TASKS] == [[0.3, 0.5], [4.7, 6.5]]
    assert nats("misled", "k1 in loss", "unpenalised") == [5.4, 7.0]
    ends = sorted(end for arm in ("k1 in loss", "unpenalised") for end in readings.held(RUNS, "needle")[arm][0])
    assert [end > 21 for end in ends] == [False] * 2 + [True] * 4 and max(ends[:2]) < 16


def test_the_start_does_not_decide_and_no_reported_run_died():
    for table in (GROUPS, RUNS):
        for name in table.rows:
            assert table.start(name, "greedy").mean() < 0.2 and readings.deaths(table, name) == "0 of 10"
            assert sorted({*table.starts_of(name)}) == [0, 1, 2]
