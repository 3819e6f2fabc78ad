"""The loop of chapter 11 learns on three of three seeds, and what the chapter and its deeper page say holds."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.bounds import gradient_ascent
from rlnotes.chapters.c11 import readings
from rlnotes.chapters.c11.live import RATES, WEIGHTS, accuracy, train
from rlnotes.chapters.c11.measured import measure, midway
from rlnotes.chapters.c11.model import Pair, best_gain, kept, pair, response, token, uncorrected
from rlnotes.estimators import divergences
from rlnotes.exact.slips import Slips
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import RolloutWeights, TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.warm_start import shipped_start
from rlnotes.logs.table import table
from rlnotes.objectives import PG_IS, SEQ_TIS, SEQUENCE_IS, Batch, Choices, policy_loss
from rlnotes.studies import Interval, load_table, paired_interval


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chapter_11_weights_of_responses_learn_from_data_that_are_four_rounds_old(seed: int):
    run = train(WEIGHTS["response, C = 2"], RATES["response, C = 2"], seed, rounds=12)
    assert accuracy(shipped_start("misled")) < 0.1 and max(run.J) >= 0.8


def config(task: str, seed: int, rate: float, sampler: RolloutWeights) -> TrainConfig:
    return TrainConfig(
        task=task, size=8, seed=seed, epochs=4, minibatches=4, learning_rate=rate, rollout_weights=sampler
    )


def gradient(trainer: Trainer, choices: Choices, rollout: Rollout) -> Tensor:
    advantages = choices.advantage(trainer.task.reward(rollout), 16)
    batch = Batch(token_logp(trainer.model, rollout), rollout.mask, advantages, rollout.logp_behavior)
    slopes = torch.autograd.grad(-policy_loss(choices, batch), list(trainer.model.parameters()))
    return torch.cat([slope.flatten() for slope in slopes])


def inner(a: Tensor, b: Tensor) -> float:
    return (a.sum(0) @ b.sum(0) - (a * b).sum()).item() / (len(a) * (len(a) - 1))


NAMED = {"none": replace(PG_IS, anchor="current"), "pg_is": PG_IS, "sequence_is": SEQUENCE_IS, "seq_tis": SEQ_TIS}


def after_sixteen_updates(seed: int) -> dict[str, tuple[float, float, float]]:
    """Of each estimator: along the gradient and variance, in units of its squared length, and Theorem 11.1."""
    old, new = (Trainer(config("sort", seed, 1e-4, "int4"), choices=PG_IS) for _ in range(2))
    list(new.run(1))
    sampler = replace(new.sampler, behavior=Behavior())
    found: dict[str, list[Tensor]] = {name: [] for name in ("fresh", *NAMED)}
    for batch in range(32):
        generator = torch.Generator().manual_seed(32 * seed + batch)
        prompts = old.task.sample(8, generator, "train").prompts
        stale = old.sampler.sample(old.model, prompts, 16, generator)
        for name, choices in NAMED.items():
            found[name].append(gradient(new, choices, stale))
        found["fresh"].append(gradient(new, PG_IS, sampler.sample(new.model, prompts, 16, generator)))
    g = {name: torch.stack(vectors) for name, vectors in found.items()}
    unit = inner(g["fresh"], g["fresh"])
    along = {name: inner(vectors, g["fresh"]) / unit for name, vectors in g.items()}
    noise = {name: vectors.var(0).sum().item() / unit for name, vectors in g.items()}
    second = {name: inner(vectors, vectors) / unit + noise[name] for name, vectors in g.items()}
    return {name: (along[name], noise[name], max(along[name], 0) ** 2 / second[name]) for name in g}


def test_chapter_11_what_holds_in_five_sets_after_sixteen_updates_and_what_does_not():
    sets = [after_sixteen_updates(seed) for seed in range(5)]
    for found in sets:
        along, noise = ({name: row[i] for name, row in found.items()} for i in range(2))
        assert 0 < along["seq_tis"] < min(along["pg_is"], along["sequence_is"])
        assert noise["seq_tis"] < noise["fresh"]
    for name in ("pg_is", "sequence_is", "seq_tis"):
        assert np.median([found[name][2] / found["fresh"][2] for found in sets]) < 0.5
    none = [found["none"][0] for found in sets]
    assert min(none) < 0 < max(none), "without a correction the sign depends on the set"
    first = {max(("pg_is", "sequence_is", "seq_tis"), key=lambda name, found=found: found[name][2]) for found in sets}
    assert len(first) > 1, "the table does not rank the corrections"


def test_chapter_11_token_ratios_can_have_more_noise_and_more_bias():
    case = Slips("clean", 24, 0.1, 0.15)
    token, sequence = case.moments(case.token_estimates()), case.moments(case.sequence_estimates())
    assert token.variance > sequence.variance and abs(token.bias) > abs(sequence.bias) + 0.1


def share(one: Pair, weights: np.ndarray, n: int) -> float:
    return kept(one, weights, n).share


def test_chapter_11_what_a_step_keeps_is_its_best_guarantee_over_that_of_the_exact_gradient():
    for seed in range(3):
        one = pair(seed, 0.7)
        for weights, n in ((token(one), 3), (response(one, 1.5), 40), (uncorrected(one), 7)):
            m = gradient_ascent.token_moments(one.model, one.pi, one.mu, weights, n)
            best = (
                gradient_ascent.best_progress(1.0, m),
                gradient_ascent.best_progress(1.0, m._replace(alignment=0.0, bias_squared=0.0, variance=0.0)),
            )
            assert share(one, weights, n) == pytest.approx(best[0] / best[1])


def test_chapter_11_the_guarantee_does_not_rank_the_gains_of_one_response():
    one = pair()
    weights = {"none": uncorrected(one), "token": token(one), "response": response(one)}
    weights |= {f"C = {C}": response(one, C) for C in (0.8, 5, 32)}
    gains = {name: best_gain(one, w) for name, w in weights.items()}
    shares = {name: share(one, w, 1) for name, w in weights.items()}
    assert min(gains.values()) > 0.97 * max(gains.values()) and max(shares.values()) > 5 * min(shares.values())
    assert (
        min(shares, key=lambda name: shares[name]) == "response" and gains["response"] > gains["none"] > gains["token"]
    )


def test_chapter_11_what_the_best_cap_and_the_best_weight_depend_on():
    one, caps = pair(), np.geomspace(0.1, 100, 61)
    best = [max(caps, key=lambda C, n=n: share(one, response(one, C), n)) for n in (10, 100, 1000, 10_000)]
    assert best == sorted({*best})
    for n in (10, 1000):
        none, by_token, by_response = (share(one, w, n) for w in (uncorrected(one), token(one), response(one)))
        assert max(share(one, response(one, C), n) for C in caps) > max(none, by_token, by_response)
        assert (none > by_token > by_response) == (n == 10) and (by_response > by_token > none) == (n == 1000)
    assert share(one, uncorrected(one), 10**9) < 0.41 and share(one, token(one), 10**9) < 0.62


def test_chapter_11_in_random_models_few_responses_favour_no_weight_and_many_the_unbiased_one():
    firsts: dict[int, list[str]] = {1: [], 10_000: []}
    for seed in range(1, 31):
        one = pair(seed)
        weights = {"none": uncorrected(one), "token": token(one), "response": response(one)}
        for n, found in firsts.items():
            found.append(max(weights, key=lambda name, n=n, w=weights, one=one: share(one, w[name], n)))
    assert firsts[1].count("none") > 20 and firsts[10_000].count("response") == 30


def test_chapter_11_a_cap_below_the_smallest_weight_corrects_nothing():
    one = pair()
    assert share(one, response(one, 0.9 * one.ratios.min()), 10) == pytest.approx(share(one, uncorrected(one), 10))


def test_chapter_11_an_impulse_is_rare_and_the_variance_is_its_square():
    log_mu, log_pi = (np.log([p, 1 - p]) for p in (0.001, 0.9))
    assert np.exp(log_pi - log_mu)[0] == pytest.approx(900)
    assert divergences.chi2(log_pi, log_mu) == pytest.approx(0.899**2 / (0.001 * 0.999))
    assert divergences.chi2(log_pi[::-1], log_mu[::-1]) == pytest.approx(809.0, abs=0.1)


def holds_zero(found: Interval) -> bool:
    return found.low <= 0 <= found.high


def test_chapter_11_what_the_table_of_sixteen_updates_shows():
    evidence = load_table("11_int8")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}
    for bits in ("int8", "int4"):
        ends = [last[f"{name} {bits} 1e-4"] for name in ("pg_is", "sequence_is", "seq_tis")]
        assert 0.05 < paired_interval(ends[2], ends[0]).value < 0.15
        assert paired_interval(ends[2], ends[0]).low > 0
        assert holds_zero(paired_interval(ends[2], ends[1])) and holds_zero(paired_interval(ends[1], ends[0]))
    for bits in ("float32", "int8", "int4"):
        medians = [np.median(last[f"{name} {bits} 3e-4"]) for name in ("pg_is", "sequence_is", "seq_tis")]
        assert medians[0] <= 0.1 and max(medians) < 0.43
    differs = [
        not holds_zero(paired_interval(last[f"{name} {bits} 3e-4"], last[f"{name} float32 3e-4"]))
        for name in ("pg_is", "sequence_is", "seq_tis")
        for bits in ("int8", "int4")
    ]
    assert sum(differs) == 1
    assert np.median(evidence.last("seq_tis int4 3e-4", "ess_sequence")) > 0.8
    assert np.median(evidence.last("seq_tis int8 3e-4", "staleness")) < 1e-3


def test_chapter_11_with_one_update_no_correction_shows():
    evidence = load_table("11_once")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}
    for name in ("none int8", "none int4"):
        assert holds_zero(paired_interval(last[name], last["none float32"]))
    for name in ("pg_is", "sequence_is", "seq_tis"):
        assert holds_zero(paired_interval(last[f"{name} int4"], last["none int4"]))
    assert holds_zero(paired_interval(last["pg_is int8"], last["none int8"]))


def keeps(row: dict[str, Any], n: int = readings.MINIBATCH) -> float:
    return np.clip(row["cosine"], 0, 1) ** 2 / (1 + row["noise"] / n)


def test_chapter_11_in_how_many_of_twenty_states_on_old_data_each_weight_shows_bias_or_noise():
    named = ("uncorrected", "token", "response", "response, C = 2")
    states = [{row["weight"]: row for row in readings.measured(4) if row["seed"] == seed} for seed in range(20)]
    assert sum(own["uncorrected"]["cosine"] < 0.4 for own in states) == 19
    for capped in ("uncorrected", "response, C = 2"):
        assert all(own[capped]["noise"] < own["token"]["noise"] for own in states)
    assert sum(max(named, key=lambda name, own=own: own[name]["noise"]) == "token" for own in states) == 17
    variance = [{w: readings.variance_and_mean(own[w])[0] for w in named} for own in states]
    assert all(own["response, C = 2"] < own["response"] for own in variance)
    assert sum(own["response, C = 2"]["noise"] < own["response"]["noise"] for own in states) == 19
    assert (
        min(own["response"]["cosine"] for own in states) < 0.6 < 1.7 < max(own["response"]["cosine"] for own in states)
    )
    assert sum(max(named, key=lambda name, own=own: keeps(own[name])) == "response, C = 2" for own in states) == 17
    many = [max(named, key=lambda name, own=own: keeps(own[name], 8192)) for own in states]
    assert [many.count(name) for name in named] == [0, 0, 6, 14]
    assert sum(keeps(own["response, C = 2"]) > keeps(own["response, C of the log"]) for own in states) == 14
    kept_share = [row["kept"] for row in readings.measured_in_short((4,)) if row["weight"] in readings.ARMS]
    assert kept_share == sorted(kept_share)  # the order of the contest


def test_chapter_11_what_1024_responses_do_not_tell_of_weights_without_a_cap():
    found = {(row["seed"], row["weight"], row["responses"]): row for row in readings.measured_again()}
    states, (few, many) = sorted({key[0] for key in found}), sorted({key[2] for key in found})
    named = ("uncorrected", "token", "response", "response, C = 2")
    assert (states, few, many) == ([1, 8], 1024, 6144)
    times = {(s, w): found[s, w, many]["variance"] / found[s, w, few]["variance"] for s in states for w in named}
    uncapped = [times[s, w] for s in states for w in ("token", "response")]
    assert min(uncapped) > 4 and 155 < max(uncapped) < 165
    assert max(times[s, w] for s in states for w in ("uncorrected", "response, C = 2")) < 1.5
    means = [{w: found[1, w, n]["mean²"] for w in named} for n in (few, many)]
    assert [pick(own, key=own.__getitem__) for pick, own in zip((min, max), means, strict=True)] == ["token", "token"]
    largest = [max(named, key=lambda w, s=s: found[s, w, many]["n*"]) for s in states]
    assert largest == ["token", "response"], "which of the two has more noise is not told"
    assert all(found[s, "token", few]["n*"] > found[s, "response, C = 2", few]["n*"] for s in states)
    assert all(found[s, "token", many]["n*"] > 3 * found[s, "response, C = 2", many]["n*"] for s in states)


def test_chapter_11_what_its_contest_is_said_to_show():
    def word(task: str, ours: str, theirs: str) -> str:
        return readings.less(task, ours, theirs).word

    old, rounded, long = readings.TASKS
    for task in (old, rounded):
        assert {word(task, arm, "unclipped") for arm in ("sequence_is", "seq_tis")} == {"better"}
        assert word(task, "seq_tis", "sequence_is") == "not told"
        assert word(task, "uncorrected clip", "uncorrected") == "better"
        for arm in readings.ARMS:
            dropped = {row["weight"]: row["dropped"] for row in readings.compared([task], clip=True)}[f"{arm}, clip"]
            assert (dropped > 0.01) == (arm in readings.BY_TOKEN), "of response weights the clip drops no token"
    assert word(old, "uncorrected", "unclipped") == word(old, "pg_is clip", "unclipped") == "worse"
    runs = [run for name, own in load_table("11_corrections").rows.items() if old in name for run in own.values()]
    assert {round(float(np.nanmedian(run["length"]))) for run in runs} == {6}
    plain = [method for method, _ in readings.ARMS.values()]
    assert not {word(long, arm, "unclipped") for arm in plain if arm != "unclipped"} & {"better", "worse"}
    rings = {row["weight"]: row["above 0.1"] for row in readings.far(old)}
    (limit,) = (one.above for one in table().rules["old-and-uncorrected"].all if one.metric == "mismatch_prob")
    assert limit == readings.ALARM
    assert rings.pop("uncorrected") == "12 of 12"
    assert sum(int(said.split(" of ")[0]) for said in rings.values()) == 1 and len(rings) == 9
    assert readings.farthest((rounded, long)) < 0.01


def test_chapter_11_at_the_end_its_contest_tells_only_what_neither_corrects_nor_clips():
    old, rounded, _ = readings.TASKS
    for ours, theirs in combinations(("sequence_is", "seq_tis", "unclipped", "pg_is clip"), 2):
        assert readings.less_at_the_end(old, ours, theirs).word == "not told"
    assert readings.less_at_the_end(old, "uncorrected", "unclipped").word == "worse"
    assert readings.ends(old, "unclipped").mean() > readings.ends(old, "sequence_is").mean() + 0.04
    fell = {row["weight"]: row["died"] for row in readings.compared([old]) if "died" in row}
    assert fell["token"] == "0 of 12" and fell["response"] == fell["response, C = 2"] == "1 of 12"
    assert min(readings.ends(rounded, method).mean() for pair in readings.ARMS.values() for method in pair) > 0.965


@pytest.mark.slow
def test_chapter_11_a_measurement_of_bias_and_noise_can_be_made_again():
    stored = {row["weight"]: row for row in readings.measured(4) if row["seed"] == 0}
    for row in measure(midway(4, 0), 0):
        assert row["noise"] == pytest.approx(stored[row["weight"]]["noise"], rel=0.05)
        assert row["cosine"] == pytest.approx(stored[row["weight"]]["cosine"], abs=0.05)
