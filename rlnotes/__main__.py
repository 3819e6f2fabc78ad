"""The `rlnotes` command. `doctor` runs also where nothing else could be imported."""

import sys


def main() -> int:
    """Run one command and return its exit status."""
    if sys.argv[1:] == ["doctor"]:
        from rlnotes.doctor import doctor

        return doctor()
    from rlnotes.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
