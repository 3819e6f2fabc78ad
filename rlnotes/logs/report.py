"""What ``rlnotes read`` says of a log: as text, as one page of HTML, and below a cell of a notebook."""

import html
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from rlnotes.logs.judge import Finding, Unjudged, judge
from rlnotes.logs.log import Log, load
from rlnotes.logs.series import ends
from rlnotes.logs.settings import Settings, read_settings
from rlnotes.logs.table import OVERALL, UPDATES_TITLE, Condition, table

MOST = 10
"""findings that are told"""
RINGS = 12  # steps that are marked one by one
FEW = 3  # rules that are named of those that need the same
PANEL = (
    ("reward", "heldout"),
    ("kl_old", "kl_reference"),
    ("entropy",),
    ("clip_fraction",),
    ("mismatch_prob", "mismatch_logp", "mismatch_kl"),
    ("length", "length_wrong", "length_ended"),
    ("wasted_groups", "truncated"),
    ("gradient_norm",),
)
"""the instrument panel: metrics that share an axis"""


@dataclass(frozen=True)
class Report:
    """A log with its findings, the most important first, and what could not be judged."""

    log: Log
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    settings: Settings | None = None

    def text(self) -> str:
        """For a terminal."""
        lines = [self.head(), *self.remarks()]
        for number, finding in enumerate(self.findings[:MOST], 1):
            lines += [
                "",
                f"{number}. {finding.level}: {finding.rule.symptom}",
                *(f"   {line}" for line in self.told(finding)),
            ]
        if not self.findings:
            lines += ["", "No rule that could be judged holds."]
        if more := len(self.findings) - MOST:
            lines += ["", f"{more} more of them are not shown."] if more > 0 else []
        if missing := self.missing():
            lines += ["", "Not judged:", *(f"- {line}" for line in missing)]
        return "\n".join(lines)

    def head(self) -> str:
        """What was read, in a sentence."""
        first, last = self.log.steps
        one = table().libraries[self.log.library]
        form = f", {self.log.source.form}" if self.log.source.form else ""
        known = f"{len(self.log.series)} metrics known"
        return f"{self.log.source.path}: {one.title}{form}, {span(first, last)}, {known}"

    def remarks(self) -> list[str]:
        """What was passed over."""
        found, source = [], self.log.source
        if source.skipped:
            lines = f"{source.skipped} lines are broken, the first is" if source.skipped > 1 else "1 line is broken:"
            found.append(f"{lines} line {source.first_skipped}. Only what is whole in them was read.")
        if source.other_files:
            found.append(f"{source.other_files} other files of this folder were left out: name one to read it.")
        if self.log.counted:
            found.append("No line says its step, so step 1 is the first line.")
        if source.other_runs:
            found.append(f"{source.other_runs} other runs of this table were left out.")
        return found

    def told(self, finding: Finding) -> list[str]:
        """The lines of a finding: what was seen, the rule, what it means, what to check, settings, the link."""
        rule = finding.rule
        seen = [self.seen(finding, i) for i, one in enumerate(rule.all) if one.metric in self.log.series]
        lines = [*dict.fromkeys(seen), rule.means, f"check first: {'; then '.join(rule.check)}"]
        if options := self.options(finding):
            lines.append(f"settings: {'; '.join(options)}")
        lines.append(f"rule {rule.name} ({rule.evidence}): {'; '.join(map(self.worded, rule.all))}")
        lines += [f"from: {rule.source}"] if rule.source else []
        return [*lines, f"read: {rule.page}"]

    def worded(self, condition: Condition) -> str:
        """A condition with the log's own name of its metric, or the library's of its setting."""
        if condition.metric is not None:
            return f"{self.log.names.get(condition.metric, condition.metric)} {condition.said()}"
        setting = table().settings.get(condition.setting or "")
        option = setting and setting.options.get(self.log.library)
        return f"{option.name if option else UPDATES_TITLE} {condition.said()}"

    def seen(self, finding: Finding, which: int) -> str:
        """Steps and values of one of the conditions."""
        condition, seen = finding.rule.all[which], finding.seen[which]
        name = self.log.names[condition.metric or ""]
        if not seen.points:
            return f"{name}: at no step"
        steps = span(seen.points[0].first, seen.points[-1].last)
        if condition.take in OVERALL:
            start, end, best = ends(seen.points)
            since = f"{best:.3g} in its best fifth" if condition.take == "lost" else f"{start:.3g} in the first fifth"
            return f"{name}: {since}, {end:.3g} in the last, {steps}"
        count = sum(point.count for point in seen.points)
        values = f"{span_of(min(seen.values), max(seen.values))} " if seen.values else "not finite "
        return f"{name}: {values}at {count} of {self.log.series[condition.metric or ''].steps} steps, {steps}"

    def options(self, finding: Finding) -> list[str]:
        """The settings of a rule in this library: as the run has them, if that is known, and their defaults."""
        found = []
        for name in finding.rule.settings:
            if (option := table().settings[name].options.get(self.log.library)) is not None:
                given = {} if self.settings is None else self.settings.given
                own = f"={given[name]}" if name in given else ""
                found.append(f"{option.name}{own} (default {option.default})")
        return found

    def missing(self) -> list[str]:
        """What could not be judged, by what would allow it."""
        found: dict[str, list[str]] = {}
        for one in self.unjudged:
            if not one.never:
                found.setdefault(one.what, []).append(one.rule.symptom)
        lines = []
        for what, symptoms in found.items():
            told = [*dict.fromkeys(symptoms)]
            more = f"; and {len(told) - FEW} more" if len(told) > FEW + 1 else ""
            lines.append(f"{'; '.join(told[:FEW] if more else told)}{more}: needs {what}")
        if lacks := dict.fromkeys(one.title for rule in self.unjudged for one in rule.rule.lacks(self.log.library)):
            lines.append(f"{table().libraries[self.log.library].title} does not log: {', '.join(lacks)}")
        return lines

    def figure(self) -> tuple[Figure, str]:
        """The instrument panel with the findings marked, and the same in words."""
        from rlnotes.notebook.figures import STYLES, new_figure

        marked = [(n, one) for n, one in enumerate(self.findings[:MOST], 1) if one.first is not None]
        more = [(one.rule.metrics[0],) for _, one in marked if one.rule.metrics[0] not in chain(*PANEL)]
        groups = [[metric for metric in group if metric in self.log.series] for group in (*PANEL, *dict.fromkeys(more))]
        shown = [group for group in groups if group]
        figure, axes = new_figure(len(shown), height=2.4)
        words = []
        for axis, group in zip(axes, shown, strict=True):
            for metric, style in zip(group, STYLES, strict=False):
                points = self.log.series[metric].finite()
                steps, values = [point.last for point in points], [point.mean for point in points]
                axis.plot(steps, values, label=self.log.names[metric], markersize=2, linewidth=1.2, **style)
                low, high = (f"{pick(values, default=float('nan')):.3g}" for pick in (min, max))
                words.append(f"{table().metrics[metric].title}: minimum {low}, maximum {high}")
            here = [(n, one) for n, one in marked if one.rule.metrics[0] in group]
            for number, one in here:
                words.append(f"finding {number} on {self.log.names[one.rule.metrics[0]]}, {span(one.first, one.last)}")
                points = one.at(one.rule.metrics[0])
                if 0 < len(points) <= RINGS:
                    steps, values = [point.last for point in points], [point.mean for point in points]
                    axis.plot(steps, values, "o", markersize=10, markerfacecolor="none", color="#D55E00")
                else:
                    axis.axvspan(one.first, one.last, color="#D55E00", alpha=0.1)
            title = ", ".join(table().metrics[metric].title for metric in group)
            axis.set_title(title + (f" [{', '.join(str(n) for n, _ in here)}]" if here else ""), fontsize=9)
            axis.set(xlabel="step", ylabel=" or ".join(dict.fromkeys(table().metrics[one].unit for one in group)))
            axis.legend(frameon=False, fontsize=7)
        return figure, "; ".join(words) + "."

    def html(self) -> str:
        """The panel and the findings, for a page or a cell; nothing is loaded from elsewhere."""
        from rlnotes.notebook.figures import bundle

        parts = [f"<p>{' '.join(html.escape(line) for line in (f'{self.head()}.', *self.remarks()))}</p>"]
        if any(metric in self.log.series for group in PANEL for metric in group):
            panel = bundle(*self.figure())[0]["text/html"].replace("<img ", '<img style="min-width: 44rem" ', 1)
            parts.append(f'<div tabindex="0" style="overflow-x: auto">{panel}</div>')
        for number, finding in enumerate(self.findings[:MOST], 1):
            lines = "".join(f"<li>{_html(line)}</li>" for line in self.told(finding))
            parts.append(f"<h3>{number}. {finding.level}: {html.escape(finding.rule.symptom)}</h3><ul>{lines}</ul>")
        if (more := len(self.findings) - MOST) > 0:
            parts.append(f"<p>{more} more of them are not shown.</p>")
        if not self.findings:
            parts.append("<p>No rule that could be judged holds.</p>")
        if missing := self.missing():
            lines = "".join(f"<li>{_html(line)}</li>" for line in missing)
            parts.append(f"<h3>Not judged</h3><ul>{lines}</ul>")
        return "\n".join(parts)

    def page(self) -> str:
        """:meth:`html` as a file."""
        title = html.escape(self.log.source.path.name)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">\n'
            "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:auto;padding:1rem;"
            "overflow-wrap:anywhere}h3{margin:1.5rem 0 0}ul{margin:0;padding-left:1.25rem}img{max-width:100%}"
            "</style></head>\n"
            f"<body><h1>{title}</h1>\n{self.html()}\n</body></html>\n"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text()}


