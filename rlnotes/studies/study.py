"""What a study is: methods x tasks x mismatches x rates x seeds, on equal terms, written down before it is run."""

import json
import platform
from collections.abc import Container, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnotes.lm.config import MANY, TrainConfig
from rlnotes.lm.learner import needed
from rlnotes.objectives import Choices
from rlnotes.settings import within
from rlnotes.studies.tables import canonical

MOST_TOKENS = 10**10  # more are a typing error: days of a GPU
METRICS = (
    *(
        "reward",
        "accuracy",
        "greedy",
        "length",
        "length_wrong",
        "entropy",
        "gradient_norm",
        "no_gradient",
        "wasted_groups",
    ),
    *("truncated", "mismatch", "rounds", "staleness", "update_shift", "lag", "ess_sequence"),
    *("bad_updates", "clipped_probability", "clipped_entropy"),
)


@dataclass(frozen=True)
class Method:
    """An objective, and what of the common settings it changes.

    ``labels`` are columns of the table that say the same as the method's name, one thing each: to sort and select by.
    ``tokens`` is its own number of response tokens, where methods of one study are tried on different tasks. ``price``
    is what a nat of KL to the reference costs in the metric ``penalised``, whatever the objective does about it.
    """

    choices: Choices
    changes: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    tokens: int | None = None
    price: float = 0.0


@dataclass(frozen=True)
class Study:
    """What is compared, and on what terms.

    Every method samples ``tokens`` response tokens, or its own number, give or take its last step. Runs with the same
    seed start from the same weights and are asked the same prompts in the same order, as long as they sample equally
    often.
    """

    question: str
    base: TrainConfig
    methods: Mapping[str, Method]
    tokens: int
    evaluate_every: int = 5
    """steps between measurements of ``accuracy``, on ``prompts_evaluated`` held-out prompts"""
    prompts_evaluated: int = 512
    record_every: int = 1
    """steps between rows of the table, so that a long study makes a small file"""
    tuning_seeds: tuple[int, ...] = ()
    """seeds of runs from which settings are chosen, and of which nothing is reported; the others count from 0"""
    metrics: tuple[str, ...] = METRICS
    """columns of the table besides method, seed, step and tokens"""
    starts: int = 1
    """warm starts among which the seeds go round: runs of one start are a cluster"""
    first: tuple[str, ...] = ()
    """learning rates, by their labels, that are tried first, and others only if need be; none: all are tried"""
    margin: float | None = None
    """two methods whose mean ``score`` differs by less are alike: stated before the runs are made"""
    score: str = "accuracy"
    """the metric by which learning rates are chosen"""

    def __post_init__(self):
        within(self, 1, "tokens", most=MOST_TOKENS)
        within(self, 1, "evaluate_every", "prompts_evaluated", "record_every", "starts", most=MANY)
        if self.score not in self.metrics:
            raise ValueError(f"score is {self.score!r}, which is no column of the table; add it to metrics")
        for method in self.methods.values():
            if method.tokens is not None:
                within(method, 1, "tokens", most=MOST_TOKENS)

    def check(self) -> None:
        """Raise ``ValueError`` for a method that cannot be run, before anything is written."""
        for name, method in self.methods.items():
            try:
                needed(self.config(name, self.starts - 1), choices=method.choices)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

    def config(self, method: str, seed: int) -> TrainConfig:
        """The settings of one run."""
        return replace(self.base, seed=seed, start=seed % self.starts, **self.methods[method].changes)

    def tokens_of(self, method: str) -> int:
        """Response tokens of one run: the study's, unless the method has a number of its own."""
        own = self.methods[method].tokens
        return self.tokens if own is None else own


class Setting(NamedTuple):
    """A task, or what makes mu differ from pi: what it changes of the common settings, and tokens of its own."""

    changes: Mapping[str, Any]
    tokens: int | None = None


def crossed(
    recipes: Mapping[str, Choices], what: str, settings: Mapping[str, Setting], rates: Sequence[float]
) -> dict[str, Method]:
    """Every recipe in every setting at every learning rate. ``what`` the settings are, "task" or "rollout", names
    their column of the table.

    A method is called ``"dppo_tv, int4 1e-4"``, and its labels are ``recipe``, ``what`` and ``rate``.
    """
    return {
        f"{recipe}, {name} {rate}": Method(
            choices,
            {**setting.changes, "learning_rate": float(rate)},
            {"recipe": recipe, what: name, "rate": rate},
            setting.tokens,
        )
        for name, setting in settings.items()
        for recipe, choices in recipes.items()
        for rate in map(short, rates)
    }


def short(rate: float) -> str:
    """A learning rate as it is written: 0.0003 is 3e-4."""
    return np.format_float_scientific(rate, trim="-", exp_digits=1)


def check_choice(what: str, chosen: Sequence[Any], known: Mapping[str, object] | None) -> None:
    """Raise ``ValueError`` if ``chosen`` is empty, names something twice, or holds what is not in ``known``."""
    if not chosen:
        raise ValueError(f"{what} is empty; name at least one")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"{what} is {tuple(chosen)} and names one twice")
    if unknown := [] if known is None else [name for name in chosen if name not in known]:
        raise ValueError(f"unknown in {what}: {unknown[0]!r}; choose from {', '.join(known or ())}")


# --- The note beside a table


def describe(study: Study) -> dict[str, Any]:
    """What somebody needs to know to make the table again."""
    methods: dict[str, dict[str, Any]] = {}
    for name, method in study.methods.items():
        methods[name] = dict(choices=described(method.choices), changes=_plain(method.changes))
        if method.tokens is not None:
            methods[name]["tokens"] = method.tokens
        if method.price:
            methods[name]["price"] = method.price
    made_of: dict[str, Any] = dict(question=study.question, base=_plain(asdict(study.base)), methods=methods)
    made_of["tokens"] = study.tokens
    for name in ("tuning_seeds", "first", "starts", "margin", "score"):  # a table outlives an option it does not use
        if (value := getattr(study, name)) not in ((), 1, None, "accuracy"):
            made_of[name] = list(value) if isinstance(value, tuple) else value
    machine: dict[str, Any] = dict(
        python=platform.python_version(), torch=torch.__version__, processor=platform.machine()
    )
    if study.base.device.startswith("cuda") and torch.cuda.is_available():
        machine["card"] = torch.cuda.get_device_name(torch.device(study.base.device))
    return dict(comparison=made_of, machine=machine)


def compared(note: dict[str, Any], known: Container[str] = ()) -> dict[str, Any]:
    """What a table's note says was compared. A setting that is younger than the note stands at its default: off; an
    older name of a method, if it is none of the ``known``, is told by its present one.
    """
    made_of = note["comparison"]
    base = _plain(asdict(TrainConfig())) | made_of["base"]
    return made_of | dict(base=base, methods={canonical(name, known): own for name, own in made_of["methods"].items()})


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file gives them back: lists for tuples."""
    return json.loads(json.dumps(dict(settings)))


def described(part: object) -> str:
    """An objective or a part of it as text, functions by their names. What is no number and stands at its default is
    left out, so that a table outlives a new option; numbers are all told.
    """
    if isinstance(part, tuple):
        return f"({', '.join(map(described, part))})"
    if is_dataclass(part):
        shown = {own.name: getattr(part, own.name) for own in fields(part) if _is_told(part, own)}
        return f"{type(part).__name__}({', '.join(f'{name}={described(value)}' for name, value in shown.items())})"
    return getattr(part, "__name__", repr(part))


def _is_told(part: object, own: Field) -> bool:
    value = getattr(part, own.name)
    return value != own.default or (isinstance(value, int | float) and bool(value))
