"""Which bound or mask for my run? A decision tree, whose evidence is computed from the stored tables."""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import NamedTuple

from rlnotes.chapters.c18 import readings
from rlnotes.chapters.c18.readings import AT_MU, AT_PI_K, DIVERGENCE, GRPO, UNCLIPPED
from rlnotes.chapters.verdicts import told
from rlnotes.logs.cards import Card
from rlnotes.studies.verdicts import Verdict

PROVED, CONTEST, REAL = "proved", "contest", "real"


class Proof(NamedTuple):
    """A statement of a chapter."""

    said: str


class Contest(NamedTuple):
    """A difference of a contest, as :func:`rlnotes.chapters.verdicts.told` names it, in words and computed."""

    said: str
    name: str
    difference: str


class Real(NamedTuple):
    """A difference of two arms of the real model, behind one sampler."""

    said: str
    kind: str
    ours: str
    theirs: str


class Distance(NamedTuple):
    """How often whole responses of the real model were too far away for a promise, behind these samplers."""

    kinds: tuple[str, ...]


Evidence = Proof | Contest | Real | Distance


class Leaf(NamedTuple):
    """What to do, and on what that rests."""

    do: str
    rests: tuple[Evidence, ...]


class Question(NamedTuple):
    """What is asked, where the answer stands, and the leaves of a yes."""

    asks: str
    looks: str
    leaves: tuple[Leaf, ...]


TREE = (
    Question(
        "Must the next update be promised a gain?",
        "you would rather stand still than fall",
        (
            Leaf(
                "Take small steps, short responses, an exact sampler, and L − D_seq on a fresh batch. "
                "Where D_seq is above 1 − reward, wait for no promise "
                "([counts](deeper/18_from_tiny_to_real.ipynb#Is-a-promise-in-reach?)).",
                (
                    Proof(
                        "J(π) − J(μ) ≥ L − D_seq for rewards in [0, 1] ([chapter 14](14_trust_region_masking.ipynb))"
                    ),
                    Distance(("int4", "none", "stale")),
                ),
            ),
        ),
    ),
    Question(
        "Is every ratio 1 when the gradient is taken?",
        "one update to a rollout; and the limit is around π_k, or the mismatch is 0 at every look",
        (
            Leaf(
                "No clip and no mask can act. Look at the advantage, and at what the loss is divided by "
                "([chapter 08](08_dr_grpo_dapo.ipynb)).",
                (Proof("all of them give the same gradient at ratio 1, if they share these two and the weight to μ"),),
            ),
        ),
    ),
    Question(
        "Is the sampler rounded?",
        "a mismatch at the first look: here 0.007 to 0.010 with 8 bits, 0.06 to 0.09 with 4. An engine's kernels: up "
        "to 0.005 is normal, says verl; not run here: take it as exact, and look on",
        (
            Leaf(
                "Record log μ. That the weight π/μ helps by itself is not told.",
                (
                    Contest(
                        "no clip: no weight less the weight",
                        "11_corrections",
                        "uncorrected, misled int4 | unclipped, misled int4",
                    ),
                    Contest("a clip: no weight less the weight", "11_corrections", "uncorrected clip, misled int4"),
                ),
            ),
            Leaf(
                "At 0.06 and more: no narrow clip at μ; try `minirl` first, which is not told from no limit. Up to "
                "0.01 no harm of that clip is told. Between, no real model was run: look for a wrong temperature or "
                "precision. "
                "Of `dppo_tv` and no limit tiny and real models say opposite things.",
                (
                    Real("`minirl` less the clip at μ", "int4", AT_PI_K, AT_MU),
                    Real("`minirl` less `dppo_tv`", "int4", AT_PI_K, DIVERGENCE),
                    Real("`minirl` less `pg_is`", "int4", AT_PI_K, UNCLIPPED),
                    Real("`dppo_tv` less `pg_is`", "int4", DIVERGENCE, UNCLIPPED),
                    Contest("`dppo_tv` less `pg_is`", "14_masks", "dppo_tv, misled int4 | unclipped, misled int4"),
                    Real("8 bits: `minirl` less the clip at μ", "int8", AT_PI_K, AT_MU),
                    Contest(
                        "response clip at π_k less the same at μ",
                        "09_drift",
                        "gspo 0.03 at pi_k, misled int4 | gspo 0.03, misled int4",
                    ),
                ),
            ),
            Leaf(
                "Dropping whole responses on both sides (`trm`, chapter 14) is worse on one task, not told on another.",
                (
                    Contest("`trm` less the clip", "14_masks", "trm, misled int4"),
                    Contest("the same, long responses", "14_masks", "trm, ledger int4"),
                ),
            ),
        ),
    ),
    Question(
        "Is the sampler some rounds behind?",
        "by your library's log of staleness; our `lag` is in updates",
        (
            Leaf(
                "If all of the data are old, first make it younger.",
                (
                    Contest("all data 8 rounds old less fresh", "12_versions", "grpo, old 32 | grpo, fresh"),
                    Contest("half of them old less fresh", "12_versions", "grpo, kept 32 | grpo, fresh"),
                ),
            ),
            Leaf(
                "All of them old: for sampled answers no narrow clip at μ. Of `dppo_tv`, `minirl` and no limit no "
                "order is told by both measures.",
                (
                    Contest("`dppo_tv` less the clip", "14_masks", "dppo_tv, misled lag 64"),
                    Contest("`pg_is` less the clip", "14_masks", "unclipped, misled lag 64"),
                    Contest("`dppo_tv` less `pg_is`", "14_masks", "dppo_tv, misled lag 64 | unclipped, misled lag 64"),
                    Real("`dppo_tv` less the clip at μ", "stale", DIVERGENCE, AT_MU),
                    Real("`minirl` less the clip at μ", "stale", AT_PI_K, AT_MU),
                    Real("`minirl` less `dppo_tv`", "stale", AT_PI_K, DIVERGENCE),
                    Real("`minirl` less `pg_is`", "stale", AT_PI_K, UNCLIPPED),
                ),
            ),
            Leaf(
                "Or capped weights of whole responses (`seq_tis` of chapter 11). Only half of the data old: keep the "
                "clip.",
                (
                    Contest("`seq_tis` less `pg_is clip`", "11_corrections", "seq_tis, misled lag 64"),
                    Contest("half old: `unclipped` less the clip", "12_versions", "unclipped, kept 32"),
                ),
            ),
        ),
    ),
    Question(
        "Are right tokens rare?",
        "a greedy accuracy near 0 at the start, and stopped tokens whose μ is small",
        (
            Leaf(
                "No narrow clip: `dppo_tv`, or no limit.",
                (
                    Contest("`dppo_tv` less the clip", "15_regions", "dppo_tv, needle"),
                    Contest("`dppo_tv` less `unclipped`", "15_regions", "dppo_tv, needle | unclipped, needle"),
                ),
            ),
        ),
    ),
    Question(
        "None of these, and several updates to a rollout?",
        "",
        (
            Leaf(
                "Keep the limit that you have. On one tiny task `dppo_tv` is just ahead of the clip; elsewhere that is "
                "not told, or within 0.03. No limit is a little behind `minirl` and `grpo` over the run, and in greedy "
                "answers.",
                (
                    Contest("`dppo_tv` less the clip, misled", "17_contest", "dppo_tv, misled | stale_ppo, misled"),
                    Contest("the same, long responses", "17_contest", "dppo_tv, ledger | stale_ppo, ledger"),
                    Real("`dppo_tv` less the clip at μ", "none", DIVERGENCE, AT_MU),
                    Real("`minirl` less `pg_is`", "none", AT_PI_K, UNCLIPPED),
                    Real("`grpo` less `pg_is`", "none", GRPO, UNCLIPPED),
                ),
            ),
        ),
    ),
)


