"""Files that outlive a kill, a full disk and a second writer: one writer at a time, text that is whole or absent."""

import codecs
import csv
import io
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
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
            with told_of(folder / name):
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


@contextmanager
def told_of(path: str | Path) -> Iterator[None]:
    """An ``OSError`` of what is done meanwhile names the file at ``path``: those of a write by itself name none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def check_place(path: Path) -> None:
    """Raise ``OSError`` or ``ValueError`` if :func:`replace_text` cannot write to ``path``: before long work, say."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder or a device; choose another place for this file")
    with _beside(path) as temporary, told_of(path):
        temporary.touch()


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` into the file at ``path``, line breaks as they are; until that is whole, what was there stays.

    Raises ``ValueError`` for a folder or a device, before anything is written.
    """
    check_place(path)
    path = path.resolve()  # a link stays one
    with _beside(path) as temporary:
        with told_of(path), temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name for what is to take the place of ``path``; what is left of it goes in the end."""
    temporary = path.with_name(f".{path.name}.writing")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(lines: Iterable[Sequence[str]]) -> str:
    """The text of a CSV file of these lines."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def append_line(file: io.FileIO, line: str) -> None:
    """Add a line to a file opened by ``open("ab", buffering=0)``. If it does not fit on the disk, nothing is added."""
    end = file.seek(0, os.SEEK_END)
    left = f"{line}\n".encode()
    try:
        with told_of(file.name):
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
