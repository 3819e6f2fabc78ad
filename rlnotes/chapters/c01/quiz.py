"""Quiz of chapter 01, how often one rollout may be used."""

from rlnotes.notebook.quiz import Choice, Question, Quiz

QUIZ = Quiz(
    "Quiz of chapter 01",
    (
        Question(
            "After 40 updates on one rollout its weighted mean reward is 0.88. Which number do you report as the "
            "policy's?",
            (
                Choice(
                    "0.88: importance weights make it right in the mean.",
                    "For a policy that was fixed before the samples were drawn. This one was chosen by them.",
                ),
                Choice(
                    "0.88 times the effective share of its samples.",
                    "The share says how many samples count. It is no discount on what they say.",
                ),
                Choice(
                    "What samples say that took no part in the training, on prompts that took none either.",
                    "Then the policy does not depend on them, and the theorem holds. Fresh samples are better still.",
                    right=True,
                ),
            ),
        ),
        Question(
            "The effective share of the rollout that you train on is 0.5 and stays there. What follows?",
            (
                Choice(
                    "Half of the samples are left, so the rollout may be used further.",
                    "It counts how unequal the weights are. It does not see prompts that have been learned by heart.",
                ),
                Choice(
                    "Nothing yet: look at samples that took no part in the training.",
                    "On sort its own share stayed near one half while most of what it promised was not there.",
                    right=True,
                ),
                Choice(
                    "The rollout is used up: below one half a new one is needed.",
                    "In the chapter this rule left rollouts on which much was still to be learned.",
                ),
            ),
        ),
        Question(
            "The mean weight of a held-out rollout has fallen to 0.5. What does that say?",
            (
                Choice(
                    "About half of what the policy now writes is not in the rollout: its estimate is probably too low.",
                    "The mean weight is 1 on average. What is missing is in responses that these samples lack.",
                    right=True,
                ),
                Choice(
                    "The policy has become twice as good.",
                    "Weights without a reward know nothing of good and bad.",
                ),
                Choice(
                    "Nothing: divide by it, and the estimate is right again.",
                    "That is the self-normalised estimate. It makes the shown responses stand for all others.",
                ),
            ),
        ),
        Question(
            "Weights of whole responses, chi2 0.01 per token, 1000 tokens. What are 512 responses worth?",
            (
                Choice(
                    "About 507: 512 / 1.01.",
                    "That is for one token. Each further one divides again.",
                ),
                Choice(
                    "About 47: 512 / (1 + 1000 * 0.01).",
                    "Variances of ratios add up in a sum over tokens. In a product 1 + chi2 is multiplied.",
                ),
                Choice(
                    "Less than one: 512 / 1.01^1000.",
                    "1.01^1000 is 21,000. That is why weights of whole responses fail with their length.",
                    right=True,
                ),
            ),
        ),
        Question(
            "At a large rate a rollout's own estimate was best 12 updates ago, and falls. What do you do?",
            (
                Choice(
                    "Go on: what falls may rise again.",
                    "Some runs do. In the chapter always making 60 updates gained nothing at the large rate.",
                ),
                Choice(
                    "Go back to the weights of the best look, and sample anew from them.",
                    "Early stopping. It was better than 60 updates there, and costs nothing.",
                    right=True,
                ),
                Choice(
                    "Sample anew with the newest weights.",
                    "They may be far below the best look. In the chapter some runs had lost all by then.",
                ),
            ),
        ),
    ),
)
