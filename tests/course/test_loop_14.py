"""The loops of chapter 14 reach their threshold on three of three seeds, and show what the chapter says of them."""

from dataclasses import replace

import numpy as np
import pytest

from rlnotes.bounds import derived, tokens
from rlnotes.bounds import token_closed_forms as forms
from rlnotes.chapters.c14 import coins
from rlnotes.estimators.importance import monte_carlo
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact import token_families as families
from rlnotes.exact.random_tokens import REGIMES, random_case
from rlnotes.exact.token_surrogates import error, surrogate
from rlnotes.exact.token_surrogates import gains as surrogate_gains
from rlnotes.exact.tokens import (
    improvement,
    log_token_ratios,
    sequence_probs,
    sequences,
    single_prompt,
    single_prompt_policy,
)
from rlnotes.studies import load_table, paired_interval

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


@SEEDS
def test_chapter_14_trm_learns_to_sort_behind_a_sampler_whose_routes_flip(seed: int):
    from rlnotes.lm.config import TrainConfig
    from rlnotes.lm.trainer import Trainer
    from rlnotes.objectives import TRM

    settings = dict(task="sort", size=8, preset="moe-top1", epochs=4, minibatches=4, learning_rate=1e-4)
    config = TrainConfig(seed=seed, rollout_weights="float8", **settings)  # type: ignore[arg-type]
    trainer = Trainer(config, choices=TRM)
    for _ in trainer.run(0):
        pass
    assert trainer.evaluate(1024) < 0.45
    rows = list(trainer.run(15))
    assert trainer.evaluate(1024) >= 0.55
    assert all(0 < row["mismatch"] < 0.05 for row in rows)
    assert max(row["no_gradient"] for row in rows) > 0.05


@SEEDS
def test_chapter_14_the_certificate_refuses_an_update_and_is_below_its_true_change(seed: int):
    import torch

    from rlnotes.lm.behavior import Behavior
    from rlnotes.lm.certificate import certificate
    from rlnotes.lm.config import TrainConfig
    from rlnotes.lm.mismatch import read
    from rlnotes.lm.trainer import Trainer
    from rlnotes.objectives import TRM

    settings = dict(task="sort", size=8, preset="moe-top1", epochs=4, minibatches=4, learning_rate=1e-4)
    config = TrainConfig(seed=seed, rollout_weights="float8", **settings)  # type: ignore[arg-type]
    trainer = Trainer(config, choices=TRM)
    for _ in trainer.run(5):
        pass
    prompts = trainer.task.sample(128, torch.Generator().manual_seed(7), "heldout").prompts
    rollout = trainer.sampler.sample(trainer.model, prompts, 16, torch.Generator().manual_seed(7))
    mu = read(trainer.sampler.behavior.rollout_model(trainer.model), rollout).log_probs

    def rewards(behavior: Behavior) -> torch.Tensor:
        sampler = replace(trainer.sampler, behavior=behavior)
        drawn = trainer.task.sample(2048, torch.Generator().manual_seed(11), "heldout").prompts
        return trainer.task.reward(sampler.sample(trainer.model, drawn, 1, torch.Generator().manual_seed(11))).double()

    before = rewards(trainer.sampler.behavior)
    for _ in trainer.run(trainer.step + 1):
        pass
    change = monte_carlo(rewards(Behavior()) - before)
    pi = read(trainer.model, rollout).log_probs
    assert TRM.keep is not None
    found = certificate(mu, pi, rollout, trainer.task.reward(rollout), TRM.keep)
    assert max(found.masked_promise, found.least_by_kl, found.least_by_tv) < 0.005  # no promise worth a name
    assert float(change.mean) > found.masked_promise - 4 * float(change.standard_error)
    assert abs(float(change.mean)) < 0.2


