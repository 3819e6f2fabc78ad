"""Quiz of chapter 06, PPO."""

import numpy as np
from scipy.special import expit, logit

from rlnotes.exact import mdp as exact
from rlnotes.exact.mdp_families import fork
from rlnotes.notebook.quiz import Choice, Question, Quiz

EPSILON = 0.2


def _dragged() -> float:
    """The ratio of a token whose weight goes on moving until a second one, with a fifth of it, is at the edge."""
    return 2 * float(expit(logit((1 + EPSILON) / 2) / 0.2))


def _fork() -> tuple[float, float]:
    """Promised and true change of the return for an update whose ratios all lie in the band."""
    road, fair = fork(0.9, [[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]]), np.full((3, 2), 0.5)
    shifted = np.array([[0.6, 0.4], [0.42, 0.58], [0.6, 0.4]])
    assert np.all(abs(shifted / fair - 1) <= EPSILON + 1e-12)  # so the clip takes nothing away
    true = exact.expected_return(road, shifted) - exact.expected_return(road, fair)
    return exact.surrogate(road, shifted, fair), true


PROMISED, TRUE = _fork()
BAD, RATIO = -0.5, 3  # of a bad token

QUIZ = Quiz(
    "Quiz of chapter 06",
    (
        Question(
            f"A round of updates with PPO's clip has ended, ε = {EPSILON}. What is certain?",
            (
                Choice(
                    f"Every ratio lies between {1 - EPSILON:g} and {1 + EPSILON:g}.",
                    "The clip limits no step. A token inside the band can be carried out by one step, by the "
                    "momentum of Adam, or by other tokens that share its weights: of two tokens with one weight, "
                    f"the first can end at {_dragged():.2f}.",
                ),
                Choice(
                    "The expected return is not lower than before.",
                    "The clipped objective is at most the surrogate, and the surrogate can be too high. There is a "
                    "process of three states and an update with all ratios in the band for which the objective "
                    f"promises {PROMISED:+.2f}, and the return changes by {TRUE:+.3f}.",
                ),
                Choice(
                    "A token that has left the band on the side to which its advantage points pushes no longer.",
                    "That is all that the clip does: it closes the gate of such a token. It does not pull it back.",
                    right=True,
                ),
                Choice(
                    "KL(old, new) is below a limit that follows from ε.",
                    "Such a token pushes no more, but others move it on, and the actions that were "
                    "not taken have no gate at all. A limit on KL has to be asked for: by early stopping, or by a "
                    "penalty.",
                ),
            ),
        ),
        Question(
            f"Four tokens, ε = {EPSILON}, no dual clip. Which one is pushed hardest?",
            (
                Choice(
                    "A = 2, r = 1.5",
                    f"A good token above {1 + EPSILON:g} has gone where it should. Its gate is closed: 0.",
                ),
                Choice(
                    "A = 1, r = 1.1",
                    "It is in the band, and its push is r A = 1.1. There is a harder one.",
                ),
                Choice(
                    f"A = {BAD:g}, r = {RATIO:g}",
                    f"A bad token above the band has gone the wrong way. Its gate is open, and r A = {BAD * RATIO:g}.",
                    right=True,
                ),
                Choice(
                    "A = -2, r = 0.7",
                    f"A bad token below {1 - EPSILON:g} has gone where it should. Its gate is closed: 0.",
                ),
            ),
        ),
        Question(
            "Your trainer logs a clip fraction of exactly 0 in every step, from the first to the last. What do you "
            "check first?",
            (
                Choice(
                    "Whether a round has more than one optimiser step.",
                    "With one step a round the policy that is trained is the policy that sampled. Then every ratio "
                    "is 1 when the loss is computed, and no clip range has any effect.",
                    right=True,
                ),
                Choice(
                    "Whether the clip range is too wide.",
                    "Range and learning rate belong together: at 1e-6 no ratio of this chapter's rounds leaves 0.8 to "
                    "1.2 in four updates. But with one step a round no range has any effect. Count the steps first.",
                ),
                Choice(
                    "Whether the advantages are normalised.",
                    "The scale of the advantages changes how far a step goes. That a ratio is exactly 1 has "
                    "another cause.",
                ),
            ),
        ),
        Question(
            "In every round KL(old, new) is about 0.004 nats a token. KL to the reference has grown to 3 nats a "
            "token. What do you conclude?",
            (
                Choice(
                    "One of the two numbers is computed wrongly.",
                    "They compare with different policies: the first with the one that sampled this round, the "
                    "second with the frozen one. Both can be right.",
                ),
                Choice(
                    "Each round is a short step, and the rounds add up.",
                    "Clip and early stopping limit a round. Nothing in them knows the reference. If you have a "
                    "budget for it, add a penalty on KL to the reference.",
                    right=True,
                ),
                Choice(
                    "Early stopping with a limit of 0.02 nats will hold the second number.",
                    "Early stopping looks at KL(old, new), which is far below this limit already. It would never "
                    "stop a round.",
                ),
                Choice(
                    "The clip range has to be halved.",
                    "Shorter rounds take longer to the same place. The distance to the reference is not limited by "
                    "`ε`.",
                ),
            ),
        ),
        Question(
            "You allow a run 2 nats a token from the reference. Which number do you hold against this limit?",
            (
                Choice(
                    "k3 on the tokens of the round, after its last update: it is never negative.",
                    "Never negative is not near. In this chapter's round it says 0.90 after 16 updates without a "
                    "limit, and exact is 2.92: the policy has moved to tokens that are hardly among them. In another "
                    "round it says 2.85 for 0.87: one token with a large π_ref / π makes most of the mean.",
                ),
                Choice(
                    "The sum of KL(old, new) over all rounds.",
                    "KLs do not add up. In this chapter's round the policy began at 0.51, the updates of `clip` made "
                    "0.22, and it ended at 1.08.",
                ),
                Choice(
                    "The KL to the reference on fresh responses of the present policy.",
                    "That is the mean which the definition asks for: the new policy has written the tokens, also those "
                    "that the old one never wrote.",
                    right=True,
                ),
            ),
        ),
    ),
)
