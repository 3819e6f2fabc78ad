"""The command line: rlnotes train | resume | sample | real | compare | stability | arena | read | audit | doctor."""

import contextlib
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from rlnotes.bridge.real.config import RealConfig
from rlnotes.doctor import doctor
from rlnotes.lm.config import TrainConfig
from rlnotes.processes import world_size
from rlnotes.terminal import answer

if TYPE_CHECKING:
    from rlnotes.bridge.real.trainer import RealTrainer
    from rlnotes.lm.record import Recordable
    from rlnotes.lm.trainer import Trainer
    from rlnotes.studies.study import Study

T = TypeVar("T", bound="Trainer | RealTrainer")


@dataclass
class Train:
    """Train a tiny transformer by RL and keep the run in a folder.

    $ rlnotes train --out run --steps 2 --prompts 4 --group-size 4
    """

    out: Path
    """folder of the run: checkpoints, metrics.jsonl, TensorBoard files"""
    checkpoint_every: int = 20
    """steps between checkpoints"""
    config: TrainConfig = field(default_factory=TrainConfig)

    def __call__(self) -> int:
        """Start the run. Refuses a folder that already holds one."""
        import rlnotes.gpu  # noqa: F401  its kernels, and a step that is recorded
        from rlnotes.lm.distributed import trainer_class

        check_new(self.out)
        return follow(trainer_class()(self.config), self.out, self.checkpoint_every)


@dataclass
class Resume:
    """Go on with a run from its newest checkpoint.

    $ rlnotes resume --out run --steps 3
    """

    out: Path
    """folder of the run"""
    steps: int | None = None
    """RL steps in all; the run's own number if not given"""
    checkpoint_every: int = 20
    """steps between checkpoints"""
    device: str | None = None
    """cpu, cuda, ...: go on there; the run's own device if not given"""
    checkpoint: str | None = None
    """name of an older checkpoint to go on from, step_00000020; newer ones are then set aside"""

    def __call__(self) -> int:
        """Load and go on."""
        import rlnotes.gpu  # noqa: F401
        from rlnotes.files import sole_writer
        from rlnotes.lm.checkpoint import find_checkpoint, set_aside_after
        from rlnotes.lm.distributed import trainer_class

        trainer = loaded(real_trainer(self.out) or trainer_class(), self, steps=self.steps)
        if self.checkpoint is not None and trainer.shard.rank == 0:
            with sole_writer(self.out / "checkpoints"):
                set_aside_after(find_checkpoint(self.out / "checkpoints", self.checkpoint))
        return follow(trainer, self.out, self.checkpoint_every)


@dataclass
class Sample:
    """Print what a trained model answers.

    $ rlnotes sample --out run --prompts 2 --temperature 0
    """

    out: Path
    """folder of the run"""
    prompts: int = 8
    """how many held-out prompts to draw"""
    seed: int = 0
    """of the prompts and of the samples"""
    temperature: float = 1.0
    """0 is greedy"""
    device: str | None = None
    """cpu, cuda, ...; the run's own device if not given"""
    checkpoint: str | None = None
    """name of an older checkpoint, step_00000020; the newest if not given"""

    def __call__(self) -> int:
        """Print prompt, response and reward, one line each."""
        from rlnotes.lm.rollout import SamplingTransform
        from rlnotes.lm.trainer import Trainer

        if (real := real_trainer(self.out)) is not None:
            return self._print_text(loaded(real, self))
        trainer = loaded(Trainer, self)
        rollout = trainer.sample(self.prompts, seed=self.seed, transform=SamplingTransform(self.temperature))
        for row, reward in enumerate(trainer.task.reward(rollout).tolist()):
            prompt, response = trainer.task.text(rollout, row)
            print(f"{prompt}{response}   reward {reward:g}")
        return 0

    def _print_text(self, trainer: "RealTrainer") -> int:
        """The same of a real model, whose temperature is that of its run, or 0."""
        if self.temperature not in (0, trainer.config.temperature):
            raise ValueError(
                f"temperature is {self.temperature}; for this run 0 or {trainer.config.temperature} is possible"
            )
        for question, response, right in trainer.answers(self.prompts, greedy=self.temperature == 0, seed=self.seed):
            print(f"{question.text} {response!r}   {'right' if right else f'wrong: {question.answer}'}")
        return 0


