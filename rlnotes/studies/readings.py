"""What a table of the stability laboratory says of each objective: numbers seed by seed, leads, and what is clipped."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlnotes.studies.tables import Table
from rlnotes.studies.verdicts import Interval, Verdict, judge, median_interval, paired_interval


def runs(
    table: Table, objective: str, rollout: str, rate: str = "", what: str = "mean", metric: str = "accuracy"
) -> np.ndarray:
    """One number for each reported seed, (seeds,), at the learning rate ``rate``, or at the one that was tuned: of the
    measurements after the start the "mean", the mean of the "last" three, or that of the "early" third.
    """
    method = f"{objective}, {rollout} {rate}" if rate else table.best(table.where(recipe=objective, rollout=rollout))
    return early(table, method, metric) if what == "early" else getattr(table, what)(method, metric)


def lead(table: Table, rollout: str, ours: str, theirs: str, **how: str) -> Interval:
    """Of one objective over another, seed by seed; ``how`` as in :func:`runs`."""
    return paired_interval(*(runs(table, one, rollout, **how) for one in (ours, theirs)))


def early(table: Table, method: str, metric: str) -> np.ndarray:
    """Mean of the first third of the measurements after the start, at least of one, (seeds,)."""
    later = (values[tokens > 0] for tokens, values in table.curves(method, metric))
    return np.array([values[: max(1, len(values) // 3)].mean() for values in later])


def rise(table: Table, objective: str, rollout: str, rate: str, metric: str = "accuracy") -> np.ndarray:
    """The last three measurements in the mean, less the first that there is, (seeds,)."""
    method = f"{objective}, {rollout} {rate}"
    return table.last(method, metric) - np.array([values[0] for _, values in table.curves(method, metric)])


def jumps(table: Table, method: str, metric: str) -> np.ndarray:
    """Mean size of the steps from one measurement to the next, after the start, (seeds,)."""
    return np.array([np.abs(np.diff(values[tokens > 0])).mean() for tokens, values in table.curves(method, metric)])


def ends(table: Table, rollout: str) -> Iterator[str]:
    """Accuracy at the end, mean of the last three measurements: median and range over seeds at each learning rate."""
    methods = table.where(rollout=rollout)
    rates, objectives = (dict.fromkeys(table.labels[one][key] for one in methods) for key in ("rate", "recipe"))
    starts = [values[0] for one in methods for _, values in table.curves(one, "accuracy")]
    yield f"{rollout}: starts at {min(starts):.2f} to {max(starts):.2f}"
    yield f"{'at the end, rate':22s}" + "".join(f"{rate:^21s}" for rate in rates) + "tuned"
    for name in objectives:
        found = [runs(table, name, rollout, rate, "last") for rate in rates]
        cells = "".join(f"{np.median(x):.2f} [{x.min():.2f}, {x.max():.2f}]".ljust(21) for x in found)
        tuned = table.best(table.where(recipe=name, rollout=rollout))
        yield f"{name:22s}{cells}{table.labels[tuned]['rate']}"


@dataclass(frozen=True)
class Outcome:
    """One objective under one mismatch, at the learning rate that its tuning runs chose."""

    objective: str
    rollout: str
    method: str
    rate: str
    mean: Interval
    """accuracy, mean over the run after its start"""
    last: Interval
    """accuracy at the end, mean of the last three measurements"""
    lead: Verdict | None
    """on its mean beside that of the reference, each at its own learning rate; None if one seed says nothing"""
    worst: Interval
    """accuracy at the end at the learning rate where that is lowest"""

    def __str__(self):
        mean, last, worst = (f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in self._levels)
        lead = "one seed has no interval" if self.lead is None else str(self.lead)
        return f"{self.objective:22s} {self.rate:>4s}  {mean}  {last}  {worst}  {lead}"

    @property
    def _levels(self) -> tuple[Interval, Interval, Interval]:
        return self.mean, self.last, self.worst


HEADER = f"{'objective':22s} rate  {'mean':20s}  {'end':20s}  {'end, worst rate':20s}  lead in mean"


def outcomes(table: Table, rollout: str, reference: str, margin: float | None = None) -> list[Outcome]:
    """All objectives of the table under the mismatch ``rollout``, beside the objective ``reference``.

    Raises ``ValueError`` where the table has no such runs.
    """
    objectives = list(dict.fromkeys(own["recipe"] for own in table.labels.values() if own["rollout"] == rollout))
    if reference not in objectives:
        raise ValueError(f"no runs of {reference!r} under {rollout!r}; there are: {', '.join(objectives) or 'none'}")
    tuned = {name: table.best(table.where(recipe=name, rollout=rollout)) for name in objectives}
    theirs = table.mean(tuned[reference], "accuracy")
    found = []
    for name, method in tuned.items():
        ends = [table.last(one, "accuracy") for one in table.where(recipe=name, rollout=rollout)]
        mean = table.mean(method, "accuracy")
        found.append(
            Outcome(
                name,
                rollout,
                method,
                table.labels[method]["rate"],
                median_interval(mean),
                median_interval(table.last(method, "accuracy")),
                judge(mean, theirs, margin) if len(mean) > 1 else None,
                median_interval(min(ends, key=lambda end: end.mean())),
            )
        )
    return found


def clipped_tokens(table: Table, methods: Sequence[str], sign: str, most: int = 10) -> list[dict[str, Any]]:
    """The tokens that ``methods`` clip most often where the advantage has the ``sign``, "+" or "-", over all reported
    seeds: ``token``, ``shown``, ``clipped``, and means over the clipped, ``probability`` and ``entropy``.

    A run tells of its six most clipped tokens of each sign only, so that the counts of rarer ones are too low.
    """
    sums: dict[str, dict[str, float]] = {}
    for line in (one for method in methods for own in table.clipped[method].values() for one in own):
        if line["sign"] == sign:
            total = sums.setdefault(line["token"], dict(shown=0, clipped=0, probability=0, entropy=0))
            weight = int(line["clipped"])
            total["shown"] += int(line["shown"])
            total["clipped"] += weight
            for mean in ("probability", "entropy"):
                total[mean] += weight * float(line[mean])
    often = sorted(sums.items(), key=lambda one: -one[1]["clipped"])[:most]
    means = ("probability", "entropy")
    return [
        dict(token=token, shown=int(own["shown"]), clipped=int(own["clipped"]))
        | {mean: own[mean] / own["clipped"] for mean in means}
        for token, own in often
    ]


def clipped_kinds(lines: Iterable[Mapping[str, Any]], kind_of: Callable[[str], str]) -> dict[str, tuple[float, float]]:
    """Of :func:`clipped_tokens` by kind: the share of all clips, and the mean probability of the clipped."""
    sums: dict[str, np.ndarray] = {}
    for line in lines:
        clips = line["clipped"] * np.array([1.0, line["probability"]])
        sums[kind_of(line["token"])] = sums.get(kind_of(line["token"]), np.zeros(2)) + clips
    total = sum(clips for clips, _ in sums.values())
    return {kind: (clips / total, weighted / clips) for kind, (clips, weighted) in sums.items()}
