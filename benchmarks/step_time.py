"""Where the CPU's time of a step of ``step_against_trl`` goes, by kind of work, and how short it could be.

The kinds are those of PyTorch's profiler, each operation without what it calls; Python is what is left of the step. The
floor is the time of the step's matrix products, each of them by itself, again and again on the same numbers.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common import THREADS, Environment, Json, write_result
from benchmarks.gpu_step import compile_blocks
from benchmarks.step_against_trl import ROUNDS, make_trainer
from rlnotes.gpu.static_step import StaticStep
from rlnotes.lm.trainer import Trainer

NAME = "step_time"
WARM_UP, STEPS = 5, 15
SMALLEST_OF, REPEATS = 5, 20  # for the time of one product
KERNELS = ("matrix products", "attention", "other kernels")
VIEWS = "views, allocation, autograd's own"
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
NO_ARITHMETIC = frozenset(
    f"aten::{name}"
    for name in (
        *("alias", "as_strided", "chunk", "contiguous", "detach", "detach_", "empty", "empty_like", "empty_strided"),
        *("expand", "expand_as", "flatten", "linear", "matmul", "narrow", "new_empty", "permute", "reshape", "resize_"),
        *("select", "slice", "split", "squeeze", "t", "tensor_split", "to", "transpose", "unbind", "unflatten"),
        *("unsqueeze", "view", "_unsafe_view"),
    )
)


def kind_of(operation: str) -> str:
    """The kind of work that the profiler's ``operation`` is, without what it calls."""
    if operation in PRODUCTS:
        return KERNELS[0]
    if "attention" in operation:
        return KERNELS[1]
    if operation in NO_ARITHMETIC or not operation.startswith("aten::"):
        return VIEWS
    return KERNELS[2]


def by_kind(step: Callable[[], Any]) -> Json:
    """Wall ms of each kind in one profiled ``step``. ``Python`` is what is left, the profiler's own time included."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        started = time.perf_counter()
        step()
        whole = 1000 * (time.perf_counter() - started)
    found: Counter[str] = Counter()
    for operation in seen.key_averages():
        found[kind_of(operation.key)] += operation.self_cpu_time_total / 1000
    return dict(whole=whole, kinds=dict(found.most_common()) | {"Python": whole - found.total()})


class Products(TorchDispatchMode):
    """Counts the matrix products (m, k) x (k, n) that run while it is on, forward and backward."""

    def __init__(self):
        super().__init__()
        self.seen: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Note the sizes, and do it."""
        if func is torch.ops.aten.mm.default:
            self.seen[(*args[0].shape, args[1].shape[1])] += 1
        elif func.overloadpacket.__name__ in ("addmm", "bmm", "baddbmm"):
            raise RuntimeError(f"{func} is a matrix product too, and is not counted here: the floor would be too low")
        return func(*args, **(kwargs or {}))

    def floor(self) -> Json:
        """FLOP of all, and CPU ms if each took what it takes by itself, its numbers in the cache."""
        flop = sum(2 * m * k * n * times for (m, k, n), times in self.seen.items())
        return dict(mflop=flop / 1e6, ms=sum(times * alone(*sizes) for sizes, times in self.seen.items()))


def alone(m: int, k: int, n: int) -> float:
    """CPU ms of a product (m, k) x (k, n): the smallest of several means."""
    a, b, out = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    means = []
    for _ in range(SMALLEST_OF):
        started = time.process_time()
        for _ in range(REPEATS):
            torch.mm(a, b, out=out)
        means.append(1000 * (time.process_time() - started) / REPEATS)
    return min(means)


def cpu_ms(step: Callable[[], Any]) -> float:
    """CPU ms of a ``step`` as it runs, the median of several."""
    found = []
    for _ in range(WARM_UP):
        step()
    for _ in range(STEPS):
        started = time.process_time()
        step()
        found.append(1000 * (time.process_time() - started))
    return statistics.median(found)


def measure(trainer: Trainer) -> Json:
    """CPU ms of a step of ``trainer``, the kinds of a profiled one, the floor of its products; and CPU ms of a step of
    fixed shapes, before and after torch.compile has had all but the attention.

    The profiler counts wall time, in which others' work shows: it is the fastest of several steps.
    """
    eager = cpu_ms(trainer.rl_step)
    profiled = min((by_kind(trainer.rl_step) for _ in range(STEPS)), key=lambda run: run["whole"])
    with Products() as products:
        trainer.rl_step()
    fixed = StaticStep(trainer)
    uncompiled = cpu_ms(fixed)
    compile_blocks(trainer.model)
    return dict(
        cpu_ms=eager,
        profiled=profiled,
        products=products.floor(),
        fixed_shapes_cpu_ms=uncompiled,
        compiled_cpu_ms=cpu_ms(fixed),
    )


def main() -> None:
    environment = Environment(f"python -m benchmarks.{NAME}")
    torch.set_num_threads(THREADS)
    numbers = {str(sequences): measure(make_trainer(sequences, cache=True)) for sequences in ROUNDS}
    write_result(NAME, {}, numbers, environment)


if __name__ == "__main__":
    main()
