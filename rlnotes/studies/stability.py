"""The stability laboratory: objectives x mismatches x learning rates x seeds, after 004 appendix D.1, scaled down.

What is kept of its protocol: a set of tasks that the start policy can solve, several updates on each rollout, a sampler
that differs from the trainer all along, one advantage and one aggregation for all, equal sampled tokens. What is small:
a transformer of 0.1 M parameters, responses of 9 tokens, learning rates a hundred times larger. Every objective gets
the same learning rates, and its own is chosen on seeds of which nothing else is reported.
"""

from collections.abc import Sequence

from rlnotes.lm.config import TrainConfig
from rlnotes.studies.methods import METHODS, MISMATCHES
from rlnotes.studies.study import Setting, Study, check_choice, crossed
from rlnotes.studies.tables import canonical

TUNING_SEEDS = (100, 101)
RATES = (5e-5, 1e-4, 3e-4)
PROTOCOL = TrainConfig(task="sort", size=8, epochs=4, minibatches=4)


def laboratory(
    objectives: Sequence[str],
    mismatches: Sequence[str],
    rates: Sequence[float] = RATES,
    *,
    question: str = "Which objectives are stable under which mismatch?",
    base: TrainConfig = PROTOCOL,
    tokens: int = 184_000,
    tuning_seeds: tuple[int, ...] = TUNING_SEEDS,
    evaluate_every: int = 8,
    record_every: int = 8,
) -> Study:
    """Every objective under every mismatch at every learning rate, as one :class:`Study`.

    ``objectives`` are names of ``METHODS``, ``mismatches`` of ``MISMATCHES``. A method of the study is called
    ``"dppo_tv, int4 1e-4"``, and its labels are ``recipe``, ``rollout`` and ``rate``. Raises ``ValueError`` naming a
    name that is unknown, and an empty or repeated choice.
    """
    objectives = [canonical(name, METHODS) for name in objectives]
    asked = (("objectives", objectives, METHODS), ("mismatches", mismatches, MISMATCHES), ("rates", rates, None))
    for what, chosen, known in asked:
        check_choice(what, chosen, known)
    named = {name: METHODS[name] for name in objectives}
    return Study(
        question=question,
        base=base,
        methods=crossed(named, "rollout", {name: Setting(MISMATCHES[name]) for name in mismatches}, rates),
        tokens=tokens,
        evaluate_every=evaluate_every,
        record_every=record_every,
        tuning_seeds=tuning_seeds,
    )
