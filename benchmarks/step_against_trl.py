"""How long is one RL step? rlnotes beside TRL's GRPOTrainer, and beside its own sampler without a KV cache.

Everything runs in one process, on one thread, in turns: each round is a block of consecutive steps of every contender,
so that a busy moment of the machine hits all of them. The first step of a block finds the processor's caches full of
another contender's work, as no step of a training run does, and is left out. All see the same prompts: sort eight
letters, G = 16, at most nine tokens.

Counted, rlnotes (``Trainer.rl_step``): drawing the prompts, prefill, sampling, exact-match reward, advantages, loss,
backward, clipping, AdamW, and the step's metrics.

Counted, TRL (from ``on_step_begin`` to ``on_step_end``): tokenising the prompts, generation, exact-match reward,
advantages, loss, backward, clipping, AdamW, and the metrics that TRL always computes.

Not counted, either: imports, building trainers and models, warm starts, the first rounds. For TRL, nor: the data
loader, logging, saving, progress bars. TRL computes in float32, as rlnotes does. It is measured twice: as it comes,
with gradient checkpointing on, and with that switched off, since it saves memory that is not short here and costs time.

Both policies start from a short supervised warm start, because with random weights every reward is 0 and rlnotes
would skip the backward pass. During the measurement the learning rate is too small to move them: a policy that
improves would change the lengths and the number of groups without a gradient, which rlnotes leaves out and TRL does
not. The share of such groups is in the result. rlnotes runs each prompt once per group where TRL runs it once per
response; the numbers are the same, and that is part of what is measured. So is that the models differ in kind: same
width, depth, heads and vocabulary, nearly the same number of parameters, but Qwen2 has rotary positions and SwiGLU.
"""

import statistics
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from benchmarks.common import THREADS, Clock, Environment, Json, go_offline, ratio, require_trl, spread, write_result
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.sampler import Sampler
from rlnotes.lm.shard import ALONE, Shard
from rlnotes.lm.tasks import ExactMatchTask, Sort
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.versions import Snapshots

NAME = "step_against_trl"
SIZE, GROUP = 8, 16
BLOCK = 5  # consecutive steps of one contender
ROUNDS = {128: 12, 512: 5}  # sequences per step: blocks of each contender, the first of them to warm up
GOAL: Json = {"128 sequences, TRL as it comes": 5, "512 sequences, TRL as it comes": 4}
STILL = 1e-8  # learning rate
WARM_TARGET = 0.35
PROMPT_SEED = 7


class CachelessSampler(Sampler):
    """The sampler without a KV cache: a full forward pass over prompt and response for every token.

    Same distribution, same noise, same stopping as the real one, so a seed gives the same tokens.
    """

    @torch.no_grad()
    def sample(
        self,
        model: Transformer,
        prompts: Tensor,
        group_size: int,
        generator: torch.Generator,
        version: int = 0,
        prompt_mask: Tensor | None = None,
        past: Snapshots | None = None,
        shard: Shard = ALONE,
    ) -> Rollout:
        """As :meth:`Sampler.sample`, for prompts without pads, by the newest weights, in one process."""
        if prompt_mask is not None or shard != ALONE:
            raise ValueError("this sampler takes prompts of one width, in one process: leave prompt_mask and shard out")
        sequences = prompts.repeat_interleave(group_size, 0)
        n, p = sequences.shape
        logp = torch.zeros(n, self.max_length)
        done = torch.zeros(n, dtype=torch.bool)
        for t in range(self.max_length):
            # the head runs on the last position only: without that the comparison would flatter the cache
            state = model.hidden(sequences, torch.arange(p + t))[:, -1]
            log_probs = self.transform.log_probs(model.head(state))
            noise = torch.empty_like(log_probs).exponential_(generator=generator)
            token = (log_probs - noise.log()).argmax(-1).where(~done, self.eos)
            logp[:, t] = log_probs.gather(-1, token[:, None])[:, 0].where(~done, 0.0)
            sequences = torch.cat([sequences, token[:, None]], 1)
            done = done | (token == self.eos)
            if bool(done.all()):
                break
        tokens = torch.full((n, self.max_length), self.eos)
        tokens[:, : sequences.shape[1] - p] = sequences[:, p:]
        return Rollout(
            prompts=prompts,
            group=torch.arange(len(prompts)).repeat_interleave(group_size),
            tokens=tokens,
            mask=response_mask(tokens, self.eos),
            logp_behavior=logp,
            version=torch.full_like(tokens, version),
            transform=self.transform,
        )


