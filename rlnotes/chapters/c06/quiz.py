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
RATIO = 4  # of a bad token

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
            f"A bad token, A = -1, has become likelier: its ratio is {RATIO}. ε = {EPSILON}, and there is no dual "
            "clip. What is its push, the derivative of the clipped objective with respect to log π?",
            (
                Choice(
                    "0: it is far outside the band.",
                    f"The gate of a bad token closes below {1 - EPSILON:g} only, where the token is rare already. "
                    "Above the band it has moved the wrong way, and has to come back.",
                ),
                Choice(
                    f"{-(1 + EPSILON):g}: the ratio is cut at {1 + EPSILON:g}.",
                    "The objective is the smaller of two terms. For A < 0 the smaller one is the term with the larger "
                    f"ratio: {-RATIO:g}, not {-(1 + EPSILON):g}.",
                ),
                Choice(
                    f"{-RATIO:g}: the ratio times the advantage.",
                    "Here the gate is open, so the push is r A. Nothing limits it as the ratio grows. The dual "
                    "clip closes this gate above `c`.",
                    right=True,
                ),
                Choice(
                    "-1: the advantage.",
                    "That is the derivative with respect to the ratio. The ratio's own derivative with respect to "
                    "log π is the ratio, so the push is r A.",
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
            "Two colleagues run PPO with a clip of 0.2, each on a task of their own. Both log a clip fraction of 0.15 "
            "in the first round. What do you tell them?",
            (
                Choice(
                    "Both learning rates are too high: halve them.",
                    "On `misled` the runs that began so were lost, at 8 times the best rate. On `needle` the best rate "
                    "itself begins so. The number alone does not tell the two apart.",
                ),
                Choice(
                    "Both are safe: the clip holds the policy near the old one.",
                    "The clip closes gates and holds no ratio. Nine of the 70 runs with a clip in this chapter were "
                    "lost.",
                ),
                Choice(
                    "Nothing yet: compare with a run of the same task that worked, and watch the held-out reward.",
                    "What is usual depends on the task. Within one task a first round far above that of a run that "
                    "worked is a reason to look at the learning rate.",
                    right=True,
                ),
            ),
        ),
    ),
)
