"""Quiz of chapter 02, what old data say about a new policy."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 02",
    (
        Question(
            "You have a million responses of the old policy and exact advantages. What do you still not know about a "
            "new policy?",
            (
                Choice(
                    "Nothing of weight: with a million responses the surrogate is exact.",
                    "The surrogate is. It is not the change of the return.",
                ),
                Choice(
                    "How often it gets to contexts that the old policy hardly reaches.",
                    "The lemma takes the mean where the new policy goes. The data show where the old one went.",
                    right=True,
                ),
                Choice(
                    "How good its actions are in the contexts of the data.",
                    "That is what ratio and advantage say, if the old policy tried these actions.",
                ),
            ),
        ),
        Question(
            "The surrogate of a large step is -15. Does the step lose?",
            (
                Choice("Yes: that is what a surrogate is for.", "To first order only, and this step is large."),
                Choice(
                    "Not surely: the new policy may go where its actions are good.",
                    "As in the two rooms, where such a step gains 7.5.",
                    right=True,
                ),
                Choice("No: what is left out has the other sign.", "It may have either sign: behind the door a loss."),
            ),
        ),
        Question(
            "You halve a step along a mixture. What becomes of the part that old data cannot tell?",
            (
                Choice(
                    "It halves, as the surrogate does.",
                    "The rest is a product of two small things.",
                ),
                Choice("It goes away.", "It is there at every step, if a small one at small steps."),
                Choice(
                    "About a quarter is left, if the step is small.",
                    "Both the change of visits and the gain in each state halve.",
                    right=True,
                ),
            ),
        ),
        Question(
            "A bound takes 40 from a surrogate of 0.05. Rewards lie between 0 and 1. What do you know of the step?",
            (
                Choice(
                    "Nothing that you did not know before.",
                    "No step loses more than 1 here. The bound is true, and vacuous.",
                    right=True,
                ),
                Choice("It loses.", "The bound is a floor. It does not say where above the floor the step is."),
                Choice("It is too large for any guarantee.", "For this one. Another bound may say more."),
            ),
        ),
        Question(
            "Half of a batch chooses a step, the other half judges it: +0.02. Then you pick, of a hundred steps, the "
            "one that the judges like best: +0.06. How far is 0.06 to be trusted?",
            (
                Choice(
                    "As far as 0.02: the judges chose no gradient.",
                    "They have now chosen among a hundred, by what they happened to see.",
                ),
                Choice(
                    "Less: who picks the best of many has chosen, and overpraises it. A third part may judge.",
                    "A judge is fair only for what it had no part in.",
                    right=True,
                ),
                Choice("More: it is farther from noise.", "The largest of a hundred noisy numbers is large."),
            ),
        ),
    ),
)
