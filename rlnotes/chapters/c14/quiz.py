"""Quiz of chapter 14, trust region masking."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 14",
    (
        Question(
            "For the next update L - D_seq is -0.8, on new responses. What do you know of the update?",
            (
                Choice(
                    "It lowers the reward.",
                    "A lower bound below 0 says nothing of the sign. In the stored rounds most that were refused rose.",
                ),
                Choice(
                    "It may raise or lower the reward: no promise can be made by this number.",
                    "Refused is not bad. Look at held-out prompts.",
                    right=True,
                ),
                Choice(
                    "It went too far, and the rate must be smaller.", "Refused rounds at a rate that ends well exist."
                ),
            ),
        ),
        Question(
            "Responses become four times as long; D_seq, L and mean R log w are as before. Which promises stay?",
            (
                Choice(
                    "All: they are made of KL, and KL is as before.", "T stands in all three bounds of Theorem 14.5."
                ),
                Choice(
                    "L - D_seq and the mean of R log w.",
                    "Neither T nor a largest KL is in Theorem 14.7.",
                    right=True,
                ),
                Choice(
                    "The root bound: each context has a quarter of the KL.",
                    "Then D_max is a quarter, and T^1.5 eight times as large: the penalty doubles.",
                ),
            ),
        ),
        Question(
            "A mask keeps only responses on which mu and pi agree. What does it do to the largest KL of a context?",
            (
                Choice(
                    "It makes it 0.", "On what is kept. The policies still differ in the contexts that were dropped."
                ),
                Choice("It makes it smaller, by the share that is kept.", "No: the pair of policies is as it was."),
                Choice(
                    "Nothing: it changes the data, not the policies.", "So the certificate does not hold.", right=True
                ),
            ),
        ),
        Question(
            "Which of these is a lower bound of the change, in the mean, if rewards lie in [0, 1] and mu covers pi?",
            (
                Choice(
                    "The mean of R times the summed log-ratio.",
                    "R log w, the lower end of Theorem 14.7.",
                    right=True,
                ),
                Choice("The mean of R (w - 1).", "That is the change itself, with a heavy tail; nothing is taken off."),
                Choice("The mean of the log-ratios of kept responses.", "Without R, and without what was dropped."),
            ),
        ),
        Question(
            "The promise, from the batch that pi was trained on, is +0.03. What may be wrong with it?",
            (
                Choice(
                    "Nothing: it is unbiased.",
                    "For a pi that was chosen without this batch. This one was fitted to it.",
                ),
                Choice("It is too low: it is a lower bound.", "The bound is. The estimate may lie above it."),
                Choice(
                    "pi was fitted to it, and a rare branch may be missing: use new responses.",
                    "Both push it up, and no error bar shows it.",
                    right=True,
                ),
            ),
        ),
    ),
)
