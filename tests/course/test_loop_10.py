"""The loop of chapter 10 is that of its stored runs, which have the winners of the chapter on all six seeds; and its
statements hold.
"""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import root_scalar

from rlnotes.chapters.c10 import readings
from rlnotes.chapters.c10.holds import HOLDS, Holding
from rlnotes.chapters.c10.live import APART, GATES, RATE, ROUNDS
from rlnotes.chapters.c10.rounds import measured, openness, start, train
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.exact import token_gradients, tokens
from rlnotes.objectives.gates import Cap, Clip, Gate, Soft, SoftOneSided, no_gate
from rlnotes.studies import load_table, paired_interval
from rlnotes.studies.contest import chosen, less
from rlnotes.studies.tables import died, load_rows
from rlnotes.studies.verdicts import judge

CLIP, STRONG = Clip(0.2, 0.2), Soft(10.0, 10.5)
PAGE = Path(__file__).parents[2] / "course" / "10_sapo.ipynb"
LOOPS = tuple(product(("needle", "sort"), ("clip", "sapo")))


def stored(task: str, gate: str) -> dict[str, Any]:
    """The first of the stored runs, of seed 0."""
    return next(one for one in load_rows("10_live") if (one["task"], one.get("gate")) == (task, gate))


def test_chapter_10_the_stored_runs_are_those_of_the_loop():
    kept, run = stored("needle", "sapo"), start("needle")
    assert measured(run) == pytest.approx(kept["before"], abs=1e-4)
    (row,) = train(run, GATES["sapo"], RATE, 1)
    for key in ("reward", "mean_gate", "good", "bad"):
        assert row[key] == pytest.approx(kept[key][0], abs=5e-3)


def test_chapter_10_the_gates_that_the_page_writes_out_are_those_of_the_package():
    (source,) = (
        "".join(cell["source"])
        for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
        if cell["id"] == "c10-06"
    )
    page: dict[str, Any] = {"torch": torch}
    exec(source, page)
    A = torch.tensor([[1.5], [-0.5]])
    r = torch.arange(0.005, 4.0, 0.01).expand(2, -1)  # none at an edge of the clip
    for name, gate in GATES.items():
        assert torch.allclose(page[name](r, A), openness(gate, r, A.expand_as(r)), atol=1e-6)


@pytest.mark.slow
def test_chapter_10_the_soft_gate_loses_on_sort():
    ended = {}
    for name, gate in GATES.items():
        run = start("sort")
        rows = list(train(run, gate, RATE, ROUNDS))
        assert len(rows) == ROUNDS
        ended[name] = measured(run)
        assert ended[name]["sampled"] == pytest.approx(stored("sort", name)["after"]["sampled"], abs=0.1)
    assert ended["sapo"]["greedy"] < 0.8 < 0.9 < ended["clip"]["greedy"]


def test_chapter_10_what_the_stored_loops_show():
    rows = [one for one in load_rows("10_live") if one["role"] == "loop"]

    def of(task: str, gate: str, when: str = "after", kind: str = "sampled") -> np.ndarray:
        return np.array([one[when][kind] for one in rows if (one["task"], one["gate"]) == (task, gate)])

    def logged(task: str, gate: str, key: str) -> list[list[float]]:
        return [[x for x in one[key] if x is not None] for one in rows if (one["task"], one["gate"]) == (task, gate)]

    assert (of("needle", "sapo") > 0.99).all() and (of("needle", "clip") < 0.66).all()
    assert (of("sort", "clip") > 0.61).all() and (of("sort", "clip") > of("sort", "sapo")).all()
    gates = {task: np.array(logged(task, "sapo", "mean_gate")) for task in ("needle", "sort")}
    low, high = (gates[task].mean(1) for task in ("needle", "sort"))
    assert 0.95 < low.min() < low.max() < 0.96 and 0.975 < high.min() < high.max() < 0.985
    own = {pair: [readings.own_gate(one) for one in rows if (one["task"], one["gate"]) == pair] for pair in LOOPS}
    assert own["sort", "clip"] == pytest.approx([0.93] * 6, abs=6e-3)
    assert own["sort", "sapo"] == pytest.approx([0.98] * 6, abs=6e-3)
    assert min(own["needle", "sapo"]) > 0.95 > 0.82 > max(own["needle", "clip"])
    most = {task: max(x for one in logged(task, "sapo", "bad") for x in one) for task in ("needle", "sort")}
    assert most["needle"] > 0.6 and most["sort"] < 0.17


