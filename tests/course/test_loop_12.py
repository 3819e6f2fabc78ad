"""The loops of chapter 12 reach their threshold on three of three seeds, and its statements hold."""

import json
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest
import torch

from rlnotes.bounds import mixtures as bounds
from rlnotes.bounds.mdp import largest_gain, state_tv
from rlnotes.chapters.c12 import readings
from rlnotes.chapters.c12.explorers import LaggingExplorer
from rlnotes.chapters.c12.live import ARMS as LOOP
from rlnotes.chapters.c12.live import SEEDS as STORED
from rlnotes.chapters.c12.live import train
from rlnotes.chapters.c12.promise import Path, fixed_prompts
from rlnotes.chapters.c12.shift import ARMS
from rlnotes.chapters.c12.token_bounds import random_promises
from rlnotes.exact import mdp as exact
from rlnotes.exact import mixtures
from rlnotes.exact.mixtures import Mixture, step_kernel
from rlnotes.exact.random_mdps import any_mdp, random_policy, step_mixture, trajectory_mixture
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.behavior import Behavior, VersionMixture
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_response, expected_reward
from rlnotes.lm.tasks import Misled
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import GRPO
from rlnotes.studies import load_table, paired_interval
from rlnotes.studies.tables import died, load_rows

DEEPER = FilePath(__file__).parents[2] / "course" / "deeper" / "12_mixture_bounds.ipynb"
SHIFTED = {(feed, readings.TITLES[recipe]) for feed, recipe in ARMS}
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


@SEEDS
def test_chapter_12_learns_from_rollouts_that_are_sixteen_updates_old(seed: int):
    config = TrainConfig(
        task="reverse", size=8, seed=seed, minibatches=4, learning_rate=3e-4, measure_shift=True
    )  # fmt: skip
    with AsyncTrainer(config, choices=GRPO, queue=4, window=64) as trainer:
        assert trainer.evaluate(1024) < 0.45
        rows = list(trainer.run(30))
        assert trainer.evaluate(1024) >= 0.75
    middle, end = rows[8:15], rows[-7:]
    assert all(row["lag"] <= 16 and row["wasted"] == 0 for row in rows)
    assert np.mean([row["lag"] for row in middle + end]) > 8
    stale = [np.mean([row["staleness"] for row in part]) for part in (middle, end)]
    assert stale[0] > 1.2 * stale[1], "the lag stays, and the distance falls"
    assert np.mean([row["update_shift"] for row in middle]) < stale[0]


@SEEDS
def test_chapter_12_its_loop_learns_from_fresh_data_and_every_promise_is_kept(seed: int):
    rows = train((0,), seed=seed, rounds=8)
    assert rows[0]["J"] < 0.1 and rows[-1]["J"] + rows[-1]["change"] > 0.3
    assert all(row["promised"] <= row["change"] for row in rows)
    assert all(row["S"] == pytest.approx(0, abs=1e-6) for row in rows)


def test_chapter_12_what_a_text_is_worth_is_what_listing_all_answers_says():
    task, policy = Misled(size=2), Trainer(TrainConfig(task="misled", size=2, warm_start="none")).model
    prompts = task.sample(3, torch.Generator().manual_seed(0)).prompts
    with torch.no_grad():
        listed = expected_reward(policy, task, every_response(task, prompts)).item()
    assert Path.of(policy, task, prompts).expected_reward == pytest.approx(listed, rel=1e-4)


def test_chapter_12_gains_along_the_right_answer_add_up_to_the_change():
    task = Misled()
    old, new = (Path.of(shipped_start("misled", start=i), task, fixed_prompts(task)) for i in (0, 1))
    change = (new.reached * old.gains(new)).sum(1).mean().item()
    assert change == pytest.approx(new.expected_reward - old.expected_reward, abs=1e-9)


