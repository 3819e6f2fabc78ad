"""The comparisons whose tables come with the package, by name."""

from rlnotes.lm.compare import Comparison

COMPARISONS: dict[str, Comparison] = {}
