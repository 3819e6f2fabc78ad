"""The table: all claims are in it, none that we teach breaks, all that we refute do; and its form."""

import csv
import inspect
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rlnotes import cli
from rlnotes.bounds import (
    as_printed,
    audit,
    cpi,
    derived,
    gradient_ascent,
    mdp,
    mixtures,
    tokens,
    tokens_as_printed,
)
from rlnotes.bounds.attack import Claim
from rlnotes.bounds.audit import CLAIMS, COLUMNS, QUICK, Effort, Row, examine
from rlnotes.bounds.result import Bound, Inequality

BY_NAME = {claim.name: claim for claim in CLAIMS}
MODULES = (mdp, cpi, mixtures, gradient_ascent, tokens, derived, as_printed, tokens_as_printed)
BUILDERS = {"improvement_bound", "mixture_bound", "of_gains", "of_ratios"}  # they take penalties, and claim nothing
LEAST = Effort(trials=3, restarts=1, evaluations=1)


@cache
def row(name: str) -> Row:
    return examine(BY_NAME[name], QUICK)


# --- Verdicts


def test_every_inequality_of_the_package_is_audited():
    made = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and inspect.signature(function).return_annotation in (Bound, Inequality)
        and name not in BUILDERS
    }
    assert len(made) > 50
    assert made <= {name.partition(",")[0] for name in BY_NAME}
    assert len(BY_NAME) == len(CLAIMS)


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS if claim.taught])
def test_nothing_breaks_a_bound_that_is_taught(name: str):
    assert not row(name).broken, row(name).worst


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS if not claim.taught])
def test_something_breaks_every_claim_that_is_refuted(name: str):
    assert row(name).broken


def test_the_worst_ratios_are_those_of_hand_work():
    """Half for 001's chains, half for 004's linear penalty with signed rewards, 2 for the printed Theorem 2.1."""
    assert row("tokens.tv_chain").worst == pytest.approx(0.5, abs=1e-3)
    assert row("tokens.kl_chain").worst == pytest.approx(0.5, abs=1e-3)
    assert row("tokens.pinsker_marginal").worst == pytest.approx(0.75 / 2**1.5, abs=1e-3)
    assert row("tokens.linear").worst == pytest.approx(0.5, abs=1e-3)
    assert 1.9 < row("as_printed.max_tv").worst < 2


def test_random_points_alone_do_not_break_004_theorem_2_1():
    assert not row("as_printed.max_tv").random.broken
    assert row("as_printed.max_tv").families.broken and row("as_printed.max_tv").from_families.broken


def test_numbers_repeat():
    first, again = (examine(BY_NAME["cpi.conservative"], QUICK) for _ in range(2))
    assert audit.cells(first) == audit.cells(again)


# --- Output


def halved(name: str) -> Claim:
    """A taught claim with half its penalty, still said to be taught."""
    claim = BY_NAME[name]

    def judge(*arguments) -> Inequality:
        judged = claim.judge(*arguments)
        assert isinstance(judged, Inequality)
        return Inequality(judged.left, np.asarray(judged.right) / 2)

    return replace(claim, judge=judge)


def test_a_surprise_gives_status_one_and_is_named(capsys):
    claims = [BY_NAME["mdp.occupancy_shift"], BY_NAME["as_printed.max_tv"]]
    assert audit.audit(LEAST, claims=claims) == 0
    shown = capsys.readouterr().out
    assert "holds, attained" in shown and "broken, as shown" in shown
    assert "2 claims: 1 hold, 1 broken; surprises: none" in shown
    assert audit.audit(LEAST, claims=[halved("mdp.occupancy_shift")]) == 1
    shown = capsys.readouterr().out
    assert "BROKEN" in shown and "surprises: mdp.occupancy_shift" in shown
    assert audit.audit(LEAST, claims=[replace(BY_NAME["mdp.max_tv"], taught=False)]) == 1
    assert "SURVIVES" in capsys.readouterr().out


def test_columns_stand_under_their_titles(capsys):
    audit.audit(LEAST, claims=[BY_NAME["tokens.linear"], BY_NAME["tokens_as_printed.identity_as_printed"]])
    title, first, second = capsys.readouterr().out.splitlines()[3:6]
    assert title.startswith("bound ") and title.endswith(" verdict")
    start = title.index("verdict")
    assert first[start:] == "holds" and second[start:] == "broken, as shown"
    assert " inf " in second and " - " in second  # no penalty at all; no point counts beside the family


def test_the_longest_names_fit():
    assert max(len(claim.name) for claim in CLAIMS) <= audit.WIDTHS[0]
    assert max(len(claim.source) for claim in CLAIMS) <= audit.WIDTHS[1]


def test_the_table_can_be_kept(tmp_path: Path):
    kept = tmp_path / "audit.csv"
    assert audit.audit(LEAST, kept, [BY_NAME["derived.certificate, kl"]]) == 0
    with kept.open(encoding="utf-8", newline="") as file:
        title, line = csv.reader(file)
    assert tuple(title) == COLUMNS
    assert line[0] == "derived.certificate, kl" and line[-1] == "holds, attained"
    assert int(line[2]) > 10 and 0.98 < float(line[3]) <= 1


def test_a_table_that_is_not_whole_is_not_kept(tmp_path: Path, monkeypatch):
    kept = tmp_path / "audit.csv"
    kept.write_text("before", encoding="utf-8")
    claims = [BY_NAME["derived.certificate, kl"]] * 2
    done = iter([audit.examine(claims[0], LEAST)])
    monkeypatch.setattr(audit, "examine", lambda *_: next(done))
    with pytest.raises(StopIteration):
        audit.audit(LEAST, kept, claims)
    assert kept.read_text(encoding="utf-8") == "before" and [*tmp_path.iterdir()] == [kept]


@pytest.mark.parametrize("place", [".", os.devnull])
def test_a_table_goes_into_no_folder_and_no_device(tmp_path: Path, monkeypatch, place: str):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is a folder or a device; choose another place"):
        audit.audit(LEAST, Path(place), [])
    assert not any(tmp_path.iterdir())


def test_the_command_passes_its_options_on(monkeypatch, tmp_path: Path):
    seen = []
    monkeypatch.setattr(audit, "audit", lambda effort, csv_file: seen.append((effort, csv_file)) or 1)
    for options in ([], ["--quick", "--csv", str(tmp_path / "x.csv")]):
        monkeypatch.setattr(sys, "argv", ["rlnotes", "audit", *options])
        assert cli.main() == 1
    assert seen == [(audit.FULL, None), (QUICK, tmp_path / "x.csv")]


def test_a_missing_folder_is_one_line(monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setattr(sys, "argv", ["rlnotes", "audit", "--csv", str(tmp_path / "no" / "x.csv")])
    assert cli.main() == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and "x.csv" in shown.err and not shown.out


def test_the_audit_needs_no_torch():
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from rlnotes.bounds import audit\n"
        "audit.CLAIMS = audit.CLAIMS[:1]\n"
        "sys.argv = ['rlnotes', 'audit', '--quick']\n"
        "from rlnotes.__main__ import main\n"
        "raise SystemExit(main())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    assert "1 claims: 1 hold" in result.stdout
