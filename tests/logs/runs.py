"""All runs, healthy and faulty. Each fault is in either half, by another task, seed or library."""

from dataclasses import replace
from typing import Any

from rlnotes.lm.tasks import Add, Reverse, Sort
from rlnotes.objectives import DAPO, GRPO
from rlnotes.objectives.penalties import KLPenalty
from tests.logs.run import OurRun, Run, Sign, TRLRun
from tests.logs.tasks import Words, right_and_long

OURS: dict[str, Any] = dict(steps=45, prompts=16, group_size=16)
SHORT: dict[str, Any] = OURS | dict(steps=30)
STALE: dict[str, Any] = SHORT | dict(epochs=2, minibatches=4, measure_shift=True)

FAULTY: tuple[Run, ...] = (
    OurRun(
        name="equal_groups_ours",
        half="judging",
        fault="equal_groups",
        note="random weights never solve the task",
        sign=Sign("wasted_groups", "above", 0.99),
        settings=OURS | dict(warm_start="none"),
    ),
    OurRun(
        name="learning_rate_ours",
        half="tuning",
        fault="learning_rate",
        note="3e-2, where 1e-3 learns",
        sign=Sign("reward", "below", 0.05),
        settings=OURS | dict(learning_rate=3e-2),
    ),
    OurRun(
        name="no_warm_up_reverse",
        half="tuning",
        fault="no_warm_up",
        note="at 4e-3, which learns with a warm-up of 20 updates",
        sign=Sign("reward", "below", 0.05),
        settings=OURS | dict(learning_rate=4e-3, warmup_updates=0),
    ),
    OurRun(
        name="no_warm_up_sort",
        half="judging",
        fault="no_warm_up",
        note="at 4e-3, which learns with a warm-up of 20 updates",
        sign=Sign("reward", "below", 0.05),
        settings=OURS | dict(task="sort", learning_rate=4e-3, warmup_updates=0),
        seed=1,
    ),
    OurRun(
        name="kl_holds_ours",
        half="judging",
        fault="kl_holds",
        note="a KL penalty of 5 keeps pi at the reference",
        sign=Sign("loss", "above", 0.005, since=10),
        settings=OURS,
        choices=replace(GRPO, kl=KLPenalty(5.0, "k3")),
    ),
    OurRun(
        name="entropy_bonus_ours",
        half="tuning",
        fault="entropy_bonus",
        note="0.5 a nat",
        sign=Sign("entropy", "above", 1.5),
        settings=OURS,
        choices=replace(GRPO, entropy=0.5),
    ),
    OurRun(
        name="temperature_ours",
        half="judging",
        fault="mismatch",
        note="the sampler's temperature is 1.4, the trainer's 1",
        sign=Sign("mismatch", "above", 0.05),
        settings=OURS,
        sampled_at=1.4,
    ),
    OurRun(
        name="stale_sort",
        half="tuning",
        fault="staleness",
        note="sampled by weights that are 64 updates old, four rounds",
        sign=Sign("staleness", "above", 0.1),
        settings=STALE | dict(task="sort", size=8, lags=(64,), epochs=4),
    ),
    OurRun(
        name="stale_reverse",
        half="judging",
        fault="staleness",
        note="sampled by weights that are 32 updates old, four rounds, and no ratio",
        sign=Sign("staleness", "above", 0.1),
        settings=STALE | dict(recipe="rloo", lags=(32,)),
    ),
    OurRun(
        name="truncation_ours",
        half="tuning",
        fault="truncation",
        note="5 tokens for answers of 4 to 9",
        sign=Sign("truncated", "above", 0.5),
        settings=OURS | dict(warm_target=0.2),
        task=Words(8, limit=5),
    ),
    OurRun(
        name="k1_in_loss_reverse",
        half="tuning",
        fault="k1_in_loss",
        note="0.5 k1 in the loss, four passes",
        sign=Sign("loss", "above", 0.1),
        settings=SHORT | dict(epochs=4),
        choices=replace(GRPO, kl=KLPenalty(0.5, "k1")),
    ),
    OurRun(
        name="k1_in_loss_sort",
        half="judging",
        fault="k1_in_loss",
        note="0.5 k1 in the loss, four passes",
        sign=Sign("loss", "above", 0.1),
        settings=SHORT | dict(task="sort", epochs=4),
        choices=replace(GRPO, kl=KLPenalty(0.5, "k1")),
        seed=1,
    ),
    OurRun(
        name="length_pays_ours",
        half="judging",
        fault="length_pays",
        note="a point for each token",
        sign=Sign("truncated", "above", 0.3),
        settings=OURS,
        task=Words(6),
        reward=right_and_long,
    ),
    OurRun(
        name="slow_ours",
        half="tuning",
        fault="slow",
        note="1e-6, a large model's learning rate",
        sign=Sign("reward", "below", 0.45, since=30),
        settings=OURS | dict(learning_rate=1e-6),
    ),
)
HEALTHY: tuple[Run, ...] = (
    OurRun(name="healthy_reverse", half="tuning", note="loss 1e-8 at every step", settings=OURS),
    OurRun(
        name="healthy_misled",
        half="judging",
        note="94 % of the groups are equal at first",
        settings=OURS | dict(task="misled"),
    ),
    OurRun(
        name="healthy_fast",
        half="judging",
        note="3/4 of the groups are equal at the end, gradient norm up to 2",
        settings=OURS | dict(learning_rate=4e-3, warmup_updates=20),
    ),
    OurRun(
        name="healthy_stale",
        half="tuning",
        note="a lag of 16 updates",
        settings=STALE | dict(lags=(16,), minibatches=2),
    ),
    OurRun(
        name="healthy_int4",
        half="judging",
        note="an int4 sampler, ratios 0.1 from 1, and a mask by sequence",
        settings=OURS | dict(recipe="seq_mis", rollout_weights="int4"),
    ),
)
RUNS: tuple[Run, ...] = FAULTY + HEALTHY
