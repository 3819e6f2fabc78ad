"""The table of all claims: what random search and the attacks made of each."""

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlnotes.bounds import attack_mdps, attack_mixtures, attack_tokens
from rlnotes.bounds.attack import (
    Claim,
    Finding,
    attack_from_families,
    attack_from_random,
    look_at_families,
    random_search,
)
from rlnotes.files import check_place, csv_text, replace_text

CLAIMS: tuple[Claim, ...] = (*attack_mdps.CLAIMS, *attack_mixtures.CLAIMS, *attack_tokens.CLAIMS)


class Effort(NamedTuple):
    """Per claim: random points, climbs from random points and from each family, evaluations of each climb (about)."""

    trials: int
    restarts: int
    evaluations: int


FULL, QUICK = Effort(250, 2, 150), Effort(20, 1, 20)


class Row(NamedTuple):
    """What was found out about a claim: by random points, by climbs from random points, by its families as they are,
    and by climbs from beside them.
    """

    claim: Claim
    random: Finding
    from_random: Finding
    families: Finding
    from_families: Finding

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All four."""
        return self[1:]

    @property
    def trials(self) -> int:
        """How many points in all."""
        return sum(finding.trials for finding in self.findings)

    @property
    def worst(self) -> float:
        """The largest tightness of all, infinite where a claim leaves no room at all for a gap."""
        return max(finding.worst for finding in self.findings)

    @property
    def broken(self) -> bool:
        """Whether anything broke the claim."""
        return any(finding.broken for finding in self.findings)

    @property
    def surprising(self) -> bool:
        """Whether a claim that we teach broke, or one that we refute did not."""
        return self.broken == self.claim.taught

    @property
    def verdict(self) -> str:
        """In a word or two; capitals for a surprise."""
        if self.claim.taught:
            return "BROKEN" if self.broken else "holds, attained" if self.claim.attained else "holds"
        return "broken, as shown" if self.broken else "SURVIVES"


def examine(claim: Claim, effort: Effort) -> Row:
    """Search and attack. The numbers depend on the claim's name and on the effort only."""
    rng = np.random.default_rng(zlib.crc32(claim.name.encode()))
    return Row(
        claim,
        random_search(claim, rng, effort.trials),
        attack_from_random(claim, rng, effort.restarts, effort.evaluations),
        look_at_families(claim),
        attack_from_families(claim, rng, effort.restarts, effort.evaluations),
    )


COLUMNS = ("bound", "source", "trials", "worst", "random", "optimiser", "family", "near family", "verdict")
WIDTHS = (49, 26, 7, 8, 8, 9, 8, 11, 16)


def cells(row: Row) -> tuple[str, ...]:
    """The row as text, in the order of ``COLUMNS``."""
    ratios = [_ratio(value) for value in (row.worst, *(finding.worst for finding in row.findings))]
    return row.claim.name, row.claim.source, str(row.trials), *ratios, row.verdict


def _ratio(value: float) -> str:
    if value == -math.inf:
        return "-"  # no point counted
    return f"{value:.4f}" if value < 100 else f"{value:.3g}"


def _line(texts: Sequence[str]) -> str:
    """Names to the left, numbers to the right."""
    aligned = [f"{text:{'>' if 2 <= i <= 7 else '<'}{WIDTHS[i]}}" for i, text in enumerate(texts)]
    return " ".join(aligned).rstrip()


def audit(effort: Effort = FULL, csv_file: Path | None = None, claims: Sequence[Claim] | None = None) -> int:
    """Examine ``claims``, or all, print a line for each as it comes, and a summary. Returns 1 for a surprise, else 0.

    ``csv_file`` takes the same table, in the end and whole. Raises ``OSError`` or ``ValueError``, before any work, for
    a place that takes no file.
    """
    if csv_file is not None:
        check_place(csv_file)
    print("worst: the largest share of its penalty that a gap used up, above 1 if the claim is false; found by")
    print("random points, an optimiser from random points, known worst cases, an optimiser from beside them\n")
    print(_line(COLUMNS))
    rows = []
    for claim in CLAIMS if claims is None else claims:
        rows.append(examine(claim, effort))
        print(_line(cells(rows[-1])), flush=True)
    if csv_file is not None:
        replace_text(csv_file, csv_text([COLUMNS, *map(cells, rows)]))
    surprises = [row.claim.name for row in rows if row.surprising]
    held, broken = sum(not row.broken for row in rows), sum(row.broken for row in rows)
    print(f"\n{len(rows)} claims: {held} hold, {broken} broken; surprises: {', '.join(surprises) or 'none'}")
    return 1 if surprises else 0
