"""Quiz of chapter 13, clipping under staleness."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 13",
    (
        Question(
            "Your clip is centred at the policy that wrote the data. A good token has become twice as likely since. "
            "What does this round do for it?",
            (
                Choice(
                    "It is pushed until it is 20 % likelier than before the round.",
                    "That is a clip at pi_k. This one ends at 1.2 times what mu gave it.",
                ),
                Choice(
                    "Nothing, and if other updates push it back to 1.2 times, the objective does not see that loss.",
                    "Beyond 1.2 its term is flat, up and down.",
                    right=True,
                ),
                Choice(
                    "It is pulled back to 1.2.",
                    "A shut term has no gradient in either direction. It is not held and not pulled.",
                ),
            ),
        ),
        Question(
            "You make one update to a rollout, and the clip fraction reads 0.05. What do you know?",
            (
                Choice(
                    "The learning rate is too large.",
                    "At the only update nothing has moved yet: no rate can do that.",
                ),
                Choice(
                    "The clip is not centred at the policy before the update, or the trainer's two passes differ.",
                    "Around pi_k every ratio of that update is 1, if both passes compute the same.",
                    right=True,
                ),
                Choice(
                    "A twentieth of the tokens is harmful.",
                    "A clip knows nothing of harm. It compares two policies.",
                ),
            ),
        ),
        Question(
            "All ratios of your batch to pi_k lie within 0.8 and 1.2 after the round. How far is the new policy from "
            "pi_k, in total variation?",
            (
                Choice(
                    "At most 0.1: that is what the clip guarantees.",
                    "It would be, if the ratios of all actions in all contexts lay there.",
                ),
                Choice(
                    "At most 0.2, whatever the batch is.",
                    "A batch says nothing of tokens that it does not hold; they share the weights.",
                ),
                Choice(
                    "That cannot be said from the batch.",
                    "What it has not seen may have moved. Log the shift itself, on samples.",
                    right=True,
                ),
            ),
        ),
        Question(
            "times less at mu, 8 rounds old on misled: +0.122 [-0.015, +0.260], not told, margin 0.03. On ledger: "
            "+0.063 [+0.001, +0.125], better. What may you write?",
            (
                Choice(
                    "The gain on misled is twice that on ledger.",
                    "The intervals overlap, and one of them holds 0.",
                ),
                Choice(
                    "On ledger the centre at pi_k is ahead, just. On misled that is not told.",
                    "A word for each task, and no more than its interval says.",
                    right=True,
                ),
                Choice(
                    "On misled the centre does not matter.",
                    "A lead of 0.26 is not ruled out. Not told is not equal.",
                ),
            ),
        ),
        Question(
            "Data are fresh, sampler and trainer agree, four updates a round. A colleague wants to add the pass that "
            "recomputes log-probabilities, for the sake of the centre. What does it change?",
            (
                Choice(
                    "Nothing but the time: mu is pi_k, and the three clips are one.",
                    "At a ratio of 1 before the round the three bands are equal.",
                    right=True,
                ),
                Choice(
                    "It lets more tokens through, so learning is faster.",
                    "On fresh data no token is outside of the band before the first step.",
                ),
                Choice(
                    "It makes the clip a limit on the whole run.",
                    "No clip is that: each round may take a step of its own.",
                ),
            ),
        ),
    ),
)
