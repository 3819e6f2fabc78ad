import subprocess
import sys

import pytest

from rlnotes import cli


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
    assert run(monkeypatch, *arguments) == 1
    assert f"already holds a run; go on with it (rlnotes resume --out {tmp_path})" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resume", "--out", "nowhere"], "no checkpoint"),
        (["train", "--out", "x", "--task", "spell"], "unknown task 'spell'"),
        (["train", "--out", "x", "--size", "2"], "size is 2; it must be between 4 and 64"),
    ],
)
def test_problems_are_one_line_and_leave_nothing_behind(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_impossible_settings_are_explained(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, "train", "--out", "x", "--group-size", "1")
    assert stopped.value.code == 2
    assert "group_size is 1: a group of one has no baseline; use 2 or more" in "".join(capsys.readouterr())


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
