"""The source of a function, as it stands in its file."""

import inspect

from rlnotes.lm.step import step
from rlnotes.notebook import source


def test_the_source_is_that_of_the_file():
    shown = source(step).data
    assert shown == f"```python\n{inspect.getsource(step)}```"
    assert "loss.backward()" in inspect.getsource(step)
