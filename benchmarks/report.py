"""The table in ``benchmarks/README.md``, written from the stored results. No number in it is typed by hand."""

from benchmarks import learn_reverse, step_against_trl
from benchmarks.common import HERE, Json, read_result

README = HERE / "README.md"
START, END = "<!-- results: start -->", "<!-- results: end -->"
HEADER = ("| what | goal | measured | met |", "|---|---|---|---|")
KINDS = (("cpu", "CPU"), ("wall", "wall"))
VERSIONS = ("python", "torch", "transformers", "trl")


def write_table() -> None:
    """Put the tables of all stored results between the two markers. Raises ``ValueError`` if one is missing."""
    text = README.read_text(encoding="utf-8")
    if text.count(START) != 1 or text.count(END) != 1:
        raise ValueError(f"{README} must hold {START} and {END} once each: the table goes between them")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    README.write_text(f"{before}{START}\n\n{tables()}\n{END}{after}", encoding="utf-8")


def tables() -> str:
    """A heading, where it was measured, and a table for each benchmark that has a result."""
    parts = []
    for name, rows in ((learn_reverse.NAME, learn_rows), (step_against_trl.NAME, step_rows)):
        result = read_result(name)
        if result is not None:
            lines = ["\n".join((*HEADER, *rows(result))), provenance(result["environment"])]
            parts.append("\n\n".join([f"### `{name}`", *lines]) + "\n")
    return "\n".join(parts) or "Nothing is measured yet.\n"


def provenance(environment: Json) -> str:
    """On what, when, and by which command."""
    versions = ", ".join(f"{name} {environment[name]}" for name in VERSIONS if environment[name])
    load = environment["load_before"]
    busy = "" if load is None else f", load before the start {load:.1f} on {environment['cores']} cores"
    return (
        f"{environment['processor']}, {environment['threads']} thread, {versions}; {environment['date']}{busy}; "
        f"`{environment['command']}`."
    )


def row(what: str, goal: str, measured: str, met: bool | None = None) -> str:
    """One line of a table; ``met`` None where there is no goal."""
    return f"| {what} | {goal} | {measured} | {'' if met is None else 'yes' if met else 'no'} |"


def learn_rows(result: Json) -> list[str]:
    """One line for all seeds, then one per seed."""
    goal, numbers = result["goal"], result["numbers"]
    seeds, reached = goal["seeds"], numbers["reached"]
    limit = f"at least {goal['accuracy']:.0%} in at most {goal['cpu_seconds']:.0f} CPU s"
    rows = [row("seeds that learn `reverse`", f"{seeds} of {seeds}", f"{reached} of {seeds}", reached == seeds)]
    for run in numbers["runs"]:
        measured = (
            f"{run['accuracy_before']:.1%} to {run['accuracy_after']:.1%} in {run['steps']} steps, "
            f"{run['cpu_seconds']:.1f} CPU s ({1000 * run['cpu_seconds_per_step']:.0f} ms per step)"
        )
        rows.append(row(f"seed {run['seed']}", limit, measured, run["reached"]))
    return rows


def step_rows(result: Json) -> list[str]:
    """For each number of sequences: the ratios, then the seconds."""
    rows = []
    for sequences, numbers in result["numbers"].items():
        goal = result["goal"][sequences]
        ratio = numbers["ratios"]["trl / rlnotes"]["cpu"]["of_medians"]
        for name, found in numbers["ratios"].items():
            with_goal = name == "trl / rlnotes"
            rows.append(
                row(
                    f"{sequences} sequences: {name}",
                    f"at least {goal:g} (CPU)" if with_goal else "",
                    ", ".join(f"{show_ratio(found[kind])} {label}" for kind, label in KINDS),
                    ratio >= goal if with_goal else None,
                )
            )
        for name, found in numbers["seconds"].items():
            measured = ", ".join(f"{1000 * found[kind]['median']:.1f} ms {label}" for kind, label in KINDS)
            rows.append(row(f"{sequences} sequences: one `{name}`", "", measured))
        rows.append(row(f"{sequences} sequences: groups without a gradient", "", show_wasted(numbers["samples"])))
        rows.append(row(f"{sequences} sequences: same objective", "", show_objective(numbers["objective"])))
    return rows


def show_ratio(ratio: Json) -> str:
    """Ratio of medians, and in brackets the quartiles over the rounds."""
    low, high = ratio["round_quartiles"]
    return f"{ratio['of_medians']:.2f} ({low:.2f} to {high:.2f})"


def show_wasted(samples: Json) -> str:
    """Share of groups whose rewards are all equal, and the mean length of a response, for both."""
    return ", ".join(
        f"{name} {found['wasted_groups']:.1%} (mean length {found['length']:.2f})" for name, found in samples.items()
    )


def show_objective(objective: Json) -> str:
    """How far TRL's gradient and advantages are from those of rlnotes."""
    return (
        f"gradients differ by at most {objective['largest_gradient_difference']:.0e} of the largest entry, "
        f"advantages by {objective['largest_advantage_difference']:.0e}"
    )
