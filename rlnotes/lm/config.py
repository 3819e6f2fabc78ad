"""Sizes of the model, and what a training run is told: plain data, without torch."""

import re
from dataclasses import dataclass
from typing import Literal

from rlnotes.settings import of_their_kinds, positive, within

Metrics = dict[str, float]  # what a step reports
RolloutWeights = Literal["float32", "bfloat16", "float8", "int8", "int4"]
RolloutKVCache = Literal["float32", "bfloat16", "float8"]

MANY = 10**9  # of anything: beyond it are typing errors, and numbers that no tensor holds
MOST_STEPS = 10**7  # names of checkpoints have eight digits, for the steps of warm start and RL together
COLDEST, HOTTEST = 1e-3, 1e3  # temperatures at which float32 still tells logits apart
DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")  # what may be asked for


def check_truncation(top_k: int | None, top_p: float | None) -> None:
    """Raise ``ValueError`` for numbers that keep no token."""
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}; it must be at least 1, or None for no limit")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; it must be in (0, 1], or None for no limit")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a :class:`Transformer`.

    ``context`` is the largest number of positions, prompt and response together. ``experts`` is the number of experts
    in each block's mixture, of which a token uses ``experts_per_token``; 0 is a dense model, with one network for all.
    """

    vocab_size: int
    context: int
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    experts: int = 0
    experts_per_token: int = 1

    def __post_init__(self):
        for name in ("vocab_size", "context", "d_model", "n_layers", "n_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads {self.n_heads} does not divide d_model {self.d_model}")
        if self.experts < 0 or self.experts == 1:
            raise ValueError(f"experts is {self.experts}; it must be 0 (a dense model) or at least 2")
        if not 1 <= self.experts_per_token <= max(1, self.experts):
            raise ValueError(
                f"experts_per_token is {self.experts_per_token}; it must be from 1 to the number of experts, "
                f"{self.experts} here (a dense model has none: leave it at 1)"
            )


def warmed_up(learning_rate: float, updates_before: int, warmup_updates: int) -> float:
    """The learning rate of an update: it rises on a straight line over the first ``warmup_updates``."""
    return learning_rate * min(1.0, (updates_before + 1) / max(1, warmup_updates))


PRESETS: dict[str, dict[str, int]] = {
    "tiny": dict(d_model=64, n_layers=2, n_heads=2),  # 0.1 M parameters
    "small": dict(d_model=128, n_layers=4, n_heads=4),  # 0.8 M
    "medium": dict(d_model=256, n_layers=6, n_heads=8),  # 4.7 M
    "large": dict(d_model=384, n_layers=6, n_heads=6),  # 10.6 M
    "moe-top1": dict(d_model=64, n_layers=2, n_heads=2, experts=4, experts_per_token=1),  # 0.3 M, used by a token 0.1 M
    "moe-top2": dict(d_model=64, n_layers=2, n_heads=2, experts=4, experts_per_token=2),  # 0.3 M, used by a token 0.2 M
}


def preset_config(preset: str, vocab_size: int, context: int) -> ModelConfig:
    """The :class:`ModelConfig` of a named size. Raises ``ValueError`` for an unknown name."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    return ModelConfig(vocab_size=vocab_size, context=context, **PRESETS[preset])


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a run: a supervised warm start where no weights are shipped, then RL."""

    task: str = "reverse"
    """one of rlnotes.lm.tasks.TASK_NAMES: reverse, sort, needle, ..., or reasoning-gym/NAME"""
    size: int | None = None
    """size of the task's problems; the task's own default if not given"""
    preset: str = "tiny"
    """the model: tiny, small, medium, large, or with a mixture of four experts moe-top1, moe-top2"""
    recipe: str = "grpo"
    """objective: a name of rlnotes.objectives.RECIPES"""
    steps: int = 60
    """RL steps, each one rollout"""
    prompts: int = 32
    """prompts per rollout, B"""
    group_size: int = 16
    """responses per prompt, G"""
    epochs: int = 1
    """passes over each rollout"""
    minibatches: int = 1
    """updates per pass, each on whole groups"""
    micro_batches: int = 1
    """parts in which the gradient of an update is added up: the same gradient with less memory"""
    most_rounds: int = 8
    """rollouts that a step may sample to fill its batch, for an objective with dynamic sampling"""
    learning_rate: float = 1e-3
    """of AdamW, after warm-up"""
    warmup_updates: int = 10
    """updates over which the learning rate rises from near 0: Adam's first step would else be a full sign step"""
    gradient_clip: float = 1.0
    """largest gradient norm"""
    temperature: float = 1.0
    """of sampling; log-probabilities are those of the tempered distribution, in sampler and trainer alike"""
    top_k: int | None = None
    """sample from the k likeliest tokens only; pi, which is trained, keeps them all, so this makes a mismatch"""
    top_p: float | None = None
    """sample from the smallest set of tokens with this probability only; a mismatch, too"""
    rollout_weights: RolloutWeights = "float32"
    """bfloat16, float8, int8, int4: sample with weights rounded to it, to make a mismatch on purpose"""
    rollout_kv_cache: RolloutKVCache = "float32"
    """bfloat16, float8: keep the sampler's keys and values rounded to it; a mismatch on purpose"""
    rollout_blocks: int = 1
    """pieces in which the sampler adds up each matrix product: another order of the same sum; a mismatch on purpose"""
    logit_noise: float = 0.0
    """standard deviation of noise on every logit that is sampled from, fresh for each token: a mismatch on purpose"""
    lags: tuple[int, ...] = ()
    """sample from older weights, each this many updates behind or the next older that began a step; none: the newest"""
    lag_weights: tuple[float, ...] = ()
    """how often each lag is drawn, relative to the others; equally often if not given"""
    switch: float = 0.0
    """chance before each token to draw the lag anew; 0: a response is written by one version from start to end"""
    measure_shift: bool = False
    """report how far mu, pi before and pi after the updates of a step are apart; costs two more passes"""
    count_clipped: bool = False
    """report how likely and how uncertain the tokens are that get no gradient, and count them by name"""
    routing_replay: bool = False
    """score with the experts that the sampler used for each token (R3), for the presets with a mixture"""
    lora_rank: int = 0
    """RL trains low-rank adapters of this rank only, on every linear layer (LoRA); 0: all weights"""
    warm_start: Literal["shipped", "train", "none"] = "shipped"
    """shipped: use the package's weights if it has them, else train; train: always train; none: random weights"""
    start: int = 0
    """number of the shipped warm start, where a task has several: misled, needle and ledger have 0, 1, 2"""
    warm_target: float = 0.35
    """sampled accuracy at which the supervised warm start stops"""
    warm_batch: int = 64
    """examples per warm-start update"""
    warm_learning_rate: float = 1e-3
    """of the warm start"""
    warm_limit: int = 20_000
    """most warm-start updates, whether or not the target was reached"""
    seed: int = 0
    """of weights, prompts and samples"""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 needs a GPU; weights and optimiser stay float32"""
    cuda_graph: bool = False
    """on a GPU, replay each RL step as one CUDA graph: equal up to rounding, faster; in a script import rlnotes.gpu"""
    threads: int = 1
    """CPU threads, of which no more than the machine has cores are used; more than one rarely pays for a tiny model"""

    def __post_init__(self):
        of_their_kinds(self)
        counts = ("prompts", "epochs", "minibatches", "micro_batches", "most_rounds", "warm_batch", "rollout_blocks")
        within(self, 1, *counts, "threads", most=MANY)
        within(self, 0, "steps", "warmup_updates", "warm_limit", most=MOST_STEPS)
        within(self, 0, "lora_rank", "start", most=MANY)
        within(self, 0, "seed", most=2**63 - 1)  # what torch takes, and room for the seeds derived from it
        within(self, 0, "warm_target", "switch", most=1)
        within(self, 0, "logit_noise", most=1000)
        positive(self, "learning_rate", "warm_learning_rate", most=1)  # AdamW moves a weight by about so much
        positive(self, "gradient_clip")
        within(self, COLDEST, "temperature", most=HOTTEST)
        check_truncation(self.top_k, self.top_p)
        if self.group_size < 2:
            raise ValueError(f"group_size is {self.group_size}: a group of one has no baseline; use 2 or more")
        if self.prompts * self.group_size > MANY:
            raise ValueError(
                f"prompts is {self.prompts} and group_size {self.group_size}: a rollout of more than {MANY} responses; "
                "make one of them smaller"
            )
        if self.prompts % self.minibatches:
            raise ValueError(
                f"minibatches {self.minibatches} does not divide prompts {self.prompts}: groups stay whole"
            )
        if self.micro_batches > self.prompts // self.minibatches:
            raise ValueError(
                f"micro_batches is {self.micro_batches}, and an update has {self.prompts // self.minibatches} groups, "
                "which stay whole; take fewer micro_batches"
            )
        self._check_lags()
        if self.preset not in PRESETS:
            raise ValueError(f"unknown preset {self.preset!r}; choose one of {', '.join(PRESETS)}")
        width = PRESETS[self.preset]["d_model"]
        for name in ("lora_rank", "rollout_blocks"):
            if getattr(self, name) > width:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at most the model's width, {width}")
        self._check_routing_replay()
        if not DEVICE.fullmatch(self.device):
            raise ValueError(f"device is {self.device!r}; choose cpu, cuda, or one of several by its number, cuda:1")
        if self.precision == "bfloat16" and not self.device.startswith("cuda"):
            raise ValueError(f"precision bfloat16 needs a GPU, and device is {self.device!r}; use float32 there")

    def warmed_up(self, learning_rate: float, updates_before: int) -> float:
        """The learning rate of an update, ``learning_rate`` once ``warmup_updates`` have gone before it."""
        return warmed_up(learning_rate, updates_before, self.warmup_updates)

    def _check_routing_replay(self) -> None:
        if self.routing_replay and not PRESETS[self.preset].get("experts"):
            raise ValueError(
                f"routing_replay needs a mixture of experts, and preset {self.preset!r} is dense: there are no routes "
                "to replay; set preset moe-top1 or moe-top2"
            )
        if self.routing_replay and len(self.lags) > 1:
            raise ValueError(
                f"routing_replay with lags {self.lags}: several versions read one prompt by different routes; name one"
            )

    def _check_lags(self) -> None:
        for name in ("lags", "lag_weights"):  # a list, as in a file of settings, would be no equal of a tuple
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for i, lag in enumerate(self.lags):
            if not 0 <= lag <= MANY:
                raise ValueError(f"lags[{i}] is {lag}; a lag is a number of updates, 0 or more, up to {MANY}")
        if self.lag_weights and len(self.lag_weights) != len(self.lags):
            raise ValueError(f"lag_weights has {len(self.lag_weights)} entries, lags {len(self.lags)}; give one each")
        for i, weight in enumerate(self.lag_weights):
            if not 1e-6 <= weight <= 1e6:
                raise ValueError(f"lag_weights[{i}] is {weight}; it must be in [1e-6, 1e6], or leave the lag out")
        if self.switch > 0 and len(self.lags) < 2:
            raise ValueError(f"switch is {self.switch} and lags is {self.lags}; name at least two to switch between")
