"""Quiz of chapter 18, from tiny to real."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

PROMPTS, GROUP, PASSES, PARTS = 32, 16, 2, 4  # of the study of the real model
UPDATES = PASSES * PARTS
MU, PI, HOW_MANY = (0.5, 0.001), (0.25, 0.002), (1, 250)  # a likely token, and rare ones that get what it loses
GAPS = [n * mu * abs(pi - mu) for mu, pi, n in zip(MU, PI, HOW_MANY, strict=True)]
TV = [n * mu * abs(pi / mu - 1) / 2 for mu, pi, n in zip(MU, PI, HOW_MANY, strict=True)]

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
            f"A likely token goes from {MU[0]} to {PI[0]}, and {HOW_MANY[1]} rare ones from {MU[1]} to {PI[1]} each. "
            "Which change does the logged mean of |π − μ| hardly see?",
            (
                Choice(
                    "That of the rare ones",
                    f"They add {GAPS[1]:.5f} to it, the likely one {GAPS[0]:.3f}. To half the mean of |r − 1| they add "
                    f"{TV[1]:.3f} and {TV[0]:.3f}.",
                    right=True,
                ),
                Choice("That of the likely one", f"It adds {GAPS[0]:.3f}, far more than the others."),
                Choice("Neither: it sees all of the distance", "That is half the mean of |r − 1|."),
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
            "A sampler has the newest weights, in bfloat16. At the first look the mismatch is 0.003. Where in the tree "
            "are you?",
            (
                Choice(
                    "At the rounded sampler",
                    "Here four bits showed 0.06 and more, eight bits 0.007 to 0.010; and with eight no harm is told.",
                ),
                Choice("At the old sampler", "That shows from the second look on."),
                Choice(
                    "Past both, and I look on",
                    "verl calls it normal. No such engine was run here, and a mismatch can grow.",
                    right=True,
                ),
            ),
        ),
    ),
)
