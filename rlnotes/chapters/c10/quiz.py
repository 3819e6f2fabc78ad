"""Quiz of chapter 10, SAPO."""

import math

from rlnotes.notebook.quiz import Choice, Question, Quiz

STRONG = 3.0  # strength in the first question
RISEN = 2.5  # ratio in the third: below 3, where verl's dual clip lets go


def gate(r: float, tau: float) -> float:
    """The soft gate."""
    return math.cosh(tau * (r - 1) / 2) ** -2


QUIZ = Quiz(
    "Quiz of chapter 10",
    (
        Question(
            f"A soft gate of strength {STRONG:g}, on both sides. How far can it close on a bad token that falls?",
            (
                Choice(
                    "To 0, if the token falls far enough.",
                    f"A ratio is never below 0, and there the gate is still {gate(0, STRONG):.2f}. A good token can go "
                    "far enough.",
                ),
                Choice(
                    f"To {gate(0, STRONG):.2f}, and no further.",
                    "That is its value at ratio 0, the end of the way down.",
                    right=True,
                ),
                Choice("To 0.77, and no further.", "That is the floor of the published strength, 1.05."),
            ),
        ),
        Question(
            "verl with loss_mode=sapo: actor/pg_clipfrac has read 0.000 for a thousand steps. What does that say?",
            (
                Choice(
                    "No token went beyond the clip's band.",
                    "In this chapter up to two thirds of the tokens went there in a healthy run.",
                ),
                Choice("The gate is wide open.", "It may be. But that number would be 0.000 with any strength."),
                Choice("Nothing: for this loss it is a constant.", "Log the mean gate yourself.", right=True),
            ),
        ),
        Question(
            f"A bad token has drifted up to ratio {RISEN:g}. Which gate pulls it back hardest?",
            (
                Choice(
                    "the clip",
                    f"Its gate is 1 on this side, so the push is {RISEN:g} times the advantage. Beyond 3 verl's "
                    "dual clip would let go.",
                    right=True,
                ),
                Choice(
                    "soft, strength 1",
                    f"Its gate there is {gate(RISEN, 1):.2f}, so it pulls {gate(RISEN, 1):.2f} times as hard.",
                ),
                Choice(
                    "soft, strength 10, both sides",
                    "Its gate is shut there: strong on both sides means that nobody brings the token back.",
                ),
            ),
        ),
        Question(
            "Your model finds a right token once in fifty tries, and greedy answers are all wrong. You make 16 "
            "updates to a rollout with a clip at 0.2. Which do the runs here support best?",
            (
                Choice(
                    "epsilon_high = 0.28",
                    "In the contest of chapter 08 no gain was seen: not told on needle, and worse by 0.02 on misled.",
                ),
                Choice(
                    "epsilon_high = 4.0",
                    "At tuned rates better by 0.18 on needle and by 0.03 on misled, and no run died. On sort it had "
                    "six rounds at one rate, on ledger none: so try it, and compare held-out accuracy.",
                    right=True,
                ),
                Choice(
                    "SAPO as published",
                    "It gained as much on needle. But on misled one of twelve runs died, and on sort it was worse.",
                ),
                Choice(
                    "one-sided, strength 30",
                    "It holds a rare good token as tightly as the clip, or more: on needle it was worse by 0.12.",
                ),
            ),
        ),
        Question(
            "Your run uses SAPO. The mean gate is 0.99, and held-out accuracy falls. What do you change first?",
            (
                Choice(
                    "Nothing: a gate at 0.99 shows that the policy stays near.",
                    "Tokens may be far out all the same: the gate is wide.",
                ),
                Choice(
                    "The strength, from 1 to 1.5.",
                    f"At ratio 0.8 that moves the gate from {gate(0.8, 1):.3f} to {gate(0.8, 1.5):.3f}.",
                ),
                Choice(
                    "The gate to the clip, or fewer updates, or a smaller rate.",
                    "There is no gate at work, so steps alone limit how far the policy goes.",
                    right=True,
                ),
            ),
        ),
    ),
)