def make_trainer(sequences: int, cache: bool) -> Trainer:
    """A warm rlnotes trainer whose weights stay still, about to draw the prompts that TRL gets too."""
    config = TrainConfig(task="sort", size=SIZE, prompts=sequences // GROUP, group_size=GROUP, threads=THREADS)
    trainer = Trainer(config)
    while not trainer.warm:  # without shipped weights
        trainer.warm_step()
    trainer.config = replace(config, learning_rate=STILL)
    if not cache:
        sampler = trainer.sampler
        trainer.sampler = CachelessSampler(sampler.max_length, sampler.eos, sampler.transform)
    trainer.data_generator.manual_seed(PROMPT_SEED)
    return trainer


def prompts_of_all_steps(task: ExactMatchTask, sequences: int, steps: int) -> Tensor:
    """The prompts (steps * B, P) that a trainer from :func:`make_trainer` will draw, in order."""
    generator = torch.Generator().manual_seed(PROMPT_SEED)
    return torch.cat([task.sample(sequences // GROUP, generator).prompts for _ in range(steps)])


@dataclass
class Rlnotes:
    """rlnotes' contenders: a step with and without cache, and the rollout alone with and without."""

    sequences: int
    clocks: dict[str, Clock] = field(default_factory=dict)
    seen: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self):
        self.trainer = make_trainer(self.sequences, cache=True)
        self.cacheless = make_trainer(self.sequences, cache=False)
        self.clocks = {name: Clock() for name in ("rlnotes", "no_cache", "rollout", "rollout_no_cache")}
        self.rollout_generator = torch.Generator().manual_seed(PROMPT_SEED)

    def round(self) -> None:
        """One block of each."""
        for _ in range(BLOCK):
            self.seen.append(self.clocks["rlnotes"].time(self.trainer.rl_step))
        for _ in range(BLOCK):
            self.clocks["no_cache"].time(self.cacheless.rl_step)
        drawn = [
            self.trainer.task.sample(self.sequences // GROUP, self.rollout_generator).prompts for _ in range(BLOCK)
        ]
        rollouts = {name: [self._rollout(name, p) for p in drawn] for name in ("rollout", "rollout_no_cache")}
        for with_cache, without in zip(rollouts["rollout"], rollouts["rollout_no_cache"], strict=True):
            same = (with_cache.tokens == without.tokens).float().mean().item()
            if same < 0.999:  # rounding may turn a token in a million
                raise RuntimeError(f"the samplers agree on {same:.1%} of the tokens: one of them is wrong")

    def _rollout(self, name: str, prompts: Tensor) -> Rollout:
        trainer = self.trainer if name == "rollout" else self.cacheless
        generator = torch.Generator().manual_seed(len(self.clocks[name].timings))
        return self.clocks[name].time(lambda: trainer.sampler.sample(trainer.model, prompts, GROUP, generator))

    def summary(self) -> Json:
        """Means over the rounds of what the steps saw."""
        return {name: statistics.mean(m[name] for m in self.seen) for name in ("reward", "length", "wasted_groups")}


def compare(sequences: int, rounds: int, checkpointing: bool) -> Json:
    """All contenders at one number of sequences per step; TRL with or without gradient checkpointing."""
    from benchmarks.trl_peer import run_trl  # late: TRL is optional and slow to import

    ours, steps, task = Rlnotes(sequences), BLOCK * rounds, Sort(SIZE)
    prompts = prompts_of_all_steps(task, sequences, steps)
    peer = run_trl(task, prompts, GROUP, steps, STILL, WARM_TARGET, checkpointing, BLOCK, ours.round)
    clocks = {"trl": peer.clock, **ours.clocks}
    return dict(
        blocks=rounds - 1,
        steps_per_block=BLOCK - 1,
        seconds={name: seconds(clock) for name, clock in clocks.items()},
        ratios={
            "trl / rlnotes": ratios(clocks["trl"], clocks["rlnotes"]),
            "no_cache / rlnotes": ratios(clocks["no_cache"], clocks["rlnotes"]),
            "rollout_no_cache / rollout": ratios(clocks["rollout_no_cache"], clocks["rollout"]),
        },
        samples=dict(trl=peer.batch, rlnotes=ours.summary()),
        parameters=dict(trl=peer.parameters, rlnotes=ours.trainer.model.n_parameters),
        objective=peer.objective,
    )


def steady(clock: Clock, kind: str) -> list[float]:
    """Seconds of the steps that count: not the first block, and not the first step of a block."""
    return [value for i, value in enumerate(clock.seconds(kind)) if i >= BLOCK and i % BLOCK]


def seconds(clock: Clock) -> Json:
    """CPU and wall seconds of a step."""
    return {kind: spread(steady(clock, kind)) for kind in ("cpu", "wall")}


def ratios(slow: Clock, fast: Clock) -> Json:
    """How many times longer ``slow`` takes, in CPU seconds and on the wall clock."""
    return {kind: ratio(steady(slow, kind), steady(fast, kind)) for kind in ("cpu", "wall")}


def main() -> None:
    require_trl()
    go_offline()
    environment = Environment(f"python -m benchmarks.{NAME}")
    torch.set_num_threads(THREADS)
    numbers: Json = {}
    for sequences, rounds in ROUNDS.items():
        for checkpointing in (True, False):
            row = f"{sequences} sequences, TRL " + ("as it comes" if checkpointing else "without checkpointing")
            numbers[row] = compare(sequences, rounds, checkpointing)
            for name, found in numbers[row]["ratios"].items():
                cpu, wall = found["cpu"]["of_medians"], found["wall"]["of_medians"]
                print(f"{row}, {name}: {cpu:.2f} in CPU seconds, {wall:.2f} in wall seconds")
    write_result(NAME, GOAL, numbers, environment)


if __name__ == "__main__":
    main()
