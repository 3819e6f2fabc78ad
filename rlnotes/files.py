"""Files that outlive a kill, a full disk and a second writer: one writer at a time, text that is whole or absent."""

import codecs
import io
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout


@contextmanager
def sole_writer(folder: Path, name: str = "") -> Iterator[None]:
    """Nothing else, in this process or another, writes to ``folder`` meanwhile, or to its file ``name`` alone.

    ``folder`` is made if need be, and goes again if it stays empty. The system drops the lock of a process that dies,
    so a kill holds up nobody. Raises ``ValueError`` that names the process which writes there now.
    """
    file = folder / (f".{name}.lock" if name else ".lock")
    holder = file.with_suffix(".process")  # Windows lets nobody read a locked file
    lock = FileLock(file, timeout=0, thread_local=False)  # a generator may end in another thread
    with _made(folder):
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                f"{folder / name} is being written by {_named(holder)}; wait for it, end it, or choose another place"
            ) from None
        try:
            holder.write_text(f"{os.getpid()} on {platform.node()}", encoding="utf-8")
            yield
        finally:
            holder.unlink(missing_ok=True)
            if os.name != "nt":  # where the library does it
                file.unlink(missing_ok=True)  # while locked: who waits for it sees that it is gone, and makes another
            lock.release()


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make ``folder`` and what it lies in; in the end remove of them what is empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _named(holder: Path) -> str:
    """The process that ``holder`` names, if it has come to that."""
    try:
        text = holder.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "another process"
    return f"process {text}" + ", this one" * (text.split()[:1] == [str(os.getpid())])


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` into the file at ``path``, line breaks as they are; until that is whole, what was there stays."""
    path = path.resolve()  # a link stays one
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def append_line(file: io.FileIO, line: str) -> None:
    """Add a line to a file opened by ``open("ab", buffering=0)``. If it does not fit on the disk, nothing is added."""
    end = file.seek(0, os.SEEK_END)
    left = f"{line}\n".encode()
    try:
        while left:
            left = left[file.write(left) :]
    except BaseException:
        file.truncate(end)
        raise


class Lines(NamedTuple):
    """The ``whole`` lines of a text file, blank ones too, and what is ``torn``: the text behind the last line break."""

    whole: list[str]
    torn: str


def read_lines(path: Path) -> Lines:
    """Lines as :func:`append_line` writes them, or a hand: without a byte-order mark, and ended by LF or CR LF.

    Raises ``ValueError`` naming a whole line that is no UTF-8 text.
    """
    *whole, torn = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    lines = []
    for number, line in enumerate(whole, 1):
        try:
            lines.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number} is no UTF-8 text; mend the line, or remove it") from None
    return Lines(lines, torn.decode(errors="replace"))
