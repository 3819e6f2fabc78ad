"""The table in ``benchmarks/README.md``, written from the stored results. No number in it is typed by hand."""

from benchmarks import (
    cartpole_against_sb3,
    data_parallel,
    explorer_moves,
    gpu_step,
    learn_reverse,
    reasoning_gym_tasks,
    step_against_trl,
    topk_sampling,
)
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
    benchmarks = (
        (learn_reverse.NAME, learn_rows),
        (step_against_trl.NAME, step_rows),
        (topk_sampling.NAME, topk_rows),
        (reasoning_gym_tasks.NAME, gym_rows),
        (explorer_moves.NAME, explorer_rows),
        (cartpole_against_sb3.NAME, cartpole_rows),
        (data_parallel.NAME, parallel_rows),
        (gpu_step.NAME, gpu_rows),
    )
    for name, rows in benchmarks:
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
    """For each number of sequences and each way of running TRL: the ratios, then the seconds."""
    rows = []
    for case, numbers in result["numbers"].items():
        goal = result["goal"].get(case)
        ratio = numbers["ratios"]["trl / rlnotes"]["cpu"]["of_medians"]
        for name, found in numbers["ratios"].items():
            with_goal = goal is not None and name == "trl / rlnotes"
            measured = ", ".join(f"{show_ratio(found[kind])} {label}" for kind, label in KINDS)
            aim = f"at least {goal:g} (CPU)" if with_goal else ""
            rows.append(row(f"{case}: {name}", aim, measured, ratio >= goal if with_goal else None))
        seconds = ", ".join(f"{name} {1000 * found['cpu']['median']:.1f}" for name, found in numbers["seconds"].items())
        rows.append(row(f"{case}: CPU ms of one step or rollout", "", seconds))
        rows.append(row(f"{case}: groups without a gradient", "", show_wasted(numbers["samples"])))
        rows.append(row(f"{case}: same objective", "", show_objective(numbers["objective"])))
    return rows


def topk_rows(result: Json) -> list[str]:
    """One line per task."""
    aim, numbers = result["goal"]["most_overhead"], result["numbers"]
    rows = []
    for task, found in numbers["tasks"].items():
        (low, high), times = found["round_quartiles"], found["milliseconds"]
        measured = (
            f"{found['overhead']:.1%} ({low:.1%} to {high:.1%}): CPU ms of a rollout "
            f"{times['recorded']['median']:.1f}, without {times['without']['median']:.1f}"
        )
        what = f"`{task}`, {numbers['k']} of {found['tokens']} tokens"
        rows.append(row(what, f"at most {aim:.0%} more", measured, found["overhead"] <= aim))
    return rows


def gym_rows(result: Json) -> list[str]:
    """One line per dataset and seed."""
    rows = []
    for run in result["numbers"]["runs"]:
        before, after = run["before"], run["after"]
        errors, aim = run["raised_by_standard_errors"], result["goal"]["raise_in_standard_errors"]
        measured = (
            f"{before['score']:.3f} to {after['score']:.3f}, {errors:.0f} standard errors "
            f"(exact answers {before['equal_to_answer']:.3f} to {after['equal_to_answer']:.3f}); "
            f"{run['warm_updates']} + {run['config']['steps']} steps, {sum(run['cpu_seconds'].values()):.0f} CPU s"
        )
        name = run["dataset"].removeprefix("reasoning-gym/")
        rows.append(row(f"{name}, seed {run['seed']}", f"at least {aim} standard errors", measured, errors >= aim))
    return rows


def explorer_rows(result: Json) -> list[str]:
    """One line per explorer."""
    aim = result["goal"]["median_milliseconds"]
    return [
        row(
            f"`{name}`, {found['moves']} moves",
            f"median under {aim} ms",
            f"median {found['median']:.1f} ms, largest {found['largest']:.1f} ms",
            found["median"] < aim,
        )
        for name, found in result["numbers"]["explorers"].items()
    ]


def cartpole_rows(result: Json) -> list[str]:
    """Per algorithm: what each contender needs, then the two ratios against each peer."""
    goal, rows = result["goal"], []
    for algorithm, found in result["numbers"]["algorithms"].items():
        for name, contender in found["contenders"].items():
            steps, wall = contender["env_steps"]["median"], contender["wall_seconds"]["median"]
            measured = f"{contender['reached']} seeds; median {steps:,.0f} env steps, {wall:.1f} wall s"
            rows.append(row(f"{algorithm}, {name}: to mean return {goal['mean_return']:.0f}", "", measured))
        for name, ratio in found["ratios"].items():
            for what in ("env_steps", "wall_per_step"):
                aim, measured = goal[f"{what}_ratio"], ratio[what]
                line = f"{algorithm} over SB3's with {name}, {what.replace('_', ' ')}"
                rows.append(row(line, f"at most {aim}", f"{measured:.2f}", measured <= aim))
    return rows


def parallel_rows(result: Json) -> list[str]:
    """One line per number of processes: the step's time, and how far the weights are from those of one process."""
    numbers, rows = result["numbers"], []
    aim = result["goal"]["times_rounding"] * numbers["rounding"]
    for n, found in numbers["processes"].items():
        seconds, apart = found["seconds"]["median"], found["largest_weight_difference"]
        measured = (
            f"{1000 * seconds:.0f} ms a step, {found['speedup']:.2f} times as fast as one; after "
            f"{numbers['steps_compared']} steps weights differ by at most {apart:.0e}, and had moved by up to "
            f"{numbers['weights_moved']:.0e}; {found['first_tokens_that_differ']} of the first tokens differ"
        )
        what = f"{n} x {numbers['device']}, `{numbers['preset']}`, {numbers['responses']} responses"
        goal = f"at most {aim:.0e} apart: {result['goal']['times_rounding']} times rounding"
        rows.append(row(what, goal if n != "1" else "", measured, None if n == "1" else apart <= aim))
    return rows


def gpu_rows(result: Json) -> list[str]:
    """One line per seed that learns, then three per preset: a rollout, an update, a step."""
    goal, numbers, rows = result["goal"], result["numbers"], []
    limit, times = goal["seconds_to_target"], goal["times_the_floor_large"]
    learning = numbers["learning"]
    for graph, eager in zip(learning["graph"], learning["eager"], strict=True):
        measured = (
            f"{graph['seconds']:.3f} s in {graph['steps']} steps, and {graph['recording_seconds']:.2f} s to record; "
            f"without a graph {eager['seconds']:.2f} s in {eager['steps']} steps"
        )
        what = f"{numbers['card']}: `reverse` to 95 %, seed {graph['seed']}"
        rows.append(row(what, f"at most {limit} s", measured, graph["seconds"] <= limit))
    for preset, found in numbers["presets"].items():
        large = preset.startswith("large")
        for part in ("rollout", "update"):
            one = found[part]
            measured = (
                f"{one['graph_ms']:.2f} ms, {one['graph_tokens_per_second'] / 1e6:.2f} M tokens/s, "
                f"{one['times_floor']:.1f} times the floor; without a graph {one['eager_ms']:.2f} ms"
            )
            aim = f"at most {times:g} times the floor" if large else ""
            rows.append(row(f"{preset}: {part}", aim, measured, one["times_floor"] <= times if large else None))
        step = f"{found['step_graph_ms']:.2f} ms; without a graph {found['step_eager_ms']:.2f} ms"
        lengths = f"{found['responses']} responses of {found['response_length']} tokens"
        rows.append(row(f"{preset}: step, {lengths}", "", step))
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
