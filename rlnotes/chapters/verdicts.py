"""The page of what the contests of all chapters decide: every difference in it is computed from the stored tables.

``python -m rlnotes.chapters.verdicts course/book/verdicts.md`` writes the page.
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rlnotes.files import replace_text
from rlnotes.logs.cards import rows
from rlnotes.studies.contest import less, results
from rlnotes.studies.tables import Table, load_table
from rlnotes.studies.verdicts import Verdict


class Line(NamedTuple):
    """What a contest says in words, the differences on which they rest with the word of each, what the first edition
    said, and whether that stands.

    ``"sapo, needle"`` is the difference to the method that the contest names first, on the same task, and
    ``"sapo, needle | unclipped, needle"`` that to another. Each method is at its own best learning rate.
    """

    verdict: str
    rests: Mapping[str, str]
    then: str
    now: str


NEW = "No runs on it."
LINES = {
    "07_penalties": Line(
        "Without GRPO's deviation, by leave one out: `k1` in the reward and `k2` in the loss hold the policy near its "
        "reference, and are ahead of no penalty on both tasks; `k3` in the loss on needle. `k1` in the loss is no "
        "penalty. `k2` in the reward holds in part. What they are ahead of on misled hardly moves: without a penalty "
        "that is the best rate.",
        {
            "k1 in reward, misled": "better",
            "k2 in loss, misled": "better",
            "k3 in loss, misled": "not told",
            "k2 in reward, misled": "within",
            "k1 in loss, misled": "within",
            "k1 in reward, needle": "better",
            "k2 in loss, needle": "better",
            "k3 in loss, needle": "better",
            "k2 in reward, needle | k1 in reward, needle": "worse",
            "k2 in loss, needle | k1 in reward, needle": "within",
            "k1 in loss, needle": "within",
            "k3 in reward, needle": "within",
            "k3 x ratio in loss, misled | k2 in loss, misled": "within",
            "k3 x ratio in loss, needle | k2 in loss, needle": "within",
        },
        "By a gradient on paper and a short run: `k1` in the reward, `k2` and `k3` in the loss hold the policy; `k1` "
        "in the loss has no gradient.",
        "Stands. New: `k2` and `k3` do not belong in the reward. `k3 x ratio` has the gradient of `k2` in the loss, "
        "sample by sample, as long as a rollout serves one update: it is that arm once more, and not counted. Of "
        "`k3` in the reward on misled nothing is said: the search for its rate stopped at a local top. Not tested: "
        "GRPO's own advantage, several updates to a rollout, a verifier with a gap.",
    ),
    "07_groups": Line(
        "Groups of 64 are behind pairs on one of two tasks. No other size is told from pairs. That 8 is ahead of 16 on "
        "misled did not come again on other seeds.",
        {
            "grpo, G = 4, misled": "not told",
            "grpo, G = 8, misled": "not told",
            "grpo, G = 16, misled": "not told",
            "grpo, G = 32, misled": "not told",
            "grpo, G = 64, misled": "worse",
            "grpo, G = 8, misled | grpo, G = 16, misled": "better",
            "grpo, G = 8, needle": "not told",
            "grpo, G = 64, needle": "not told",
        },
        NEW,
        "New. Of 8 less 16 on misled the three tuning seeds say the opposite, with an interval that leaves out 0 as "
        "well; on ten further seeds it is not told, and one run of each size died, at the rate that had been tuned. "
        "At twice that rate one of three tuning runs died with groups of 4, 8, 16 and 32.",
    ),
    "08_denominators": Line(
        "Where lengths vary fourfold, a constant in place of the mean per response changes next to nothing; the "
        "token mean (`ppo_clip`) and Dr. GRPO are not told from it. Where all lengths are one, constant and token "
        "mean are GRPO's equals.",
        {
            "grpo constant, ledger": "within",
            "ppo_clip, ledger": "not told",
            "dr_grpo, ledger": "not told",
            "grpo constant, misled": "within",
            "ppo_clip, misled": "within",
        },
        NEW,
        "New. Every token of ledger is needed, so that no length is a way out.",
    ),
    "08_length": Line(
        "Where the reward says nothing of length, the mean per response is ahead of all other denominators at equal "
        "tokens: its responses become short, so that the same tokens pay for more steps.",
        {"grpo constant, ramble": "worse", "ppo_clip, ramble": "worse", "dr_grpo, ramble": "worse"},
        "At one rate wrong responses of GRPO grow to the limit, on five of five seeds; at equal tokens it is ahead "
        "of Dr. GRPO in accuracy.",
        "The lead stands, each at its own best rate. New: there the mean length grew in 2 of 12 of its runs, and in "
        "10 or 11 of the others'. The likeliest answer is right before training, on the one start there is.",
    ),
    "08_wider_clip": Line(
        "Where right tokens are rare a wide upper end helps; `unclipped` gains as much. For the usual 0.28 no gain "
        "is told. On misled wide ends are ahead by less.",
        {
            "grpo high 0.28, needle": "not told",
            "grpo high 1.0, needle": "better",
            "grpo high 4.0, needle": "better",
            "unclipped, needle": "better",
            "grpo high 4.0, needle | unclipped, needle": "within",
            "grpo high 1.0, misled": "better",
            "grpo high 4.0, misled": "better",
            "grpo high 0.28, misled": "worse",
            "unclipped, misled": "not told",
        },
        "The upper clip makes no difference that five seeds can show, neither 0.28 nor 1.0.",
        "Changes. Right tokens of `sort` are likely before training, those of needle are rare. That 0.28 is behind "
        "0.2 on misled may come from its rate, which three seeds chose.",
    ),
    "08_dynamic": Line(
        "At equal tokens dynamic sampling costs on needle. On misled it is behind on all seeds but one, whose run "
        "without it falls to nothing in its first rounds; so it is not told.",
        {"dapo, needle": "worse", "dapo, needle | grpo, needle": "worse", "dapo, misled": "not told"},
        "At the smaller of two rates behind by 0.03 at equal tokens; at the larger ahead, with fewer steps in which "
        "to fall.",
        "The cost stands. The gain belonged to a rate that is too large; at its own best rate none is told.",
    ),
    "09_ranges": Line(
        "A range of 0.03 puts GSPO ahead of GRPO at 0.2 on both short tasks. On needle a wide range helps either "
        "kind. On ledger only a range of 0.003 is told to be alike, and none to be ahead.",
        {
            "gspo 0.03, misled": "better",
            "gspo 0.03, needle": "better",
            "grpo 0.5, needle": "better",
            "gspo open, needle": "better",
            "gspo 0.1, needle | grpo 0.5, needle": "within",
            "gspo, needle": "not told",
            "grpo 0.05, misled": "worse",
            "gspo 0.003, ledger": "within",
            "gspo, ledger": "not told",
        },
        "On `sort`, with a range tuned for GSPO alone, it is ahead of GRPO at 0.2 in the median. GRPO's best was the "
        "narrowest, 0.05.",
        "Changes: the narrow clip of tokens is the worst on misled. On needle the width decides, not the kind of "
        "ratio. For long responses the question is open.",
    ),
    "09_drift": Line(
        "Behind four bits a clip of responses around `pi_k` is ahead of GRPO on misled. That it is ahead of the same "
        "clip around `mu` is not told, and on ledger nothing is.",
        {
            "gspo 0.03 at pi_k, misled int4": "better",
            "gspo 0.03 corrected, misled int4": "better",
            "gspo 0.03, misled int4": "not told",
            "gspo 0.03 at pi_k, misled int4 | gspo 0.03, misled int4": "not told",
            "gspo 0.03 at pi_k, ledger int4": "not told",
        },
        "Whether a noisy sampler is a reason for ratios of responses, five seeds cannot say.",
        "Stands: not told.",
    ),
    "09_experts": Line(
        "On experts nothing is told between GSPO, at either range, and GRPO, with replayed routes or without. Replay "
        "has not made GSPO better.",
        {
            "gspo, misled experts": "not told",
            "gspo 0.03, misled experts": "not told",
            "unclipped, misled experts": "not told",
            "gspo, misled experts, replayed": "not told",
            "gspo 0.03, misled experts, replayed": "not told",
            "unclipped, misled experts, replayed": "not told",
            "gspo, misled experts | gspo, misled experts, replayed": "better",
            "gspo 0.03, misled experts | gspo 0.03, misled experts, replayed": "not told",
            "grpo, misled experts | grpo, misled experts, replayed": "not told",
        },
        NEW,
        "GSPO's own rate is twice as large without replay; what of its lead comes from that is not told.",
    ),
    "10_gates": Line(
        "Where right tokens are rare the published soft gate is ahead of the clip, like `unclipped`, and on ledger "
        "its equal. On misled nothing is told, and one of twelve runs died. A gate of strength 10 with one side open "
        "is the clip's equal on two tasks. Other strong gates cost on misled or on ledger.",
        {
            "sapo, needle": "better",
            "sapo, needle | unclipped, needle": "within",
            "sapo, ledger": "within",
            "sapo, misled": "not told",
            "sapo_one_sided 10, needle": "not told",
            "sapo_one_sided 10, ledger": "within",
            "sapo_one_sided 10, misled": "within",
            "sapo 10, misled": "worse",
            "sapo 30, ledger": "worse",
            "sapo_one_sided 30, ledger": "worse",
        },
        "With small steps no difference; with larger ones behind GRPO, or lost like no gate.",
        "Changes: that was `sort`. Where the likeliest answer has to change, the published gate is nowhere told to "
        "be behind.",
    ),
    "10_gates_sort": Line(
        "Where large steps spoil what is known, the published soft gate is behind the clip, and so is a strong one "
        "with two sides. In the mean over a run a strong gate with one side open is the clip's equal, and a stronger "
        "one is ahead; at the end both are behind it in greedy answers.",
        {
            "sapo, sort": "worse",
            "sapo_one_sided, sort": "worse",
            "sapo 10, sort": "worse",
            "sapo 30, sort": "worse",
            "sapo_one_sided 10, sort": "within",
            "sapo_one_sided 30, sort": "better",
            "unclipped, sort": "worse",
        },
        "Behind GRPO on all five seeds; of a stronger gate no difference seen.",
        "Stands, and goes further: for the mean an open side and a strong gate are needed, both. One start.",
    ),
    "11_corrections": Line(
        "Where data are 64 updates old, weights of whole responses learn faster than `unclipped` token ratios, which "
        "learn faster than those behind a clip. At the end of the runs none of these is told from another; one of "
        "twelve runs with either response weight fell, and none of `unclipped`. A loss that neither corrects nor "
        "clips is behind the clip, here and behind four bits, and on old data it is last at the end as well. On ledger "
        "behind eight bits nobody is told to be ahead. What is called a clip of response weights drops no token: it "
        "makes the weight of a response smaller, and nothing here rests on it.",
        {
            "sequence_is, misled lag 64": "better",
            "seq_tis, misled lag 64": "better",
            "unclipped, misled lag 64": "better",
            "seq_tis, misled lag 64 | unclipped, misled lag 64": "better",
            "token_tis clip, misled lag 64": "not told",
            "uncorrected, misled lag 64": "worse",
            "uncorrected, misled int4": "worse",
            "uncorrected clip, misled int4": "not told",
            "seq_tis, misled int4": "not told",
            "seq_tis, misled int4 | unclipped, misled int4": "better",
            "seq_tis, ledger int8": "not told",
        },
        "The sampler's bits make no difference. With 16 updates truncated weights of responses are ahead of token "
        "ratios at the smaller of two rates; at the larger none holds.",
        "The lead of response weights stands where data are old, now at each one's own best rate, and it is one of "
        "speed. Changes: behind four bits a loss that neither corrects nor clips is behind.",
    ),
    "12_versions": Line(
        "Data that are all eight rollouts old cost much: with the clip eight runs of twelve lost about 0.3, and four "
        "died. Half of them old is not told from fresh, be they whole responses or parts. Where all are old, "
        "`unclipped` is ahead of the clip; where half of the responses are, it is behind, and a third of its runs "
        "died.",
        {
            "grpo, old 32 | grpo, fresh": "worse",
            "grpo, kept 32 | grpo, fresh": "not told",
            "grpo, switching 32 | grpo, fresh": "not told",
            "grpo, switching 32 | grpo, kept 32": "not told",
            "unclipped, old 32": "better",
            "unclipped, kept 32": "worse",
            "unclipped, fresh": "not told",
        },
        "Whole responses or parts: no difference seen. All tokens 256 updates old cost about 0.07, half of them "
        "0.02; 64 updates are not told.",
        "The first stands. Changes: age costs several times as much where the answer has to change, at a best rate "
        "that is much larger, with which as many updates are a longer way. The narrow interval of all old hangs on "
        "three starts whose means happen to lie close: run by run it is -0.61 to -0.28. That `unclipped` is behind on "
        "half old hangs on its rate, chosen by 0.015; at half of it the tuning runs are alike.",
    ),
    "13_mechanisms": Line(
        "On fresh data all centres are one. On old data a clip of `pi / pi_k` is ahead of a clip around 1 on ledger; "
        "on misled the leads of the other centres are larger, and not told. Age costs. So does `pi_k`, which they "
        "recompute: a round of one pass takes a third more time (`13_cost`).",
        {
            "method_1, misled": "within",
            "method_2, misled": "within",
            "decoupled_ppo, misled": "within",
            "method_2, ledger lag 8": "better",
            "method_2, misled lag 8": "not told",
            "method_1, misled lag 32": "not told",
            "decoupled_ppo, misled lag 32": "not told",
            "unclipped, misled lag 32": "not told",
            "stale_ppo, misled lag 32 | stale_ppo, misled": "worse",
        },
        "At the large rate any clip beats none; in accuracy no clip wins at both rates.",
        "Changes in part: each at its own best rate, `unclipped` is not told from a clip around 1; and one centre "
        "has a lead on one task.",
    ),
    "14_masks": Line(
        "Behind four bits, on misled, the one-sided mask of responses is ahead of `unclipped`, and so is a mask of "
        "tokens by their divergence; `trm` and `trm_max` are the equals of `unclipped`, and behind the clip. No mask "
        "is told to be ahead of the clip there. Where data are old the one-sided mask is behind `unclipped`; "
        "`unclipped` is ahead of the clip. On ledger no mask is told to be ahead of anything.",
        {
            "trm_one_sided, misled int4 | unclipped, misled int4": "better",
            "dppo_tv, misled int4 | unclipped, misled int4": "better",
            "trm, misled int4 | unclipped, misled int4": "within",
            "trm_max, misled int4 | unclipped, misled int4": "within",
            "trm, misled int4": "worse",
            "trm_max, misled int4": "worse",
            "trm_one_sided, misled int4": "not told",
            "unclipped, misled int4": "not told",
            "trm_one_sided, misled lag 64 | unclipped, misled lag 64": "worse",
            "trm, misled lag 64": "not told",
            "unclipped, misled lag 64": "better",
            "dppo_tv, misled lag 64": "better",
            "trm_one_sided, ledger int4": "not told",
        },
        "At the small rate the clip is ahead of no mask. A mask of responses less no mask decides nothing; the "
        "one-sided mask less that of two sides is not told.",
        "Changes. Masks of responses are decided behind four bits: one-sided helps, two-sided does not. The clip's "
        "lead over `unclipped` is not told at each one's own best rate, and where data are old it is behind. A third "
        "of the runs of `trm` died there. The lead of `dppo_tv` there hangs on three starts whose means happen to "
        "lie close: seed by seed its interval holds 0.",
    ),
    "15_regions": Line(
        "Where right tokens are rare everything is ahead of the published clip: DPPO, a wide clip, the clip let go "
        "for rare tokens, and `unclipped`. These are alike. On misled one is ahead, by little.",
        {
            "dppo_tv, needle": "better",
            "wide_clip, needle": "better",
            "relax_both, needle": "better",
            "unclipped, needle": "better",
            "dppo_tv, needle | relax_both, needle": "within",
            "dppo_tv, needle | unclipped, needle": "within",
            "wide_clip, needle | unclipped, needle": "within",
            "dppo_kl, misled": "better",
            "dppo_tv, misled": "not told",
            "relax_both, misled": "not told",
        },
        "DPPO is far ahead of the published clip on rare tokens, and so are a wide clip, no mask, and the clip let "
        "go for rare tokens.",
        "Stands, with all rates tuned alike.",
    ),
    "16_contest": Line(
        "With old weights a clip around `mu` costs most: no clip, MiniRL's around `pi_k` and the least mask are ahead "
        "of it, and the least mask also of DPPO-KL. Behind four bits DPPO and the least mask are ahead of no mask, and "
        "DPPO-KL is alike around `mu` and around `pi_k`. With neither DPPO-KL is ahead of the clip, by little.",
        {
            "unclipped, misled lag 64": "better",
            "minirl, misled lag 64": "better",
            "negative_mask, misled lag 64": "better",
            "dppo_kl, misled lag 64": "better",
            "negative_mask, misled lag 64 | dppo_kl, misled lag 64": "better",
            "negative_mask, misled lag 64 | unclipped, misled lag 64": "not told",
            "dppo_kl, misled lag 64 | unclipped, misled lag 64": "not told",
            "dppo_kl, misled lag 64 | dppo_kl at pi_k, misled lag 64": "not told",
            "minirl, misled lag 64 | minirl_tis, misled lag 64": "not told",
            "dppo_kl, misled int4 | unclipped, misled int4": "better",
            "dppo_tv, misled int4 | unclipped, misled int4": "better",
            "negative_mask, misled int4 | unclipped, misled int4": "better",
            "dppo_kl, misled int4 | dppo_kl at pi_k, misled int4": "within",
            "minirl, misled int4 | minirl_tis, misled int4": "within",
            "negative_mask, misled int4 | negative_mask 0.8, misled int4": "within",
            "negative_mask, misled int4 | positive_mask, misled int4": "better",
            "dppo_kl, misled": "better",
            "unclipped, misled": "not told",
            "negative_mask, misled | positive_mask, misled": "better",
        },
        "On `sort`, at the best of three rates: DPPO is ahead of no mask and not of the clip; an anchor at `mu` is "
        "ahead with old weights in one of three tests; the least mask is not enough.",
        "Changes with old weights: there the clip around `mu` is what costs, and DPPO's lead over no mask is not told. "
        "At their own rates neither no mask nor the least one loses a run, so these runs do not show that a mask is "
        "needed. Stands behind four bits.",
    ),
    "17_contest": Line(
        "`dppo_kl`, `dppo_tv` and two relatives are ahead of GRPO on misled and on needle, and alike or not told from "
        "it on ledger. On needle nearly all that let go of the clip for rare tokens are far ahead; whatever clips "
        "ratios of tokens around 1 or `pi_k` is not told from GRPO. On ledger `vanilla_pg` is ahead, which on misled "
        "is not told. No recipe is told to be ahead on all three.",
        {
            "dppo_kl, misled": "better",
            "dppo_tv, misled": "better",
            "dppo_topk_tv, misled": "better",
            "dppo_topk_kl, misled": "better",
            "relax_both, misled": "better",
            "dppo_kl, needle": "better",
            "dppo_tv, needle": "better",
            "dppo_topk_tv, needle": "better",
            "dppo_topk_kl, needle": "better",
            "relax_both, needle": "better",
            "unclipped, needle": "better",
            "negative_mask, needle": "better",
            "sapo, needle": "better",
            "ppo_clip, needle": "not told",
            "minirl, needle": "not told",
            "method_1, needle": "not told",
            "dppo_kl, ledger": "within",
            "dppo_tv, ledger": "within",
            "dppo_topk_tv, ledger": "not told",
            "vanilla_pg, ledger": "better",
            "vanilla_pg, misled": "not told",
            "gspo, ledger": "worse",
            "rloo, misled": "worse",
        },
        "By the mean of six tasks, of which three are `sort`, the plain policy gradient comes first.",
        "Changes: DPPO comes before `vanilla_pg` where the likeliest answer has to change. `trm` and `trm_max` lose "
        "three runs of twelve on ledger. No difference is corrected for there being 33 recipes.",
    ),
    "17_others": Line(
        "Where the likeliest answer is right already `vanilla_pg` is far ahead of GRPO, weights of responses and "
        "masks of responses are ahead by less, `rloo` and `gspo` are behind. On ramble nearly all are behind, by "
        "GRPO's denominator (see `08_length`). Of 33 recipes `dppo_kl` and `vanilla_pg` alone are ahead on two "
        "tasks and alike on the third.",
        {
            "vanilla_pg, reverse": "better",
            "vanilla_pg, renamed": "better",
            "vanilla_pg, ramble": "within",
            "sequence_is, reverse": "better",
            "sequence_is, renamed": "better",
            "sequence_is, ramble": "worse",
            "trm_one_sided, reverse": "better",
            "trm_one_sided, renamed": "better",
            "trm_one_sided, ramble": "worse",
            "dppo_kl, reverse": "better",
            "dppo_kl, renamed": "better",
            "dppo_kl, ramble": "within",
            "ppo_clip, ramble": "worse",
            "rloo, reverse": "worse",
            "rloo, renamed": "worse",
            "gspo, reverse": "worse",
            "gspo, renamed": "worse",
        },
        "As above.",
        "The lead of `vanilla_pg` stands on these tasks. New: with the three above, `dppo_kl` is told to be ahead of "
        "GRPO on four of six tasks and alike on two. One start each.",
    ),
}

HEAD = """# What the contests decide

