"""A plugin of pytest for nbval: a cell that did not run to its end fails, also where the notebook shows no error.

IPython says an unknown magic on stderr, and leaves out what follows it in the cell. Of that nbval sees text, which a
lax run does not compare. What the kernel replies tells. ``pyproject.toml`` switches the plugin on, for the notebooks
may be run from a folder without a conftest.
"""

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any, Any]:
    """Fail a cell of nbval whose execution the kernel calls an error, unless the cell is tagged for one."""
    kernel = getattr(getattr(item, "parent", None), "kernel", None)
    if kernel is None or not hasattr(item, "raise_cell_error"):
        return (yield)
    replies: list[dict[str, Any]] = []
    get_message = kernel.get_message

    def noting(stream: str, timeout: float | None = None) -> dict[str, Any]:
        message = get_message(stream, timeout=timeout)
        if message["msg_type"] == "execute_reply":
            replies.append(message["content"])
        return message

    kernel.get_message = noting
    try:
        done = yield
    finally:
        del kernel.get_message
    failed = [reply for reply in replies if reply["status"] != "ok"]
    if failed and not item.options["check_exception"]:
        said = "{ename}: {evalue}".format_map(failed[0])
        item.raise_cell_error(f"The cell stopped before its end ({said})", "\n".join(failed[0]["traceback"]))
    return done
