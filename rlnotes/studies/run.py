"""One run of a study: its rows, as it goes on and to its end."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rlnotes.lm.config import Metrics
from rlnotes.lm.report import ClippedTokens
from rlnotes.lm.trainer import Trainer
from rlnotes.studies.study import Study

Row = dict[str, Any]  # a line of a table: metrics, or counts of a clipped token


def run(study: Study, method: str, seed: int) -> list[Row]:
    """One run: a row for its start, with ``step`` 0, and one for each recorded. ``accuracy`` may be missing between.

    A run whose weights or gradient are no finite numbers any more is lost: ``accuracy`` is 0 from there to its end.
    With ``count_clipped`` rows follow on the tokens clipped most often over the whole run.
    """
    trainer = Trainer(study.config(method, seed), choices=study.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass
    measure = partial(trainer.evaluate, study.prompts_evaluated)
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
    """The rows of one run, as it goes on; the first is its start, with ``step`` 0 and its ``accuracy``."""

    def __init__(self, study: Study, method: str, accuracy: float):
        self.study, self.budget = study, study.tokens_of(method)
        self.rows: list[Row] = [dict(step=0, tokens=0, accuracy=accuracy)]
        self.ended = False

    def take(self, trainer: Trainer, metrics: Metrics, measure: Callable[[], float]) -> None:
        """Go on by a step of ``trainer``. ``measure`` gives its accuracy, if that is due."""
        self.ended = trainer.tokens >= self.budget
        if self.ended or trainer.step % self.study.evaluate_every == 0:
            metrics["accuracy"] = measure()
        if self.ended or trainer.step % self.study.record_every == 0:
            self.rows.append(metrics)

    def lose(self, trainer: Trainer) -> None:
        """End where ``trainer`` cannot go on: accuracy 0 from here to the last token."""
        self.ended = True
        for tokens in (trainer.tokens, max(trainer.tokens, self.budget)):
            self.rows.append(dict(step=trainer.step, tokens=tokens, accuracy=0.0))
