"""All runs, healthy and faulty. Each fault is in either half, by another task, seed or library.

A faulty run differs in one thing from a run that learns: from a healthy one below, or from the same one without it.
"""

from dataclasses import replace
from typing import Any

from rlnotes.lm.tasks import Reverse, Sort
from rlnotes.objectives import GEO_MIS, GRPO
from rlnotes.objectives.masks import MismatchBand
from rlnotes.objectives.penalties import KLPenalty
from rlnotes.objectives.ratios import sequence_mean
from tests.logs.run import OurRun, RealRun, Run, Sign, TRLRun
from tests.logs.tasks import Words, right_and_long

OURS: dict[str, Any] = dict(steps=45, prompts=16, group_size=16)
PASSES: dict[str, Any] = OURS | dict(steps=30, epochs=4)
SHORT: dict[str, Any] = OURS | dict(steps=30)
STALE: dict[str, Any] = OURS | dict(steps=30, epochs=2, minibatches=4, measure_shift=True)
BY_HEART: dict[str, Any] = dict(
    max_steps=60, logging_steps=3, num_iterations=2, learning_rate=1e-3, eval_strategy="steps", eval_steps=12
)
TIGHT = replace(GEO_MIS, keep=MismatchBand(0.9995, 1.0005, sequence_mean, "current"))

