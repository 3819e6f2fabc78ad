"""Studies of a penalty: how far a run is from its reference, what that costs, and rates that are chosen by both."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlnotes.chapters.c07.studies import STUDIES
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_prompt, every_response, response_kl
from rlnotes.lm.tasks import ShortReverse
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, RLOO, KLPenalty
from rlnotes.studies import load_table, read_table
from rlnotes.studies.contest import results
from rlnotes.studies.run import Curve, run, to_reference
from rlnotes.studies.runner import append, begin
from rlnotes.studies.study import Method, Study

BASE = TrainConfig(task="misled", prompts=4, group_size=2, learning_rate=3e-3, gradient_clip=6.0)
HELD = Method(replace(RLOO, kl=KLPenalty(0.0)), price=0.5, labels=dict(recipe="held", rate="3e-3"))
STUDY = Study(
    "how far?",
    BASE,
    {"held": HELD},
    tokens=90,
    evaluate_every=1,
    prompts_evaluated=16,
    metrics=("accuracy", "greedy", "kl_reference", "penalised"),
    score="penalised",
)


def test_a_run_with_a_reference_tells_how_far_it_is_and_what_that_costs():
    start, *rest = run(STUDY, "held", seed=1)
    assert start["kl_reference"] == pytest.approx(0, abs=1e-6) and rest[-1]["kl_reference"] > 1e-4
    for row in (start, *rest):
        assert row["penalised"] == pytest.approx(row["accuracy"] - 0.5 * row["kl_reference"])
    plain = replace(STUDY, methods={"plain": Method(GRPO)})
    assert not {"kl_reference", "penalised"} & {key for row in run(plain, "plain", seed=1) for key in row}


def test_the_distance_is_that_of_whole_responses():
    task = ShortReverse()
    trainer = Trainer(TrainConfig(warm_start="none"), task, HELD.choices)
    assert trainer.reference is not None
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel()))
        true = response_kl(trainer.model, trainer.reference, every_response(task, every_prompt(task, "heldout")))
    assert to_reference(trainer, 1024) == pytest.approx(true.item(), rel=0.05)


def test_a_run_that_is_lost_stays_as_far_as_it_was():
    class Lost:
        step, tokens = 3, 30

    curve = Curve(STUDY, "held", dict(accuracy=0.5, greedy=0.5, kl_reference=4.0, penalised=-1.5))
    curve.lose(Lost())  # type: ignore[arg-type]
    assert [row["penalised"] for row in curve.rows] == [-1.5, -2.0, -2.0]


def test_rates_are_chosen_by_the_score_of_the_study(tmp_path: Path):
    study = replace(STUDY, tuning_seeds=(100,), methods={
        f"held {rate}": replace(HELD, labels=dict(recipe="held", rate=rate)) for rate in ("1e-3", "2e-3")
    })  # fmt: skip
    for chosen, best in ((study, "held 1e-3"), (replace(study, score="accuracy"), "held 2e-3")):
        table = tmp_path / f"{chosen.score}.csv"
        begin(chosen, table)
        for name, accuracy, cost in (("held 1e-3", 0.3, 0.1), ("held 2e-3", 0.9, 1.8)):
            end = dict(step=2, tokens=90, accuracy=accuracy, greedy=accuracy, penalised=accuracy - cost)
            append(chosen, table, name, 100, [dict(step=0, tokens=0, accuracy=0.1, greedy=0.1, penalised=0.1), end])
        assert read_table("t", table, table.with_suffix(".json")).best(list(study.methods)) == best


def test_methods_are_judged_by_the_score_of_the_study():
    """This one is accurate, and far from its reference."""
    told = {(row["task"], row["method"]): row for row in results(load_table("07_penalties"))}
    far = told["misled", "k3 in reward"]
    assert far["sampled"] > told["misled", "k1 in reward"]["sampled"] and far["less unpenalised"].endswith("worse")


def test_a_score_that_is_no_column_is_refused():
    with pytest.raises(ValueError, match="score is 'penalised', which is no column of the table; add it to metrics"):
        replace(STUDY, metrics=("accuracy",))


def test_the_arms_of_chapter_07_differ_in_the_penalty_alone():
    study = STUDIES["07_penalties"]
    for task in ("misled", "needle"):
        own = {one.labels["recipe"]: one for one in study.methods.values() if one.labels["task"] == task}
        assert len(own) == 8 and len({one.price for one in own.values()}) == 1
        assert len({repr((replace(one.choices, kl=None), one.tokens)) for one in own.values()}) == 1
        assert len({repr(one.choices.kl) for one in own.values()}) == 8
        assert own["unpenalised"].choices.kl == KLPenalty(0.0)