def test_chapter_10_what_twenty_seeds_of_sort_show():
    before = stored("sort", "sapo")["before"]
    sampled, greedy = (np.array([*readings.ended("sort", "sapo", kind).values()]) for kind in ("sampled", "greedy"))
    assert len(sampled) == 20 and (sampled < before["sampled"]).sum() == 7 and (greedy < before["greedy"]).all()
    assert (readings.less_clip("sort", "sapo") < 0).all()
    lost = before["greedy"] - np.array([*readings.ended("sort", "clip", "greedy").values()])
    assert [lost.mean(), lost.max(), sorted(lost)[-2]] == pytest.approx([0.02, 0.10, 0.05], abs=5e-3)


def test_chapter_10_what_is_logged_tells_no_harmful_run_from_a_healthy_one():
    (healthy, kept), (harmful, lost) = (readings.by_round(task) for task in ("needle", "sort"))
    assert len(healthy) == 6 and len(harmful) == len(lost) == 20
    assert healthy[:, :2].max() < 0.93 < harmful[:, :2].min() and healthy[:, 2:].min() > 0.992 > harmful[:, 2:].max()
    assert kept[:, :2].min() > 0.52 > 0.19 > lost.max() and lost.min() > 0.06 > 0.035 > kept[:, 2:].max()
    assert healthy.min() < harmful.min() < harmful.max() < healthy.max()  # what the figure and the card say
    rewards = [one["reward"] for one in load_rows("10_live") if (one["task"], one.get("gate")) == ("needle", "sapo")]
    assert np.mean(rewards, 0)[2] == pytest.approx(0.97, abs=5e-3)


def test_chapter_10_a_limit_for_each_sign_does_on_both_tasks_what_the_winner_does():
    rows = [one for one in load_rows("10_live") if one["role"] == "loop"]
    for gate in APART:
        for task, kind, least in (("needle", "sampled", 0.99), ("sort", "sampled", 0.64), ("sort", "greedy", 0.925)):
            clip, own = (
                np.array([one["after"][kind] for one in rows if (one["task"], one["gate"]) == (task, name)])
                for name in ("clip", gate)
            )
            assert len(own) == 6 and own.min() > least and (own - clip).mean() > 0
            if gate == "one-sided, good 1, bad 30":
                gain = 0.375 if task == "needle" else 0.02
                assert (own > clip).all() and (own - clip).mean() == pytest.approx(gain, abs=5e-3)
    wide = load_table("08_wider_clip")
    for task, gain in (("needle", [0.18, 0.11, 0.25]), ("misled", [0.03, 0.01, 0.05])):
        open_end, clip = (chosen(wide)[task, name] for name in ("grpo high 4.0", "grpo"))
        lead = less(wide, open_end, clip, "accuracy").difference
        assert [lead.value, lead.low, lead.high] == pytest.approx(gain, abs=5e-3)
        assert not any(died(values) for _, values in wide.curves(open_end, "accuracy"))


def test_chapter_10_at_first_three_of_four_good_tokens_of_needle_are_wrong():
    run = start("needle")
    rewards = run.task.reward(run.sample(32, 16, "train", seed=0))
    assert rewards[group_mean_std(rewards, 16) > 0].mean().item() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(("task", "share"), [("sort", 0.65), ("ledger", 0.95)])
def test_chapter_10_most_sampled_tokens_are_likely(task: str, share: float):
    rollout = start(task).sample(16, 16, "train", seed=0)
    likely = rollout.logp_behavior[rollout.mask] >= math.log(0.9)
    assert likely.float().mean().item() == pytest.approx(share, abs=0.02)


def test_chapter_10_a_hold_closes_where_it_says():
    ratio, A = torch.tensor([[0.5, 0.5, 1.5, 1.5, 1.0]]), torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0]])
    for gate, opened in (
        (Holding(), [1.0, 0.0, 0.0, 1.0, 1.0]),
        (Holding(fallen=True), [0.0, 0.0, 0.0, 1.0, 1.0]),
        (Holding(risen=True), [1.0, 0.0, 0.0, 0.0, 1.0]),
    ):
        assert openness(gate, ratio, A).tolist() == [opened]


