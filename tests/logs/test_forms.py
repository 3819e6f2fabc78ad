"""Every form that a log takes is recognised and read to the same numbers, whatever is broken or unknown in it."""

import importlib
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlnotes import cli
from rlnotes.logs import read, series
from rlnotes.logs.cards import card, settings_page
from rlnotes.logs.forms import CUT, number_of
from rlnotes.logs.log import load
from rlnotes.logs.table import table
from tests.course.form import CARD, rows_of

ROOT = Path(__file__).parents[2]
REWARDS = [0.25, 0.5, 0.375, 0.75]

TRL = [
    {"loss": 0.0, "grad_norm": 1.5, "learning_rate": 1e-06, "reward": r, "frac_reward_zero_std": 0.25, "epoch": 0.1}
    for r in REWARDS
]
VERL = [
    {"actor/pg_loss": 0.01, "actor/pg_clipfrac": 0.002, "critic/score/mean": r, "perf/mfu/actor": 0.3} for r in REWARDS
]
OPENRLHF = [
    {"policy_loss": -0.01, "actor_grad_norm": 0.4, "rollout/reward_mean": r, "timing/generation": 12.5} for r in REWARDS
]
SLIME = [{"rollout/raw_reward": r, "rollout/truncated_ratio": 0.1, "rollout/response_len/mean": 80.5} for r in REWARDS]
OURS = [
    {"phase": 1, "step": i, "reward": r, "gradient_norm": 0.7, "wasted_groups": 0.25} for i, r in enumerate(REWARDS, 1)
]


def numbered(rows: list[dict]) -> list[tuple[int, dict]]:
    return list(enumerate(rows, 1))


def trainer_state() -> str:
    history = [row | {"step": i} for i, row in numbered(TRL)] + [{"eval_reward": 0.5, "eval_loss": 0.0, "step": 4}]
    state = {"best_metric": None, "epoch": 1.0, "global_step": 4, "log_history": history, "logging_steps": 1}
    return json.dumps(state, indent=2) + "\n"


def trl_printed() -> str:
    """As transformers prints them, values as texts too, between other lines, one of them over several lines."""
    lines = ["Some weights were not initialised: {'lm_head'}", "  0%|          | 0/4 [00:00<?, ?it/s]"]
    lines += [str({name: f"{value:.4g}" for name, value in row.items()}) for row in TRL[:2]]
    lines.append(str(TRL[2]).replace(", ", ",\n "))
    lines.append(str(TRL[3] | {"kl": float("nan"), "global_step/max_steps": "4/3766"}))
    return "\n".join(lines)


def verl_console() -> str:
    lines = [
        "{'actor_rollout_ref': {'actor': {'ppo_epochs': 1,",
        "                                 'entropy_coeff': 0}}}",
    ]
    for i, row in numbered(VERL):
        told = " - ".join(
            f"{name}:np.float64({value})" if i == 2 else f"{name}:{value:.3f}" for name, value in row.items()
        )
        lines.append(f"\x1b[36m(TaskRunner pid=123)\x1b[0m step:{i} - {told}")
    return "\n".join(lines)


def verl_file() -> str:
    return "".join(json.dumps({"step": i, "data": row}, separators=(",", ":")) + "\n" for i, row in numbered(VERL))


def openrlhf_console() -> str:
    """As Ray passes it on; the last line as somebody shortened it."""
    lines = [
        f"(PPOTrainer pid=1) 2026-08-13 INFO ppo_trainer.py:547] ✨ Global step {i}: {row}"
        for i, row in numbered(OPENRLHF)
    ]
    return "\n".join(lines).removesuffix("}") + ", ...}"


def slime_console() -> str:
    """As Ray passes it on: coloured, with a count of workers that say the same."""
    said = []
    for i, row in numbered(SLIME):
        said.append(f"[2026-08-21 10:00:0{i}] rollout_metrics.py:268 - perf {i}: {row}")
        said.append(
            f"\x1b[36m(MegatronTrainRayActor pid=1)\x1b[0m [2026-08-21 10:00:0{i}] model.py:918 - step {i}: "
            "{'train/pg_loss': nan, 'train/grad_norm': np.float64(0.5)}\x1b[32m [repeated 7x across cluster]\x1b[0m"
        )
    return "\n".join(said)


