"""How many planted faults the rules find first: ``python -m tests.logs.hits`` writes ``hits.md``.

A fault is *hit* if the first alarm is of a rule that names its cause, or has it among what to check. An alarm on a
healthy log is *false*.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlnotes.files import replace_text
from rlnotes.logs import read
from rlnotes.logs.cards import rows
from rlnotes.logs.stored_logs import FOLDER

HERE = Path(__file__).parent
HITS = {
    "equal_groups": ("equal-groups", "equal-rewards"),
    "learning_rate": ("falls-below-the-start", "rate-past-the-edge"),
    "no_warm_up": ("falls-below-the-start", "rate-past-the-edge"),
    "slow": ("stands-still",),
    "kl_holds": ("penalty-holds", "penalty-outweighs", "stands-still"),
    "k1_in_loss": ("k1-in-loss", "penalty-outweighs"),
    "entropy_bonus": ("bonus-outweighs", "entropy-rises"),
    "length_pays": ("reward-part-falls", "length-without-reward", "truncation"),
    "truncation": ("answers-cut-off", "truncation"),
    "temperature": ("first-ratio", "mismatch-prob", "mismatch-logp"),
    "staleness": ("staleness", "mismatch-logp", "mismatch-grows", "mismatch-grows-logp"),
    "mask_drops": ("most-tokens-silent", "weights-drop-answers"),
    "memorised": ("heldout-does-not-follow",),
    "rounded": ("mismatch-prob", "mismatch-logp", "first-ratio"),
    "reward_hack": ("reward-part-falls", "heldout-does-not-follow"),
}
"""By fault of the manifest: the rules that name it"""


def judged() -> list[dict[str, Any]]:
    """For each stored log its half, fault, alarms in their order, and the verdict: hit, miss, false, or quiet."""
    found = []
    for entry in json.loads((HERE / "manifest.json").read_text(encoding="utf-8")):
        report = read(FOLDER / entry["log"], FOLDER / entry["config"])
        alarms = [finding.rule.name for finding in report.findings if finding.level == "alarm"]
        if entry["fault"] is None:
            verdict = "false" if alarms else "quiet"
        else:
            verdict = "hit" if alarms and alarms[0] in HITS[entry["fault"]] else "miss"
        found.append(dict(half=entry["half"], name=entry["name"], fault=entry["fault"], alarms=alarms, verdict=verdict))
    return found


def page(found: Iterable[dict[str, Any]]) -> str:
    """The table of hits, misses and false alarms: by log, and by rule."""
    found = sorted(found, key=lambda one: (one["half"] == "judging", one["fault"] is None, one["name"]))
    lines = ["# What the rules say of the stored logs", "", "Made by `python -m tests.logs.hits`.", ""]
    for half in ("tuning", "judging"):
        count = Counter(one["verdict"] for one in found if one["half"] == half)
        lines.append(
            f"Half *{half}*: {count['hit']} of {count['hit'] + count['miss']} faults first, "
            f"{count['false']} of {count['false'] + count['quiet']} healthy logs with an alarm."
        )
    logs = [
        [one["half"], one["name"], one["fault"] or "none", one["verdict"], ", ".join(one["alarms"])] for one in found
    ]
    lines += ["", *rows(["half", "log", "fault", "verdict", "alarms"], logs), ""]
    by_rule: dict[str, Counter[str]] = {}
    for one in found:
        for alarm in one["alarms"][:1] if one["verdict"] in ("hit", "miss") else one["alarms"]:
            by_rule.setdefault(alarm, Counter())[one["verdict"]] += 1
    counts = [
        [rule, *(str(count[word]) for word in ("hit", "miss", "false"))] for rule, count in sorted(by_rule.items())
    ]
    return "\n".join([*lines, *rows(["rule, as the first", "hits", "misses", "false alarms"], counts), ""])


if __name__ == "__main__":
    replace_text(HERE / "hits.md", page(judged()))