def test_chapter_10_what_a_clip_that_brings_back_less_shows():
    fallen, risen, both, wide = HOLDS
    assert min(readings.ended("needle", fallen).values()) > 0.99 and len(readings.ended("needle", fallen)) == 6
    assert min(readings.ended("needle", both).values()) > 0.98 and min(readings.ended("needle", wide).values()) > 0.99
    assert max(readings.ended("needle", "clip").values()) < 0.66 < 0.8 < min(readings.ended("needle", risen).values())
    found = {gate: readings.less_clip("sort", gate).mean() for gate in HOLDS}
    assert [*found.values()] == pytest.approx([-0.02, -0.01, -0.20, 0.01], abs=5e-3)
    apart = {gate: readings.less_clip("sort", gate) for gate in HOLDS}
    assert all(min(apart[gate]) < 0 < max(apart[gate]) for gate in (fallen, risen)) and max(apart[both]) < -0.06
    lead = judge(apart[wide], np.zeros(20)).difference
    assert [lead.low, lead.high] == pytest.approx([-0.005, 0.018], abs=5e-4)
    assert readings.less_clip("needle", risen).mean() == pytest.approx(0.24, abs=5e-3)


def test_chapter_10_the_narrow_upper_end_gained_nothing_in_its_contest():
    wide = load_table("08_wider_clip")
    for task, gain, word in (("needle", 0.01, "not told"), ("misled", -0.02, "worse")):
        found = less(wide, chosen(wide)[task, "grpo high 0.28"], chosen(wide)[task, "grpo"], "accuracy")
        assert (found.difference.value, found.word) == (pytest.approx(gain, abs=5e-3), word)
        rates = [wide.labels[chosen(wide)[task, arm]]["rate"] for arm in ("grpo high 4.0", "grpo high 0.28", "grpo")]
        assert rates == ["4e-4", "4e-4", "8e-4" if task == "misled" else "4e-4"]


def test_chapter_10_sapo_is_behind_no_gate_on_sort():
    table = load_table("10_gates_sort")
    ours, theirs = (chosen(table)["sort", name] for name in ("sapo", "unclipped"))
    found = less(table, ours, theirs, "accuracy").difference
    assert [found.value, found.low, found.high] == pytest.approx([-0.024, -0.035, -0.013], abs=5e-4)


def test_chapter_10_the_order_of_the_gates_is_the_same_at_most_rates():
    found = {task: readings.by_rate(task) for task in ("sort", "needle")}
    for task, rates, sign in (("sort", (1e-4, 2e-4, 4e-4), 1), ("needle", (1e-4, 2e-4, 4e-4, 8e-4), -1)):
        for rate in rates:
            strong, others = (
                [sign * found[task][arm][rate] for arm in arms]
                for arms in (("clip", "one-sided 10"), ("unclipped", "sapo", "two-sided 10"))
            )
            assert min(strong) > max(others)


def test_chapter_10_one_open_side_and_a_strong_gate_are_needed_on_sort_and_cost_on_needle():
    words = {arm: readings.lead(arm, "sort").word for arm in readings.ARMS.values()}
    assert {arm for arm, word in words.items() if word == "worse"} == {
        "unclipped", "sapo", "one-sided 1", "two-sided 10", "two-sided 30",
    }  # fmt: skip
    assert words["one-sided 10"].startswith("within") and words["one-sided 30"] == "better"
    found = [(readings.lead(arm, "sort").word, readings.lead(arm, "needle").word) for arm in readings.ARMS.values()]
    assert ("better", "better") not in found
    assert all(readings.lead("one-sided 30", task).word == "worse" for task in ("needle", "ledger", "misled"))
    assert {readings.lead("one-sided 10", task).word for task in ("needle", "ledger", "misled")} == {
        "not told", "within 0.03 of each other",
    }  # fmt: skip


def test_chapter_10_what_is_not_behind_on_sort_in_the_mean_over_a_run_is_behind_at_the_end():
    told = {
        (arm, metric): readings.lead_at_the_end(arm, "sort", metric)
        for arm, metric in product(("sapo", "one-sided 10", "one-sided 30"), ("accuracy", "greedy"))
    }
    behind = {
        ("sapo", "accuracy"),
        ("one-sided 10", "accuracy"),
        ("one-sided 10", "greedy"),
        ("one-sided 30", "greedy"),
    }
    assert {pair for pair, verdict in told.items() if verdict.word == "worse"} == behind
    assert abs(told["sapo", "greedy"].difference.value) < 0.005
    greedy = [readings.end(arm, "sort", "greedy").mean() for arm in readings.ARMS.values()]
    assert 0.8 < min(greedy) < 0.805 and 0.925 < max(greedy) < 0.935 < 0.95 < readings.begin("sort")["greedy"]
    by_rate = {arm: readings.by_rate("sort")[arm] for arm in ("clip", "sapo")}
    leads = [by_rate["clip"][rate] - by_rate["sapo"][rate] for rate in (5e-5, 1e-4, 2e-4)]
    assert leads == pytest.approx([0.03, 0.15, 0.36], abs=5e-3)


