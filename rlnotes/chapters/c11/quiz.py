"""Quiz of chapter 11, why off-policy breaks RL."""

import math

from rlnotes.notebook.quiz import Choice, Question, Quiz

CHI2, T, N = 0.01, 500, 512  # of a token, tokens, responses
COUNT = N / (1 + CHI2) ** T
LENGTH, CAP = 1000, 3.0

QUIZ = Quiz(
    "Quiz of chapter 11",
    (
        Question(
            "With a batch far above n* the run goes wrong as before. What do you conclude?",
            (
                Choice("The batch is still too small.", "Far above n* hardly any noise is left to take away."),
                Choice(
                    "Noise is not what eats it: look for a bias, at the rate, and at the reward.",
                    "A batch averages noise. It leaves the mean, the length of the step, and what is rewarded.",
                    right=True,
                ),
                Choice("The learning rate is too small.", "That would make it slow, not wrong."),
            ),
        ),
        Question(
            f"The chi-square of a token's ratio is {CHI2}, in every context. {N} responses of {T} tokens are weighted "
            "with the ratio of the whole response, without a cap. As many as how many fresh ones do they count?",
            (
                Choice(f"about {N / (1 + CHI2):.0f}", f"That is one token. The factors multiply, {T} of them."),
                Choice(
                    f"about {COUNT:.1f}",
                    f"(1 + {CHI2}) to the power {T} is {(1 + CHI2) ** T:.0f}: the mean of the squared weight.",
                    right=True,
                ),
                Choice(f"about {N / (1 + CHI2 * T):.0f}", "That adds the chi-squares up. They multiply."),
            ),
        ),
        Question(
            f"TRL's default mode is sequence_mask with a maximum of {CAP:g}. Which responses of {LENGTH} tokens get no "
            "gradient?",
            (
                Choice(
                    f"Those whose mean log-ratio is above {math.log(CAP) / LENGTH:.4f} a token",
                    f"Their product is above {CAP:g}. The longer they are, the less it takes.",
                    right=True,
                ),
                Choice(f"Those with a token whose ratio is above {CAP:g}", "That would be a mask by token."),
                Choice("None: their weight is cut to the maximum", "That is what sequence_truncate does."),
            ),
        ),
        Question(
            "A cap below the smallest weight of the batch. What does it do?",
            (
                Choice("It removes the noise and keeps the direction.", "Which direction? All weights are equal now."),
                Choice(
                    "It gives every response the same weight: no correction, and a shorter step.",
                    "So at its own best step it is the uncorrected estimate.",
                    right=True,
                ),
                Choice("It drops every response.", "That is a mask. A cap keeps them, at weight C."),
            ),
        ),
        Question(
            "The distance of sampler and learner is 0.0001 before the updates of a round and grows by 0.06 during "
            "them. What is worth changing?",
            (
                Choice("The sampler's precision", "It answers for 0.0001 of it."),
                Choice("The age of the data", "The distance before the updates holds it, and that is small."),
                Choice(
                    "How many updates a rollout serves, their rate, and the clip",
                    "What grows during the updates is theirs.",
                    right=True,
                ),
            ),
        ),
    ),
)
