"""The progress bar passes everything through, says little, and is silent where nobody watches."""

import io
import sys
import time

import pytest
from tqdm.std import tqdm

from rlnotes.lm import progress as module
from rlnotes.lm.config import Metrics
from rlnotes.lm.progress import bar, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rows(steps: int) -> list[Metrics]:
    warm = [dict(phase=0, step=step, loss=2.0) for step in (1, 2, 3)]
    return warm + [dict(phase=1, step=step, reward=step / steps) for step in range(1, steps + 1)]


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of stderr. No fixture: pytest puts its own stderr in place after those ran."""
    monkeypatch.delenv("CI", raising=False)
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    return stderr


def test_all_metrics_pass_through(monkeypatch: pytest.MonkeyPatch):
    terminal = watch(monkeypatch)
    given = rows(20)
    assert all(a is b for a, b in zip(progress(iter(given), total=20), given, strict=True))
    assert "reward 1.000" in terminal.getvalue() and "20/20" in terminal.getvalue()


def test_it_is_silent_in_ci(monkeypatch: pytest.MonkeyPatch):
    terminal = watch(monkeypatch)
    monkeypatch.setenv("CI", "1")
    assert len(list(progress(rows(20), total=20))) == 23
    assert terminal.getvalue() == ""


def test_it_is_silent_in_ci_also_in_a_notebook(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    shown = bar(3)
    assert type(shown) is tqdm and shown.disable


def test_it_is_silent_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("CI", raising=False)
    assert not module.in_notebook()
    assert len(list(progress(rows(20), total=20))) == 23
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_long_run_says_little(monkeypatch: pytest.MonkeyPatch):
    """At most a line, written over itself at most ten times a second."""
    terminal = watch(monkeypatch)
    assert len(list(progress(rows(100_000), total=100_000))) == 100_003
    assert terminal.getvalue().count("\n") <= 2
    assert 0 < len(terminal.getvalue()) < 100_000


def test_a_warm_start_is_seen_while_it_runs(monkeypatch: pytest.MonkeyPatch):
    terminal = watch(monkeypatch)
    for row in progress(rows(1), total=1):
        time.sleep(0.15)
        if row["phase"] == 0 and row["step"] > 1:
            assert f"warm start {row['step']:g}: loss 2.000" in terminal.getvalue()
            assert "0/1" in terminal.getvalue() and "1/1" not in terminal.getvalue()


def test_a_notebook_without_ipywidgets_gets_text(monkeypatch: pytest.MonkeyPatch):
    terminal = watch(monkeypatch)
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    for name in [name for name in sys.modules if name.split(".")[0] == "ipywidgets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # importing it now fails
    with bar(20) as shown:
        assert type(shown) is tqdm
    assert len(list(progress(rows(20), total=20))) == 23
    assert "reward 1.000" in terminal.getvalue()


def test_a_notebook_gets_a_widget(monkeypatch: pytest.MonkeyPatch):
    from tqdm.notebook import tqdm as notebook_tqdm

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    with bar(20) as shown:
        assert type(shown) is notebook_tqdm


def test_the_bar_ends_when_the_run_is_interrupted(monkeypatch: pytest.MonkeyPatch):
    terminal = watch(monkeypatch)

    def interrupted():
        yield from rows(20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(progress(interrupted(), total=100))
    assert terminal.getvalue().endswith("\n") and "20/100" in terminal.getvalue()
