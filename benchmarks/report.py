"""The table in ``benchmarks/README.md``, written from the stored results. No number in it is typed by hand."""

from benchmarks import (
    batched_runs,
    cartpole_against_sb3,
    data_parallel,
    explorer_moves,
    gpu_step,
    learn_reverse,
    real_against_trl,
    reasoning_gym_tasks,
    step_against_trl,
    step_time,
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
        (step_time.NAME, time_rows),
        (topk_sampling.NAME, topk_rows),
        (reasoning_gym_tasks.NAME, gym_rows),
        (explorer_moves.NAME, explorer_rows),
        (cartpole_against_sb3.NAME, cartpole_rows),
        (data_parallel.NAME, parallel_rows),
        (gpu_step.NAME, gpu_rows),
        (batched_runs.NAME, batched_rows),
        (real_against_trl.NAME, real_rows),
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


def time_rows(result: Json) -> list[str]:
    """For each number of sequences: where the time goes, and how much faster than TRL's a step could be at best."""
    rows, peer = [], read_result(step_against_trl.NAME)
    for sequences, found in result["numbers"].items():
        profiled, products = found["profiled"], found["products"]
        kinds = ", ".join(f"{kind} {ms:.1f}" for kind, ms in profiled["kinds"].items())
        measured = f"{kinds}; {profiled['whole']:.1f} in all, {found['cpu_ms']:.1f} CPU ms without the profiler"
        rows.append(row(f"{sequences} sequences: wall ms of a step, by kind", "", measured))
        kernels = sum(profiled["kinds"][kind] for kind in step_time.KERNELS)
        rate = f"{products['mflop']:.0f} MFLOP at {products['mflop'] / products['ms']:.0f} GFLOP/s"
        floors = {
            f"the floor, its matrix products by themselves, {rate}": products["ms"],
            "its products, attention and other kernels as they run, and nothing else": kernels,
        }
        for what, ms in floors.items():
            measured = f"{ms:.1f} ms"
            if peer is not None:
                trl = peer["numbers"][f"{sequences} sequences, TRL as it comes"]["seconds"]["trl"]["cpu"]["median"]
                measured += f"; the step of TRL takes {1000 * trl / ms:.1f} times as long"
            rows.append(row(f"{sequences} sequences: {what}", "", measured))
        compiled = f"{found['compiled_cpu_ms']:.1f} CPU ms, {found['fixed_shapes_cpu_ms']:.1f} without it"
        rows.append(row(f"{sequences} sequences: a step of fixed shapes with torch.compile", "", compiled))
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
    """One line per number of processes, its time and how far it is from one process; and one for another order."""
    goal, numbers, rows = result["goal"], result["numbers"], []
    times, rounding = goal["times_rounding"], numbers["rounding"]
    aims = {what: times * rounding[what] for what in ("gradient", "movement")}
    aim = f"at most {times} times another order: {', '.join(f'{what} {most:.0e}' for what, most in aims.items())}"
    for n, found in numbers["processes"].items():
        what = f"{n} x {numbers['device']}, `{numbers['preset']}`, {numbers['responses']} responses"
        time = f"{1000 * found['seconds']['median']:.0f} ms a step"
        if n == "1":
            order = show_apart(rounding, numbers)
            rows += [row(what, "", time), row("the same, its sums in another order", "", order)]
            continue
        met = all(found["apart"][what] <= most for what, most in aims.items())
        measured = f"{time}, {found['speedup']:.2f} times as fast as one; {show_apart(found['apart'], numbers)}"
        rows.append(row(what, aim, measured, met))
    return rows


def show_apart(apart: Json, numbers: Json) -> str:
    """How far a run is from that of one process."""
    return (
        f"the first gradient is {apart['gradient']:.0e} of its norm away, the weights' movement in "
        f"{numbers['steps_compared']} steps {apart['movement']:.0e} of its norm, and single weights up to "
        f"{apart['largest_weight_difference']:.0e} of {numbers['weights_moved']:.0e}; "
        f"{apart['first_tokens_that_differ']} of the first tokens differ"
    )


def gpu_rows(result: Json) -> list[str]:
    """One line per seed that learns, then for each preset its rollout, its update, a step, and where time goes."""
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
        ways = found["ways"]
        for part in ("rollout", "update"):
            floor, aimed = found["floor_ms"][part], preset.startswith("large")
            least = min(way[f"{part}_ms"] for name, way in ways.items() if name != "TRL" and f"{part}_ms" in way)
            shown = [f"{name} {show_speed(way, part, found)}" for name, way in ways.items()]
            aim, met = (f"at most {times:g} times the floor", least <= times * floor) if aimed else ("", None)
            rows.append(row(f"{preset}: {part}", aim, "; ".join([f"floor {floor:.3f} ms", *shown]), met))
        steps = [f"{name} {way['step_ms']:.2f} ms" for name, way in ways.items() if "step_ms" in way]
        if "seconds" in found.get("compiling", {}):
            steps.append(f"first rollout and update, compiled: {found['compiling']['seconds']:.0f} s")
        lengths = f"{found['responses']} responses of {found['response_length']} tokens"
        rows.append(row(f"{preset}: step, {lengths}", "", "; ".join(steps)))
        for name, way in ways.items():
            kernels = [
                f"{part}: {show_kernels(way[key])}"
                for part in ("rollout", "update")
                if (key := f"{part}_kernels_ms") in way
            ]
            if kernels:
                rows.append(row(f"{preset}, {name}: ms of kernels", "", "; ".join(kernels)))
    return rows


def show_speed(way: Json, part: str, found: Json) -> str:
    """Milliseconds of a rollout or an update, its tokens a second, and how far it is from its floor."""
    if f"{part}_ms" not in way:
        return f"none ({way.get('failed', 'not measured')})"
    spent = way[f"{part}_ms"]
    rate = found["tokens"][part] / spent / 1e3
    return f"{spent:.2f} ms ({rate:.2f} M tokens/s, {spent / found['floor_ms'][part]:.1f} times the floor)"


def show_kernels(spent: Json) -> str:
    """Milliseconds by kind."""
    return ", ".join(f"{kind} {value:.2f}" for kind, value in spent.items())


def batched_rows(result: Json) -> list[str]:
    """Two lines per task, how fast and how alike, and one for the machine's cores if they were tried."""
    goal, numbers, rows = result["goal"], result["numbers"], []
    times, errors = goal["times_single"], goal["standard_errors"]
    for task, found in numbers["tasks"].items():
        batched, single, alike = found["batched"], found["single"], found["agreement"]
        way = "by a CUDA graph each" if single["cuda_graph"] else "one operation at a time"
        measured = (
            f"{batched['runs_per_minute']:.0f} ({batched['runs']} runs in {batched['seconds']:.1f} s); one after the "
            f"other, {way}, {single['runs_per_minute']:.0f}: {found['times_single']:.1f} times as many"
        )
        what, aim = f"{numbers['card']}, `{task}`: runs a minute in batches", f"at least {times:g} times as many"
        rows.append(row(what, aim, measured, found["times_single"] >= times))
        apart = abs(alike["batched"] - alike["alone"])
        measured = (
            f"mean of seeds {alike['batched']:.3f} in a batch, {alike['alone']:.3f} alone; one seed differs by at most "
            f"{alike['largest_difference']:.3f}, seeds among each other by {alike['standard_deviation']:.3f}"
        )
        aim = f"means at most {errors:g} standard errors apart"
        met = apart <= errors * alike["standard_error"]
        rows.append(row(f"accuracy of {alike['method']}, {alike['seeds']} seeds", aim, measured, met))
    if (cores := numbers.get("cores")) is not None:
        measured = f"{cores['runs_per_minute']:.0f} ({cores['runs']} runs in {cores['seconds']:.1f} s)"
        rows.append(row(f"{cores['workers']} cores of that machine, `{cores['task']}`: runs a minute", "", measured))
    return rows


def real_rows(result: Json) -> list[str]:
    """A line for each way to train the real model, and what the card needs for a rollout."""
    numbers, rows = result["numbers"], []
    batch = f"{numbers['prompts']} prompts, {numbers['group_size']} responses each, {numbers['steps']} steps"
    for way in real_against_trl.WAYS:
        found = numbers[way]
        measured = found.get("failed") or (
            f"{found['tokens_per_second']:,.0f} tokens sampled a second; a step {found['step_seconds']:.3f} s, its "
            f"rollout {found['rollout_seconds']:.3f} s; {found['seconds']:.1f} s in all, to {found['accuracy']:.1%}"
        )
        rows.append(row(f"{way}: {batch}", "", measured))
    if "floor" in numbers:
        measured = f"{numbers['floor']['tokens_per_second']:,.0f} tokens a second"
        rows.append(row(f"{numbers['card']}: the floor of a rollout", "", measured))
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
