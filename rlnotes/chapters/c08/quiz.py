"""Quiz of chapter 08, Dr. GRPO and DAPO."""

from rlnotes.exact.groups import wasted_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

RIGHT, SIZE, SHORT, LONG = 3, 8, 6, 24  # one group: right responses, all of them, lengths of right and wrong ones
EVEN = RIGHT / (SIZE - RIGHT)  # the wrong advantage by the right one
WIDTHS = (100, 400)  # the longest response of two micro-batches
G, P = 8, 0.98
KEPT = (P - P**G) / (1 - wasted_share(G, P))

QUIZ = Quiz(
    "Quiz of chapter 08",
    (
        Question(
            f"A group of {SIZE}: {RIGHT} right responses of {SHORT} tokens, {SIZE - RIGHT} wrong ones of {LONG}. Each "
            "response is divided by its own length. How hard is a token of a wrong response pushed down, beside one of "
            "a right response that is pushed up?",
            (
                Choice(
                    f"{EVEN:.2f} times",
                    "That is the advantages alone, and so it is with the constant and the token mean. Here the share "
                    "of a token also falls with the length of its response.",
                ),
                Choice(
                    f"{EVEN * SHORT / LONG:.2f} times",
                    f"The advantages give {EVEN:.2f}, the lengths {SHORT}/{LONG}.",
                    right=True,
                ),
                Choice(
                    f"{EVEN * LONG / SHORT:.2f} times",
                    "That is a whole wrong response beside a whole right one, with the constant or the token mean.",
                ),
            ),
        ),
        Question(
            "With loss_type=grpo in TRL the mean length falls from 6.8 to 5.3 tokens while the reward rises. What do "
            "you conclude on the wrong responses?",
            (
                Choice(
                    "They get shorter, too.",
                    "In a stored run of this chapter with these numbers they grew from 7 to 15. Right responses became "
                    "short and many, and a mean over both hides the rest.",
                ),
                Choice(
                    "Nothing: right and wrong responses must be logged apart.",
                    "The mean is over a mixture whose shares change. In a stored run with these numbers wrong "
                    "responses doubled.",
                    right=True,
                ),
                Choice(
                    "The denominator does no harm here.",
                    "It pushes right responses to be short and wrong ones to be long. The mean length shows the first.",
                ),
            ),
        ),
        Question(
            "verl, loss_agg_mode=seq-mean-token-sum-norm, loss_scale_factor not set, responses padded to the longest "
            "of their micro-batch. Two micro-batches, as many "
            f"responses in each; the longest has {WIDTHS[0]} tokens in one and {WIDTHS[1]} in the other. What is the "
            "share of a token of the first, beside one of the second?",
            (
                Choice(
                    f"{WIDTHS[1] // WIDTHS[0]} times as large",
                    "Each micro-batch is divided by its own longest response. One outlier makes all its neighbours "
                    "count less.",
                    right=True,
                ),
                Choice(
                    "The same: the constant is Dr. GRPO's.",
                    "Not set, the constant is the padded width of the micro-batch. Set it to the largest length "
                    "allowed.",
                ),
                Choice(
                    f"1/{WIDTHS[1] // WIDTHS[0]} as large",
                    "The other way round: it stands below the fraction, so the part with short responses counts more.",
                ),
            ),
        ),
        Question(
            "The constant denominator, and responses that were cut off get no gradient. What does that ask for?",
            (
                Choice(
                    "What the reward asks for: the constant has no bias of length.",
                    "The constant has none as long as all tokens count. Now the length decides which ones do.",
                ),
                Choice(
                    "Shorter responses, right and wrong ones.",
                    "That is the soft penalty, which takes from the reward. A response without gradient is neither "
                    "pushed up nor down.",
                ),
                Choice(
                    "A wrong response gains by running into the limit, and a right one loses.",
                    "It counts as one that is as good as the mean: better than wrong, worse than right.",
                    right=True,
                ),
            ),
        ),
        Question(
            f"Dynamic sampling with groups of {G}. Each prompt is answered with chance {P:g}, and the log of the "
            f"trained groups reads {KEPT:.2f}. What is wrong?",
            (
                Choice(
                    "The policy is worse on kept prompts, which are the hard ones.",
                    "All prompts are equally hard here. Which groups are kept was decided by the rewards themselves.",
                ),
                Choice(
                    "Nothing: kept groups have a mean reward nearer to the middle. Log that of all that was sampled.",
                    "A group with all right responses is thrown away, and it had the most reward.",
                    right=True,
                ),
                Choice(
                    f"The true accuracy must be {KEPT:.2f}, too: rewards are not touched.",
                    f"They are not, but {wasted_share(G, P):.0%} of the groups are left out, nearly all with reward 1.",
                ),
            ),
        ),
    ),
)