def fine(verdict: Verdict) -> str:
    """Its interval to four digits: two of them end within 0.0005 of no difference."""
    value, low, high = verdict.difference
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def words(one: Evidence) -> str:
    """Grade, difference, interval and word of a piece of evidence."""
    match one:
        case Proof(said):
            return f"**{PROVED}**: {said}"
        case Contest(said, name, difference):
            verdict = told(name, difference)
            return f"**{CONTEST}** `{name}`: {said} {fine(verdict)}, *{verdict.word}*"
        case Distance(kinds):
            rounds = (f"{readings.KINDS[kind]} {readings.vacuous_by_arm(kind)}" for kind in kinds)
            return f"**{REAL}**: rounds with the logged D_seq (too low) above 1 − reward, by arm: {'; '.join(rounds)}"
        case Real(said, kind, ours, theirs):
            both = readings.run(ours, kind), readings.run(theirs, kind)
            end, mean = (readings.less(*both, of) for of in readings.MEASURES.values())
            seeds = len(readings.seeds(*both))
            return f"**{REAL}×{seeds}**: {said} {end.difference}, *{end.word}* / *{mean.word}*"


def lines() -> Iterator[str]:
    """The tree as Markdown: a numbered list of answers with their grades; folded below it, the evidence."""
    for number, question in enumerate(TREE, 1):
        where = f" ({question.looks})" if question.looks else ""
        yield f"{number}. **{question.asks}**{where}"
        for letter, leaf in zip(ascii_lowercase, question.leaves, strict=False):
            grades = dict.fromkeys(words(one).split("**")[1] for one in leaf.rests)
            yield f"   - {number}{letter}. {leaf.do} *({', '.join(grades)})*"
    yield from ("", "<details><summary>What each answer rests on</summary>", "")
    for number, question in enumerate(TREE, 1):
        for letter, leaf in zip(ascii_lowercase, question.leaves, strict=False):
            yield f"- {number}{letter}"
            yield from (f"  - {words(one)}" for one in leaf.rests)
    yield from ("", "</details>")


def tree() -> Card:
    """The decision tree: go down the questions, and stop at the first yes."""
    return Card("\n".join(lines()))


BESIDE = {
    "exact: dppo_tv less the clip": ("17_contest", "dppo_tv, misled | stale_ppo, misled", "none", DIVERGENCE, AT_MU),
    "4 bits: no limit less the clip": ("14_masks", "unclipped, misled int4", "int4", UNCLIPPED, AT_MU),
    "4 bits: dppo_tv less the clip": ("14_masks", "dppo_tv, misled int4", "int4", DIVERGENCE, AT_MU),
    "4 bits: dppo_tv less no limit": (
        "14_masks",
        "dppo_tv, misled int4 | unclipped, misled int4",
        "int4",
        DIVERGENCE,
        UNCLIPPED,
    ),
    "old: no limit less the clip": ("14_masks", "unclipped, misled lag 64", "stale", UNCLIPPED, AT_MU),
    "old: dppo_tv less the clip": ("14_masks", "dppo_tv, misled lag 64", "stale", DIVERGENCE, AT_MU),
}
"""what was asked of tiny models, in contests, and of the real one: two arms of it"""


def tiny_and_real() -> readings.Rows:
    """A row for each such question: the answers with their words."""
    found = readings.Rows()
    for asked, (name, difference, kind, ours, theirs) in BESIDE.items():
        verdict = told(name, difference)
        tiny = f"{fine(verdict)}, {verdict.word}"
        real = readings.told(readings.run(ours, kind), readings.run(theirs, kind), "real, {}")
        found.append({"sampler, and what is compared": asked, "tiny, over the run": tiny} | real)
    return found