def test_chapter_10_what_the_means_of_three_tasks_do_not_say():
    def leads(task: str, strength: int) -> float:
        two, one = (readings.lead(f"{sides}-sided {strength}", task).difference.value for sides in ("two", "one"))
        return two - one

    assert [leads("needle", strength) for strength in (10, 30)] == pytest.approx([0.14, 0.25], abs=5e-3)
    table = load_table("10_gates")
    own = chosen(table)
    sapo, clip = (table.mean(own["misled", name], "accuracy") for name in ("sapo", "grpo"))
    assert (sapo < 0.1).sum() == 1 and (sapo > clip).sum() == 10 and len(sapo) == 12
    for name in ("unclipped", "sapo", "sapo 30", "sapo_one_sided"):
        assert sum(died(values) for _, values in table.curves(own["misled", name], "accuracy")) == 1
    for arm in ("clip", "sapo"):
        ends = readings.end(arm, "ledger", "accuracy").reshape(-1, 3)  # seeds go round the three starts
        assert ends[:, :2].min() > 0.95 and ends[:, 2].max() < 0.65


def test_chapter_10_the_predictor_fails_where_it_was_not_made():
    wrong = {}
    for row in readings.predictor():
        for foretold, came in (("ahead", row["sapo less clip"] > 0.03), ("behind", row["sapo less clip"] < -0.03)):
            if row["foretold"] == foretold:
                wrong.setdefault(row["task"], []).append(not came)
    assert not any(wrong["needle"] + wrong["sort"]) and "misled" not in wrong
    assert all(wrong["ledger"] + wrong["reverse"] + wrong["ramble"])


def path(gate: Gate, A: float, sampled: float, begin: float, steps: int = 100) -> float:
    """The ratio of one token after some steps of gradient ascent on the mean of its term, by difference quotients."""
    z, h = float(np.log(sampled * begin / (1 - sampled * begin))), 1e-6

    def term(z: float) -> float:
        r = torch.tensor([1 / (1 + np.exp(-z)) / sampled], dtype=torch.float64)
        return sampled * gate(r, torch.full_like(r, A)).item()

    for _ in range(steps):
        z += 0.5 * (term(z + h) - term(z - h)) / (2 * h)
    return 1 / (1 + np.exp(-z)) / sampled


def test_chapter_10_only_the_clip_and_strong_gates_with_one_side_stop_and_bring_back():
    kinds = {"clip": CLIP, "unclipped": no_gate} | {
        f"{name} {tau:g}": kind(tau, tau)
        for name, kind in (("two-sided", Soft), ("one-sided", SoftOneSided))
        for tau in (1.0, 10.0, 30.0)
    }
    stops = {name for name, gate in kinds.items() if path(gate, -1.0, 0.3, 1.0) > 0.5}
    back = {name for name, gate in kinds.items() if path(gate, -1.0, 0.3, 2.5) < 1}
    assert stops & back == {"clip", "one-sided 10", "one-sided 30"}
    assert {*kinds} - back == {"two-sided 10", "two-sided 30"}
    grows = {name for name, gate in kinds.items() if path(gate, 1.0, 0.05, 1.0) > 2}
    assert grows == {"unclipped", "two-sided 1", "one-sided 1"}
    for gate in (SoftOneSided(1.0, 30.0), Clip(0.2, math.inf)):  # a limit for each sign does all three
        bad, back, good = path(gate, -1.0, 0.3, 1.0), path(gate, -1.0, 0.3, 2.5), path(gate, 1.0, 0.05, 1.0)
        assert 0.7 < bad < 0.8 > back and good > 5
    nearer = [path(kinds[name], -1.0, 0.3, 1.5) for name in ("two-sided 10", "two-sided 30")]
    assert nearer[0] < 0.6 and nearer[1] > 1.4