@dataclass
class Real:
    """Train a causal language model by RL on questions whose answers can be checked, and keep the run in a folder.

    The model comes from a folder that is there; nothing is downloaded. rlnotes resume and sample take such a run, too.
    A GPU is used if there is one; on a CPU what to expect is said before it starts.

    $ rlnotes real --model model --out real --steps 1 --prompts 2 --group-size 4 --heldout 4
    """

    out: Path
    """folder of the run: checkpoints, metrics.jsonl, TensorBoard files"""
    config: RealConfig
    checkpoint_every: int = 20
    """steps between checkpoints"""

    def __call__(self) -> int:
        """Start the run. Refuses a folder that already holds one."""
        check_new(self.out)
        import rlnotes.gpu  # noqa: F401
        from rlnotes.bridge.real.trainer import RealTrainer

        trainer = RealTrainer(self.config)
        if trainer.device.type == "cpu":
            (each, measuring), times, config = trainer.expected(), trainer.measurements(), trainer.config
            whole = each * config.steps + measuring * (times + 0.5)  # the sampled accuracy once more in the end
            print(
                f"about {each:.3g} seconds a step of {config.prompts} questions on this CPU, and {measuring:.3g} for "
                f"each of {times} measurements on {config.heldout} held-out questions: {whole / 60:.1f} minutes in "
                "all; smaller: --prompts, --group-size, --heldout, and a larger --evaluate-every",
                file=sys.stderr,
            )
        return follow(trainer, self.out, self.checkpoint_every)


@dataclass
class Compare:
    """Make a table behind a chapter again: several methods, paired seeds, equal sampled tokens.

    $ rlnotes compare 15_needle --seeds 1 --out 15_needle.csv
    """

    name: tyro.conf.Positional[str]
    """a name of rlnotes.chapters.studies.COMPARISONS"""
    out: Path
    """the table, a .csv file; runs that it holds already are not made again"""
    seeds: int = 10
    """runs of each method; where learning rates are chosen first, of each at its own"""
    workers: int = 1
    """runs at the same time, each on one thread; on a GPU, batches of runs"""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; the comparison's own if not given"""

    def __call__(self) -> int:
        """Make the missing runs."""
        from rlnotes.chapters.studies import COMPARISONS
        from rlnotes.studies.runner import follow as follow_runs
        from rlnotes.studies.runner import hold

        if self.name not in COMPARISONS:
            raise ValueError(f"unknown comparison {self.name!r}; choose one of {', '.join(COMPARISONS)}")
        study = COMPARISONS[self.name]
        if self.device is not None:
            study = replace(study, base=replace(study.base, device=self.device))
        return make_table(hold if study.first else follow_runs, study, self.out, self.seeds, self.workers)


@dataclass
class Stability:
    """The stability laboratory: which objectives hold where the sampler differs from the policy that learns.

    Every objective gets the same learning rates and as many sampled tokens. Runs that ``out`` holds are not made
    again: after an interruption the same command goes on.

    $ rlnotes stability --out stability --objectives grpo sapo --rates 1e-4 --seeds 1 --tokens 1000
    """

    out: Path
    """folder of the table, its note, and the pictures"""
    objectives: tuple[str, ...] = ("pg_is", "clip_higher", "minirl", "dppo_kl", "dppo_tv")
    """names of rlnotes.studies.methods.METHODS; at most 7; the others are compared with the first"""
    mismatches: tuple[str, ...] = ("stale",)
    """names of rlnotes.studies.methods.MISMATCHES"""
    rates: tuple[float, ...] = (5e-5, 1e-4, 3e-4)
    """learning rates; that of each objective is chosen on two seeds of which nothing else is reported"""
    seeds: int = 5
    """runs of each objective at each rate, besides"""
    workers: int = 1
    """runs at the same time, each on one thread"""
    tokens: int = 184_000
    """response tokens that a run samples"""
    task: str = "sort"
    """as of rlnotes train"""
    size: int | None = 8
    """size of the task's problems; None: the task's own"""
    epochs: int = 4
    """passes over each rollout"""
    minibatches: int = 4
    """updates per pass: 1 epoch of 1 minibatch shows no difference between objectives"""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""

    def __call__(self) -> int:
        """Make the missing runs, draw, and print the verdicts."""
        from rlnotes.notebook.laboratory import check_told_apart, report
        from rlnotes.studies.runner import follow as follow_runs
        from rlnotes.studies.stability import PROTOCOL, laboratory

        check_told_apart("objectives", self.objectives)
        settings = dict(task=self.task, size=self.size, epochs=self.epochs, minibatches=self.minibatches)
        base = replace(PROTOCOL, device=self.device, count_clipped=True, **settings)
        study = laboratory(self.objectives, self.mismatches, self.rates, base=base, tokens=self.tokens)
        return make_and_tell(follow_runs, study, self.out, self.seeds, self.workers, report)


