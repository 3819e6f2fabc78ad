"""What the tables of the stability laboratory show: curves, the findings on claims, and a report in words."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlnotes.notebook.figures import STYLES, new_figure
from rlnotes.studies import Interval, Table, read_table
from rlnotes.studies.readings import HEADER, clipped_tokens, outcomes
from rlnotes.studies.tables import Band

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


def panels(evidence: Table, methods: Mapping[str, str], metrics: Iterable[str] = PANELS, columns: int = 3) -> Figure:
    """A panel for each metric. ``methods`` maps what the legend says to a method: the median of the reported seeds,
    and a band from the lowest to the highest. A dotted line is the greedy accuracy of the start, where it was measured.
    Raises ``ValueError`` for more methods than can be told apart.
    """
    check_told_apart("methods", methods)
    metrics = list(metrics)
    figure, axes = new_figure(len(metrics), columns, width=3.4, height=2.6)
    for axis, metric in zip(axes, metrics, strict=True):
        for (label, method), style in zip(methods.items(), STYLES, strict=False):
            draw_band(axis, evidence.band(method, metric), label, style)
        one = next(iter(methods.values()))
        if metric == "accuracy" and all("greedy" in columns for columns in evidence.rows[one].values()):
            axis.axhline(
                evidence.start(one, "greedy").mean(), color="0.3", linestyle=":", linewidth=1, label="greedy, untrained"
            )
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


REPRODUCED, REVERSED, UNSEEN = "reproduced here", "not reproduced here", "not visible at this scale"
HAIR = 1e-4
"""what is nearer to 0 may be the rounding of the tables, to five digits"""
ONE_SIDE = 1 / 32
"""how often five differences of which each may have either sign are all above 0"""


class Finding(NamedTuple):
    """What is found of a claim in one case: a word, the differences behind it, and how it would be by chance."""

    word: str
    leads: Mapping[str, Interval]
    chance: tuple[float, float]
    """of the first two words, if all differences are 0, independent, and of five seeds"""


class Findings:
    """The findings of a chapter, each told when it is judged. A claim that is judged again is replaced."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Finding] = {}

    def judge(self, claim: str, case: str, leads: Mapping[str, Interval]) -> None:
        """A claim that all ``leads`` are above 0: reproduced if each interval lies above, not if one lies below."""
        word = REPRODUCED if min(one.low for one in leads.values()) > HAIR else UNSEEN
        word = REVERSED if min(one.high for one in leads.values()) < -HAIR else word
        self._tell(claim, case, Finding(word, leads, (ONE_SIDE ** len(leads), 1 - (1 - ONE_SIDE) ** len(leads))))

    def alike(self, claim: str, case: str, leads: Mapping[str, Interval]) -> None:
        """A claim that ``leads`` are 0. It can be refuted, by an interval that misses 0, and never be shown."""
        missed = any(one.low > HAIR or one.high < -HAIR for one in leads.values())
        found = Finding(REVERSED if missed else UNSEEN, leads, (0.0, 1 - (1 - 2 * ONE_SIDE) ** len(leads)))
        self._tell(claim, case, found)

    def _tell(self, claim: str, case: str, finding: Finding) -> None:
        self.found[claim, case] = finding
        print(f"{claim}, {case}: {finding.word}")
        for name, one in finding.leads.items():
            print(f"   {name:36s} {one}")

    def summary(self) -> Iterator[str]:
        """How many findings have which word, how many differences one sign, and how many would by chance."""
        words = [finding.word for finding in self.found.values()]
        leads = [one for finding in self.found.values() for one in finding.leads.values()]
        yield f"{len(words)} findings: " + ", ".join(f"{words.count(w)} {w}" for w in (REPRODUCED, REVERSED, UNSEEN))
        above, below = sum(one.low > HAIR for one in leads), sum(one.high < -HAIR for one in leads)
        yield f"{len(leads)} differences: {above} above 0 on all seeds, {below} below 0 on all seeds"
        shown, opposed = np.sum([finding.chance for finding in self.found.values()], axis=0)
        yield f"if all were 0 and independent: {2 * ONE_SIDE * len(leads):.1f} differences with one sign,"
        yield f"   {shown:.1f} findings {REPRODUCED}, {opposed:.1f} {REVERSED}"


MARKS = {REPRODUCED: STYLES[0], REVERSED: STYLES[1], UNSEEN: dict(color="#777777", marker="|")}


def forest(findings: Findings, columns: Sequence[Sequence[str]]) -> Figure:
    """Median and range of each difference, in the colour of its finding's word: a panel for each of ``columns``, in it
    its claims with all their cases. Raises ``ValueError`` for a claim that was not judged.
    """
    known = dict.fromkeys(claim for claim, _ in findings.found)
    if missing := [claim for claims in columns for claim in claims if claim not in known]:
        raise ValueError(f"no finding on {missing[0]!r}; there are: {', '.join(known)}")
    figure, axes = new_figure(len(columns), len(columns), width=4.8, height=6.4)
    for axis, claims in zip(axes, columns, strict=True):
        labels = []
        for claim in claims:
            labels.append(claim)
            for (own, case), (word, leads, _) in findings.found.items():
                if own == claim:
                    for i, one in enumerate(leads.values()):
                        y = len(labels) + (i - (len(leads) - 1) / 2) * 0.8 / len(leads)
                        axis.plot([one.low, one.high], [y, y], color=MARKS[word]["color"], linewidth=1)
                        axis.plot(one.value, y, color=MARKS[word]["color"], marker=MARKS[word]["marker"], markersize=4)
                    labels.append(case)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(range(len(labels)), labels, fontsize=8)
        for tick, label in zip(axis.get_yticklabels(), labels, strict=True):
            tick.set_fontweight("bold" if label in claims else "normal")
        axis.set(ylim=(len(labels), -1), xlabel="difference in accuracy")
    keys = [axes[0].plot([], [], color=m["color"], marker=m["marker"], label=word)[0] for word, m in MARKS.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def report(folder: Path) -> Iterator[str]:
    """Draw the curves of ``folder/table.csv`` into ``folder``, and say what the table says, line by line."""
    evidence = read_table(folder.name, folder / "table.csv", folder / "table.json")
    rollouts = dict.fromkeys(own["rollout"] for own in evidence.labels.values())
    for rollout in rollouts:
        reference = next(own["recipe"] for own in evidence.labels.values() if own["rollout"] == rollout)
        found = outcomes(evidence, rollout, reference)
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
