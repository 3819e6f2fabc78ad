"""One run of a study: its rows, as it goes on and to its end."""

from collections.abc import Callable
from typing import Any

from rlnotes.lm.config import Metrics
from rlnotes.lm.report import ClippedTokens
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.trainer import Trainer
from rlnotes.studies.study import Study

Row = dict[str, Any]  # a line of a table: metrics, or counts of a clipped token
ACCURACIES = dict(accuracy=None, greedy=SamplingTransform(temperature=0))  # on held-out prompts: sampled, likeliest


def run(study: Study, method: str, seed: int) -> list[Row]:
    """One run: a row for its start, with ``step`` 0, and one for each recorded. ``ACCURACIES`` may be missing between.

    A run whose weights or gradient are no finite numbers any more is lost: they are 0 from there to its end.
    With ``count_clipped`` rows follow on the tokens clipped most often over the whole run.
    """
    trainer = Trainer(study.config(method, seed), choices=study.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass

    def measure() -> Metrics:
        return {name: trainer.evaluate(study.prompts_evaluated, transform=how) for name, how in ACCURACIES.items()}

    curve = Curve(study, method, measure())
    clipped = ClippedTokens(len(trainer.task.vocabulary))
    try:
        for metrics in trainer.run(steps=10**9):
            if trainer.clipped is not None:
                clipped += trainer.clipped
            curve.take(trainer, metrics, measure)
            if curve.ended:
                break
    except ValueError:
        if trainer.step == 0:  # not even one step: the settings are wrong
            raise
        curve.lose(trainer)
    end = dict(step=trainer.step, tokens=curve.rows[-1]["tokens"])
    reported = seed not in study.tuning_seeds
    return curve.rows + [end | row for row in clipped.rows(trainer.task.vocabulary.names) if reported]


class Curve:
    """The rows of one run, as it goes on; the first is its start, with ``step`` 0 and its ``accuracies``."""

    def __init__(self, study: Study, method: str, accuracies: Metrics):
        self.study, self.budget = study, study.tokens_of(method)
        self.rows: list[Row] = [dict(step=0, tokens=0) | accuracies]
        self.ended = False

    def take(self, trainer: Trainer, metrics: Metrics, measure: Callable[[], Metrics]) -> None:
        """Go on by a step of ``trainer``. ``measure`` gives its accuracies, if that is due."""
        self.ended = trainer.tokens >= self.budget
        if self.ended or trainer.step % self.study.evaluate_every == 0:
            metrics |= measure()
        if self.ended or trainer.step % self.study.record_every == 0:
            self.rows.append(metrics)

    def lose(self, trainer: Trainer) -> None:
        """End where ``trainer`` cannot go on: nothing is right from here to the last token."""
        self.ended = True
        for tokens in (trainer.tokens, max(trainer.tokens, self.budget)):
            self.rows.append(dict(step=trainer.step, tokens=tokens) | dict.fromkeys(ACCURACIES, 0.0))
