"""Processes that tests start, stop from outside, and look for afterwards."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen]:
    """A process with a group of its own, as a kernel or a terminal makes one: an interrupt reaches it, even where the
    tests run in the background of a shell, which has them ignore it.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=None if sys.platform == "win32" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until_gone(group: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while any(stat.split(")")[-1].split()[2] == str(group) for stat in stats()):
        assert time.monotonic() < deadline, "processes are left over"
        time.sleep(0.05)


def stats() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.split(")")[-1].split()[0] != "Z":
                yield text


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


def wait_for_spawned(group: int, count: int, seconds: float = 60) -> None:
    """Wait until so many of a group's processes were started by multiprocessing, and their parent, which leads the
    group, hears interrupts again; they may be importing still.
    """
    deadline = time.monotonic() + seconds
    while spawned(group) < count or ignores_interrupts(group):
        assert time.monotonic() < deadline, "no workers started"
        time.sleep(0.01)


def ignores_interrupts(pid: int) -> bool:
    """Whether a process ignores SIGINT now, as one does while it starts another: a signal that comes then is lost."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return bool(int(status.split("SigIgn:")[1].split()[0], 16) >> (signal.SIGINT - 1) & 1)


def spawned(group: int) -> int:
    found = 0
    for stat in stats():
        pid, fields = stat.split(" ", 1)[0], stat.split(")")[-1].split()
        if fields[2] == str(group):
            with contextlib.suppress(OSError):
                found += b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


WRITES = """
import sys, time
from pathlib import Path
from rlnotes.files import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("writes", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[subprocess.Popen]:
    """Another process that writes to ``folder``."""
    with running(sys.executable, "-c", WRITES, str(folder)) as process:
        assert process.stdout is not None and process.stdout.readline() == "writes\n"
        yield process


@contextlib.contextmanager
def full_disk(left: int) -> Iterator[None]:
    """No file may grow beyond ``left`` bytes: writes are cut there, and then refused, as on a disk that is full."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
