"""The quiz of chapter 07, GRPO."""

from rlnotes.exact.groups import mean_deviation, wasted_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

OF_THE_MEAN, OF_EACH = wasted_share(8, 0.25), (1 + wasted_share(8, 0.5)) / 2  # shares of groups without a push
HARD = 0.02  # success rate of a hard prompt, beside one of a half
PUSH, EVEN = (float(mean_deviation(16, p) / (p * (1 - p))) for p in (HARD, 0.5))

QUIZ = Quiz(
    "Quiz of chapter 07",
    (
        Question(
            "TRL with its defaults, loss_type dapo, and one update to a rollout. The loss reads 0.03, above 0 at every "
            "step. What does that say?",
            (
                Choice("The policy gets worse.", "The loss is no estimate of the reward, and says nothing of it."),
                Choice("The learning rate is too large.", "The loss is computed before the step: no rate is in it."),
                Choice(
                    "The responses with negative advantages are the longer ones.",
                    "At ratio 1 the mean over tokens is minus the sum of length times advantage, by all tokens.",
                    right=True,
                ),
                Choice("The samples are not fresh.", "One update to a rollout: every ratio is 1."),
            ),
        ),
        Question(
            "Half of your prompts are never solved, the other half with chance 0.5; groups of 8. Which share of the "
            "groups pushes nothing?",
            (
                Choice(
                    f"{OF_EACH:.0%}",
                    "All groups of the first half, and nearly none of the second. Larger groups do not change that.",
                    right=True,
                ),
                Choice(
                    f"{OF_THE_MEAN:.0%}",
                    "That is p^8 + (1 - p)^8 of the mean p, 0.25. No prompt has that p: take the mean over prompts.",
                ),
                Choice(f"{wasted_share(8, 0.5):.1%}", "Those of the second half only. The first half is never solved."),
            ),
        ),
        Question(
            "k1 in the reward, with GRPO's advantage. On solved prompts the penalty pulls too hard, so you divide beta "
            "by ten. What changes in a group of right answers?",
            (
                Choice("The pull is divided by ten.", "So it would be with the mean only, or with leave one out."),
                Choice(
                    "Nothing.",
                    "All rewards are equal but for the penalty, and the standard deviation divides beta out.",
                    right=True,
                ),
                Choice(
                    "The pull is gone: such a group pushes nothing.",
                    "The rewards less the penalty are not equal, so their deviation is not 0.",
                ),
            ),
        ),
        Question(
            f"Two prompts, solved with chance {HARD} and 0.5; groups of 2. Under GRPO, which push is the larger "
            "multiple of its own true gradient?",
            (
                Choice(
                    "Both are the same multiple.",
                    f"It is 1.00. The factor is at most the root of G - 1. In groups of 16 it is {PUSH:.1f} for the "
                    f"hard prompt, and {EVEN:.1f} for the even one.",
                    right=True,
                ),
                Choice(
                    "That of the even one.", "Its push is the larger one. As a multiple of its own gradient it is not."
                ),
                Choice(
                    "That of the hard one.",
                    f"So it is in groups of 16, {PUSH:.1f} times. In groups of 2 the bound, the root of G - 1, is 1.",
                ),
            ),
        ),
        Question(
            "A verl configuration has use_kl_loss=True, kl_loss_type=k1 and one update to a rollout. The KL to the "
            "reference grows. What do you do?",
            (
                Choice(
                    "Raise kl_loss_coef.",
                    "Whatever the coefficient, its mean gradient knows nothing of the reference. The noise grows.",
                ),
                Choice(
                    "Set kl_loss_type to k2, or to k1+.",
                    "Both have, in the mean, the gradient of the next token's KL(pi, ref).",
                    right=True,
                ),
                Choice(
                    "Switch use_kl_in_reward on as well, and leave the rest.",
                    "k1 in the reward does hold. What is left in the loss then is noise only: take it out.",
                ),
            ),
        ),
    ),
)