def test_chapter_12_its_bounds_hold_where_every_answer_is_listed():
    found = [random_promises(seed) for seed in range(1000, 1060)]
    assert all(x.split <= x.true + 1e-12 and x.own <= x.true + 1e-12 for x in found)
    assert all(x.rest <= x.rest_by_place + 1e-12 <= x.rest_by_mean + 2e-12 for x in found)
    assert any(x.own > 0 for x in found)


@SEEDS
def test_chapter_12_old_tokens_leave_as_the_formula_says(seed: int):
    config = TrainConfig(
        task="sort", size=8, seed=seed, epochs=4, minibatches=4, learning_rate=1e-4, lags=(0, 64), measure_shift=True
    )
    trainer = Trainer(config, choices=GRPO)
    rows = list(trainer.run(6))
    assert all(row["staleness"] > 0.002 for row in rows[1:])
    prompts = trainer.task.sample(64, torch.Generator().manual_seed(9)).prompts
    for sigma in (0.1, 0.5):
        kernel = step_kernel(np.array([sigma, 0.0]), np.array([[0.0, 1.0]] * 2))
        mixture = VersionMixture((64, 0), (1.0, 0.0), kernel)
        sampler = replace(trainer.sampler, behavior=Behavior(mixture=mixture))
        generator = torch.Generator().manual_seed(seed)
        rollout = sampler.sample(trainer.model, prompts, 16, generator, trainer.updates, past=trainer.past)
        position = torch.arange(rollout.mask.shape[1]).expand_as(rollout.mask)[rollout.mask]
        old = (rollout.version < trainer.updates)[rollout.mask].double().mean().item()
        assert old == pytest.approx(np.mean((1 - sigma) ** position.numpy()), abs=0.03)


def near_the_current_policy(rng: np.random.Generator, level: str):
    mdp = any_mdp(rng)
    make = trajectory_mixture if level == "trajectory" else step_mixture
    mixture = make(rng, mdp.states, mdp.actions, int(rng.integers(2, 4)))
    current, other = (random_policy(rng, mdp.states, mdp.actions) for _ in range(2))
    drift, update = 10 ** rng.uniform(-3, -1, 2)
    versions = (1 - drift) * current + drift * mixture.policies
    return mdp, Mixture(versions, mixture.alpha, mixture.kernel), (1 - update) * current + update * other, current


@pytest.mark.parametrize("seed", range(1, 4))
def test_chapter_12_near_the_current_policy_its_own_advantages_promise_more(seed: int):
    rng = np.random.default_rng(seed)
    cases = [near_the_current_policy(rng, level) for level in ("trajectory", "step") for _ in range(50)]
    pairs = [(bounds.theorem_5_1(*case), bounds.current_advantages(*case)) for case in cases]
    assert np.mean([b.lower > a.lower for a, b in pairs]) > 0.98
    assert sum(b.lower > 0 for _, b in pairs) > 3 * sum(a.lower > 0 for a, _ in pairs)


def test_chapter_12_anywhere_the_exceptions_have_the_larger_constant():
    rng = np.random.default_rng(4)
    exceptions = 0
    for _ in range(200):
        mdp, mixture, *_ = near_the_current_policy(rng, "step")
        policies = np.array([random_policy(rng, mdp.states, mdp.actions) for _ in range(mixture.size + 2)])
        data, new, current = Mixture(policies[2:], mixture.alpha, mixture.kernel), policies[0], policies[1]
        if (
            bounds.current_advantages(mdp, data, new, current).lower
            <= bounds.theorem_5_1(mdp, data, new, current).lower
        ):
            exceptions += 1
            assert largest_gain(mdp, new, current) > bounds.largest_mixture_gain(mdp, data, new)
    assert 0 < exceptions < 40


