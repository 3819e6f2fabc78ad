"""What a run of a real model is told: plain data, without torch."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from rlnotes.lm.config import COLDEST, DEVICE, HOTTEST, MANY, MOST_STEPS
from rlnotes.settings import of_their_kinds, positive, within

Paid = Literal["right", "score", "format"]
Rounded = Literal["float32", "int8", "int4"]
SIZES = {"cuda": dict(prompts=32, heldout=512), "cpu": dict(prompts=4, heldout=64)}
"""by kind of device: what a run takes where it is told 0"""


@dataclass(frozen=True)
class RealConfig:
    """Settings of a run that trains a causal language model."""

    model: str
    """folder of a causal language model (config.json, safetensors, tokenizer), or a GGUF file"""
    task: str = "add"
    """a name of rlnotes.bridge.real.questions.TASKS: add, times, largest, times-3, or reasoning-gym/NAME"""
    recipe: str = "grpo"
    """objective: a name of rlnotes.objectives.RECIPES"""
    steps: int = 60
    """RL steps, each one rollout"""
    prompts: int = 0
    """questions per rollout, B; 0: 32 on a GPU, 4 on a CPU"""
    group_size: int = 16
    """responses per question, G"""
    length: int = 16
    """most tokens of a response"""
    epochs: int = 1
    """passes over each rollout"""
    minibatches: int = 1
    """updates per pass, each on whole groups"""
    micro_batches: int = 1
    """parts in which the gradient of an update is added up: the same gradient with less memory"""
    most_rounds: int = 8
    """rollouts that a step may sample to fill its batch, for an objective with dynamic sampling"""
    learning_rate: float = 1e-5
    """of AdamW, after warm-up"""
    warmup_updates: int = 5
    """updates over which the learning rate rises from near 0"""
    gradient_clip: float = 1.0
    """largest gradient norm"""
    temperature: float = 1.0
    """of sampling, in sampler and trainer alike"""
    paid: Paid = "right"
    """reward: 1 for a right answer; the verifier's own score; half for the form alone, one word, and half if right"""
    rollout_weights: Rounded = "float32"
    """int8, int4: sample with weights rounded in groups of 32; a mismatch on purpose"""
    spread: int = 0
    """bits of a file's own rounding: each weight is first moved at random within its cell of that grid; 0: not"""
    refresh: int = 1
    """steps after which the sampler gets the newest weights: more than 1 makes its tokens stale"""
    measure_shift: bool = False
    """report how far mu, pi before and pi after the updates of a step are apart; costs two more passes"""
    count_clipped: bool = False
    """report how likely and how uncertain the tokens are that get no gradient, and count them by name"""
    plain: bool = False
    """ask without the chat template, for a model that has none"""
    evaluate_every: int = 10
    """steps between measurements of accuracy on held-out questions, sampled and greedy; one more at start and end"""
    heldout: int = 0
    """held-out questions; 0: 512 on a GPU, 64 on a CPU"""
    seed: int = 0
    """of questions, samples and what spread moves"""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; a GPU if there is one, if not given"""

    def __post_init__(self):
        of_their_kinds(self)
        within(self, 1, "epochs", "minibatches", "micro_batches", "most_rounds", most=MANY)
        within(self, 0, "prompts", "heldout", most=MANY)
        within(self, 1, "refresh", "evaluate_every", most=MOST_STEPS)
        within(self, 2, "length", most=2**20)
        within(self, 2, "group_size", most=MANY)  # a group of one has no baseline
        within(self, 0, "steps", "warmup_updates", most=MOST_STEPS)
        within(self, 0, "spread", most=8)
        within(self, 0, "seed", most=2**62)
        within(self, COLDEST, "temperature", most=HOTTEST)
        positive(self, "learning_rate", most=1)
        positive(self, "gradient_clip")
        if self.prompts % self.minibatches:
            raise ValueError(
                f"minibatches {self.minibatches} does not divide prompts {self.prompts}: groups stay whole"
            )
        if self.prompts and self.micro_batches > self.prompts // self.minibatches:
            raise ValueError(
                f"micro_batches is {self.micro_batches}, and an update has {self.prompts // self.minibatches} groups, "
                "which stay whole; take fewer micro_batches"
            )
        if self.device is not None and not DEVICE.fullmatch(self.device):
            raise ValueError(f"device is {self.device!r}; choose cpu, cuda, or one of several by its number, cuda:1")

    def on(self, device: str) -> Self:
        """The same on ``device``, with the numbers of questions that suit it where they are 0."""
        own = {name: size for name, size in SIZES[device.partition(":")[0]].items() if not getattr(self, name)}
        return replace(self, device=device, **own)
