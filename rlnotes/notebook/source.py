"""The source of a function of the package, shown in a chapter as it stands in its file."""

import inspect
from collections.abc import Callable
from typing import Any

from IPython.display import Markdown


def source(function: Callable[..., Any]) -> Markdown:
    """Its lines, highlighted."""
    return Markdown(f"```python\n{inspect.getsource(function)}```")