def test_chapter_12_three_versions_need_a_larger_radius_than_their_pairs():
    versions = np.array([[0.70, 0.20, 0.10], [0.15, 0.25, 0.60], [0.20, 0.75, 0.05]])
    grid = np.array([[i, j, 200 - i - j] for i in range(201) for j in range(201 - i)]) / 200
    assert bounds.common_radius(versions[:, None]) == pytest.approx(0.275)
    assert state_tv(versions[:2, None], grid).max(0).min() == pytest.approx(0.275, abs=1e-9)
    assert state_tv(versions[:, None], grid).max(0).min() == pytest.approx(0.35, abs=6e-3)


def test_chapter_12_what_the_stored_comparison_shows():
    evidence = load_table("12_levels")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}
    stale = {name: evidence.last(name, "staleness", 40) for name in evidence.rows}
    for lag in (64, 256):
        kept, switching, old = f"kept {lag}", f"switching {lag}", f"old {lag}"
        level = paired_interval(last[switching], last[kept])
        assert level.low <= 0 <= level.high
        sizes = paired_interval(evidence.last(switching, "ess_sequence", 40), evidence.last(kept, "ess_sequence", 40))
        assert sizes.low <= 0 <= sizes.high
        switched = paired_interval(last[switching], last["fresh"])
        assert switched.low <= 0 <= switched.high
        assert -0.035 < paired_interval(last[kept], last["fresh"]).value < -0.01
        assert paired_interval(last[kept], last["fresh"]).high < 0
        for half in (kept, switching):
            assert 1.7 < np.median(stale[old]) / np.median(stale[half]) < 2.3
    assert paired_interval(last["old 256"], last["fresh"]).high < -0.03
    shift = [evidence.last(name, "update_shift", 40) for name in ("old 256", "fresh")]
    assert paired_interval(*shift).low > 0
    assert (stale["fresh"] < 1e-6).all()


def test_chapter_12_each_versions_own_advantages_keep_the_promise_with_the_maximum_over_all_pairs():
    rng = np.random.default_rng(5)
    for level in ("trajectory", "step") * 50:
        mdp, mixture, new, _ = near_the_current_policy(rng, level)
        if rng.random() < 0.5:
            new = random_policy(rng, mdp.states, mdp.actions)
        own = np.stack([exact.values(mdp, pi).a for pi in mixture.policies], axis=1)
        change = exact.expected_return(mdp, new) - mixtures.expected_return(mdp, mixture)
        largest = np.abs((new[:, None] * own).sum(-1)).max()
        shift = bounds.distance_to_behavior(mdp, mixture, new)
        penalty = 2 * mdp.gamma * largest / (1 - mdp.gamma) ** 2 * shift
        assert abs(change - bounds.surrogate(mdp, mixture, new, own)) <= penalty + 1e-12


def test_chapter_12_what_its_stored_rounds_show():
    for arm in ("fresh", "half old", "all old"):
        runs = readings.live(arm)
        assert len(runs) == len(STORED)
        change, split, own = (np.array([run[name] for run in runs]) for name in ("change", "promised", "promised, own"))
        assert (split <= change + 1e-3).all() and (own <= change + 1e-3).all()  # stored with four digits
        if arm != "fresh":
            assert (split < 0).all()
    fresh, half, old = readings.signs()
    assert old["there L above 0"] > 0.8 * old["J fell"] and fresh["there L above 0"] == 0
    for row in (fresh, half, old):
        assert row["difference above 0"] <= 1 and row["there difference below 0"] == 0
    for arm in ("all old", "all old, half the rate", "all old, half the lag"):
        times = readings.times_a_round(arm)
        assert times.min() > 1.5 and times.max() < 4.5
    first = {(row["runs"][:4], row["data"]): row["rounds to 0.5"] for row in readings.choices()}
    assert first["loop", "fresh"] == "5 (3 to 7)" and first["loop", "all old, one round"] == "7.5 (5 to 11)"
    assert first["loop", "all old"].startswith("20.5 ") and first["loop", "all old, half the lag"].startswith("13 ")
    slow = {row["arm"]: row["J at the end"] for row in readings.distances()}
    assert slow["fresh, half the rate"] == "0.97 to 0.98" and slow["all old, half the rate"] == "0.36 to 0.67"
    ends = sorted(readings.J_of(run)[-1] for run in readings.live("all old, one round"))
    assert ends[0] < 0.01 and ends[1] > 0.94, "one of six runs died"
    J, S = (LaggingExplorer().curves(arm=1, seed=4, round=10)[panel][0][2] for panel in (0, 1))
    assert J[9] > 0.6 and J[10] < 0.01, "the run that the first screen asks for dies in round 10"
    assert S[:10].max() < 0.1 and S[9] < 0.06 and S[10] > 0.15, "and S jumps after that"


