"""Quiz of chapter 18, from tiny to real."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

PROMPTS, GROUP, PASSES, PARTS = 32, 16, 2, 4  # of the study of the real model
UPDATES = PASSES * PARTS
MU, PI = (0.5, 0.001), (0.25, 0.002)  # a likely token and a rare one
GAPS = [abs(pi - mu) for mu, pi in zip(MU, PI, strict=True)]
TV = [abs(pi / mu - 1) / 2 for mu, pi in zip(MU, PI, strict=True)]

QUIZ = Quiz(
    "Quiz of chapter 18",
    (
        Question(
            "In the last round of a run nearly all responses are cut off at the longest length. Did the run go wrong?",
            (
                Choice("Yes: no response is finished", "What is judged may stand before the cut: 132, and then chat."),
                Choice("No: the length was too short", "If right answers do not fit, no reward is paid at all."),
                Choice(
                    "That does not say",
                    "Of the real model's runs that end so, more went well than wrong. Look at the reward, and read ten "
                    "responses.",
                    right=True,
                ),
            ),
        ),
        Question(
            f"{PROMPTS} questions, {GROUP} responses each; {PASSES} passes of {PARTS} minibatches. The limit is "
            "centred at the policy before the round. At which update of the round can it stop its first token?",
            (
                Choice("At the first", "There the policy is still the one at the centre: every ratio is 1."),
                Choice("At the second", "One update has moved the policy away from the centre.", right=True),
                Choice(
                    f"At update {UPDATES + 1}",
                    f"A round has {UPDATES} updates; then a new rollout brings a new centre.",
                ),
            ),
        ),
        Question(
            f"A rare token goes from {MU[1]} to {PI[1]}, a likely one from {MU[0]} to {PI[0]}. Which of the two does "
            "the logged mean of |π − μ| hardly see?",
            (
                Choice(
                    "The rare one",
                    f"It adds {GAPS[1]:.3f} to |π − μ| and the likely one {GAPS[0]:.2f}. In half of |r − 1| they "
                    f"count {TV[1]:.2f} and {TV[0]:.2f}.",
                    right=True,
                ),
                Choice("The likely one", f"It adds {GAPS[0]:.2f}, far more than the other."),
                Choice("Neither: it sees all of the distance", "That is half of the mean of |r − 1|."),
            ),
        ),
        Question(
            "A method leads on a tiny transformer in ten of ten runs. What does that say of a model a thousand times "
            "as large?",
            (
                Choice("That it leads there, too", "Behind four bits the centre of the clip is a counterexample."),
                Choice("Nothing at all", "It says what to try first, and which number to watch."),
                Choice(
                    "What to try first there, and no more",
                    "Whether it carries over depends on numbers such as the mismatch. Measure them on both.",
                    right=True,
                ),
            ),
        ),
        Question(
            "A certificate says: no gain is promised for this update. What follows for the accuracy?",
            (
                Choice(
                    "It falls",
                    "No promise is no threat. Behind four bits D_seq was above all that could be gained in nearly "
                    "every round, and three of five arms rose all the same.",
                ),
                Choice("It rises", "That would be a promise."),
                Choice("Nothing", "Measure it on held-out prompts, before and after.", right=True),
            ),
        ),
    ),
)