def push(gate: Gate, ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    log_ratio = torch.from_numpy(np.log(ratio)).requires_grad_()
    term = gate(log_ratio.exp(), torch.from_numpy(np.array(np.broadcast_to(advantage, ratio.shape))))
    return torch.autograd.grad(term.sum(), log_ratio)[0].numpy()


def test_chapter_10_the_bias_of_four_gates_on_a_model_that_can_be_listed():
    rng = np.random.default_rng(0)
    model = tokens.single_prompt((rng.random(81) < 0.3).astype(float), 3, 4)
    logits = [rng.normal(size=(1, 3**t, 3)) for t in range(4)]
    mu = token_gradients.softmax_policy(model, logits)
    uphill = token_gradients.reward_gradient(model, mu)
    largest = np.abs(token_gradients.flat(uphill)).max()
    pi = token_gradients.softmax_policy(model, [z + d / largest for z, d in zip(logits, uphill, strict=True)])
    true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
    ratios, advantage = tokens.token_ratios(model, pi, mu), model.reward - tokens.expected_reward(model, mu)
    mean, bias = {}, {}
    for gate in (no_gate, CLIP, Soft(), STRONG, Cap(high=3.0)):
        weights = push(gate, ratios, advantage[..., None])
        mean[gate] = token_gradients.flat(token_gradients.mean_gradient(model, pi, mu, weights))
        bias[gate] = np.linalg.norm(mean[gate] - true) / np.linalg.norm(true)
    assert bias[no_gate] < bias[Soft()] < 1.1 * bias[no_gate] < bias[STRONG] < 1 < bias[CLIP]
    assert bias[Cap(high=3.0)] == pytest.approx(bias[no_gate], rel=1e-2)
    assert mean[CLIP] @ true < 0 < mean[Soft()] @ true


@pytest.mark.parametrize("seed", range(1, 9))
def test_chapter_10_the_clip_is_more_biased_than_no_gate_on_other_models(seed: int):
    rng = np.random.default_rng(seed)
    model = tokens.single_prompt((rng.random(81) < 0.3).astype(float), 3, 4)
    logits = [rng.normal(size=(1, 3**t, 3)) for t in range(4)]
    mu = token_gradients.softmax_policy(model, logits)
    advantage = (model.reward - tokens.expected_reward(model, mu))[..., None]
    uphill = token_gradients.reward_gradient(model, mu)
    random = [rng.normal(size=rows.shape) for rows in logits]

    def moved(way, step: float):
        pi = token_gradients.softmax_policy(model, [z + step * d for z, d in zip(logits, way, strict=True)])
        ratios = tokens.token_ratios(model, pi, mu)
        return pi, ratios, (tokens.sequence_probs(model, mu)[..., None] * abs(ratios - 1)).sum() / 4

    largest, backwards = np.abs(token_gradients.flat(uphill)).max(), {}
    for name, way in (("uphill", [one / largest for one in uphill]), ("random", random)):
        for step in np.linspace(0, 2, 21):  # as in the figure
            pi, ratios, _ = moved(way, step)
            true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
            mean = token_gradients.mean_gradient(model, pi, mu, push(CLIP, ratios, advantage))
            backwards[name] = backwards.get(name, False) or bool(token_gradients.flat(mean) @ true < 0)
    assert backwards == {"uphill": seed != 3, "random": seed in (2, 3, 4, 5, 6)}
    for way, distance in product((uphill, random), (0.1, 0.2)):
        step = root_scalar(lambda x, way=way, distance=distance: moved(way, x)[2] - distance, bracket=(0, 100)).root
        pi, ratios, _ = moved(way, step)
        true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
        bias = {}
        for gate in (no_gate, CLIP, Soft()):
            mean = token_gradients.mean_gradient(model, pi, mu, push(gate, ratios, advantage))
            bias[gate] = np.linalg.norm(token_gradients.flat(mean) - true)
        assert bias[CLIP] > 1.1 * max(bias[no_gate], bias[Soft()])


def test_chapter_10_what_the_first_editions_table_shows():
    evidence = load_table("10_sapo")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}

    def difference(a: str, b: str, rate: str):
        return paired_interval(last[f"{a} {rate}"], last[f"{b} {rate}"])

    for name in ("grpo", "no gate", "sapo-10"):
        assert difference("sapo", name, "3e-5").low <= 0 <= difference("sapo", name, "3e-5").high
    for rate in ("1e-4", "3e-4"):
        assert difference("sapo", "grpo", rate).high < -0.1
        assert difference("sapo-10", "grpo", rate).high < 0
        assert difference("sapo", "no gate", rate).low <= 0 <= difference("sapo", "no gate", rate).high
    for name in ("grpo", "no gate", "sapo", "sapo-10"):
        assert (np.median(last[f"{name} 3e-4"]) < 0.05) == (name != "grpo")
