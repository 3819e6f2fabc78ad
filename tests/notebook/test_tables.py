"""Tables that a page shows."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from rlnotes.notebook import table

ROWS = [{"arm": "clip", "KL": 0.0123, "steps": 8}, {"arm": "a < b & c", "KL": -0.4, "steps": 16}]


def column(values: list[Any]) -> list[str]:
    return list(table([{"x": value} for value in values]).columns[0])


def test_the_text_is_aligned():
    assert table(ROWS, "two arms").text() == (
        "two arms\narm            KL  steps\nclip        0.012      8\na < b & c  -0.400     16"
    )


def test_the_html_is_one_table_with_a_caption_and_numbers_to_the_right():
    page = table(ROWS, "two <arms>").html()
    assert page.count("<table>") == 1 and "two &lt;arms&gt;</caption>" in page and "a &lt; b &amp; c</td>" in page
    sides = re.findall(r"<t[hd][^>]*text-align: (\w+)", page)
    assert sides == ["left", "right", "right"] * 3
    assert page.count('scope="col"') == 3
    assert 'style="overflow-x: auto"' in page and 'tabindex="0"' in page  # it scrolls by itself, by keyboard too


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.5, 0.25], ["0.500", "0.250"]),
        ([12.34, 0.5], ["12.3", "0.5"]),
        ([1234.5, 1.0], ["1234", "1"]),
        ([0.00012, 0.0], ["0.000120", "0.000000"]),
        ([-0.0001, 0.9], ["0.000", "0.900"]),
        ([3, 12], ["3", "12"]),
        ([True, 0.5], ["True", "0.500"]),
        ([None, 0.5, float("nan")], ["–", "0.500", "nan"]),
        ([np.float32(0.5), np.int64(3)], ["0.500", "3"]),
        ([0.0, 0.0], ["0", "0"]),
    ],
)
def test_a_column_has_the_decimals_of_its_largest_number(values: list[Any], shown: list[str]):
    assert column(values) == shown


def test_decimals_can_be_said():
    assert list(table([{"x": 0.5}, {"x": 12.0}], x=1).columns[0]) == ["0.5", "12.0"]


def test_a_column_with_words_stands_to_the_left():
    assert list(table([{"a": 1.0}, {"a": "none"}]).right) == [False]


def test_a_row_may_lack_a_column():
    assert table([{"a": 1}, {"b": 2}]).text() == "a  b\n1  –\n–  2"


def test_a_mistake_is_named():
    with pytest.raises(ValueError, match="rows is empty"):
        table([])
    with pytest.raises(ValueError, match="decimals names kl; the columns are arm, KL, steps"):
        table(ROWS, kl=2)
    with pytest.raises(TypeError, match=r"column 'x' holds a Tensor; give .*\.item\(\)"):
        table([{"x": torch.tensor(0.5)}])


def test_a_notebook_gets_both_forms():
    shown = table(ROWS)._repr_mimebundle_()
    assert set(shown) == {"text/html", "text/plain"}