A *contest* compares methods on equal terms. Each method has its own best learning rate on each task, chosen on three
seeds apart; more rates are tried until the best has both its neighbours. Then each makes ten runs or more of equally
many sampled tokens. What is compared is the mean accuracy over the run, on new prompts. In `07_penalties` it is the
accuracy less the price of the distance to the reference.

Behind a difference stands its 95 % interval, and the word that follows from it. *Not told* does not say that two are
equal: that is said only where the whole interval lies within the margin stated before the runs. Runs of one warm start
count as one. Three starts leave two degrees of freedom, which makes intervals wide. `ramble` and `sort` have one start,
and each of their seeds counts. Nothing is corrected for the number of differences: of a hundred that are none, some
five would be told.

A difference is to the method that a contest names first, in the head of the last column of its folded table, unless two
are named. All differences are computed from the stored tables.
"""

AGAIN = """
Contests without a card ran on the cores of a processor. Seconds are those of the clock, while up to eight contests ran
side by side on two cards and 16 cores; where none stand they were not noted. `09_experts` was made in part on one
processor, in part on another.

A command makes a table again, but not to the last bit on every machine. Of each contest two whole runs, seeds 0 and 1
of one method at its own rate, were made twice on another processor with another version of PyTorch. All were equal to
their own repetition, and those of contests without a card to the stored ones, in every stored digit. Parts of three
others were made twice on one card: 60 runs of `11_corrections` were equal, 48 of `15_regions` and 60 of `09_ranges`
were not, since a card may add in another order; of these two runs were looked at, whose accuracies agreed in three
digits. From one seed a card draws other samples than a processor. So a run of a card's table that is made on a
processor has the same start, whose greedy accuracy is equal, and another course.
"""


@cache
def _table(name: str) -> Table:
    return load_table(name)


def told(name: str, difference: str) -> Verdict:
    """A difference of the contest ``name``: see :class:`Line`. Raises ``KeyError`` for a method it did not report."""
    table = _table(name)
    names = {f"{table.labels[one]['recipe']}, {table.labels[one]['task']}": one for one in table.rows}
    ours, _, theirs = difference.partition(" | ")
    first = next(iter(table.labels.values()))["recipe"]
    return less(table, names[ours], names[theirs or f"{first}, {table.labels[names[ours]]['task']}"])


def _rest(name: str, difference: str) -> list[str]:
    verdict = told(name, difference)
    return [" less ".join(f"`{one}`" for one in difference.split(" | ")), str(verdict.difference), verdict.word]


def _tasks(name: str) -> str:
    found = {row["task"]: row["start, greedy"] for row in results(_table(name))}
    return ", ".join(f"{task} ({greedy:.2f})" for task, greedy in found.items())


def verdicts_page() -> str:
    """The page: questions and verdicts, what changes since the first edition, every difference, every command."""
    questions, changes, made, differences = [], [], [], []
    for name, line in LINES.items():
        table = _table(name)
        questions.append([f"{table.settings['comparison']['question']} `{name}`", _tasks(name), line.verdict])
        changes.append([f"`{name}`", line.then, line.now])
        machine = table.settings["machine"]
        made.append([f"`{table.command}`", machine.get("card", ""), str(machine.get("seconds", ""))])
        found = results(table)
        body = [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in found]
        rests = rows(["difference", "with its interval", "word"], [_rest(name, one) for one in line.rests])
        differences += ["", f"### {name}", "", *rests]
        differences += ["", ":::{dropdown} All methods", *rows([*found[0]], body), ":::"]
    head = ["question", "tasks (greedy accuracy of the start)", "verdict"]
    parts = [HEAD, "## Questions and verdicts", "", *rows(head, questions)]
    parts += ["", "## Since the first edition", ""]
    parts += [*rows(["contest", "then", "now, and why"], changes), "", "## On what the verdicts rest", *differences]
    return "\n".join([*parts, "", "## How they were made", AGAIN, *rows(["command", "card", "seconds"], made), ""])


if __name__ == "__main__":
    replace_text(Path(sys.argv[1]), verdicts_page())