def test_chapter_14_eight_coins_the_plain_estimate_a_cap_and_a_log():
    T, rows = 8, []
    m = single_prompt(sequences(2, T).sum(1) > T / 2, 2, T)
    for one in (0.5, 0.65):
        rows.append(single_prompt_policy([np.tile([1 - one, one], (2**t, 1)) for t in range(T)]))
    old, new = rows
    w, p = np.exp(log_token_ratios(m, new, old).sum(-1)), sequence_probs(m, old)
    means = [(p * m.reward * x).sum() for x in (w - 1, np.minimum(w, 5) - 1, np.maximum(np.log(w), -1))]
    assert means == pytest.approx([0.3431, 0.3308, 0.2015], abs=5e-5)
    assert means[0] == pytest.approx(improvement(m, new, old))
    spreads = [np.sqrt((p * (m.reward * x) ** 2).sum() - ((p * m.reward * x).sum()) ** 2) for x in (w - 1, np.log(w))]
    assert spreads[0] > 2 * spreads[1]


def test_chapter_14_coins_in_closed_form_are_those_that_are_enumerated():
    for T in (2, 6, 8):
        model = single_prompt(sequences(2, T).sum(1) > T / 2, 2, T)
        fair = single_prompt_policy([np.tile([0.5, 0.5], (2**t, 1)) for t in range(T)])
        for step in (0.02, 0.3):
            one = 0.5 + float(coins.shift(T, step))
            case = model, single_prompt_policy([np.tile([1 - one, one], (2**t, 1)) for t in range(T)]), fair
            found, taken = coins.changes(T, step), coins.penalties(T, step)
            log_w = log_token_ratios(*case).sum(-1)
            exact = {"true": improvement(*case), "L": surrogate(*case)}
            exact["R log w"] = (sequence_probs(model, fair) * model.reward * log_w).sum()
            assert {name: float(x) for name, x in found.items()} == pytest.approx(exact)
            gains = max(np.abs(rows).max() for rows in surrogate_gains(*case))
            exact = {
                "12.3": 2 * T * (T - 1) * gains * (one - 0.5),
                "14.5, chain": tokens.kl_chain(*case).penalty,
                "14.5, root": tokens.pinsker_marginal(*case).penalty,
                "14.5, mixed": tokens.mixed(*case).penalty,
                "15.2": tokens.quadratic(*case).penalty / 2,
                "15.4": tokens.tv_sum(*case),
                "14.7": divergences.sequence_kl(model, fair, case[1]),
                "14.7, weighted": (sequence_probs(model, fair) * model.reward * derived.slack(*case, "kl")).sum(),
            }
            assert {name: float(x) for name, x in taken.items()} == pytest.approx(exact)


def test_chapter_14_which_bounds_fire_on_coins_and_how_far():
    short, long = coins.fires(8), coins.fires(4096)
    assert [name for name, (far, *_) in long.items() if far == 0] == ["15.4"]
    largest = [name for name in long if name.startswith(("12", "14.5", "15.2"))]
    assert max(long[name][0] for name in largest) < 5e-5 and max(long[name][1] for name in largest) < 1e-3
    assert (f"{long['14.7'][1]:.2f}", f"{long['14.7, weighted'][1]:.2f}") == ("0.08", "0.16")
    assert abs(short["14.7"][1] - long["14.7"][1]) < 0.01 and short["14.5, root"][1] > 20 * long["14.5, root"][1]


def test_chapter_14_the_sum_of_mean_tv_is_no_promise():
    rng = np.random.default_rng(3)
    for i in range(140):
        case = random_case(rng, REGIMES[i % len(REGIMES)])
        assert surrogate(*case) <= tokens.tv_sum(*case) + 1e-9


