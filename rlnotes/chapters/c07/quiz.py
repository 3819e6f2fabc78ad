"""The quiz of chapter 07."""

from rlnotes.exact.groups import wasted_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

RARE = 0.1  # chance of a right answer
FOUR, SIXTEEN = (float(wasted_share(size, RARE)) for size in (4, 16))  # shares of groups without a signal

QUIZ = Quiz(
    "Five questions on groups",
    (
        Question(
            "A group of four responses gets the rewards 1, 1, 1, 1. What does it teach?",
            (
                Choice("To do the same again", "That needs a positive advantage. The mean takes all of it away."),
                Choice(
                    "Nothing: every advantage is 0", "The group's mean is 1, and each reward less 1 is 0.", right=True
                ),
                Choice("To do something else", "That needs a negative advantage. Every one of them is 0."),
            ),
        ),
        Question(
            "At which chance of a right answer are fewest groups without a signal?",
            (
                Choice("0.1", f"There {FOUR:.0%} of groups of four are without, most of them all wrong."),
                Choice("0.5", "The share p^G + (1 - p)^G is lowest at one half.", right=True),
                Choice("0.9", "The same as at 0.1, with right and wrong exchanged."),
            ),
        ),
        Question(
            f"The chance of a right answer is {RARE}. Groups of 4 become groups of 16. How many are without a signal?",
            (
                Choice(
                    f"{FOUR:.0%} become {SIXTEEN:.0%}",
                    "The powers 4 and 16 of 0.9; that all are right is rare.",
                    right=True,
                ),
                Choice(
                    f"{FOUR:.0%} become {FOUR / 4:.0%}",
                    "A quarter of the share: but it falls as a power of G, not as 1 / G.",
                ),
                Choice(f"It stays {FOUR:.0%}", "The share depends on the group's size through both of its powers."),
            ),
        ),
        Question(
            "Rewards are less the mean of their own group of G. What does that do to the expected gradient?",
            (
                Choice("Nothing", "That holds for a baseline that does not contain the response's own reward."),
                Choice("It makes it smaller by (G - 1) / G", "A response's own reward is in the mean.", right=True),
                Choice("It turns it round", "The factor (G - 1) / G is positive."),
            ),
        ),
        Question(
            "What share of groups should you see in the log as having rewards without spread, "
            "before you look for easier or harder prompts?",
            (
                Choice("None may be left", "Some always are, as long as the policy is sure of some prompts."),
                Choice("It does not matter", "They are sampled and paid for, and have no gradient."),
                Choice("About half or more", "Half of the sampled tokens then buy nothing.", right=True),
            ),
        ),
    ),
)
