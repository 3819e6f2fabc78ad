"""Quiz of chapter 12, what many stale versions cost."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 12",
    (
        Question(
            "Two runs learn from data that are 32 updates old, one at half the learning rate of the other. For which "
            "is more taken away because of old data?",
            (
                Choice(
                    "For both alike: the lag is the same.",
                    "The theorem knows no lag. It takes a distance, and 32 shorter updates go less far.",
                ),
                Choice(
                    "For the one at the larger rate, as far as the other numbers are alike: its S is larger.",
                    "S is how far the current policy has gone from who wrote. Longer updates go farther.",
                    right=True,
                ),
                Choice(
                    "For the one at the smaller rate: it takes longer to get away from its old data.",
                    "That is what happens to the run, not what the theorem takes away, which is C2 times S.",
                ),
            ),
        ),
        Question(
            "All data are eight rounds old, and the surrogate of the new policy is +0.06. What does that say of "
            "J(new) - J(current)?",
            (
                Choice(
                    "It is about +0.06, less what old data cost.",
                    "+0.06 is measured against the policies that wrote. The current policy may be ahead of them by as "
                    "much, or by more.",
                ),
                Choice(
                    "It is at least 0.",
                    "Nothing says so. In the chapter rounds whose L is above 0 lost accuracy.",
                ),
                Choice(
                    "Little, before the surrogate of the current policy is taken from it.",
                    "L less L of staying compares the two policies on the same data.",
                    right=True,
                ),
            ),
        ),
        Question(
            "You make ever smaller updates, on data with S = 0.05. What becomes of the promise with the advantages of "
            "the data?",
            (
                Choice(
                    "It comes near L of staying, less the penalty for S: that does not go away.",
                    "U goes to 0 and takes its part with it. S does not contain the new policy.",
                    right=True,
                ),
                Choice(
                    "It comes near 0: who changes nothing loses nothing.",
                    "True of the change, and of the promise with the current policy's own advantages. Not of this one.",
                ),
                Choice(
                    "It becomes positive as soon as U is below S.",
                    "The two distances are not weighed against each other: both are taken away.",
                ),
            ),
        ),
        Question(
            "Half old against fresh: +0.012 [-0.086, +0.110], not told, margin 0.03. May you write that half of the "
            "data may be eight rounds old at no cost?",
            (
                Choice(
                    "Yes: the difference is even in favour of the old data.",
                    "Its interval holds a loss of 0.086. And one bad fresh run makes the sign: without it the mean is "
                    "-0.025.",
                ),
                Choice(
                    "No: a cost of up to 0.086 is not ruled out. I may write that none was told.",
                    "That two are alike is said only where the whole interval lies within the margin.",
                    right=True,
                ),
                Choice(
                    "Yes: not told means that they are equal.",
                    "Not told says that these runs cannot tell. Equal would need an interval within 0.03.",
                ),
            ),
        ),
        Question(
            "Your workers hold different versions all the time. At each token a response goes on with chance 1/4 with "
            "a version drawn anew. Half of the versions are old. Which share of the tokens is old?",
            (
                Choice(
                    "Half, however long the responses are.",
                    "A draw brings as many old versions back as it takes away. Only a change to newer weights for "
                    "good lowers the share.",
                    right=True,
                ),
                Choice(
                    "Less than half, and less in long responses.",
                    "That is so where the old version is left for good.",
                ),
                Choice(
                    "An eighth.",
                    "1/4 times 1/2 is the chance that a token is written after a change to the old version, not the "
                    "share of old tokens.",
                ),
            ),
        ),
    ),
)