def test_chapter_12_what_lag_and_staleness_say_of_the_cost():
    rows = {row["arm"]: row for row in readings.distances()}
    old = [rows[arm] for arm in ("all old", "all old, half the lag", "all old, one round")]
    assert [f"{row['mean J lost']:.2f}" for row in old] == ["0.49", "0.29", "0.21"]
    assert [f"{row['S, mean']:.3f}" for row in old] == ["0.120", "0.067", "0.016"]
    slower, half = rows["all old, half the rate"], rows["half old"]
    assert abs(slower["mean J lost"] - old[0]["mean J lost"]) < 0.01 and slower["S, mean"] < 0.7 * old[0]["S, mean"]
    lost = readings.mean_J("fresh") - readings.mean_J("all old, one round")
    lived = np.delete(lost, lost.argmax()).mean()
    assert f"{lived:.2f}" == "0.10" and half["mean J lost"] < 0.06 < lived and half["S, mean"] > 3 * old[2]["S, mean"]


def test_chapter_12_what_its_deeper_page_says_of_a_log():
    names = ("S", "S sampled", "mismatch")
    S, sampled, mismatch = (np.concatenate([run[name] for arm in LOOP for run in readings.live(arm)]) for name in names)
    far, worst = S > 0.01, sampled.argmax()
    said = f"in one of the {far.sum()} stored rounds of the chapter's loop with $S$ above 0.01 it reads "
    said += f"{sampled[worst]:.2f} where the distance is {S[worst]:.2f}"
    near = mismatch[far] / S[far]
    page = DEEPER.read_text(encoding="utf-8")
    assert json.dumps(said)[1:-1] in page and f"that was {near.min():.2f} to {near.max():.2f} times" in page


def test_chapter_12_what_its_contest_is_said_to_show():
    rows = {(row["feed"], row["objective"]): row for row in readings.feeds_in_short()}
    fresh, here = "less clip on fresh data", "less clip on this feed"

    def word(feed: str, objective: str, column: str) -> str:
        return str(rows[feed, objective][column]).split("]  ")[1]

    assert word("all old", "clip", fresh) == word("all old", "unclipped", fresh) == "worse"
    assert word("half old", "clip", fresh) == word("old in parts", "clip", fresh) == "not told"
    assert word("all old", "unclipped", here) == "better" and word("half old", "unclipped", here) == "worse"
    assert readings.ends_told() == "-0.034 [-0.133, +0.064]  not told"
    deaths = [rows[key]["died"] for key in (("all old", "clip"), ("half old", "clip"), ("half old", "unclipped"))]
    assert deaths == ["4 of 12", "0 of 12", "4 of 12"]
    assert rows["all old", "unclipped"]["fell"] == "3 of 12"
    fell, dead = (sum(int(row[key].split()[0]) for row in rows.values() if row[key]) for key in ("fell", "died"))
    assert (fell, dead) == (17, 9), "8 of those that lived fell before"
    table = load_table("12_versions")
    curves = [curve for name in readings.chosen(table).values() for _, curve in table.curves(name, "accuracy")]
    rounds = [readings.EVERY * (len(curve) - 1) for curve in curves]
    assert (min(rounds), max(rounds)) == (36, 46)
    assert readings.rounds_to_half("half old", readings.CLIPPED) * (5 + 6) == 44


