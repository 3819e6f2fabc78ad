"""Quiz of chapter 00, start here."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 00",
    (
        Question(
            "The door's step of 0.3 is promised 0.28, and loses 0.26. What would have told that?",
            (
                Choice("More data of the old policy", "The promise is exact for that data: nothing in it is noise."),
                Choice(
                    "A fresh rollout of the new policy",
                    "It goes where the new policy goes, and there the bad button is pressed.",
                    right=True,
                ),
                Choice("The slope of the surrogate at step 0", "That is right, and says that a small step gains."),
            ),
        ),
        Question(
            "Why does the surrogate fit for a very small step?",
            (
                Choice(
                    "There it promises almost nothing",
                    "It promises little, and the little is right: the ratio of the two goes to 1.",
                ),
                Choice(
                    "The new policy goes nearly where the old one went",
                    "The visits change by the step, so the error by the step's square.",
                    right=True,
                ),
                Choice("Small steps have less noise", "There is no noise in this example at all."),
            ),
        ),
        Question(
            "In a log the reward of round 7 is far below that of round 6. Which updates came between the two rollouts?",
            (
                Choice("Those of round 6", "Round 6 is sampled, then updated on; then round 7 is sampled.", right=True),
                Choice("Those of round 7", "They come after the rollout whose reward you read."),
                Choice(
                    "None: it is the luck of the prompts",
                    "The mean of 32 prompts has a standard deviation of at most 0.09. Far below is more.",
                ),
            ),
        ),
        Question(
            "Your run uses a clip, as PPO does. Can one round of updates still do harm?",
            (
                Choice(
                    "Only where rewards are noisy", "This page's rewards are exact, and its rounds lose all the same."
                ),
                Choice(
                    "No: the ratios stay in the band", "They do not: a clip stops the push, not the token (chapter 06)."
                ),
                Choice(
                    "Yes",
                    "At 3e-3 the clip is better by far here, and yet 24 of its rounds lost 0.1 or more (chapter 06).",
                    right=True,
                ),
            ),
        ),
        Question(
            "You train a language model with GRPO today, and have an afternoon. Where do you begin?",
            (
                Choice("At chapter 01, in order", "That is the whole way. It is worth it, and takes longer."),
                Choice(
                    "At chapter 06 or 07",
                    "They begin the short way: what the clip does, and why the loss reads 0.",
                    right=True,
                ),
                Choice(
                    "At chapter 17, for the winner",
                    "Which method is best depends on what your log says: chapter 18's tree.",
                ),
            ),
        ),
    ),
)
