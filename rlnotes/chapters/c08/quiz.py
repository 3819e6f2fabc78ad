"""Quiz of chapter 08, Dr. GRPO and DAPO."""

from rlnotes.exact.groups import wasted_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

WIDTHS = (100, 400)  # the longest response of two micro-batches
G, P = 8, 0.98
KEPT = (P - P**G) / (1 - wasted_share(G, P))

QUIZ = Quiz(
    "Quiz of chapter 08",
    (
        Question(
            "Dr. GRPO leaves out two divisions of GRPO. Which of them makes long wrong responses cheap?",
            (
                Choice(
                    "That by the standard deviation of the group.",
                    "It is one positive number for all responses of a group, long and short ones: it weighs groups.",
                ),
                Choice(
                    "That by the length of the response.",
                    "The punishment of a wrong response is divided among its tokens, so a long one gets less at each.",
                    right=True,
                ),
                Choice(
                    "Only both together.",
                    "The length alone does it: Theorem 8.3 has no standard deviation in it.",
                ),
            ),
        ),
        Question(
            "You log right and wrong responses apart, and wrong ones are only 2 tokens longer, of 16. Is it still "
            "possible that the loss divides each response by its own length?",
            (
                Choice(
                    "Not possible: the gap would be large.",
                    "At a high rate it was not: in the contest of this chapter 4 of 12 runs had a gap below 5 tokens, "
                    "and without a clip all 12.",
                ),
                Choice(
                    "Possible: a large gap speaks for it, a small one does not speak against it. Look up the setting.",
                    "So it was in the runs of 30 steps: no false alarm, but the alarm was missed at high rates.",
                    right=True,
                ),
                Choice(
                    "That is told by the mean length of all responses.",
                    "In the chapter's loop it grew in 14 of 38 runs with the response mean, and in 24 of 38 with the "
                    "constant.",
                ),
            ),
        ),
        Question(
            "verl, loss_agg_mode=seq-mean-token-sum-norm, loss_scale_factor not set, responses padded to the longest "
            "of their micro-batch. Two micro-batches, as many "
            f"responses in each; the longest has {WIDTHS[0]} tokens in one and {WIDTHS[1]} in the other. What is the "
            "share of a token of the first, beside one of the second?",
            (
                Choice(
                    f"{WIDTHS[1] // WIDTHS[0]} times as large",
                    "Each micro-batch is divided by its own longest response. One outlier makes all its neighbours "
                    "count less.",
                    right=True,
                ),
                Choice(
                    "The same: the constant is Dr. GRPO's.",
                    "Not set, the constant is the padded width of the micro-batch. Set it to the largest length "
                    "allowed.",
                ),
                Choice(
                    f"1/{WIDTHS[1] // WIDTHS[0]} as large",
                    "The other way round: it stands below the fraction, so the part with short responses counts more.",
                ),
            ),
        ),
        Question(
            "The constant denominator, and responses that were cut off get no gradient. What does that ask for?",
            (
                Choice(
                    "What the reward asks for: the constant has no bias of length.",
                    "The constant has none as long as all tokens count. Now the length decides which ones do.",
                ),
                Choice(
                    "Shorter responses, right and wrong ones.",
                    "That is the soft penalty, which takes from the reward. A response without gradient is neither "
                    "pushed up nor down.",
                ),
                Choice(
                    "A wrong response gains by running into the limit, and a right one loses.",
                    "It counts as one that is as good as the mean: better than wrong, worse than right.",
                    right=True,
                ),
            ),
        ),
        Question(
            f"Dynamic sampling with groups of {G}. Each prompt is answered with chance {P:g}, and the log of the "
            f"trained groups reads {KEPT:.2f}. What is wrong?",
            (
                Choice(
                    "The policy is worse on kept prompts, which are the hard ones.",
                    "All prompts are equally hard here. Which groups are kept was decided by the rewards themselves.",
                ),
                Choice(
                    "Nothing: kept groups have a mean reward nearer to the middle. Log that of all that was sampled.",
                    "A group with all right responses is thrown away, and it had the most reward.",
                    right=True,
                ),
                Choice(
                    f"The true accuracy must be {KEPT:.2f}, too: rewards are not touched.",
                    f"They are not, but {wasted_share(G, P):.0%} of the groups are left out, nearly all with reward 1.",
                ),
            ),
        ),
    ),
)
