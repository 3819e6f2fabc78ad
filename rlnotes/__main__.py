"""The `rlnotes` command. `doctor` runs also where nothing else could be imported."""

import os
import sys


def main() -> int:
    """Run one command and return its exit status."""
    from rlnotes.terminal import answer

    return answer(_run)


def _run() -> int:
    if sys.argv[1:] == ["doctor"]:
        from rlnotes.doctor import doctor

        return doctor()
    from rlnotes.cli import run

    return run()


def _leave_working_folder() -> None:
    """Take no file of the working folder, such as a ``tensorboard.py``, for a package, as ``python -m`` does; here and
    in processes that this one starts. Where the package itself lies in that folder, it stays.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and os.path.abspath(sys.path[0]) == os.getcwd() != package:
        del sys.path[0]
        os.environ["PYTHONSAFEPATH"] = "1"


if __name__ == "__main__":
    _leave_working_folder()
    raise SystemExit(main())
