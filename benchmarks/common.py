"""What every benchmark shares: clocks, a description of the machine, and the results on disk."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEERS = ("accelerate", "datasets", "transformers", "trl")
INSTALL_PEERS = "pip install -e '.[peers]' -c constraints.txt"
THREADS = 1

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """Seconds of one piece of work: on the wall clock, and of CPU over all threads of this process."""

    wall: float
    cpu: float


class Clock:
    """Collects timings, either of a call (:meth:`time`) or between :meth:`start` and :meth:`stop`."""

    def __init__(self):
        self.timings: list[Timing] = []
        self._started = Timing(0.0, 0.0)

    def start(self) -> None:
        """Begin one measurement."""
        self._started = Timing(time.perf_counter(), time.process_time())

    def stop(self) -> None:
        """End it and keep what it took."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.timings.append(Timing(wall - self._started.wall, cpu - self._started.cpu))

    def time(self, work: Callable[[], T]) -> T:
        """Do ``work`` between start and stop; return what it returns."""
        self.start()
        result = work()
        self.stop()
        return result

    def seconds(self, kind: str, drop: int = 0) -> list[float]:
        """The ``kind`` (``"cpu"`` or ``"wall"``) of every timing but the first ``drop``."""
        return [getattr(timing, kind) for timing in self.timings[drop:]]


def spread(values: Sequence[float]) -> Json:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return dict(median=middle, quartiles=[low, high])


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Json:
    """How many times longer ``slow`` takes: ratio of medians, and quartiles of the ratio round by round."""
    rounds = spread([a / b for a, b in zip(slow, fast, strict=True)])
    return dict(of_medians=statistics.median(slow) / statistics.median(fast), round_quartiles=rounds["quartiles"])


def processor() -> str:
    """Name of the processor, as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def installed(package: str) -> str | None:
    """Version of ``package``, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def load() -> float | None:
    """Processes that wanted a CPU in the last minute, where the system says: a busy machine shows here."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


@dataclass
class Environment:
    """Where and when a result was measured. Make one before the work starts: its load counts too."""

    command: str
    threads: int = THREADS
    load_before: float | None = field(default_factory=load)

    def describe(self) -> Json:
        """As it goes into the result."""
        versions = {name: installed(name) for name in ("torch", *PEERS)}
        return dict(
            processor=processor(),
            cores=os.cpu_count(),
            load_before=self.load_before,
            threads=self.threads,
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            **versions,
            date=datetime.now(UTC).date().isoformat(),
            command=self.command,
        )


def require_trl() -> None:
    """End with the command that installs TRL, if it is missing."""
    if find_spec("trl") is None:
        raise SystemExit(f"this benchmark compares with TRL, which is not installed; run\n\n    {INSTALL_PEERS}\n")


def go_offline() -> None:
    """No network, no telemetry, and one thread in the tokenizer too. Before anything from Hugging Face is imported."""
    os.environ |= dict(
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_DATASETS_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
    )


def result_path(name: str) -> Path:
    """Where the result of the benchmark ``name`` lies."""
    return RESULTS / f"{name}.json"


def write_result(name: str, goal: Json, numbers: Json, environment: Environment) -> None:
    """Write a result as JSON and say where."""
    RESULTS.mkdir(exist_ok=True)
    result = dict(name=name, goal=goal, numbers=rounded(numbers), environment=environment.describe())
    result_path(name).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {result_path(name).relative_to(HERE.parent)}")


def read_result(name: str) -> Json | None:
    """The stored result of the benchmark ``name``, or None."""
    path = result_path(name)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def rounded(value: Any) -> Any:
    """``value`` with every float cut to four significant digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value