def _html(line: str) -> str:
    """A line of a report, with the word that it begins with in bold."""
    word, colon, rest = line.partition(": ")
    known = word.split(" ")[0] in ("check", "settings", "rule", "from", "read")
    return f"<b>{html.escape(word)}</b>: {html.escape(rest)}" if colon and known else html.escape(line)


def span(first: float | None, last: float | None) -> str:
    """Steps in words."""
    return f"step {first:g}" if last is None or first == last else f"steps {first:g} to {last:g}"


def span_of(low: float, high: float) -> str:
    """Values in words."""
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def read(log: str | Path, config: str | Path | None = None) -> Report:
    """Read the log of a run and say what the course knows of it. Nothing is sent anywhere.

    ``log`` is a file or a folder: TRL's ``trainer_state.json`` or what it prints, verl's console or its file, the
    consoles of OpenRLHF and slime, a folder of TensorBoard, an export of Weights & Biases, a run of ``rlnotes train``.
    ``config`` names the run's settings: JSON, YAML, or the command line as text. Raises ``ValueError`` or ``OSError``
    for what cannot be read.
    """
    given = None if config is None else read_settings(config)
    found = load(log)
    settings = None if given is None else Settings(found.library, given)
    findings, unjudged = judge(found, settings)
    return Report(found, tuple(findings), tuple(unjudged), settings)
