"""Studies: methods against each other on equal terms, the tables that they fill, and what may be said of them.

A study is written down (``study``, ``stability``, ``arena``, ``contest``; a chapter's is in its folder), run
(``runner``), kept as a table (``tables``) and judged (``verdicts``, and for several tasks together ``scores``). Reading
and judging need no torch.
"""

from rlnotes.studies.tables import Table, joined, load_rows, load_table, read_table
from rlnotes.studies.verdicts import Interval, Verdict, judge, median_interval, paired_difference, paired_interval

__all__ = [
    "Interval",
    "Table",
    "Verdict",
    "joined",
    "judge",
    "load_rows",
    "load_table",
    "median_interval",
    "paired_difference",
    "paired_interval",
    "read_table",
]
