"""What a few runs can show: closed forms for two recipes whose scores are Gaussian with one known deviation.

Real scores are not Gaussian, and their deviation is estimated from the same few runs, so that real tables need rather
more runs than these functions say.
"""

from typing import Any

from scipy.stats import norm

Numbers = Any  # a float, or an array of floats


def standard_error(seeds: Numbers, spread: Numbers) -> Numbers:
    """Of the difference of two means of ``seeds`` runs each; ``spread`` is the deviation of one run's score."""
    return spread * (2 / seeds) ** 0.5


def wrong_order(seeds: Numbers, gap: Numbers, spread: Numbers) -> Numbers:
    """Chance that the recipe that is better by ``gap`` has the smaller mean of its ``seeds`` runs."""
    return norm.cdf(-gap / standard_error(seeds, spread))


def detection(seeds: Numbers, gap: Numbers, spread: Numbers, level: Numbers = 0.05) -> Numbers:
    """Chance that the better one is called better: by an interval that a difference of nothing would miss, on either
    side, with chance ``level``.
    """
    return norm.cdf(gap / standard_error(seeds, spread) - norm.isf(level / 2))


def any_false(comparisons: Numbers, level: Numbers = 0.05) -> Numbers:
    """Chance of at least one false verdict in independent ``comparisons`` of recipes that are all the same."""
    return 1 - (1 - level) ** comparisons
