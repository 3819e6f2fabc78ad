"""The command line: rlnotes train | resume | sample | compare | audit | doctor."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rlnotes.doctor import doctor
from rlnotes.lm.config import TrainConfig

if TYPE_CHECKING:
    from rlnotes.lm.trainer import Trainer


@dataclass
class Train:
    """Train a tiny transformer by RL and keep the run in a folder."""

    out: Path
    """folder of the run: checkpoints, metrics.jsonl, TensorBoard files"""
    checkpoint_every: int = 20
    """steps between checkpoints"""
    config: TrainConfig = field(default_factory=TrainConfig)

    def __call__(self) -> int:
        """Start the run. Refuses a folder that already holds one."""
        from rlnotes.lm.trainer import Trainer

        if any(self.out.glob("checkpoints/step_*")):
            raise ValueError(
                f"{self.out} already holds a run; go on with it (rlnotes resume --out {self.out}) "
                "or choose another folder"
            )
        return follow(Trainer(self.config), self.out, self.checkpoint_every)


@dataclass
class Resume:
    """Go on with a run from its newest checkpoint."""

    out: Path
    """folder of the run"""
    steps: int | None = None
    """RL steps in all; the run's own number if not given"""
    checkpoint_every: int = 20
    """steps between checkpoints"""

    def __call__(self) -> int:
        """Load and go on."""
        from rlnotes.lm.trainer import Trainer

        return follow(Trainer.load(self.out / "checkpoints", steps=self.steps), self.out, self.checkpoint_every)


@dataclass
class Sample:
    """Print what a trained model answers."""

    out: Path
    """folder of the run"""
    prompts: int = 8
    """how many held-out prompts to draw"""
    seed: int = 0
    """of the prompts and of the samples"""
    temperature: float = 1.0
    """0 is greedy"""

    def __call__(self) -> int:
        """Print prompt, response and reward, one line each."""
        from rlnotes.lm.rollout import SamplingTransform
        from rlnotes.lm.trainer import Trainer

        trainer = Trainer.load(self.out / "checkpoints")
        rollout = trainer.sample(self.prompts, seed=self.seed, transform=SamplingTransform(self.temperature))
        for row, reward in enumerate(trainer.task.score(rollout).tolist()):
            prompt, response = trainer.task.text(rollout, row)
            print(f"{prompt}{response}   reward {reward:g}")
        return 0


@dataclass
class Compare:
    """Make a table behind a chapter again: several methods, paired seeds, equal sampled tokens."""

    name: tyro.conf.Positional[str]
    """a name of rlnotes.lm.comparisons.COMPARISONS"""
    out: Path
    """the table, a .csv file; runs that it holds already are not made again"""
    seeds: int = 5
    """runs of each method"""
    workers: int = 1
    """runs at the same time, each on one thread"""

    def __call__(self) -> int:
        """Make the missing runs."""
        from rlnotes.lm.compare import follow as follow_runs
        from rlnotes.lm.comparisons import COMPARISONS

        if self.name not in COMPARISONS:
            raise ValueError(f"unknown comparison {self.name!r}; choose one of {', '.join(COMPARISONS)}")
        follow_runs(COMPARISONS[self.name], self.out, self.seeds, self.workers)
        return 0


@dataclass
class Audit:
    """Try to break every bound of the course. Exit status 1 if one that is taught breaks, or a refuted one does not."""

    quick: bool = False
    """fewer trials, in about a tenth of the time"""
    csv: Path | None = None
    """file that takes the table, too"""

    def __call__(self) -> int:
        """Print a line for each bound."""
        from rlnotes.bounds.audit import FULL, QUICK, audit

        return audit(QUICK if self.quick else FULL, self.csv)


@dataclass
class Doctor:
    """Say what this machine has, what is missing, and the command that brings it."""

    def __call__(self) -> int:
        """Print the report."""
        return doctor()


def follow(trainer: "Trainer", out: Path, checkpoint_every: int) -> int:
    """Run to the end with a progress bar; say where the run is, also after an interrupt."""
    from rlnotes.lm.interrupts import HeldInterrupts
    from rlnotes.lm.progress import progress
    from rlnotes.lm.record import recorded

    interrupts = HeldInterrupts()
    try:
        with interrupts:  # the progress bar, too, must not be cut in two
            for _ in progress(recorded(trainer, out, checkpoint_every), trainer.config.steps):
                if interrupts.pending:
                    break
        interrupts.deliver()
    except KeyboardInterrupt:
        print(f"stopped after step {trainer.step}; go on with: rlnotes resume --out {out}", file=sys.stderr)
        return 130
    print(f"step {trainer.step}: held-out accuracy {trainer.evaluate():.3f}; run kept in {out}")
    return 0


COMMANDS = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Sample, tyro.conf.subcommand("sample")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Audit, tyro.conf.subcommand("audit")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
)


def main() -> int:
    """Run one command. Returns the exit status: 0, 1 for a problem that is explained, 130 for an interrupt."""
    command = tyro.cli(tyro.conf.OmitArgPrefixes[COMMANDS], prog="rlnotes", description=__doc__)
    try:
        return command()
    except (ValueError, FileNotFoundError) as error:
        print(f"rlnotes: {error}", file=sys.stderr)
        return 1