def test_chapter_14_one_flipped_route_moves_a_token_far_more_than_the_others():
    import torch

    from rlnotes.lm.behavior import Behavior
    from rlnotes.lm.config import TrainConfig
    from rlnotes.lm.mismatch import layer_mismatch
    from rlnotes.lm.trainer import Trainer

    trainer = Trainer(TrainConfig(task="sort", size=8, preset="moe-top1", warm_start="train"))
    for _ in trainer.run(0):
        pass
    found = layer_mismatch(trainer.model, trainer.sample(512, 8), Behavior("int4"))
    worst = int(found.gaps.argmax())
    assert found.rerouted[worst]
    assert found.largest_gap > 50 * found.mean_gap
    assert found.rerouted.float().mean() < 0.03
    assert torch.median(found.gaps[found.rerouted]) > torch.median(found.gaps[~found.rerouted])


def test_chapter_14_a_sum_of_roots_is_below_its_integral():
    for horizon in (1, 2, 5, 100, 4096):
        total = np.sqrt(np.arange(horizon)).sum()
        assert total <= 2 / 3 * horizon**1.5
        if horizon >= 100:
            assert total > 0.99 * 2 / 3 * horizon**1.5


def test_chapter_14_no_pair_of_policies_gets_a_certificate_at_the_quoted_numbers():
    for kl_seq in (0.4096, 0.01):
        penalty = float(forms.minoriser(4096, 1e-4, kl_seq))
        assert np.sqrt(4096 * kl_seq / 2) < penalty
        assert float(forms.surrogate_limit(kl_seq)) < penalty
    rng = np.random.default_rng(0)
    for i in range(70):
        case = random_case(rng, REGIMES[i % len(REGIMES)])
        kl = divergences.sequence_kl(case.model, case.behavior, case.target)
        assert abs(surrogate(*case)) <= np.sqrt(case.model.horizon * kl / 2) + 1e-9
        assert abs(error(*case)) <= kl + 1e-9


def promise(case: families.TokenCase, kept: np.ndarray) -> float:
    """E M R log w - E (1 - M) R, by a walk over all answers."""
    probs, log_w = sequence_probs(case.model, case.behavior), log_token_ratios(*case).sum(-1)
    total = 0.0
    for b in range(case.model.prompts):
        for p, gain, log_ratio, keep in zip(probs[b], case.model.reward[b], log_w[b], kept[b], strict=True):
            if p * gain > 0:
                total += p * gain * (log_ratio if keep else -1.0)
    return total


def test_chapter_14_a_mask_promises_no_more_than_what_it_counts():
    rng, tight = np.random.default_rng(0), -np.inf
    for i in range(140):
        case = random_case(rng, REGIMES[i % len(REGIMES)])
        ratios = np.abs(log_token_ratios(*case)).max(-1)
        for kept in (ratios <= 0.5, ratios <= 2, rng.random(ratios.shape) < 0.5):
            found = promise(case, kept)
            assert found <= improvement(*case) + 1e-9
            tight = max(tight, found - improvement(*case))
    assert tight > -1e-3
    for case in (families.masked_branch(), families.hidden_branch()):
        assert promise(case, families.begins_with_zero(case.model)) < 0


def test_chapter_14_a_mask_leaves_the_largest_divergence_as_it_is():
    case = families.masked_branch()
    kept = families.begins_with_zero(case.model)
    context = divergences.context_kl(case.model, case.behavior, case.target)
    inside = divergences.largest(case.model, context, case.target, case.behavior, contexts="behavior", kept=kept)
    assert inside < 1e-4 < 6 < tokens.kl_max(*case)
    assert derived.sequence_kl(*case).lower < 0


def test_chapter_14_a_penalty_is_no_constraint_and_a_direction_is_no_other():
    m, new, old = families.unlike_directions()
    assert divergences.sequence_kl(m, old, new) > 10 * divergences.sequence_kl(m, new, old)
    best = []
    for weight in (1.0, 4.0):  # L less a penalty and L under a constraint: shifts of a coin that earns 1 for a one
        shifts = np.linspace(0, 0.49, 491)
        penalty = -0.5 * np.log(1 - 4 * shifts**2)
        best.append(shifts[np.argmax(shifts - weight * penalty)])
        assert shifts[penalty <= 0.005].max() == pytest.approx(0.049, abs=1e-3)
    assert best[0] > 2 * best[1] > 0.1