def wandb_csv() -> str:
    head = (
        '"Step","my run - reward","my run - reward__MIN","my run - reward__MAX","my run - grad_norm","other - reward"'
    )
    return "\n".join([head, *(f'"{i}","{r}","{r}","{r}","1.5",""' for i, r in enumerate(REWARDS, 1))])


def notebook_table() -> str:
    lines = ["| Step | reward | grad_norm | eval_reward |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {i} | {r} | 1.5 | No Log |" for i, r in enumerate(REWARDS, 1))])


def ours() -> str:
    return "".join(json.dumps(row) + "\n" for row in [{"phase": 0, "step": 400, "loss": 1.0}, *OURS])


FORMS: dict[str, tuple[str, Callable[[], str]]] = {
    "trainer_state.json": ("trl", trainer_state),
    "train.out": ("trl", trl_printed),
    "verl.log": ("verl", verl_console),
    "verl.jsonl": ("verl", verl_file),
    "openrlhf.log": ("openrlhf", openrlhf_console),
    "slime.log": ("slime", slime_console),
    "export.csv": ("trl", wandb_csv),
    "table.txt": ("trl", notebook_table),
    "metrics.jsonl": ("rlnotes", ours),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_recognised_and_read(name: str, tmp_path: Path):
    library, made = FORMS[name]
    (tmp_path / name).write_text(made(), encoding="utf-8")
    log = load(tmp_path / name)
    assert (log.library, log.source.skipped) == (library, 0)
    assert [point.mean for point in log.series["reward"].points] == pytest.approx(REWARDS)
    steps = [point.first for point in log.series["reward"].points]
    assert steps == ([1, 2, 3, 4])
    if name in ("trainer_state.json", "metrics.jsonl"):
        assert load(tmp_path).source.path == tmp_path / name  # the folder of the run


def test_a_tensorboard_folder_is_read(tmp_path: Path):
    """Written by TensorBoard itself: torch's writer is the same, and takes seconds to import."""
    events = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path / "events"))
    for i, row in numbered(TRL):
        values = [summaries.Summary.Value(tag=f"train/{name}", simple_value=value) for name, value in row.items()]
        writer.add_event(events.Event(step=i, summary=summaries.Summary(value=values)))
    writer.close()
    log = load(tmp_path)
    assert (log.library, log.source.form) == ("trl", "TensorBoard")
    assert [(point.first, point.mean) for point in log.series["reward"].points] == list(enumerate(REWARDS, 1))


