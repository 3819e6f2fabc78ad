"""The quiz of chapter 07, GRPO."""

import numpy as np

from rlnotes.exact.groups import mean_deviation, wasted_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

OF_THE_MEAN, OF_EACH = wasted_share(8, 0.25), (1 + wasted_share(8, 0.5)) / 2  # shares of groups without a push
HARD = 0.02  # success rate of a hard prompt, beside one of a half
PUSH, EVEN = (float(mean_deviation(16, p) / (p * (1 - p))) for p in (HARD, 0.5))

QUIZ = Quiz(
    "Quiz of chapter 07",
    (
        Question(
            "With one update to a rollout the loss of GRPO reads 0.0000 at every step, and the gradient norm 0.3. What "
            "do you conclude?",
            (
                Choice("Nothing is learned.", "Then the gradient would be 0 as well. Its norm is 0.3."),
                Choice(
                    "Nothing: look at the held-out reward.",
                    "At ratio 1 the loss is minus the mean of the advantages, 0 by construction. A norm of 0.3 is "
                    "no alarm and no good news either.",
                    right=True,
                ),
                Choice("The policy has converged.", "The loss reads 0 in the first step, too."),
                Choice("The learning rate is too small.", "The loss is computed before the step: no rate is in it."),
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
            "From each reward the mean of its own group of G is taken, and no more. What does that do to the mean "
            "gradient?",
            (
                Choice("Nothing.", "That holds for a baseline which does not contain the response's own reward."),
                Choice(
                    "It becomes (G - 1) / G of itself.",
                    "The share 1 / G of the baseline is the response's own reward. Leave one out has no such share.",
                    right=True,
                ),
                Choice(
                    "Hard prompts count more.",
                    "That is what the division by the standard deviation does. The factor (G - 1) / G is the same for "
                    "all prompts.",
                ),
            ),
        ),
        Question(
            f"Two prompts, solved with chance {HARD} and 0.5; groups of 16. Under GRPO, which push is the larger "
            "multiple of its own true gradient?",
            (
                Choice(
                    f"That of the even one: {EVEN:.1f} times.",
                    "It is pushed harder in absolute size. As a multiple of its own gradient it is not.",
                ),
                Choice(
                    "Both are the same multiple, 15/16.", "That is so without the division by the standard deviation."
                ),
                Choice(
                    f"That of the hard one: {PUSH:.1f} times, the other {EVEN:.1f} times.",
                    f"The factor is at most the root of G - 1, {np.sqrt(15):.1f}, and largest at both ends. In "
                    "absolute size the even one is pushed harder.",
                    right=True,
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
