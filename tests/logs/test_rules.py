"""Every rule finds the fault that it is for, in the log of a library that it is meant for, and not its near miss."""

import json
import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import nbformat
import numpy as np
import pytest

from rlnotes.logs import read
from rlnotes.logs.judge import Seen, measured
from rlnotes.logs.series import Point, change
from rlnotes.logs.table import UPDATES, Evidence, Level, Take, Window, table

ROOT = Path(__file__).parents[2]
RULES = table().rules
STEPS = 40
NOISE = np.random.default_rng(0).normal(size=STEPS)


def flat(value: float) -> list[float]:
    return [value] * STEPS


def ramp(start: float, end: float, noise: float = 0.0) -> list[float]:
    return list(np.linspace(start, end, STEPS) + noise * NOISE)


def hill(start: float, top: float, end: float) -> list[float]:
    return [*np.linspace(start, top, STEPS // 2), *np.linspace(top, end, STEPS - STEPS // 2)]


def once(usual: float, value: float, at: int = 25) -> list[float]:
    return [value if i == at else usual * (1 + 0.05 * NOISE[i]) for i in range(STEPS)]


@dataclass(frozen=True)
class Planted:
    """A log by metric of the table, and settings by name of the table; and what of them differs in the near miss."""

    library: str
    log: dict[str, list[float]] = field(default_factory=dict)
    settings: dict[str, Any] | None = None
    healthy: dict[str, list[float]] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)


STILL, RISES = ramp(0.3, 0.3, 0.02), ramp(0.3, 0.9, 0.02)
OUR = dict(gradient_norm=flat(0.5))
PLANTED = {
    "nan-gradient": Planted("trl", dict(gradient_norm=once(1, math.nan)), healthy=dict(gradient_norm=flat(1.0))),
    "nan-reward": Planted("trl", dict(reward=once(1, -math.inf)), healthy=dict(reward=flat(-1e30))),
    "nan-loss": Planted("slime", dict(loss=once(1, math.nan)), healthy=dict(loss=flat(1.0))),
    "dead-gradient-clip": Planted("verl", settings=dict(gradient_clip_dead=0.5), told=dict(gradient_clip=0.5)),
    "dead-clip": Planted("verl", settings=dict(clip_single=0.1), told=dict(clip_low=0.1)),
    "bypass-drops-correction": Planted("verl", settings=dict(bypass=True), told=dict(trainer_v1=False)),
    "k1-in-loss": Planted("slime", settings=dict(kl_in_loss=True), told=dict(kl_estimator="k2")),
    "dead-kl": Planted("slime", settings=dict(kl_in_reward=0.1), told=dict(estimator="ppo")),
    "two-penalties": Planted("verl", settings=dict(kl_in_loss=True, kl_in_reward=True), told=dict(kl_in_reward=False)),
    "group-of-one": Planted("verl", settings=dict(estimator="grpo"), told=dict(group_size=8)),
    "gspo-clip-too-wide": Planted("trl", settings=dict(ratio="sequence", passes=4), told=dict(passes=1)),
    "gspo-drift": Planted(
        "verl",
        dict(mismatch_kl=flat(0.01), length=flat(2000.0)),
        dict(ratio="gspo", bypass=True),
        healthy=dict(mismatch_kl=flat(0.002)),
    ),
    "token-clip-too-tight": Planted("trl", settings=dict(clip_low=3e-4, passes=4), told=dict(passes=1)),
    "cispo-cap-too-low": Planted("trl", settings=dict(denominator="cispo"), told=dict(clip_high=5.0)),
    "soft-gate-open": Planted("trl", settings=dict(denominator="sapo"), told=dict(soft_temperature=20.0)),
    "soft-gate-unlogged": Planted(
        "verl", dict(clip_fraction=flat(0.0)), dict(ratio="sapo"), told=dict(ratio="vanilla")
    ),
    "soft-gate-two-sided": Planted(
        "trl", settings=dict(denominator="sapo", soft_temperature=20.0), told=dict(soft_temperature=1.05)
    ),
    "clip-stops-rare": Planted(
        "verl",
        dict(clip_fraction=[0.1, 0.4, 0.35, *[0.1] * 37], reward=ramp(0.1, 0.9, 0.02)),
        dict(update_size=256),
        healthy=dict(clip_fraction=[0.1, 0.22, 0.2, *[0.1] * 37]),
    ),
    "dppo-defaults": Planted("verl", settings=dict(ratio="dppo_tv"), told=dict(clip_high=0.15)),
    "gspo-token-mean": Planted("verl", settings=dict(ratio="gspo"), told=dict(denominator="seq-mean-token-mean")),
    "top-p": Planted("openrlhf", settings=dict(top_p=0.95), told=dict(top_p=1.0)),
    "answers-cut-off": Planted("trl", dict(truncated=flat(0.95)), healthy=dict(truncated=[0.1, *flat(0.95)[1:]])),
    "equal-groups": Planted(
        "trl", dict(wasted_groups=flat(0.9), reward=STILL), healthy=dict(wasted_groups=[0.1, *flat(0.9)[1:]])
    ),
    "equal-rewards": Planted("openrlhf", dict(reward_std=flat(0.0)), healthy=dict(reward_std=ramp(0.3, 0))),
    "gradient-zero": Planted(
        "trl", dict(gradient_norm=flat(0.0), reward_std=flat(0.3)), healthy=dict(gradient_norm=flat(0.1))
    ),
    "rate-zero": Planted("verl", dict(learning_rate=flat(0.0)), healthy=dict(learning_rate=ramp(1e-6, 0))),
    "most-tokens-silent": Planted("rlnotes", dict(clip_fraction=flat(0.7)), healthy=dict(clip_fraction=flat(0.2))),
    "limit-off-centre": Planted(
        "verl",
        dict(mismatch_prob=flat(0.07), clip_fraction=[0.0] * 28 + [0.3] * 12),
        healthy=dict(mismatch_prob=[0.0, *flat(0.07)[1:]]),  # it grew with the updates: the limit's own work
    ),
    "stopped-before-a-step": Planted(
        "verl",
        dict(clip_fraction=flat(0.05)),
        dict(update_size=1024),
        healthy=dict(clip_fraction=flat(0.0)),
        told=dict(update_size=256),  # several updates: the later ones may stop what the first has moved
    ),
    "first-ratio": Planted("rlnotes", dict(first_ratio=flat(0.1)), healthy=dict(first_ratio=[1e-6, *flat(0.1)[1:]])),
    "first-kl": Planted("verl", dict(kl_old=flat(0.01)), dict(update_size=1024), told=dict(update_size=256)),
    "mismatch-prob": Planted("verl", dict(mismatch_prob=flat(0.012)), healthy=dict(mismatch_prob=flat(0.004))),
    "mismatch-logp": Planted("trl", dict(mismatch_logp=flat(0.3)), healthy=dict(mismatch_logp=flat(0.03))),
    "mismatch-kl": Planted("openrlhf", dict(mismatch_kl=flat(0.3)), healthy=dict(mismatch_kl=flat(0.01))),
    "mismatch-grows": Planted(
        "rlnotes", dict(mismatch_prob=ramp(0.002, 0.009)), healthy=dict(mismatch_prob=ramp(0.0002, 0.003))
    ),
    "mismatch-grows-logp": Planted(
        "slime", dict(mismatch_logp=ramp(0.01, 0.08)), healthy=dict(mismatch_logp=ramp(0.01, 0.03))
    ),
    "staleness": Planted("verl", dict(staleness=ramp(0, 20)), healthy=dict(staleness=flat(4))),
    "old-and-far": Planted(
        "rlnotes",
        dict(mismatch_prob=flat(0.2), staleness=flat(32)),
        healthy=dict(mismatch_prob=flat(0.2), staleness=flat(0)),
    ),
    "old-and-uncorrected": Planted(
        "verl", dict(mismatch_prob=flat(0.15), staleness=flat(4)), healthy=dict(mismatch_prob=flat(0.05))
    ),
    "weights-drop-answers": Planted("trl", dict(weight_min=flat(0.0)), healthy=dict(weight_min=flat(0.4))),
    "promise-out-of-reach": Planted("verl", dict(mismatch_k3=flat(0.05)), healthy=dict(mismatch_k3=flat(0.001))),
    "mask-by-maximum": Planted(
        "verl", dict(dropped=flat(0.5)), settings=dict(rejection="seq_max_k2"), told=dict(rejection="seq_mean_k3")
    ),
    "filter-drops-much": Planted("openrlhf", dict(dropped=flat(0.4)), healthy=dict(dropped=flat(0.05))),
    "weight-mean": Planted("verl", dict(weight_mean=flat(0.4)), healthy=dict(weight_mean=flat(0.98))),
    "ess-low": Planted("verl", dict(ess=flat(0.2)), healthy=dict(ess=flat(0.8))),
    "weight-std": Planted("verl", dict(weight_std=flat(1.2)), healthy=dict(weight_std=flat(0.4))),
    "chi2-high": Planted("verl", dict(chi2=flat(1.5)), healthy=dict(chi2=flat(0.1))),
    "gradient-spikes": Planted("slime", dict(gradient_norm=once(1, 30)), healthy=dict(gradient_norm=once(1, 5))),
    "kl-spikes": Planted("trl", dict(kl_reference=once(0.02, 4)), healthy=dict(kl_reference=once(0.002, 0.04))),
    "clip-too-tight": Planted("trl", dict(clip_fraction=flat(0.45)), healthy=dict(clip_fraction=flat(0.15))),
    "penalty-outweighs": Planted("trl", dict(loss=ramp(0, 2), reward=STILL), healthy=dict(loss=ramp(0, 0.2))),
    "bonus-outweighs": Planted(
        "rlnotes", dict(loss=ramp(0, -2), entropy=ramp(0.5, 3), reward=STILL), healthy=dict(entropy=ramp(0.5, 0.1))
    ),
    "falls-below-the-start": Planted("verl", dict(reward=ramp(0.5, 0.1)), healthy=dict(reward=STILL)),
    "rate-past-the-edge": Planted(
        "verl", dict(reward=hill(0.2, 0.8, 0.1), gradient_norm=ramp(1, 5)), healthy=dict(reward=RISES)
    ),
    "collapse": Planted("openrlhf", dict(reward=hill(0.2, 0.8, 0.1)), healthy=dict(reward=hill(0.2, 0.8, 0.7))),
    "reward-part-falls": Planted(
        "trl", dict(reward=RISES, reward_part=ramp(0.5, 0.1, 0.01)), healthy=dict(reward_part=ramp(0.1, 0.5))
    ),
    "heldout-does-not-follow": Planted(
        "trl", dict(reward=RISES, heldout=ramp(0.3, 0.31, 0.05)), healthy=dict(heldout=ramp(0.3, 0.5, 0.05))
    ),
    "heldout-falls": Planted("trl", dict(heldout=hill(0.2, 0.8, 0.1)), healthy=dict(heldout=hill(0.2, 0.8, 0.7))),
    "length-without-reward": Planted("trl", dict(length=ramp(50, 90), reward=STILL), healthy=dict(reward=RISES)),
    "wrong-grow": Planted("rlnotes", OUR | dict(length_wrong=ramp(8, 16)), healthy=dict(length_wrong=ramp(8, 9))),
    "length-shrinks": Planted("trl", dict(length=ramp(90, 20), reward=STILL), healthy=dict(reward=RISES)),
    "truncation": Planted("verl", dict(truncated=ramp(0, 0.6)), healthy=dict(truncated=flat(0.1))),
    "masked-drift": Planted(
        "trl", dict(truncated=ramp(0, 0.2)), dict(mask_truncated=True), healthy=dict(truncated=ramp(0, 0.02))
    ),
    "mean-of-means": Planted("trl", settings=dict(denominator="bnpo"), told=dict(denominator="dapo")),
    "micro-batch-width": Planted(
        "verl", settings=dict(denominator="seq-mean-token-sum-norm"), told=dict(loss_scale=1024)
    ),
    "nobody-judges": Planted("trl", settings=dict(evaluation="no"), told=dict(evaluation="steps")),
    "kept-groups": Planted("verl", settings=dict(filter_groups=True), told=dict(filter_groups=False)),
    "entropy-falls": Planted(
        "trl",
        dict(entropy=ramp(1, 0.01), reward=STILL, wasted_groups=ramp(0.1, 0.7)),
        healthy=dict(reward=ramp(0.3, 1.0)),
    ),
    "entropy-rises": Planted("trl", dict(entropy=ramp(0.5, 2), reward=STILL), healthy=dict(reward=RISES)),
    "penalty-holds": Planted("trl", dict(reward=STILL), dict(kl_coefficient=5.0), told=dict(kl_coefficient=0.02)),
    "stands-still": Planted("trl", dict(reward=STILL, entropy=flat(0.5)), healthy=dict(entropy=ramp(0.5, 0.3))),
    "clip-cannot-act": Planted("trl", dict(clip_fraction=flat(0.0)), dict(passes=1), told=dict(passes=4)),
    "clip-never-acts": Planted("verl", dict(clip_fraction=flat(0.0)), dict(passes=1), told=dict(update_size=1024)),
    "first-round-far": Planted("verl", dict(kl_old=flat(1.5)), healthy=dict(kl_old=[0.1, *flat(1.5)[1:]])),
    "drift": Planted("trl", dict(kl_reference=ramp(0, 2)), healthy=dict(kl_reference=ramp(0, 0.2))),
    "loss-reads-0": Planted(
        "trl", dict(loss=flat(1e-8), gradient_norm=flat(0.5)), healthy=dict(gradient_norm=flat(0.0))
    ),
    "alarm-cannot-fire": Planted("verl", settings=dict(correction="token"), told=dict(correction_cap=5.0)),
    "penalty-by-default": Planted("openrlhf", settings=dict(estimator="group_norm"), told=dict(kl_coefficient=0)),
    "maximum-at-the-cap": Planted(
        "trl", dict(weight_max=flat(2.99)), dict(correction=True), told=dict(correction_cap=10.0)
    ),
    "used-up": Planted("trl", dict(wasted_groups=ramp(0, 1), reward=RISES), healthy=dict(reward=ramp(0, 0.1))),
    "critic-explains-nothing": Planted(
        "verl", dict(critic_explained=flat(0.02)), healthy=dict(critic_explained=ramp(0, 0.8))
    ),
}


def found(folder: Path, library: str, log: dict[str, list[float]], settings: dict[str, Any] | None) -> list[str]:
    """The names of the rules that hold, of a log in the library's own names."""
    names = {metric: table().metrics[metric].names[library][0].replace("*", "math") for metric in log}
    names["length"] = table().metrics["length"].names[library][0]  # so that each log has a metric
    own = {"length": flat(50.0)} | log
    rows = [{"step": i + 1} | {names[metric]: own[metric][i] for metric in own} for i in range(STEPS)]
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = None
    if settings is not None:
        config = folder / "config.json"
        options = {table().settings[name].options[library].name: value for name, value in settings.items()}
        config.write_text(json.dumps(options), encoding="utf-8")
    report = read(path, config)
    assert report.log.library == library
    return [finding.rule.name for finding in report.findings]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_its_fault_and_not_the_near_miss(name: str, tmp_path: Path):
    planted = PLANTED[name]
    assert name in found(tmp_path, planted.library, planted.log, planted.settings)
    settings = (planted.settings or {}) | planted.told if planted.settings is not None or planted.told else None
    assert name not in found(tmp_path, planted.library, planted.log | planted.healthy, settings)


def test_the_table_says_what_it_may():
    """Words are those that are declared, and what an entry names is there."""
    raw = tomllib.loads((ROOT / "rlnotes" / "logs" / "rules.toml").read_text(encoding="utf-8"))
    assert len(raw["rules"]) == len(RULES), "two rules of one name"
    for rule in RULES.values():
        assert {*rule.settings} <= {*table().settings} and {*rule.libraries} <= {*table().libraries}, rule.name
        assert {rule.level, rule.rising} <= {*get_args(Level)} and rule.evidence in get_args(Evidence), rule.name
        assert {*rule.log} <= {*table().libraries}, rule.name
        for library, said in rule.log.items():
            metrics = {one for entry in table().metrics.values() for one in entry.names.get(library, ())}
            assert {one for one in re.findall(r"`([^`]*/[^`]*)`", said)} <= metrics, rule.name
        assert rule.all and rule.check and not isinstance(rule.check, str), rule.name
        for one in rule.all:
            assert one.take in get_args(Take) and one.window in get_args(Window), rule.name
            assert (one.metric is None) == (one.setting in {UPDATES, *table().settings}), rule.name
            assert (one.setting is None) == (one.metric in table().metrics), rule.name
            assert (one.take == "broken") != bool(one.bounds() or one.one_of or one.given is not None), rule.name


def test_there_are_enough_rules_and_each_rests_on_a_heading():
    assert len(RULES) >= 25
    for rule in RULES.values():
        chapter, _, place = rule.link.partition("#")
        cells = nbformat.read(ROOT / "course" / f"{chapter}.ipynb", as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        headings = {heading.replace(" ", "-") for heading in re.findall(r"(?m)^#+ (.*)$", text)}
        assert place in headings, rule.name


def test_a_threshold_without_a_source_is_folklore():
    for rule in RULES.values():
        assert rule.source or rule.evidence == "folklore", rule.name


@pytest.mark.parametrize("seed", range(8))
def test_noise_alone_is_no_alarm(seed: int, tmp_path: Path):
    """A run that learns, with the noise of small batches on every number."""
    draw = np.random.default_rng(seed)
    log = {
        "reward": np.linspace(0.3, 0.9, STEPS) + 0.05 * draw.normal(size=STEPS),
        "heldout": np.linspace(0.3, 0.85, STEPS) + 0.05 * draw.normal(size=STEPS),
        "entropy": np.linspace(0.8, 0.2, STEPS) * np.exp(0.1 * draw.normal(size=STEPS)),
        "gradient_norm": 0.8 * np.exp(0.4 * draw.normal(size=STEPS)),
        "wasted_groups": np.linspace(0.2, 0.7, STEPS),
        "truncated": 0.05 * draw.uniform(size=STEPS),
        "length": 50 + 5 * draw.normal(size=STEPS),
        "mismatch_logp": 0.02 * np.exp(0.2 * draw.normal(size=STEPS)),
        "clip_fraction": 0.05 * draw.uniform(size=STEPS),
    }
    names = found(tmp_path, "trl", {name: values.tolist() for name, values in log.items()}, None)
    assert [name for name in names if RULES[name].level == "alarm"] == []


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ([0.61, 0.73, 0.78, 0.72, 0.75], False),
        ([0.67, 0.71, 0.74, 0.71, 0.77], False),
        ([0.37, 0.34, 0.36, 0.36, 0.27], True),
        ([0.5] * 5, True),
    ],
)
def test_few_measurements_that_rise_do_not_stand_still(values: list[float], holds: bool):
    """Whose change is within three standard errors all the same."""
    points = [Point(i, i, value, value, value) for i, value in enumerate(values)]
    seen = measured(RULES["heldout-does-not-follow"].all[0], points, points)
    assert isinstance(seen, Seen) and seen.holds == holds and change(points) == 0