BREAKS = {
    "metrics.jsonl": (ours() + '{"phase": 1, "step": 5, "rew\n' + ours()[-200:].split("\n", 1)[1] + "garbage\n", 2, 6),
    "verl.log": (verl_console() + "\nstep:5 - critic/score/mean:0.5 - actor/entro", 1, 7),
    "train.out": (str(TRL[0]) + "\n" + "{'loss': 0.0, 'grad_norm': 1.\n" + str(TRL[1]) + "\n", 1, 2),
    "export.csv": (wandb_csv() + '\n"5","0.5"\n', 1, 6),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_line_is_counted_said_and_skipped(name: str, tmp_path: Path, capsys):
    text, count, line = BREAKS[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    log = load(tmp_path / name)
    assert (log.source.skipped, log.source.first_skipped) == (count, line)
    assert cli.main(["read", str(tmp_path / name)]) == 0
    assert f" line {line}. Only what is whole in them was read.\n" in capsys.readouterr().out


def test_what_is_whole_in_a_line_of_verl_is_read(tmp_path: Path):
    """Its end is torn, has another process's output glued to it, or was cut by the console of Weights & Biases."""
    cut = f"step:3 - critic/score/mean:0.75 - {' - '.join(['actor/lr:1e-06'] * 300)}"[: CUT - 26]
    lines = [
        "step:1 - critic/score/mean:0.25 - actor/entro",
        "(TaskRunner pid=1) step:2 - critic/score/mean:0.5 - perf/throughput:200.1(WorkerDict pid=2) warning",
        f"{cut} - actor/entropy:0.123456789"[:CUT],
    ]
    (tmp_path / "x.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    log = load(tmp_path / "x.log")
    assert [point.mean for point in log.series["reward"].points] == [0.25, 0.5, 0.75]
    assert log.source.skipped == 3 and "entropy" not in log.series


def test_a_brace_left_open_in_a_sample_does_not_hide_the_step_that_follows(tmp_path: Path):
    """OpenRLHF prints a sample before the metrics of each step, and one that is cut off may end within braces."""
    sample = r"INFO 08-13 10:00:00 ppo_trainer.py:224] Sample: ['so it is \boxed{12', 0.0]"
    said = [line for row in openrlhf_console().splitlines() for line in (sample, row.replace("step ", "step 1"))]
    (tmp_path / "x.log").write_text("\n".join(said) + "\n", encoding="utf-8")
    log = load(tmp_path / "x.log")
    assert [point.first for point in log.series["reward"].points] == [11, 12, 13, 14]
    assert not log.counted and log.source.skipped == 0


def test_settings_and_texts_in_pieces_are_no_broken_lines(tmp_path: Path):
    """As verl prints them: a dict of settings with the name of a metric, and what it has logged once more in quotes."""
    lines = [
        "(TaskRunner pid=1)  'distillation': {'loss': {'clip_ratio': 0.2,",
        "(TaskRunner pid=1)                            'topk': 32}}",
        """("Initial validation metrics: {'val-core/math/acc/mean@4': \"""",
        """ \"np.float64(0.5), 'val-core/math/acc/best@4/mean': \"""",
        """ 'np.float64(0.75)}')""",
        "step:0 - val-core/math/acc/mean@4:0.5",
    ]
    (tmp_path / "x.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    log = load(tmp_path / "x.log")
    assert log.source.skipped == 0 and [point.mean for point in log.series["heldout"].points] == [0.5]


HELD_OUT = {
    "verl": {
        "val-core/math/acc/mean@4": 0.5,
        "val-core/math/acc/best@4/mean": 0.7,
        "val-core/math/acc/best@4/std": 0.2,
    },
    "slime": {
        "rollout/raw_reward": 0.4,
        "eval/math": 0.5,
        "eval/math-truncated_ratio": 0.2,
        "eval/math/truncated": 0.1,
    },
    "openrlhf": {  # as it writes them to TensorBoard and Weights & Biases
        "train/policy_loss": 0.1,
        "train/rollout/reward_mean": 0.4,
        "eval/eval_math_pass4": 0.7,
        "eval/eval_math_pass1": 0.5,
        "eval/eval_response_length_mean": 80.0,
    },
    "trl": {"train/reward": 0.4, "train/grad_norm": 1.0, "eval/reward": 0.5}
    | {f"eval/{name}": 0.0 for name in ("loss", "runtime", "kl", "steps_per_second", "num_tokens")},
}


@pytest.mark.parametrize("library", HELD_OUT)
def test_the_held_out_reward_is_not_taken_for_another_number(library: str, tmp_path: Path):
    """Nor a library for another, by names that fit only a pattern. All but the reward fall, and that would be taken."""
    rows = [{k: v * (1 if v == 0.5 else 1 - i / 9) for k, v in HELD_OUT[library].items()} for i in range(9)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    log = load(tmp_path / "x.jsonl")
    assert (log.library, log.series["heldout"].points[0].mean) == (library, 0.5)
    assert "No line says its step, so step 1 is the first line" in read(tmp_path / "x.jsonl").text()


def test_an_unknown_column_is_no_error_and_keys_may_change(tmp_path: Path):
    lines = [{"reward": 0.1, "my/own": 3}, {"my/own": "text", "nested": {"a": 1}}, {"reward": None, "grad_norm": 2}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    log = load(tmp_path / "x.jsonl")
    assert log.source.skipped == 0 and {*log.series} == {"reward", "gradient_norm"}


REFUSED: dict[str, tuple[bytes | None, str]] = {
    "empty.jsonl": (b"", "is empty; give the log"),
    "blank.log": (b"\n \n", "is empty; give the log"),
    "binary.bin": (b"\x00\x01PK" * 50, "is no text; give a log as text"),
    "prose.txt": (b"nothing of interest\n", "has no metric that is known"),
    "runs.csv": (b"Name,State,Created,loss\none,finished,2026,0.5\n", "is a table of runs, with a row for each"),
    "others.jsonl": (b'{"speed": 3}\n', "has no metric that is known; it has speed"),
    "folder": (None, "holds no log: no metrics.jsonl, no trainer_state.json, no TensorBoard file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_log_is_refused_in_one_line(name: str, tmp_path: Path, capsys):
    content, said = REFUSED[name]
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    assert cli.main(["read", str(tmp_path / name), "--html", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("text", "number"),
    [("'1.867e+04'", 18670.0), ("np.float64(0.5)", 0.5), ("tensor(-0.0, device='cuda:0')", 0.0), ("5/3766", 5.0)],
)
def test_a_number_is_read_as_it_is_meant(text: str, number: float):
    assert number_of(text) == number


def test_no_log_and_null_are_no_numbers():
    assert [number_of(value) for value in ("No Log", None, "null", True, [1], "")] == [None] * 6


LONG = {
    "x.jsonl": lambda i, row: json.dumps(row | {"step": i, "text": "x" * 200}),
    "train.out": lambda i, row: f"  5%|▌         | {i}/9000 [00:01<1:00,  1.2it/s]\r{row | {'epoch': i}} {'x' * 200}",
    "verl.log": lambda i, row: " - ".join(
        [f"(TaskRunner pid=7) step:{i}", f"critic/score/mean:{row['reward']}", *TIMES]
    ),
}
TIMES = [f"timing_s/part_{i}:0.123456789" for i in range(12)]


@pytest.mark.parametrize("name", LONG)
def test_a_long_log_is_read_at_bounded_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ten times the log needs no more memory; the extremes and the last step are kept."""
    monkeypatch.setattr(series, "MOST", 64)
    peaks = []
    for steps in (300, 3000):
        path = tmp_path / str(steps) / name
        path.parent.mkdir()
        path.write_text("".join(LONG[name](i, TRL[i % 4]) + "\n" for i in range(1, steps + 1)), encoding="utf-8")
        tracemalloc.start()
        log = load(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        points = log.series["reward"].points
        assert len(points) <= series.MOST and points[-1].last == steps and log.series["reward"].steps == steps
        assert (min(point.low for point in points), max(point.high for point in points)) == (0.25, 0.75)
    assert path.stat().st_size > 3 * peaks[1]
    assert peaks[1] < 1.3 * peaks[0]


def test_the_charts_in_a_folder_are_one_run_and_of_other_logs_the_first_is_read(tmp_path: Path):
    """Weights & Biases writes a file for each chart."""
    for metric, value in (("reward", 0.5), ("kl", 0.1)):
        (tmp_path / f"{metric}.csv").write_text(f'"Step","one - {metric}"\n"1","{value}"\n', encoding="utf-8")
    log = load(tmp_path)
    assert {*log.series} == {"reward", "kl_reference"} and log.source.path == tmp_path
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("{'reward': 0.25}\n", encoding="utf-8")
    report = read(tmp_path)
    assert {*report.log.series} == {"reward"} and "a.log: TRL" in report.text()
    assert "3 other files of this folder were left out" in report.text()


def test_three_decimals_do_not_say_that_a_small_number_is_0(tmp_path: Path):
    (tmp_path / "log").write_text(
        "\n".join(f"step:{i} - actor/lr:0.000 - actor/ppo_kl:0.000" for i in range(9)), encoding="utf-8"
    )
    report = read(tmp_path / "log")
    assert "rate-zero" not in {finding.rule.name for finding in report.findings}
    assert "needs actor/lr with more than three decimals" in report.text()


PIECES = [made() for _, made in FORMS.values()]


@given(
    st.lists(
        st.tuples(st.sampled_from(PIECES), st.integers(0, 400), st.integers(0, 400)) | st.binary(max_size=40),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_in_a_file_is_read_or_refused(tmp_path: Path, parts: list):
    text = b"".join(part if isinstance(part, bytes) else part[0].encode()[part[1] : part[2]] for part in parts)
    for name in ("x.log", "x.jsonl", "events.out.tfevents.1"):
        (tmp_path / name).write_bytes(text)
        try:
            assert read(tmp_path / name).text()
        except ValueError as error:
            assert str(tmp_path) in str(error)


@pytest.mark.parametrize(
    "line", ['{"reward": ' + "9" * 400 + "}", '{"a":' * 50_000, '"reward","kl"\n1,2\n1,"' + "x" * 200_000 + '"\n1,3']
)
def test_a_line_that_no_library_writes_is_no_end(line: str, tmp_path: Path):
    (tmp_path / "x.csv").write_text(f"{line}\n{json.dumps(TRL[0])}\n", encoding="utf-8")
    assert "reward" in load(tmp_path / "x.csv").series


def test_of_several_columns_the_one_is_taken_that_falls_most(tmp_path: Path):
    rows = [{"reward": 0.1, "rewards/form/mean": i / 10, "rewards/right/mean": 0.5 - i / 20} for i in range(10)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert load(tmp_path / "x.jsonl").names["reward_part"] == "rewards/right/mean"


# --- What is said


def planted(folder: Path) -> Path:
    """A run whose mismatch grows beyond the printed limit, with ten alarms and more."""
    path = folder / "run & <b>.jsonl"
    rows = [
        {
            "step": i,
            "critic/score/mean": 0.3,
            "training/rollout_probs_diff_mean": 0.004 + 0.001 * i,
            "actor/grad_norm": 1.0 if i != 30 else 50.0,
            "actor/lr": 0.0,
            "actor/entropy": 0.5,
            "actor/pg_clipfrac": 0.5,
            "response_length/clip_ratio": 0.95,
            "rollout_corr/kl": 0.2,
            "rollout_corr/rollout_is_mean": 0.3,
            "rollout_corr/rollout_is_std": 1.3,
            "rollout_corr/rollout_is_eff_sample_size": 0.1,
            "rollout_corr/chi2_token": 3,
        }
        for i in range(1, 41)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_report_says_steps_values_rule_check_and_link_and_at_most_ten(tmp_path: Path, capsys):
    assert cli.main(["read", str(planted(tmp_path))]) == 0
    said = capsys.readouterr().out
    (block,) = (part for part in said.split("\n\n") if "disagree on probabilities" in part)
    assert "training/rollout_probs_diff_mean: 0.011 to 0.044 at 34 of 40 steps, steps 7 to 40" in block
    assert (
        "rule mismatch-prob (maintainers say): training/rollout_probs_diff_mean above 0.01 at 50% or more of the steps"
        in block
    )
    assert "check first: precision of weights and cache; then " in block
    assert "settings: actor_rollout_ref.rollout.temperature (default 1.0); " in block
    assert "course/11_off_policy.ipynb#Where-the-mismatch-comes-from-*" in block
    assert re.findall(r"(?m)^(\d+)\. ", said) == [str(i) for i in range(1, 11)]
    assert "more of them are not shown" in said
    assert "the critic explains nothing: needs critic/vf_explained_var" in said
    assert "needs --config" in said


def test_the_page_is_whole_and_the_notebook_shows_the_same(tmp_path: Path):
    path, page = planted(tmp_path), tmp_path / "page.html"
    assert cli.main(["read", str(path), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    root = ElementTree.fromstring(re.sub(r"<(meta|img)([^>]*)>", r"<\1\2/>", text.split("\n", 1)[1]))
    assert "run & <b>.jsonl" in "".join(root.itertext())
    sources = [value for one in root.iter() for name, value in one.attrib.items() if name in ("src", "href")]
    assert sources and all(value.startswith("data:") for value in sources)
    (picture,) = root.iter("img")
    assert "gradient norm, before its clip: minimum 1, maximum 50" in picture.attrib["alt"]
    assert "on training/rollout_probs_diff_mean, steps 7 to 40" in picture.attrib["alt"]
    report = read(path)
    shown = report._repr_mimebundle_()
    assert shown["text/plain"] == report.text() and len(report.findings) > 10
    assert all(
        finding.rule.symptom in text and finding.rule.symptom in shown["text/html"] for finding in report.findings[:10]
    )


def test_settings_are_read_from_json_yaml_and_a_command_line(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    log.write_text(verl_file(), encoding="utf-8")
    told = {"actor_rollout_ref": {"actor": {"use_kl_loss": True, "kl_loss_type": "k1"}}}
    (tmp_path / "a.json").write_text(json.dumps(told), encoding="utf-8")
    lines = "actor_rollout_ref:\n  actor: {use_kl_loss: true, kl_loss_type: k1}\n"
    (tmp_path / "a.yaml").write_text(lines, encoding="utf-8")
    words = [
        "python3 -m verl.trainer.main_ppo",
        *(f"actor_rollout_ref.actor.{one}" for one in ("use_kl_loss=True", "kl_loss_type=k1")),
    ]
    (tmp_path / "a.sh").write_text(" \\\n  ".join(words), encoding="utf-8")
    for name in ("a.json", "a.yaml", "a.sh"):
        assert [finding.rule.name for finding in read(log, tmp_path / name).findings] == ["k1-in-loss"]
    (tmp_path / "b.json").write_text('{"beta": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="config names no setting of verl"):
        read(log, tmp_path / "b.json")


# --- What is printed from the table


@pytest.mark.parametrize("chapter", ["06_ppo", "07_grpo", "11_off_policy"])
def test_a_card_has_the_form_of_the_course(chapter: str):
    text = card(chapter)
    head, *body = rows_of(text)
    assert text.startswith("> **Monday card**\n>\n> | you see | log (TRL / verl) |")
    assert head == CARD and body and all(len(row) == len(CARD) and all(row) for row in body)
    assert all(re.search(r"\]\((deeper/\w+\.ipynb)?#[^)]+\)$", row[-1]) for row in body)
    first = card("06_ppo", "clip-cannot-act", "clip-too-tight")
    assert "TRL: `clip_ratio/region_mean`<br>verl: `actor/pg_clipfrac`" in first
    assert "TRL: `num_iterations` (default 1), `steps_per_generation`<br>" in first
    assert "<br>verl: `actor.ppo_epochs` (default 1), `data.train_batch_size` (default 1024) |" in first
    assert card(chapter)._repr_mimebundle_() == dict.fromkeys(("text/markdown", "text/plain"), text)
    with pytest.raises(ValueError, match="no rule rests on it"):
        card("errata")
    with pytest.raises(ValueError, match="names has 'clips', which is no rule"):
        card(chapter, "clips")


def test_the_cards_of_the_chapters_are_what_the_table_prints():
    """A cell prints each, so that nothing is typed twice; what it has stored is not older than the table."""
    shown = []
    for path in sorted((ROOT / "course").glob("[0-9][0-9]_*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code" and f'card("{path.stem}")' in "".join(cell["source"]):
                shown.append(path.stem)
                assert "".join(cell["outputs"][0]["data"]["text/markdown"]) == card(path.stem)
                symptoms = [table().rules[name].symptom for name in table().cards[path.stem]]
                assert [row[0] for row in rows_of(card(path.stem))[1:]] == symptoms
    assert shown == [*table().cards]


def test_the_settings_page_is_up_to_date():
    written = (ROOT / "course" / "book" / "settings.md").read_text(encoding="utf-8")
    assert written == settings_page(), "python -m rlnotes.logs.cards course/book/settings.md"
    assert all(setting.title in written for setting in table().settings.values())