def test_chapter_14_masks_of_tokens_and_of_responses_drop_what_their_criteria_say():
    import torch

    from rlnotes.objectives import PG_IS, TRM, Batch, policy_loss
    from rlnotes.objectives.masks import DivergenceMask

    log_ratio = torch.tensor([[0.1, 0.9, -0.2], [0.3, -0.3, 0.9], [-0.7, 0.0, 0.0]])
    own = torch.tensor([[True, True, True], [True, True, False], [True, True, True]])
    batch = Batch(log_ratio.requires_grad_(), own, torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3, 3))
    assert DivergenceMask(0.5, "abs", "token")(batch)[own].tolist() == [
        True,
        False,
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    (pushed,) = torch.autograd.grad(policy_loss(TRM, batch), log_ratio)
    (free,) = torch.autograd.grad(policy_loss(PG_IS, batch), log_ratio)
    assert torch.equal(pushed[1], free[1])  # divided by all responses, not by those that are kept
    assert (pushed[[0, 2]] == 0).all()
    assert (free[[0, 2]].abs().sum(1) > 0).all()


@pytest.mark.parametrize(("length", "in_total"), [(100, True), (4000, False)])
def test_chapter_14_a_sum_grows_with_length_and_maximum_and_mean_do_not(length: int, in_total: bool):
    import torch

    from rlnotes.objectives import Batch
    from rlnotes.objectives.masks import DivergenceMask

    log_ratio = torch.full((1, length), -0.1456)  # k3 is 0.01
    batch = Batch(log_ratio, torch.ones(1, length) > 0, torch.ones(1), torch.zeros(1, length))
    for over, kept in (("max", True), ("mean", True), ("sum", in_total)):
        assert DivergenceMask(5.0, "k3", over)(batch).item() is kept  # type: ignore[arg-type]
        assert DivergenceMask(0.02, "k3", over)(batch).item() is (over != "sum")  # type: ignore[arg-type]


def test_chapter_14_what_the_stored_runs_say():
    table = load_table("14_trm")

    def gap(one: str, other: str):
        return paired_interval(table.last(one, "accuracy", 4), table.last(other, "accuracy", 4))

    assert gap("trm, float8 1e-4", "grpo, float8 1e-4").high < 0
    assert gap("trm, float32 1e-4", "grpo, float32 1e-4").high < 0
    for copy in ("float8", "float32"):  # equal but for the mask
        assert gap(f"clip, {copy} 1e-4", f"unmasked, {copy} 1e-4").low > 0
        for other in ("clip", "trm_one_sided", "unmasked"):
            found = gap(f"trm, {copy} 1e-4", f"{other}, {copy} 1e-4")
            assert found.low < 0 < found.high
        assert gap(f"clip, {copy} 3e-4", f"trm, {copy} 3e-4").low > 0
        for rate in ("1e-4", "3e-4"):
            found = gap(f"trm_one_sided, {copy} {rate}", f"clip, {copy} {rate}")
            assert found.low < 0 < found.high
    for name in ("grpo", "unmasked", "clip", "trm", "trm_one_sided"):
        assert gap(f"{name}, float8 1e-4", f"{name}, float32 1e-4").high >= 0
    for copy in ("float8", "float32"):
        assert np.median(table.last(f"trm, {copy} 3e-4", "accuracy", 4)) < 0.05
        assert np.median(table.last(f"grpo, {copy} 3e-4", "accuracy", 4)) > 0.1


def test_chapter_14_no_promise_of_the_stored_rounds_is_broken_and_which_fired():
    from rlnotes.chapters.c14 import readings

    rows, column = readings.live(), readings.column
    change = column(rows, "change")
    rose, fell = change > 0, change < 0
    assert (len(rows), rose.sum(), fell.sum()) == (480, 419, 61)
    counts = {}
    for title, name in readings.PROMISES.items():
        promised = column(rows, name)
        assert (promised <= change + 1e-4).all() and not (promised[fell] > 0).any()
        counts[title] = int((promised > 0).sum()), f"{readings.told_share(rows, name):.3f}"
    assert counts == {"flat": (278, "0.061"), "weighted": (417, "0.658"), "published": (70, "0.001")}
    flat = column(rows, "L - D_seq")
    far = column(rows, "D_seq") > 0.1
    assert (((flat <= 0) & rose).sum(), ((flat <= 0) & fell).sum()) == (141, 61)
    assert (far.sum(), (flat[far] > 0).sum(), rose[far].sum()) == (72, 1, 65)
    assert (column(rows, "R log w")[far] > 0).sum() == 64
    assert {row["rate"] for row in rows if row["published"] > 0} == {1e-5}


def test_chapter_14_a_promise_is_over_the_policy_that_sampled():
    from rlnotes.chapters.c14 import readings

    rows = readings.arm("four bits", 1e-5)
    change, over = readings.column(rows, "change"), readings.column(rows, "over pi_k")
    assert (len(rows), (change > 0).sum(), (over > 0).sum()) == (60, 23, 60)


def test_chapter_14_a_batch_that_was_trained_on_promises_more_often():
    from rlnotes.chapters.c14 import readings

    trained, new = readings.from_batches()
    assert (trained["of these, J fell"], new["of these, J fell"]) == (16, 5)
    assert f"{trained['most promised there']:.3f}" == "0.019" and new["most promised there"] < 1.5e-4


def test_chapter_14_the_loop_at_the_largest_rate_on_three_starts():
    from rlnotes.chapters.c14 import readings

    counts = {}
    for name in ("R log w", "L - D_seq"):
        rows = [row for row in readings.arm("four bits", 8e-4) if row["round"] <= 12]
        counts[name] = [sum(row[name] > 0 for row in rows if row["seed"] == seed) for seed in range(3)]
    assert counts == {"R log w": [9, 11, 10], "L - D_seq": [0, 4, 1]}


def test_chapter_14_what_its_contest_is_said_to_show():
    from rlnotes.chapters.c14 import readings

    def row(task: str, arm: str) -> dict:
        return next(row for row in readings.masks_in_short(task) if row["method"] == arm)

    def word(task: str, arm: str, column: str) -> str:
        return row(task, arm)[column].split("]  ")[1]

    free, clip = "less unclipped", "less pg_is clip"
    assert (
        word("misled int4", "trm", free) == "within 0.03 of each other" and word("misled int4", "trm", clip) == "worse"
    )
    for arm in ("trm_one_sided", "dppo_tv"):
        assert word("misled int4", arm, free) == "better" and word("misled int4", arm, clip) == "not told"
    assert row("misled lag 64", "trm")["died"] == "4 of 12"
    assert {word("misled lag 64", "trm", column) for column in (free, clip)} == {"not told"}
    assert word("misled lag 64", "trm_one_sided", free) == "worse"
    assert [word("misled lag 64", arm, clip) for arm in ("unclipped", "dppo_tv")] == ["better", "better"]
    for arm in ("unclipped", "trm", "trm_one_sided", "dppo_tv"):
        assert word("ledger int4", arm, clip) == "not told"
    assert word("ledger int4", "dppo_tv", free) == "within 0.03 of each other"
    ends = [row("misled int4", arm)["greedy, end"] for arm in readings.ARMS]
    assert min(ends) > 0.965 and max(ends) == 1
    dead = {
        arm: sum(
            int(one["died"].split()[0]) for task in readings.TASKS for one in readings.masks_in_short(task, (arm,))[1:]
        )
        for arm in readings.OTHERS
    }
    assert dead == {"trm_max": 4, "trm_avg": 3, "seq_mis": 3}
