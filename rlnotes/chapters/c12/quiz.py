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
            "Your data are old on purpose, and verl's mean of abs(pi_k - mu) stands at 0.15. Stop the run?",
            (
                Choice(
                    "Yes: 0.01 is the limit, and this is fifteen times as much.",
                    "0.01 is for faults of precision, at staleness 0. Every stale run that lived passed it.",
                ),
                Choice(
                    "Yes: above 0.12 runs die.",
                    "All 63 stale runs that lived were above 0.12 at some time, and 6 of the 9 that died before they "
                    "fell.",
                ),
                Choice(
                    "Not for that number: look at the held-out reward of the newest weights.",
                    "Before a fall it was not told from a coin. The reward of the rollouts tells of older weights.",
                    right=True,
                ),
            ),
        ),
    ),
)
