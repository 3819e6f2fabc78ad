"""Run every benchmark and write the table: ``python -m benchmarks``."""

import argparse
import os
import subprocess
import sys

from benchmarks import (
    cartpole_against_sb3,
    explorer_moves,
    learn_reverse,
    reasoning_gym_tasks,
    step_against_trl,
    step_time,
    topk_sampling,
)
from benchmarks.common import HERE, THREADS, require_trl
from benchmarks.report import write_table


def run(name: str) -> None:
    """Run one benchmark in a process of its own, so that none inherits another's memory or imports."""
    environment = os.environ | dict(OMP_NUM_THREADS=str(THREADS))
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--table", action="store_true", help="only rewrite the table from the stored results")
    if not parser.parse_args().table:
        require_trl()  # now, and not after a minute of work
        run(learn_reverse.NAME)
        run(step_against_trl.NAME)
        run(step_time.NAME)
        run(topk_sampling.NAME)
        run(reasoning_gym_tasks.NAME)
        run(explorer_moves.NAME)
        run(cartpole_against_sb3.NAME)
    write_table()
    print("wrote benchmarks/README.md")


if __name__ == "__main__":
    main()