@dataclass
class Arena:
    """The arena: every recipe on every task, at equal sampled tokens, paired seeds and the same learning rates.

    Each recipe's learning rate is chosen for each task on three seeds of which nothing else is reported; the seeds that
    are reported are run at that rate. Runs that ``out`` holds are not made again: after an interruption the same
    command goes on.

    $ rlnotes arena --out arena --recipes grpo rloo --tasks needle --rates 1e-4 --seeds 2 --tokens 100
    """

    out: Path
    """folder of the table, its note, and the pictures"""
    recipes: tuple[str, ...] = ()
    """names of rlnotes.objectives.RECIPES; the others are compared with the first; all of them, with grpo, if none"""
    tasks: tuple[str, ...] = ()
    """names of rlnotes.studies.arena.ARENA_TASKS; all of them if none"""
    rates: tuple[float, ...] = (5e-5, 1.5e-4, 5e-4)
    """learning rates"""
    seeds: int = 10
    """runs of each recipe on each task at its own rate, besides those for tuning; at least 2"""
    workers: int = 1
    """runs at the same time, each on one thread; on a GPU, batches of runs"""
    tokens: int | None = None
    """response tokens that a run samples; each task's own number if not given"""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..."""

    def __call__(self) -> int:
        """Make the missing runs, draw, and print the ranking and what may be concluded."""
        from rlnotes.notebook.arena import report
        from rlnotes.studies.arena import ARENA_TASKS, EVERY, arena, try_out
        from rlnotes.studies.runner import hold
        from rlnotes.studies.scores import tuned

        if self.seeds < 2:
            raise ValueError(f"seeds is {self.seeds}; an interval needs at least 2 runs")
        if len(self.recipes) == 1:
            raise ValueError(f"recipes is {self.recipes}; name a second one to compare it with, or none for all")
        tasks = self.tasks or tuple(ARENA_TASKS)
        study = arena(self.recipes or EVERY, tasks, self.rates, tokens=self.tokens, device=self.device)
        try_out(study)
        return make_and_tell(partial(hold, best=tuned), study, self.out, self.seeds, self.workers, report)


@dataclass
class Read:
    """Read a run's log (TRL, verl, OpenRLHF, slime, rlnotes): what is wrong, by which number, what to check first.

    At most ten findings, each with its steps, values and rule; then what the log does not let it judge. Nothing is
    sent anywhere.

    $ rlnotes read run --html run.html
    """

    log: tyro.conf.Positional[Path]
    """a file (trainer_state.json, a console's text, .jsonl, .csv) or a folder (of a run, of TensorBoard)"""
    config: Path | None = None
    """the run's settings: JSON, YAML, or its command line as text; some rules need them"""
    html: Path | None = None
    """file that takes one page with the curves, too"""

    def __call__(self) -> int:
        """Print the report."""
        from rlnotes.files import check_place, replace_text
        from rlnotes.logs import read

        if self.html is not None:
            check_place(self.html)
        report = read(self.log, self.config)
        if self.html is not None:
            replace_text(self.html, report.page())
        print(report.text())
        return 0


@dataclass
class Audit:
    """Try to break every bound of the course. Exit status 1 if one that is taught breaks, or a refuted one does not.

    $ rlnotes audit --quick --csv audit.csv
    """

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
    """Say what this machine has, what is missing, and the command that brings it.

    $ rlnotes doctor
    """

    def __call__(self) -> int:
        """Print the report."""
        return doctor()


Command = Train | Resume | Sample | Real | Compare | Stability | Arena | Read | Audit | Doctor
Making = Callable[["Study", Path, int, int], None]  # of a study, its table, seeds, workers: the missing runs


def make_and_tell(
    make: Making, study: "Study", out: Path, seeds: int, workers: int, report: Callable[[Path], Iterable[str]]
) -> int:
    """:func:`make_table` in the folder ``out``; then draw and print what ``report`` says of it."""
    if status := make_table(make, study, out / "table.csv", seeds, workers):
        return status
    for line in report(out):
        print(line)
    return 0


def check_new(out: Path) -> None:
    """Raise ``ValueError`` if ``out`` holds a run."""
    if any(out.glob("checkpoints/step_*")):
        raise ValueError(
            f"{out} already holds a run; go on with it (rlnotes resume --out {out}) or choose another folder"
        )


def real_trainer(out: Path) -> "type[RealTrainer] | None":
    """The trainer of the run in ``out`` if that is one of a real model."""
    from rlnotes.lm.checkpoint import is_of_text

    if not is_of_text(out / "checkpoints"):
        return None
    from rlnotes.bridge.real.trainer import RealTrainer

    return RealTrainer


def loaded(trainer: "type[T]", command: Resume | Sample, steps: int | None = None) -> "T":
    """The trainer of ``command``. If its checkpoint is broken, the error has the command that takes the older one."""
    from rlnotes.lm.checkpoint import BrokenCheckpoint

    folder, device = command.out / "checkpoints", command.device
    try:
        return trainer.load(folder, steps=steps, device=device, checkpoint=command.checkpoint)
    except BrokenCheckpoint as error:
        words = ["rlnotes", type(command).__name__.lower(), "--out", str(command.out)]
        words += ["--device", device] * (device is not None)
        line = shlex.join([*words, "--checkpoint", str(error.older)])
        raise ValueError(f"{error.wrong}; {error.way_out(line)}") from error


def make_table(make: Making, study: "Study", table: Path, seeds: int, workers: int) -> int:
    """Make the missing runs with a progress bar; say what there is, also after an interrupt."""
    try:
        make(study, table, seeds, workers)
    except KeyboardInterrupt:
        print(f"stopped; the runs that had ended are in {table}: the same command goes on", file=sys.stderr)
        return 130
    return 0


def follow(trainer: "Recordable", out: Path, checkpoint_every: int) -> int:
    """Run to the end with a progress bar; say where the run is, also after an interrupt.

    Several processes stop after the same step, whichever was interrupted first; rank 0 speaks.
    """
    from rlnotes.lm.interrupts import HeldInterrupts
    from rlnotes.lm.progress import progress
    from rlnotes.lm.record import recorded

    if trainer.shard.rank == 0 and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        print(f"interrupts are ignored, as who started this asked; kill {os.getpid()} ends it", file=sys.stderr)
    interrupts = HeldInterrupts()
    try:
        with interrupts:  # the progress bar, too, must not be cut in two
            for _ in progress(recorded(trainer, out, checkpoint_every), trainer.config.steps):
                if trainer.shard.any(interrupts.pending):
                    interrupts.pending = True  # somebody's
                    break
        interrupts.deliver()
    except KeyboardInterrupt:
        if trainer.shard.rank == 0:
            print(f"stopped after step {trainer.step}; go on with: rlnotes resume --out {out}", file=sys.stderr)
        return 130
    if trainer.shard.rank == 0:
        print(f"step {trainer.step}: held-out accuracy {trainer.evaluate():.3f}; run kept in {out}")
    return 0


COMMANDS = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Sample, tyro.conf.subcommand("sample")]
    | Annotated[Real, tyro.conf.subcommand("real")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Stability, tyro.conf.subcommand("stability")]
    | Annotated[Arena, tyro.conf.subcommand("arena")]
    | Annotated[Read, tyro.conf.subcommand("read")]
    | Annotated[Audit, tyro.conf.subcommand("audit")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, of ``sys.argv`` or of ``arguments``. Returns the exit status: 0; 1 for a finding of audit or
    doctor; 2 for a problem, which one line on stderr explains; 130 for an interrupt.
    """
    return answer(partial(run, arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """:func:`main`, where somebody else tells what is raised."""
    try:
        command = parsed(arguments)
    except SystemExit:  # it has shown its help
        return 0
    if world_size() > 1 and not isinstance(command, Train | Resume):
        raise ValueError(
            f"WORLD_SIZE is {world_size()} in the environment, as torchrun sets it for processes that share train or "
            "resume; this command is for one process: start it directly, or unset WORLD_SIZE"
        )
    return command()


def parsed(arguments: Sequence[str] | None) -> Command:
    """The command with its options. Raises ``ValueError`` for what is no command, and ``SystemExit`` after --help."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(tyro.conf.OmitArgPrefixes[COMMANDS], prog="rlnotes", description=__doc__, args=arguments)
    except SystemExit as stopped:
        if not stopped.code:
            raise
        raise ValueError(_without_frame(said.getvalue())) from None
    except AssertionError as error:  # an unknown shell after --tyro-print-completion
        raise ValueError(str(error)) from error


def _without_frame(box: str) -> str:
    """What tyro says in a box of several parts and lines, as one sentence, but for its last part: where the help is."""
    title, *lines = (line.strip(" │") for line in _COLOURS.sub("", box).splitlines())
    parts = _RULE.split("\n".join(lines))
    said = [text for part in parts if (text := " ".join(part.split()))]
    return _INNER.sub("", "; ".join(said[:-1]) or title)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RULE = re.compile(r"^[─╰╯-]+$", re.MULTILINE)
_INNER = re.compile(r"^Error parsing __tyro-dummy-inner__\S*: ")  # of settings together, whose error names one itself
