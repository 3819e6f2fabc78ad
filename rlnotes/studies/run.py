"""One run of a study: its rows, as it goes on and to its end."""

from collections.abc import Callable
from typing import Any

import torch

from rlnotes.estimators.divergences import kl
from rlnotes.lm.config import Metrics
from rlnotes.lm.lora import merged
from rlnotes.lm.report import ClippedTokens
from rlnotes.lm.rollout import SamplingTransform
from rlnotes.lm.sampler import response_logits
from rlnotes.lm.trainer import Trainer
from rlnotes.studies.study import Study

Row = dict[str, Any]  # a line of a table: metrics, or counts of a clipped token
ACCURACIES = dict(accuracy=None, greedy=SamplingTransform(temperature=0))  # on held-out prompts: sampled, likeliest


def run(study: Study, method: str, seed: int) -> list[Row]:
    """One run: a row for its start, with ``step`` 0, and one for each recorded. ``ACCURACIES`` may be missing between.

    An objective with a penalty also has ``kl_reference`` and ``penalised``, the accuracy less its price.
    A run whose weights or gradient are no finite numbers any more is lost: its accuracies are 0 from there to its end.
    With ``count_clipped`` rows follow on the tokens clipped most often over the whole run.
    """
    trainer = Trainer(study.config(method, seed), choices=study.methods[method].choices)
    for _ in trainer.run(steps=0):  # the warm start, where no weights are shipped
        pass

    def measure() -> Metrics:
        found = {name: trainer.evaluate(study.prompts_evaluated, transform=how) for name, how in ACCURACIES.items()}
        if trainer.reference is not None:
            found["kl_reference"] = to_reference(trainer, study.prompts_evaluated)
            found["penalised"] = found["accuracy"] - study.methods[method].price * found["kl_reference"]
        return found

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


@torch.no_grad()
def to_reference(trainer: Trainer, prompts: int) -> float:
    """KL(pi, reference) of whole responses, in nats: one response of pi to each of ``prompts`` held-out prompts, and at
    each of its tokens the divergence over the whole vocabulary, which are summed up.
    """
    assert trainer.reference is not None
    rollout = trainer.sample(prompts)
    models = (merged(trainer.model), trainer.reference)
    pi, ref = (trainer.transform.log_probs(response_logits(model, rollout)) for model in models)
    return (kl(pi, ref) * rollout.mask).sum(-1).mean().item()


class Curve:
    """The rows of one run, as it goes on; the first is its start, with ``step`` 0 and its ``accuracies``."""

    def __init__(self, study: Study, method: str, accuracies: Metrics):
        self.study, self.budget, self.price = study, study.tokens_of(method), study.methods[method].price
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
        """End where ``trainer`` cannot go on: nothing is right from here to the last token, and it is as far from its
        reference as when that was last measured.
        """
        self.ended = True
        found: Row = dict.fromkeys(ACCURACIES, 0.0)
        if (
            far := next((row["kl_reference"] for row in reversed(self.rows) if "kl_reference" in row), None)
        ) is not None:
            found |= dict(kl_reference=far, penalised=-self.price * far)
        for tokens in (trainer.tokens, max(trainer.tokens, self.budget)):
            self.rows.append(dict(step=trainer.step, tokens=tokens) | found)