FAULTY: tuple[Run, ...] = (
    TRLRun(
        name="equal_groups_trl",
        half="tuning",
        fault="equal_groups",
        note="the verifier compares with a text that ends in a full stop, and always says no",
        sign=Sign("frac_reward_zero_std", "above", 0.99),
        task=Reverse(4),
        rewards=("never",),
    ),
    OurRun(
        name="equal_groups_ours",
        half="judging",
        fault="equal_groups",
        note="random weights never solve the task",
        sign=Sign("wasted_groups", "above", 0.99),
        settings=SHORT | dict(warm_start="none"),
    ),
    OurRun(
        name="learning_rate_ours",
        half="tuning",
        fault="learning_rate",
        note="3e-2, where 1e-3 learns",
        sign=Sign("reward", "below", 0.05),
        settings=SHORT | dict(learning_rate=3e-2),
    ),
    TRLRun(
        name="learning_rate_trl",
        half="judging",
        fault="learning_rate",
        note="5e-3, where 3e-4 learns",
        sign=Sign("reward", "below", 0.05),
        task=Sort(4),
        settings=dict(learning_rate=5e-3),
    ),
    OurRun(
        name="slow_ours",
        half="tuning",
        fault="slow",
        note="1e-6, a large model's learning rate",
        sign=Sign("reward", "below", 0.45, since=30),
        settings=OURS | dict(learning_rate=1e-6),
    ),
    TRLRun(
        name="slow_trl",
        half="judging",
        fault="slow",
        note="1e-6, TRL's default learning rate, and far too little for this model",
        sign=Sign("kl", "below", 0.001, since=20),
        task=Sort(4),
        settings=dict(learning_rate=1e-6, beta=0.01),
    ),
    OurRun(
        name="no_warm_up_grpo",
        half="tuning",
        fault="no_warm_up",
        note="at 4e-3, which learns with a warm-up of 20 updates",
        sign=Sign("reward", "below", 0.05),
        settings=SHORT | dict(learning_rate=4e-3, warmup_updates=0),
    ),
    OurRun(
        name="no_warm_up_dr_grpo",
        half="judging",
        fault="no_warm_up",
        note="at 4e-3, which learns with a warm-up of 20 updates",
        sign=Sign("reward", "below", 0.05),
        settings=SHORT | dict(recipe="dr_grpo", learning_rate=4e-3, warmup_updates=0),
        seed=3,
    ),
    TRLRun(
        name="kl_holds_trl",
        half="tuning",
        fault="kl_holds",
        note="beta is 10",
        sign=Sign("grad_norm", "above", 10.0, since=10),
        task=Reverse(4),
        settings=dict(beta=10.0),
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
        name="k1_in_loss_reverse",
        half="tuning",
        fault="k1_in_loss",
        note="0.5 k1 in the loss, four passes; with k2 it learns",
        sign=Sign("loss", "above", 0.1),
        settings=PASSES,
        choices=replace(GRPO, kl=KLPenalty(0.5, "k1")),
    ),
    OurRun(
        name="k1_in_loss_misled",
        half="judging",
        fault="k1_in_loss",
        note="0.5 k1 in the loss, four passes",
        sign=Sign("loss", "above", 0.1),
        settings=PASSES | dict(task="misled"),
        choices=replace(GRPO, kl=KLPenalty(0.5, "k1")),
        seed=1,
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
    TRLRun(
        name="entropy_bonus_trl",
        half="judging",
        fault="entropy_bonus",
        note="entropy_coef is 1",
        sign=Sign("entropy", "above", 1.0),
        task=Reverse(4),
        settings=dict(entropy_coef=1.0),
    ),
    TRLRun(
        name="length_pays_trl",
        half="tuning",
        fault="length_pays",
        note="a second reward of a point for each token",
        sign=Sign("completions/clipped_ratio", "above", 0.3),
        task=Reverse(4),
        rewards=("right", "long"),
        settings=dict(max_completion_length=12),
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
        name="truncation_ours",
        half="tuning",
        fault="truncation",
        note="5 tokens for answers of 4 to 9",
        sign=Sign("truncated", "above", 0.5),
        settings=OURS | dict(warm_target=0.2),
        task=Words(8, limit=5),
    ),
    TRLRun(
        name="truncation_trl",
        half="judging",
        fault="truncation",
        note="4 tokens for answers of 4 to 7",
        sign=Sign("completions/clipped_ratio", "above", 0.5),
        task=Words(6),
        settings=dict(max_completion_length=4),
    ),
    OurRun(
        name="temperature_words",
        half="tuning",
        fault="temperature",
        note="the sampler's temperature is 1.5, the trainer's 1",
        sign=Sign("mismatch", "above", 0.05),
        settings=SHORT,
        task=Words(6),
        sampled_at=1.5,
        seed=2,
    ),
    OurRun(
        name="temperature_reverse",
        half="judging",
        fault="temperature",
        note="the sampler's temperature is 1.4, the trainer's 1",
        sign=Sign("mismatch", "above", 0.05),
        settings=SHORT,
        sampled_at=1.4,
    ),
    TRLRun(
        name="stale_trl",
        half="tuning",
        fault="staleness",
        note="sampled by weights of 16 updates ago",
        sign=Sign("sampling/sampling_logp_difference/mean", "above", 0.5),
        task=Reverse(4),
        settings=dict(learning_rate=6e-4),
        engine=dict(lag=16),
    ),
    OurRun(
        name="stale_ours",
        half="judging",
        fault="staleness",
        note="sampled by weights of 32 updates ago, four rounds, and no ratio",
        sign=Sign("staleness", "above", 0.1),
        settings=STALE | dict(recipe="rloo", lags=(32,)),
    ),
    OurRun(
        name="mask_drops_ours",
        half="tuning",
        fault="mask_drops",
        note="a sequence mask of 1 +- 0.0005, and an int4 sampler",
        sign=Sign("no_gradient", "above", 0.9),
        settings=OURS | dict(rollout_weights="int4"),
        choices=TIGHT,
    ),
    TRLRun(
        name="mask_drops_trl",
        half="judging",
        fault="mask_drops",
        note="a sequence mask of 1 +- 0.001, and an int4 sampler",
        sign=Sign("sampling/importance_sampling_ratio/mean", "below", 0.2),
        task=Sort(4),
        settings=dict(vllm_importance_sampling_clip_min=0.999, vllm_importance_sampling_clip_max=1.001),
        engine=dict(weights="int4"),
    ),
    TRLRun(
        name="memorised_reverse",
        half="tuning",
        fault="memorised",
        note="16 prompts, and 30 rounds on them",
        sign=Sign("eval_reward", "below", 0.4, since=36),
        task=Reverse(5),
        prompts=16,
        settings=BY_HEART | dict(learning_rate=4e-4),
    ),
    TRLRun(
        name="memorised_sort",
        half="judging",
        fault="memorised",
        note="16 prompts, and 30 rounds on them",
        sign=Sign("eval_reward", "below", 0.4, since=36),
        task=Sort(4),
        prompts=16,
        settings=BY_HEART,
    ),
    TRLRun(
        name="reward_hack_reverse",
        half="tuning",
        fault="reward_hack",
        note="the reward is the share of letters found anywhere in the answer; what is right is logged with weight 0",
        sign=Sign("rewards/reverse/mean", "below", 0.1),
        task=Reverse(4),
        rewards=("letters", "right"),
        settings=dict(reward_weights=[1.0, 0.0], max_completion_length=12),
    ),
    TRLRun(
        name="reward_hack_sort",
        half="judging",
        fault="reward_hack",
        note="the reward is the share of letters found anywhere in the answer; what is right is logged with weight 0",
        sign=Sign("rewards/sort/mean", "below", 0.1),
        task=Sort(4),
        rewards=("letters", "right"),
        settings=dict(reward_weights=[1.0, 0.0], max_completion_length=16),
    ),
)
HEALTHY: tuple[Run, ...] = (
    TRLRun(
        name="healthy_trl",
        half="tuning",
        note="loss near 0, clip share 0 at one update a round",
        task=Reverse(4),
    ),
    TRLRun(
        name="healthy_kl",
        half="judging",
        note="kl rises slowly",
        task=Sort(4),
        settings=dict(beta=0.01, learning_rate=6e-4),
    ),
    TRLRun(
        name="healthy_clip",
        half="tuning",
        note="clip share 1 to 3 % at two updates a round",
        task=Reverse(4),
        settings=dict(num_iterations=2, loss_type="grpo"),
    ),
    TRLRun(
        name="healthy_int4_trl",
        half="judging",
        note="an int4 sampler, 0.04 nats from the trainer, corrected",
        task=Reverse(4),
        engine=dict(weights="int4"),
    ),
    TRLRun(
        name="healthy_eval",
        half="tuning",
        note="eval_reward stays below reward",
        task=Sort(4),
        settings=dict(
            loss_type="dr_grpo", scale_rewards="none", eval_strategy="steps", eval_steps=10, learning_rate=6e-4
        ),
    ),
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
        note="sampled by weights of 16 updates ago",
        settings=STALE | dict(lags=(16,), minibatches=2),
    ),
    OurRun(
        name="healthy_staler",
        half="judging",
        note="sampled by weights of 64 updates ago, eight rounds, and a clip that acts",
        settings=STALE | dict(lags=(64,)),
        seed=2,
    ),
    OurRun(
        name="healthy_int4",
        half="judging",
        note="an int4 sampler, ratios 0.1 from 1, and a mask by sequence",
        settings=OURS | dict(recipe="seq_mis", rollout_weights="int4"),
    ),
    OurRun(
        name="healthy_noise",
        half="tuning",
        note="noise of 1 on the sampler's logits; a mask by sequence drops 70 % of the tokens at first",
        settings=OURS | dict(recipe="seq_mis", logit_noise=1.0),
    ),
    OurRun(
        name="healthy_words",
        half="tuning",
        note="answers of 4 to 7 tokens",
        settings=OURS,
        task=Words(6),
    ),
    OurRun(
        name="healthy_passes",
        half="judging",
        note="four passes; entropy falls to 0.02 as accuracy rises",
        settings=PASSES,
    ),
    OurRun(
        name="healthy_updates",
        half="tuning",
        note="16 updates a round: clip share 0.1 to 0.2 as it learns, and the reward falls four times",
        settings=OURS | dict(task="misled", steps=20, prompts=32, epochs=4, minibatches=4),
        seed=1,
    ),
)
REAL: tuple[Run, ...] = (
    RealRun(
        name="rounded_real",
        half="judging",
        fault="rounded",
        note="the sampler's weights have four bits, and the clip is around mu",
        sign=Sign("mismatch", "above", 0.05),
        arm="stale_ppo, int4",
    ),
    RealRun(
        name="healthy_real",
        half="judging",
        note="loss 1e-8 at every step; 73 % of the responses are truncated at first",
        arm="alone",
    ),
)
"""of a model of 135 M parameters; in the judging half alone"""
RUNS: tuple[Run, ...] = FAULTY + HEALTHY + REAL
