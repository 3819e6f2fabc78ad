"""What the tables of the stability laboratory say: curves, verdicts with paired intervals, and the tokens clipped."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlnotes.notebook.evidence import Band, Evidence, Interval, median_interval, paired_interval, read_evidence
from rlnotes.notebook.figures import STYLES, new_figure

PANELS = {
    "accuracy": "accuracy, new prompts",
    "reward": "reward while sampling",
    "mismatch": "mean |π − μ| of tokens drawn",
    "entropy": "entropy of π (nats)",
    "length": "response length (tokens)",
    "bad_updates": "bad updates (share of tokens)",
    "no_gradient": "clipped (share of tokens)",
}
"""what 004 draws in its figures 3 to 5 and 11 to 16, and how much is clipped, by the metric's name"""


def panels(evidence: Evidence, methods: Mapping[str, str], metrics: Iterable[str] = PANELS, columns: int = 3) -> Figure:
    """A panel for each metric. ``methods`` maps what the legend says to a method: the median of the reported seeds,
    and a band from the lowest to the highest. Raises ``ValueError`` for more methods than can be told apart.
    """
    check_told_apart("methods", methods)
    metrics = list(metrics)
    figure, axes = new_figure(len(metrics), columns, width=3.4, height=2.6)
    for axis, metric in zip(axes, metrics, strict=True):
        for (label, method), style in zip(methods.items(), STYLES, strict=False):
            draw_band(axis, evidence.band(method, metric), label, style)
        axis.set(title=PANELS.get(metric, metric), xlabel="tokens sampled (1000)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def check_told_apart(name: str, curves: Collection[Any]) -> None:
    """Raise ``ValueError`` for more curves than there are styles."""
    if len(curves) > len(STYLES):
        raise ValueError(f"{name} holds {len(curves)} curves; at most {len(STYLES)} can be told apart: draw fewer")


def draw_band(axis: Axes, band: Band, label: str, style: Mapping[str, Any]) -> None:
    """A median over thousands of tokens, and a shade from the lowest to the highest."""
    axis.plot(band.tokens / 1000, band.median, label=label, markersize=3, linewidth=1.2, **style)
    axis.fill_between(band.tokens / 1000, band.low, band.high, color=style["color"], alpha=0.12, linewidth=0)


@dataclass(frozen=True)
class Verdict:
    """One objective under one mismatch, at the learning rate that its tuning runs chose."""

    objective: str
    rollout: str
    method: str
    rate: str
    mean: Interval
    """accuracy, mean over the run after its start"""
    last: Interval
    """accuracy at the end, mean of the last three measurements"""
    lead: Interval
    """of ``mean`` over that of the reference, seed by seed, each at its own learning rate"""
    worst: Interval
    """accuracy at the end at the learning rate where that is lowest"""

    def __str__(self):
        mean, last, worst = (f"{one.median:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in self._levels)
        return f"{self.objective:16s} {self.rate:>4s}  {mean}  {last}  {self.lead}  {worst}"

    @property
    def _levels(self) -> tuple[Interval, Interval, Interval]:
        return self.mean, self.last, self.worst


HEADER = f"{'objective':16s} rate  {'mean':20s}  {'end':20s}  {'lead in mean':23s}  end, worst rate"


def verdicts(evidence: Evidence, rollout: str, reference: str) -> list[Verdict]:
    """All objectives of the table under the mismatch ``rollout``, beside the objective ``reference``.

    Raises ``ValueError`` where the table has no such runs.
    """
    objectives = list(dict.fromkeys(own["objective"] for own in evidence.labels.values() if own["rollout"] == rollout))
    if reference not in objectives:
        raise ValueError(f"no runs of {reference!r} under {rollout!r}; there are: {', '.join(objectives) or 'none'}")
    tuned = {name: evidence.best(evidence.where(objective=name, rollout=rollout)) for name in objectives}
    theirs = evidence.mean(tuned[reference], "accuracy")
    found = []
    for name, method in tuned.items():
        ends = [evidence.last(one, "accuracy") for one in evidence.where(objective=name, rollout=rollout)]
        mean = evidence.mean(method, "accuracy")
        found.append(
            Verdict(
                name,
                rollout,
                method,
                evidence.labels[method]["rate"],
                median_interval(mean),
                median_interval(evidence.last(method, "accuracy")),
                paired_interval(mean, theirs),
                median_interval(min(ends, key=lambda end: end.mean())),
            )
        )
    return found


def clipped_tokens(evidence: Evidence, methods: Sequence[str], sign: str, most: int = 10) -> list[dict[str, Any]]:
    """The tokens that ``methods`` clip most often where the advantage has the ``sign``, "+" or "-", over all reported
    seeds: ``token``, ``shown``, ``clipped``, and means over the clipped, ``probability`` and ``entropy``.

    A run tells of its six most clipped tokens of each sign only, so that the counts of rarer ones are too low.
    """
    sums: dict[str, dict[str, float]] = {}
    for line in (one for method in methods for own in evidence.clipped[method].values() for one in own):
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


def report(folder: Path) -> Iterator[str]:
    """Draw the curves of ``folder/table.csv`` into ``folder``, and say what the table says, line by line."""
    evidence = read_evidence(folder.name, folder / "table.csv", folder / "table.json")
    rollouts = dict.fromkeys(own["rollout"] for own in evidence.labels.values())
    for rollout in rollouts:
        reference = next(own["objective"] for own in evidence.labels.values() if own["rollout"] == rollout)
        found = verdicts(evidence, rollout, reference)
        picture = folder / f"{rollout.replace(', ', '_').replace(' ', '_')}.png"
        panels(evidence, {one.objective: one.method for one in found}).savefig(picture, dpi=110)
        yield f"\nmismatch {rollout}; lead over {reference}; curves in {picture}\n{HEADER}"
        yield from map(str, found)
        for one in found:
            for sign in ("+", "-"):
                for row in clipped_tokens(evidence, [one.method], sign, most=3):
                    yield f"{one.objective}: clipped where A {sign}: {_told(row)}"


def _told(row: Mapping[str, Any]) -> str:
    return (
        f"{row['token']!r} {row['clipped']} of {row['shown']} times, "
        f"mean probability {row['probability']:.3f}, mean entropy {row['entropy']:.3f}"
    )
