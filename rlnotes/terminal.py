"""What every command owes who typed it: work, or one line that says why not, whatever the terminal is."""

import io
import os
import sys
from collections.abc import Callable

REFUSED, INTERRUPTED, CLOSED = 2, 130, 141  # exit statuses; the last two are those of a shell for SIGINT and SIGPIPE
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")  # what torch says


def answer(command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit status; a problem that is explained is one line on stderr and status 2.

    Explained are ``ValueError``, ``OSError``, ``ImportError``, and memory that does not suffice. An interrupt is one
    line and 130. A reader who has seen enough, as in ``rlnotes sample ... | head -1``, ends the command without a word
    and with 141. What the terminal cannot show is written as ``\\u2022``.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  until Python ends
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = command()
        sys.stdout.flush()  # here, where an error can still be told
        return status
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return CLOSED
    except OSError as error:
        _drop_output()
        say(": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None))
    except ImportError as error:
        say(f"{error}; rlnotes doctor says what is missing and what brings it")
    except ValueError as error:
        say(str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in _NO_MEMORY):
            raise
        say("the memory does not suffice; make the numbers smaller, of prompts for example")
    return REFUSED


def say(problem: str) -> None:
    """One line on stderr."""
    print(f"rlnotes: {' '.join(problem.split())}", file=sys.stderr)


def _drop_output() -> None:
    """Forget what nobody takes, a closed pipe or a full disk: Python would try again, and complain, when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
