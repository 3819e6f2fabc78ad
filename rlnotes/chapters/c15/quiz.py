"""Quiz of chapter 15: ratio or divergence?"""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 15",
    (
        Question(
            "A good token has risen from 0.001 to 0.05. Which of the two still pushes it: the clip at 1.28, or DPPO at "
            "0.15?",
            (
                Choice("Both.", "The ratio is 50: the clip stopped it at 0.00128."),
                Choice("DPPO alone.", "The ratio is 50, the change 0.049.", right=True),
                Choice("The clip alone.", "It is the other way round: the ratio is 50, the change only 0.049."),
            ),
        ),
        Question(
            "The ratio of the sampled token is 0.97. What do you know of the total variation of the row?",
            (
                Choice("It is 0.015.", "That is an estimate from one sample, right in the mean over many."),
                Choice("It is at most 0.03.", "That is of this token. Others may have moved, by nearly all they have."),
                Choice(
                    "Little: half of |r − 1| is right in the mean over tokens, not for one.",
                    "In the row of the chapter the total variation is 0.19, and 99 of 100 samples say 0.096.",
                    right=True,
                ),
            ),
        ),
        Question(
            "DPPO's limit is 0.15. After one rollout with sixteen updates the policy is 0.6 away. Is the mask broken?",
            (
                Choice("Yes: it holds the policy within 0.15.", "It only drops gradients, after the fact."),
                Choice(
                    "No: it stops a token's own push once the token is too far. Others move it on.",
                    "Steps, momentum, shared weights and the fall of other tokens go on.",
                    right=True,
                ),
                Choice("No: 0.15 holds for each update, and there were sixteen.", "It is measured from μ all along."),
            ),
        ),
        Question(
            "dppo_tv less relax_both on needle: −0.000 [−0.030, +0.029], margin 0.03. What may you write?",
            (
                Choice("That both are the same rule.", "Of a token below 0.1 DPPO has a limit, relax_both has none."),
                Choice(
                    "That on needle they are within 0.03 of each other.",
                    "The whole interval lies within the margin that was stated before.",
                    right=True,
                ),
                Choice("That nothing was told.", "That is the word for an interval that reaches beyond the margin."),
            ),
        ),
        Question(
            "In verl you set loss_mode=dppo_tv and nothing else. What holds a token?",
            (
                Choice(
                    "A change of 0.2: clip_ratio_low and clip_ratio_high, which are limits on the probability now.",
                    "And ratios are capped at clip_ratio_c, which is 3.",
                    right=True,
                ),
                Choice("A change of 0.15.", "That is the number of the source's script; the default is 0.2."),
                Choice("A ratio outside 0.8 to 1.2.", "With this loss the two settings are in units of probability."),
            ),
        ),
    ),
)