def test_chapter_12_before_a_fall_the_distance_does_not_tell_runs_that_will_die():
    *arms, whole = readings.before_the_fall()
    assert [row["died"] for row in arms] == [f"{n} of 12" for n in (0, 4, 1, 0, 4, 0)]
    assert [*whole.values()][2:] == ["9 of 72", "8 of 9", "63 of 63", "6 of 9", "63 of 63", "41 of 75", "31 of 75"]
    pairs = [row["yes"] for row in readings.alarms()][4:]
    assert pairs == [
        "41 of 75: 0.55 [0.31, 0.77]",
        "31 of 75: 0.41 [0.19, 0.65]",
        "38 of 75: 0.51 [0.23, 0.77]",
        "57 of 75: 0.76 [0.53, 0.94]",
    ]


def test_chapter_12_runs_with_their_update_shift_are_those_of_the_contest():
    table = load_table("12_versions")
    own, runs = readings.chosen(table), load_rows("12_shift")
    for run in runs:
        _, stored = table.curves(own[run["feed"], run["objective"]], "accuracy")[run["seed"]]
        assert run["accuracy"] == pytest.approx(stored[1:], abs=2e-4)
    died = [row["died"] for row in readings.before_the_fall() if (row["feed"], row["objective"]) in SHIFTED]
    assert len(runs) == 36 and died == ["4 of 12", "1 of 12", "4 of 12"], "all runs that died are among them"


def test_chapter_12_what_its_narrow_interval_and_its_rates_hang_on():
    half, *_, old, _ = readings.counted_otherwise()
    assert old["as 12 starts"] == "-0.445 [-0.609, -0.282]" and max(old[f"start {i}"] for i in range(3)) < -0.43
    assert half["median"] < 0 and half["without seed 3"] < 0
    runs = readings.seed_by_seed()
    lost = sorted(row["fresh, grpo"] - row["all old, grpo"] for row in runs if row["all old, grpo"] > 0.3)
    ahead = [row["all old, unclipped"] - row["all old, grpo"] for row in runs if row["all old, grpo"] > 0.3]
    assert f"{np.mean(ahead):.2f}" == "0.09", "where the clip lived"
    assert len(lost) == 8 and (round(lost[0], 2), round(lost[-1], 2)) == (0.27, 0.34)
    rates = {row["feed"]: row for row in readings.by_rate()}
    assert [rates["all old"][rate].split(", ")[0] for rate in ("1e-4", "2e-4", "4e-4")] == [
        "0.151 / 0.398",
        "0.234 / 0.608",
        "0.395 / 0.745",
    ]
    assert rates["all old"]["1.6e-3"] == "0.613 / –", "at 8e-4 it is 0.046 less, and none of the nine runs died"
    loop = [readings.J_of(run) for run in readings.live("all old")]
    tuned = load_table("12_versions")
    (name,) = (
        name
        for name in tuned.tuning
        if (tuned.labels[name]["task"], tuned.labels[name]["recipe"]) == ("old 32", readings.CLIPPED)
        and tuned.labels[name]["rate"] == "8e-4"
    )
    tuning = [accuracy for _, accuracy in replace(tuned, rows=tuned.tuning).curves(name, "accuracy")]
    assert len([*loop, *tuning]) == 9 and not any(map(died, [*loop, *tuning]))
    assert rates["all old"]["8e-4"] == "0.567 / 0.527, 2 died" and rates["half old"]["8e-4"] == "0.852 / 0.858"
    for feed in ("fresh", "half old", "old in parts"):
        for rate in ("1e-4", "2e-4", "4e-4", "8e-4"):
            clip, without = map(float, rates[feed][rate].split(" / "))
            assert abs(clip - without) < 0.05
