"""The loop of chapter 08 reaches its threshold on three of three seeds, and the chapter's statements hold."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import binom, fisher_exact

from rlnotes.chapters.c08 import readings
from rlnotes.chapters.c08.live import SHARES, train
from rlnotes.chapters.c08.ramble import SAMPLER, TASK, accuracy, gap_within, lengths
from rlnotes.chapters.c10.rounds import start
from rlnotes.estimators.baselines import group_mean, group_mean_std
from rlnotes.exact import tokens
from rlnotes.exact.group_gradients import group_moments
from rlnotes.exact.groups import gradient_scale, wasted_share
from rlnotes.exact.token_gradients import flat, reward_gradient, softmax_policy
from rlnotes.lm.enumeration import every_prompt
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks.rare_tokens import Needle
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives.gates import Clip
from rlnotes.studies import load_table, paired_interval
from rlnotes.studies.tables import load_rows

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


@SEEDS
def test_chapter_08_the_response_mean_makes_wrong_responses_longer_than_right_ones(seed: int):
    policy, rows = train(SHARES["response mean"], seed)
    assert accuracy(shipped_start("ramble")) < 0.45 < 0.7 < accuracy(policy)
    assert rows[-1]["wrong"] > 11 and rows[-1]["wrong"] - rows[-1]["right"] > 6


@SEEDS
@pytest.mark.parametrize("name", ["constant", "token mean"])
def test_chapter_08_the_others_do_not_part_them(name: str, seed: int):
    policy, rows = train(SHARES[name], seed)
    assert accuracy(policy) > 0.7
    assert rows[-1]["wrong"] - rows[-1]["right"] < 6 and rows[-1]["right"] > 4


def test_chapter_08_the_constant_points_where_the_reward_points_and_the_response_mean_does_not():
    policy = shipped_start("ramble")

    def flat_gradient(objective: torch.Tensor) -> torch.Tensor:
        parts = torch.autograd.grad(objective, list(policy.parameters()), retain_graph=True)
        return torch.cat([part.flatten() for part in parts])

    true, prompts = flat_gradient(accuracy(policy, "train")), every_prompt(TASK)
    rollout = SAMPLER.sample(policy, prompts, 8, torch.Generator().manual_seed(0))
    rewards, logp = TASK.reward(rollout).view(-1, 8), token_logp(policy, rollout)
    advantages = (rewards - rewards.mean(1, keepdim=True)).view(-1, 1)
    cosine = {
        name: torch.cosine_similarity(
            flat_gradient((share(rollout.mask) * advantages * logp)[rollout.mask].sum()), true, 0
        )
        for name, share in SHARES.items()
    }
    assert min(cosine["constant"], cosine["token mean"]) > 0.9 and cosine["response mean"] < 0.65


@pytest.mark.parametrize("seed", range(5))
def test_chapter_08_what_an_estimator_is_the_gradient_of(seed: int):
    """Theorem 8.3, on random models, for the three weights of the chapter and for a random one."""
    rng = np.random.default_rng(seed)
    model = tokens.single_prompt(rng.integers(0, 4, 81) / 3, vocab_size=3, horizon=4, eos=0)
    policy = softmax_policy(model, [rng.normal(size=(1, 3**t, 3)) for t in range(4)])
    own, b = tokens.own_tokens(model), tokens.expected_reward(model, policy)
    lengths, ends = own.sum(1), (tokens.sequences(3, 4) == 0).any(1)
    for size, w in ((2, np.full(81, 0.25)), (3, 1 / lengths), (4, ends / 4), (3, rng.normal(size=81))):
        mean = flat(group_moments(model, policy, policy, (own * w[:, None])[None], group_mean, size).mean)
        climbed = replace(model, reward=w * (model.reward - b))
        np.testing.assert_allclose(mean, (size - 1) / size * flat(reward_gradient(climbed, policy)), atol=1e-12)


def mean_push_to_go_on(long: int) -> dict[int, float]:
    """By the number of right responses in a group of four of the small case the token mean's mean push to go on after a
    wrong letter, with ``long`` tokens for 8.
    """
    zero, half, right_one, wrong_one = Fraction(0), Fraction(1, 2), Fraction(1, 8), Fraction(3, 8)
    kinds = [(1, 2, zero, right_one), (1, long, zero, right_one)]  # reward, length, score, chance
    kinds += [(0, 2, -half, wrong_one), (0, long, half, wrong_one)]
    total, chances = [zero] * 5, [zero] * 5
    for group in product(kinds, repeat=4):
        right, weight = sum(one[0] for one in group), Fraction(1)
        for one in group:
            weight *= one[3]
        push = sum(((one[0] - Fraction(right, 4)) * one[2] for one in group), zero)
        total[right] += weight * push / sum(one[1] for one in group)
        chances[right] += weight
    return {right: float(total[right] / chances[right]) for right in range(5)} | {-1: float(sum(total))}


def test_chapter_08_the_token_mean_pushes_wrong_responses_to_go_on_unless_lengths_are_equal():
    said = mean_push_to_go_on(8)
    assert [f"{said[right]:.4f}" for right in (1, 2, 3, -1)] == ["0.0037", "0.0050", "0.0037", "0.0028"]
    assert said[0] == said[4] == 0 and not any(mean_push_to_go_on(2).values())


def test_chapter_08_the_rate_of_unclipped_was_chosen_by_little():
    rows = {row["rate"]: row["unclipped"] for row in readings.contest_tuning()}
    assert max(rows, key=rows.__getitem__) == "8e-4" and f"{rows['8e-4'] - rows['4e-4']:.3f}" == "0.002"


def test_chapter_08_two_kept_groups_point_where_all_groups_point():
    """Fact 8.10: shares of kept groups, listed one by one, times their mean estimates, for three prompts."""
    p, G = np.array([0.05, 0.5, 0.97]), 6
    plain = np.array([q * (1 - q) * gradient_scale(group_mean_std, G, q) for q in p])
    counts, kept, sums = np.arange(1, G), [], []
    for q in p:
        estimates = []
        for right in counts:
            rewards = (np.arange(G) < right).astype(float)
            estimates.append(np.mean(group_mean_std(rewards, G) * (rewards - q)))
        chance = binom.pmf(counts, G, q)
        kept.append(chance.sum())
        sums.append(chance @ np.array(estimates))
        assert (chance @ counts / G) / chance.sum() == pytest.approx((q - q**G) / (1 - wasted_share(G, q)))
    with_sampling = np.array(sums) / np.sum(kept)
    np.testing.assert_allclose(with_sampling / plain, 1 / np.sum(kept), rtol=1e-6)


def test_chapter_08_what_the_stored_runs_are_said_to_show():
    ramble, clip = load_table("08_ramble"), load_table("08_clip")
    wrong = {name: ramble.last(name, "length_wrong", 5) for name in ramble.rows}
    assert wrong["grpo"].min() > 15
    for name in ("grpo, constant", "grpo, token mean", "dr_grpo", "dapo"):
        assert wrong[name].max() < 13 and wrong[name].min() < 6
    assert max(ramble.last("dapo, overlong", "length", 5)) < 3
    assert paired_interval(ramble.last("dr_grpo", "accuracy", 1), ramble.last("grpo", "accuracy", 1)).high < 0
    for rate in ("1e-4", "3e-4"):
        for name in ("high 0.28", "high 1.0"):
            for metric in ("accuracy", "entropy"):
                ours, grpo = (clip.last(f"{key} {rate}", metric, 1) for key in (name, "grpo"))
                found = paired_interval(ours, grpo)
                assert found.low < 0 < found.high, (rate, name, metric)


def test_chapter_08_the_response_mean_parts_lengths_on_every_stored_seed_and_costs():
    best = {name: readings.gaps("best", name) for name in readings.DENOMINATORS}
    assert best["response mean"].min() > 5.5 and max(best["constant"].max(), best["token mean"].max()) < 1
    assert readings.gaps("chapter", "response mean").min() > 7
    assert sum(readings.shorter("constant")) == 3
    rows = {row["denominator"]: row for row in readings.accuracy_in_short("best")}
    rates = [row["rate"] for row in readings.tuning()]
    slow = {row["denominator"]: row for row in readings.accuracy_in_short("chapter")}
    for name in ("constant", "token mean"):
        assert slow[name][readings.EQUAL_RESPONSES].endswith("within 0.02 of each other")
        assert slow[name][readings.EQUAL_TOKENS].endswith("better")
        assert rows[name][readings.EQUAL_RESPONSES].endswith("better")
        assert rows[name][readings.EQUAL_TOKENS].endswith("not told")
        assert rows[name]["rate"] not in (rates[0], rates[-1])


def test_chapter_08_what_its_contests_are_said_to_show():
    def words(name: str, methods: dict[str, str]) -> dict[tuple[str, str], str]:
        tasks = ("ledger", "ramble", "misled", "needle")
        rows = readings.contest_in_short(name, methods, tasks, whole=True)
        assert not any(str(row["rate"]).endswith("at an end") for row in rows)
        return {(row["task"], row["method"]): str(list(row.values())[-1]).split("]  ")[-1] for row in rows}

    ramble, ledger = words("08_length", readings.CONTEST), words("08_denominators", readings.CONTEST)
    ends, kept = words("08_wider_clip", readings.UPPER_ENDS), words("08_dynamic", readings.DYNAMIC)
    assert ramble["ramble", "constant"] == ramble["ramble", "token mean"] == "worse"
    assert ledger["ledger", "constant"].startswith("within") and ledger["ledger", "token mean"] == "not told"
    assert (ends["misled", "0.28"], ends["needle", "0.28"]) == ("worse", "not told")
    assert {ends[task, end] for task in ("misled", "needle") for end in ("1.0", "4.0")} == {"better"}
    assert (kept["misled", "dapo"], kept["needle", "dapo"]) == ("not told", "worse")


def test_chapter_08_how_often_a_sign_is_seen_with_the_response_mean_and_with_the_constant():
    loop, best, rates, contest = ([*row.values()][1:] for row in readings.alarms())
    assert loop == ["3 of 10; 6 of 10", "10 of 10; 0 of 10"]
    assert best == ["4 of 10; 7 of 10", "10 of 10; 0 of 10"]
    assert rates == ["7 of 18; 11 of 18", "14 of 18; 0 of 18"]  # missed at high rates
    assert contest == ["2 of 12; 10 of 12", "8 of 12; 0 of 12"]
    rows = [row for role in ("chapter", "best") for row in readings.accuracy_in_short(role)]
    assert [row["ahead"] for row in rows if row["denominator"] == "constant"] == ["10 of 10", "9 of 10"]
    copies = np.corrcoef([readings.gaps("chapter", name) for name in ("constant", "token mean")])
    assert f"{copies[0, 1]:.2f}" == "0.99"  # so the token mean's runs are not counted beside the constant's


def test_chapter_08_lengths_of_its_contest_grew_with_every_denominator_but_the_response_mean():
    rows = readings.contest_in_short("08_length", readings.CONTEST, ("ramble",), whole=True)
    grew = {row["method"]: row["grew"] for row in rows if row["grew"]}
    assert [grew[name] for name in readings.DENOMINATORS] == ["2 of 12", "10 of 12", "11 of 12"]
    assert grew["dr_grpo"] == "11 of 12" and all(row["start, greedy"] == "1.000" for row in rows)


def test_chapter_08_at_equal_rates_the_loop_costs_little_until_the_response_mean_breaks():
    lead = {row["rate"]: row["constant"] - row[readings.FIRST] for row in readings.tuning()}
    slow = [f"{lead[rate]:.3f}" for rate in ("0.00015", "0.0003", "0.0006", "0.0012")]
    assert slow == ["0.011", "0.013", "0.012", "0.020"]
    assert lead["0.0012"] <= readings.MARGIN + 5e-4 and lead["0.0024"] > 0.1


def test_chapter_08_at_equal_rates_and_steps_its_contest_shows_no_cost():
    rows = readings.at_equal_steps()
    assert [(row["rate"], row["to step"]) for row in rows] == [(rate, 21) for rate in ("1e-4", "2e-4", "4e-4", "8e-4")]
    assert max(abs(row["constant"] - row[readings.FIRST]) for row in rows) < 0.0035
    assert all(row["token mean"] < row[readings.FIRST] + 0.001 for row in rows)


def test_chapter_08_at_equal_rates_the_mean_length_of_its_contest_grew_more_rarely_with_the_response_mean():
    table, grew = load_table("08_length"), dict.fromkeys(("grpo", "grpo constant"), 0)
    for method, runs in table.tuning.items():
        own = table.labels[method]
        if own["recipe"] in grew and own["rate"] in ("1e-4", "2e-4", "4e-4", "8e-4"):
            grew[own["recipe"]] += sum(last > first for first, last in map(readings.length_of, runs.values()))
    assert grew == {"grpo": 1, "grpo constant": 11}
    _, chance = fisher_exact([[2, 10], [10, 2]])
    assert f"{chance:.3f}" == "0.003"


def test_chapter_08_a_rare_token_climbs_faster_than_gates_that_hold_it_would_let_it():
    runs = readings.climbs()
    passed = [next(step for step, found in run.items() if found >= 0.5) for run in runs]
    assert sorted(passed) == [4] * 10 + [6] * 2
    assert f"{min(run[2] for run in runs):.2f} {max(run[2] for run in runs):.2f}" == "0.22 0.35"
    assert all(f"{run[0]:.3f}" == "0.021" for run in runs)


@pytest.mark.slow
def test_chapter_08_one_update_carries_a_rare_token_beyond_its_gate():
    """The first update on a rollout of needle, by a quarter of it, at the rate of the contest."""
    run, gate = start("needle"), Clip()
    rollout = run.sample(32, 16, "train", seed=0)
    advantages = group_mean_std(run.task.reward(rollout), 16)[:, None].expand(rollout.mask.shape)
    assert isinstance(run.task, Needle)
    right = rollout.tokens == run.task.solve(rollout.prompts).repeat_interleave(16, 0)
    right &= rollout.mask & (advantages > 0) & (rollout.logp_behavior < -2)
    logp, first = token_logp(run.model, rollout), slice(128)
    terms = gate((logp - rollout.logp_behavior).exp(), advantages) * rollout.mask
    (-(terms[first].sum(1) / rollout.mask[first].sum(1)).mean()).backward()
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    torch.optim.AdamW(run.model.parameters(), 4e-4, (0.9, 0.95), weight_decay=0.0).step()
    with torch.no_grad():
        ratio = (token_logp(run.model, rollout) - rollout.logp_behavior).exp()[right]
    assert ratio.mean().item() == pytest.approx(2.06, abs=0.1) and (ratio > 1.2).float().mean() > 0.8


def test_chapter_08_beyond_its_steps_the_constant_passes_the_line_over_all_and_within_groups():
    rows, stored = readings.beyond(), load_rows("08_longer")
    begun = readings.live("chapter", "constant")[: len(stored)]
    assert all(one["all"][:30] == live["all"] for one, live in zip(stored, begun, strict=True))
    assert max(row["all, step 30"] for row in rows) < readings.SIGN
    passed = [sum(row[f"{name}, highest"] > readings.SIGN for row in rows) for name in ("all", "within")]
    assert passed == [4, 3]
    assert [sum(row[f"{name}, step 80"] > readings.SIGN for row in rows) for name in ("all", "within")] == [2, 2]
    assert (
        f"{max(row['all, highest'] for row in rows):.1f}"
        == f"{max(row['within, highest'] for row in rows):.1f}"
        == "8.2"
    )
    last = [readings.by_verdict(run) for run in load_table("08_ramble").rows["grpo"].values()]
    gaps = [(run["wrong"] - run["right"])[-5:].mean() for run in last]
    assert f"{min(gaps):.1f} {max(gaps):.1f}" == "13.3 13.6"


def test_chapter_08_the_gap_within_groups_is_blind_to_what_differs_between_them():
    """Two prompts, of which the hard one has longer responses and more wrong ones; and one that is always solved."""
    prompts, eos = every_prompt(TASK), TASK.vocabulary.eos
    prompts = prompts[prompts[:, -2] != prompts[:, -3]][:3]
    length = torch.tensor([[3, 3, 3, 3], [9, 9, 9, 9], [2, 4, 6, 8]])
    right = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]).bool()
    answer = prompts[:, None, -2].where(right, prompts[:, None, -3])
    place = torch.arange(TASK.max_response_length)
    written = answer[..., None].where(place < length[..., None] - 1, eos).view(12, -1)
    rollout = Rollout.of_responses(prompts, written, eos)
    assert lengths(rollout)["wrong"] - lengths(rollout)["right"] > 2
    assert gap_within(rollout) == 0


def test_chapter_08_the_gap_falls_with_the_rate_with_the_clip_and_without():
    slow, *_, fast = readings.gap_by_rate()
    for name in ("response mean", "unclipped"):
        assert float(slow[name].split()[0]) > 11 and float(fast[name].split()[-1]) <= 2.6


def test_chapter_08_at_equal_rates_the_usual_upper_end_is_now_ahead_now_behind():
    for row in readings.upper_ends_by_rate():
        assert (row["0.28"] > row["0.2"]) == (row["rate"] == "4e-4")


def test_chapter_08_a_step_of_dynamic_sampling_takes_more_rounds_than_it_needs():
    rows = {row["runs"]: row for row in readings.rounds_a_step()}
    assert f"{rows['misled']['rounds a step']:.1f} {rows['needle']['rounds a step']:.1f}" == "3.1 2.0"
    for rate, said in (("1e-4", "1.04 1.6"), ("3e-4", "1.23 1.9")):
        row = rows[f"sort, {rate}"]
        assert f"{row['1/k']:.2f} {row['rounds a step']:.1f}" == said
