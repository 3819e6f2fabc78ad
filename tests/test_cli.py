import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rlnotes import cli
from rlnotes.lm.interrupts import HeldInterrupts
from rlnotes.lm.record import _tensorboard
from tests.processes import linux

ROOT = Path(__file__).parents[1]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rlnotes", *map(str, arguments)])
    return cli.main()


def test_train_resume_sample(monkeypatch, tmp_path, capsys):
    out = tmp_path / "run"
    small = ["--prompts", "4", "--group-size", "4"]
    assert run(monkeypatch, "train", "--task", "reverse", "--recipe", "grpo", "--out", out, "--steps", "2", *small) == 0
    assert "step 2: held-out accuracy" in capsys.readouterr().out
    assert run(monkeypatch, "resume", "--out", out, "--steps", "4") == 0
    assert "step 4: held-out accuracy" in capsys.readouterr().out
    assert run(monkeypatch, "sample", "--out", out, "--prompts", "3", "--temperature", "0") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 3
    assert all("=" in line and line.endswith(("reward 0", "reward 1")) for line in shown)


def test_a_folder_with_a_run_is_not_overwritten(monkeypatch, tmp_path, capsys):
    arguments = ["train", "--out", tmp_path, "--steps", "0"]
    assert run(monkeypatch, *arguments) == 0
    assert run(monkeypatch, *arguments) == 2
    assert f"already holds a run; go on with it (rlnotes resume --out {tmp_path})" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resume", "--out", "nowhere"], "no checkpoint"),
        (["train", "--out", "x", "--task", "spell"], "unknown task 'spell'"),
        (["train", "--out", "x", "--size", "2"], "size is 2; it must be between 4 and 64"),
        (["train", "--out", "x", "--task", "short-reverse", "--size", "1"], "too few prompts in its heldout split"),
        (["train", "--out", "x", "--seed", str(2**80)], "seed is 1208925819614629174706176; it must be in [0, "),
        (["train", "--out", "x", "--prompts", "0"], "prompts is 0; it must be in [1, "),
        (["train", "--out", "x", "--temperature", "inf"], "temperature is inf; it must be in [0.001, 1000"),
        (["train", "--out", "x", "--learning-rate", "inf"], "learning_rate is inf; it must be positive and at most 1"),
        (
            ["train", "--out", "x", "--learning-rate", "1e300"],
            "learning_rate is 1e+300; it must be positive and at most",
        ),
        (["train", "--out", "x", "--threads", str(2**80)], "threads is 1208925819614629174706176; it must be in [1, "),
        (
            ["train", "--out", "x", "--rollout-blocks", "65"],
            "rollout_blocks is 65; it must be at most the model's width",
        ),
        (["train", "--out", "x", "--device", "cuda:77"], "device is 'cuda:77', a GPU, and torch finds"),
        (["train", "--out", "x", "--device", "gpu"], "device is 'gpu'; choose cpu, cuda, or one of several"),
        (
            ["train", "--out", "x", "--group-size", "1"],
            "group_size is 1: a group of one has no baseline; use 2 or more",
        ),
        (["stability", "--out", "x", "--size", "0"], "size is 0; it must be between 4 and 64"),
        (["stability", "--out", "x", "--tokens", "0"], "tokens is 0; it must be in [1, "),
        (["stability", "--out", "x", "--tokens", "-5"], "tokens is -5; it must be in [1, "),
        (["stability", "--out", "x", "--rates", "nan"], "learning_rate is nan"),
        (["stability", "--out", "x", "--device", "cuda:77"], "device is 'cuda:77', a GPU"),
        (["stability", "--out", "x", "--seeds", str(2**80)], "seeds is 1208925819614629174706176"),
        (["compare", "15_needle", "--out", "x.csv", "--workers", "100000"], "workers is 100000; it must be at least 1"),
        (["compare", "15_needle", "--out", "x.json"], "give it a name that ends in .csv"),
        (["trian"], "Unrecognized options: trian"),
        ([], "Expected one of {train, "),
        (["train"], "Missing from rlnotes train: --out PATH"),
        (
            ["train", "--out", "x", "--steps", "many"],
            "Error parsing --steps: invalid literal for int() with base 10: 'many'",
        ),
        (["--tyro-print-completion", "dos"], "but got dos"),
    ],
)
def test_problems_are_one_line_and_leave_nothing_behind(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_one_line(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert run(monkeypatch, "train", "--out", tmp_path / "file", "--steps", "0") == 2
    assert "Not a directory" in (error := capsys.readouterr().err) and error.count("\n") == 1
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_more_threads_than_cores_are_not_started(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    arguments = ["--prompts", "2", "--group-size", "2", "--steps", "0", "--threads", "100000"]
    assert run(monkeypatch, "train", "--out", tmp_path / "run", *arguments) == 0
    assert asked == [os.cpu_count()]


def started(*arguments: str, **changes: str) -> subprocess.Popen:
    """``python -m rlnotes`` in an environment with ``changes``."""
    environment = os.environ | dict(PYTHONPATH=str(ROOT), PYTHONWARNDEFAULTENCODING="") | changes
    return subprocess.Popen(
        [sys.executable, "-m", "rlnotes", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip


def test_a_terminal_of_ascii_shows_the_help():
    said, errors = started("--help", PYTHONIOENCODING="ascii").communicate(timeout=120)
    assert "doctor" in said and not errors


def test_a_reader_who_has_enough_ends_the_command_without_a_word():
    process = started("--help")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr is not None
    with process.stderr as errors:
        assert not errors.read()


@linux
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "rlnotes", "--help"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert (result.returncode, result.stderr) == (2, "rlnotes: No space left on device\n")


def test_a_variable_left_over_is_told_at_once(tmp_path):
    port = str(free_port())
    left = dict(WORLD_SIZE="2", RANK="0", MASTER_ADDR="localhost", MASTER_PORT=port)
    process = started("train", "--out", str(tmp_path / "run"), "--prompts", "2", **left)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    assert f"this process waits for the others at localhost:{port}; unset WORLD_SIZE to work in one" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("left", [dict(WORLD_SIZE="two"), dict(WORLD_SIZE="2")], ids=str)
def test_half_of_the_variables_are_refused(left, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("RANK", raising=False)
    for name, value in left.items():
        monkeypatch.setenv(name, value)
    assert run(monkeypatch, "train", "--out", tmp_path / "run", "--prompts", "2") == 2
    assert "in the environment, where torchrun sets a number" in capsys.readouterr().err


def test_a_file_of_the_working_folder_is_no_package(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("tensorboard", "numpy", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    process = started("train", "--out", "run", "--steps", "1", "--prompts", "2", "--group-size", "2")
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "run kept in run" in said


def test_a_file_called_tensorboard_beside_a_notebook_is_none(monkeypatch, tmp_path):
    (tmp_path / "tensorboard.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "tensorboard", raising=False)
    assert _tensorboard(tmp_path) is None


def test_interrupts_that_are_ignored_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    held = HeldInterrupts()
    try:
        with held:
            signal.raise_signal(signal.SIGINT)
        held.deliver()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_doctor(monkeypatch, capsys):
    assert run(monkeypatch, "doctor") == 0
    report = capsys.readouterr().out
    for word in ("python", "torch", "device", "memory", "kernel", "all is well"):
        assert word in report


def test_doctor_names_what_is_missing_and_the_command(monkeypatch, capsys):
    from rlnotes import doctor

    has = doctor._has
    monkeypatch.setattr(doctor, "_has", lambda name: name not in ("numpy", "reasoning-gym") and has(name))
    assert doctor.doctor() == 1
    report = capsys.readouterr().out
    assert f'PROBLEM   numpy (needed by every chapter): "{sys.executable}" -m pip install "rlnotes"' in report
    assert f'reasoning-gym (reasoning-gym tasks): "{sys.executable}" -m pip install "rlnotes[tasks]"' in report


def test_doctor_works_without_torch_and_tyro():
    code = (
        "import sys\n"
        "for name in ('torch', 'tyro', 'numpy'): sys.modules[name] = None\n"
        "sys.argv = ['rlnotes', 'doctor']\n"
        "from rlnotes.__main__ import main\n"
        "raise SystemExit(main())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert "Traceback" not in result.stderr, result.stderr
    assert "PROBLEM   torch does not load" in result.stdout and "--force-reinstall torch" in result.stdout


def test_importing_the_package_is_light():
    """A ratio in one run: the package against numpy, medians of several processes."""
    assert seconds("rlnotes") < 3 * seconds("numpy")
    code = "import sys, rlnotes; print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def seconds(module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return sorted(times)[2]
