"""How many random cases a property test draws: RLNOTES_CASES, 200 where it is not set."""

import os


def cases() -> int:
    return int(os.environ.get("RLNOTES_CASES", "200"))
