"""What chapter 07 says of its stored runs, and how it reads them."""

import numpy as np
import pytest
import torch

from rlnotes.chapters.c07 import readings
from rlnotes.chapters.c07.live import live_run
from rlnotes.chapters.c07.penalty_gradients import mean_gradient, policy_of
from rlnotes.chapters.c07.readings import frontier
from rlnotes.chapters.c07.rounds import chances, held_out, shipped_start, start_chances
from rlnotes.chapters.c07.studies import BETAS
from rlnotes.exact import tokens
from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.lm.config import preset_config
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Needle
from rlnotes.lm.warm_start import load_weights
from rlnotes.objectives import KLPenalty
from rlnotes.studies.contest import STARTS
from rlnotes.studies.tables import Table, load_rows, load_table


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
    policy = Transformer(preset_config("tiny", len(task.vocabulary), task.prompt_length + task.max_response_length))
    asked = task.sample(64, torch.Generator().manual_seed(0), "heldout").prompts
    for start in range(STARTS):
        load_weights(policy, "needle", task.size, "tiny", start)
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
    return {arm: readings.verdict(table, name, own[other], metric).word for arm, name in own.items() if arm != other}


def test_from_2_to_32_one_size_of_eight_differs_from_16():
    found = {task: words(GROUPS, task, "grpo, G = 16", "accuracy") for task in readings.TASKS}
    told = [(task, arm, word) for task, own in found.items() for arm, word in own.items() if word != "not told"]
    assert told == [("misled", "grpo, G = 8", "better")]
    rows = {(row["task"], row["arm"]): row for row in readings.groups(GROUPS)}
    for task in readings.TASKS:
        means = [rows[task, f"grpo, G = {size}"]["mean"] for size in readings.SIZES]
        assert min(means) == means[-1]
        assert rows[task, "untrained"]["greedy"] < 0.1
    own = readings.chosen(GROUPS, "misled")
    assert [round(readings.equal_early(GROUPS, own[f"grpo, G = {size}"]), 2) for size in (2, 16)] == [0.91, 0.70]
    fast = next(row for row in readings.by_rate(GROUPS, "misled") if row["rate"] == "8e-3")
    assert [fast[f"grpo, G = {size}"] for size in (2, 16)] == ["0.741", "0.530"]
    fast = next(row for row in readings.by_rate(GROUPS, "needle") if row["rate"] == "1.6e-2")
    assert [fast[f"grpo, G = {size}"] for size in (2, 16)] == ["0.937", "0.906"]


def test_no_size_is_told_to_be_alike_and_by_pairs_of_runs_64_is_behind_on_misled():
    found = {task: words(GROUPS, task, "grpo, G = 16", "accuracy") for task in readings.TASKS}
    assert ALIKE not in {word for own in found.values() for word in own.values()}
    pairs = {row["arm"]: row for row in readings.seed_by_seed(GROUPS)}
    assert pairs["grpo, G = 64"]["misled"] == "-0.054 ± 0.022"
    assert "grpo, G = 16" not in pairs


def test_the_share_of_equal_groups_is_a_mean_over_prompts():
    task, policy, _ = shipped_start()
    p = chances(policy, task, held_out(task)).double().numpy()
    assert (round(p.mean(), 2), round(float(np.median(p)), 3)) == (0.06, 0.001)
    found = [round(row[name], 2) for row in readings.equal_shares(p, (16, 64)) for name in list(row)[1:]]
    assert found == [0.83, 0.37, 0.71, 0.02]


ALIKE, BETTER, WORSE, NOT_TOLD = "within 0.02 of each other", "better", "worse", "not told"
HELD = ("k1 in reward", "k2 in loss", "k3 x ratio in loss")


def test_k1_in_the_loss_is_no_penalty():
    for task in readings.TASKS:
        assert words(RUNS, task, "unpenalised", "penalised")["k1 in loss"] == ALIKE
    rows = readings.by_rate(RUNS, "misled")
    both = [(float(row["k1 in loss"]), float(row["unpenalised"])) for row in rows]
    assert len(both) == 9 and max(abs(a - b) for a, b in both) < 0.01


def test_three_penalties_hold_and_are_alike():
    for task in readings.TASKS:
        against = words(RUNS, task, "unpenalised", "penalised")
        among = words(RUNS, task, "k1 in reward", "penalised")
        assert {against[arm] for arm in HELD} == {BETTER}
        assert {among[arm] for arm in HELD[1:]} == {ALIKE}
        assert {among["k2 in reward"], among["k3 in reward"]} == {WORSE}
        assert against["k3 in loss"] == {"misled": NOT_TOLD, "needle": BETTER}[task]


def test_where_all_end_at_one_rate():
    rows = {row["arm"]: row for row in readings.at_rate(RUNS, readings.SAME_RATE)}

    def nats(task: str, *arms: str) -> list[float]:
        ends = [float(end) for arm in arms for end in rows[arm][f"{task}: KL"].split(" to ")]
        return [round(min(ends), 1), round(max(ends), 1)]

    assert [nats(task, "k3 in loss") for task in readings.TASKS] == [[0.4, 1.2], [9.3, 10.3]]
    assert [nats(task, *HELD) for task in readings.TASKS] == [[0.3, 0.5], [4.7, 7.2]]
    assert nats("misled", "k1 in loss", "unpenalised") == [5.4, 7.0]


def test_the_start_does_not_decide_and_no_reported_run_died():
    for table in (GROUPS, RUNS):
        for name in table.rows:
            assert table.start(name, "greedy").mean() < 0.2 and readings.deaths(table, name) == "0 of 10"
            assert sorted({*table.starts_of(name)}) == [0, 1, 2]
