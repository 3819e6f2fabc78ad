"""What a step along an estimated gradient gains at least: the SGA lemma of 003 section 2, term by term.

J is L-smooth: its gradient (D,) changes by at most ``smoothness`` times the distance. The estimate g is one of
``estimates`` (K, D), with ``probs`` (K,), and the step is ``step`` times g.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlnotes.bounds.result import Bound
from rlnotes.bounds.tokens import reward_span
from rlnotes.exact import token_gradients
from rlnotes.exact.checks import distribution, finite
from rlnotes.exact.token_progress import expected_progress
from rlnotes.exact.tokens import Policy, TokenModel, expected_reward

Numbers = float | np.ndarray


class Moments(NamedTuple):
    """All that the lemma asks of a gradient and its estimate: 003 sections 3.1, 3.2.

    >>> known = Moments(gradient_squared=1, alignment=0, bias_squared=0, variance=3)
    >>> best_step(smoothness=1.0, known=known)  # 1 without the noise
    0.25
    """

    gradient_squared: float  # |grad J|^2
    alignment: float  # <grad J, bias>
    bias_squared: float  # |E g - grad J|^2
    variance: float  # E|g|^2 - |E g|^2


def moments(gradient: np.ndarray, estimates: np.ndarray, probs: np.ndarray) -> Moments:
    """Moments of an estimate with finitely many values.

    Raises ``ValueError`` for shapes that do not fit and for probabilities that are none.

    >>> moments(np.array([1.0]), np.array([[2.0], [0.0]]), probs=np.full(2, 0.5))
    Moments(gradient_squared=1.0, alignment=0.0, bias_squared=0.0, variance=1.0)
    """
    gradient = finite("gradient", gradient, (None,))
    probs = distribution("probs", probs, (None,))
    estimates = finite("estimates", estimates, (len(probs), len(gradient)))
    mean = probs @ estimates
    bias = mean - gradient
    return Moments(
        float(gradient @ gradient),
        float(gradient @ bias),
        float(bias @ bias),
        float(probs @ ((estimates - mean) ** 2).sum(-1)),
    )


# --- Closed forms: arrays broadcast


def true_progress(step: Numbers, smoothness: Numbers, gradient_squared: Numbers) -> np.ndarray:
    """Term A, step (1 - L step / 2) |grad J|^2.

    >>> print(true_progress(step=0.5, smoothness=1.0, gradient_squared=1.0))
    0.375
    """
    return np.multiply(step, 1 - np.multiply(smoothness, step) / 2) * gradient_squared


def bias_error(step: Numbers, smoothness: Numbers, alignment: Numbers) -> np.ndarray:
    """Term B, step (1 - L step) <grad J, bias>. Negative does not mean a wrong optimum: think of bias = -grad J / 2.

    >>> print(bias_error(step=0.5, smoothness=1.0, alignment=-0.5))
    -0.125
    """
    return np.multiply(step, 1 - np.multiply(smoothness, step)) * alignment


def noise_penalty(step: Numbers, smoothness: Numbers, variance: Numbers, bias_squared: Numbers) -> np.ndarray:
    """Term C, L step^2 / 2 (variance + |bias|^2), which is subtracted. 0 without noise and bias.

    >>> print(noise_penalty(step=0.5, smoothness=1.0, variance=3.0, bias_squared=0.0))
    0.375
    """
    return np.multiply(smoothness, np.square(step)) / 2 * np.add(variance, bias_squared)


def progress(step: Numbers, smoothness: float, known: Moments) -> np.ndarray:
    """A + B - C, the least expected progress of a step.

    >>> known = Moments(gradient_squared=1, alignment=0, bias_squared=0, variance=3)
    >>> print(progress(step=np.array([0.25, 0.5, 1.0]), smoothness=1.0, known=known))
    [ 0.125  0.    -1.   ]
    """
    return (
        true_progress(step, smoothness, known.gradient_squared)
        + bias_error(step, smoothness, known.alignment)
        - noise_penalty(step, smoothness, known.variance, known.bias_squared)
    )


def best_step(smoothness: float, known: Moments) -> float:
    """The step with the most certain progress, <grad J, E g> / (L E|g|^2), or 0 if E g points the wrong way.

    It falls with the variance, as 003 section 3.2 says. Raises ``ValueError`` for an estimate that is surely 0.

    >>> known = Moments(gradient_squared=1, alignment=0, bias_squared=0, variance=3)
    >>> best_step(smoothness=2.0, known=known), best_step(smoothness=1.0, known=known)
    (0.125, 0.25)
    """
    along = known.gradient_squared + known.alignment
    squared = known.gradient_squared + 2 * known.alignment + known.bias_squared + known.variance
    if squared <= 0:
        raise ValueError("the estimate is 0 for certain, so no step is better than another; pass estimates that move")
    return max(0.0, along / (smoothness * squared))


def best_progress(smoothness: float, known: Moments) -> float:
    """A + B - C at :func:`best_step`: <grad J, E g>^2 / (2 L E|g|^2), which no rescaling of the estimate changes.

    >>> known = Moments(gradient_squared=1, alignment=0, bias_squared=0, variance=3)
    >>> best_progress(smoothness=1.0, known=known)
    0.125
    """
    along = known.gradient_squared + known.alignment
    return best_step(smoothness, known) * along / 2


def largest_step(smoothness: float, known: Moments) -> float:
    """The step beyond which A + B - C is negative: twice :func:`best_step`.

    >>> known = Moments(gradient_squared=1, alignment=0, bias_squared=0, variance=3)
    >>> largest_step(smoothness=1.0, known=known)
    0.5
    """
    return 2 * best_step(smoothness, known)


# --- Both sides, exactly


def quadratic_smoothness(hessian: np.ndarray) -> float:
    """L of J = -theta^T H theta / 2: the largest absolute eigenvalue of the symmetric H (D, D).

    >>> quadratic_smoothness(np.diag([2.0, 1.0]))
    2.0
    """
    return float(np.abs(np.linalg.eigvalsh(hessian)).max())


def quadratic_step(
    hessian: np.ndarray, theta: np.ndarray, estimates: np.ndarray, probs: np.ndarray, step: float
) -> Bound:
    """The lemma on J = -theta^T H theta / 2 with symmetric H (D, D): expected progress beside A + B and C.

    Equality where all eigenvalues of H are equal and positive. The floor is minus infinity, as J has no least value.
    Raises ``ValueError`` for shapes that do not fit, probabilities that are none, and an H that is not symmetric.

    >>> noisy = np.array([[-4.0], [0.0]])  # at theta = 2 the gradient is -2
    >>> bound = quadratic_step(np.eye(1), 2 * np.ones(1), noisy, np.full(2, 0.5), 0.5)
    >>> print(f"{bound.true:.3f} >= {bound.lower:.3f}")
    1.000 >= 1.000
    """
    theta = finite("theta", theta, (None,))
    hessian = finite("hessian", hessian, (len(theta), len(theta)))
    if not np.allclose(hessian, hessian.T):
        raise ValueError("hessian is not symmetric; pass (H + H^T) / 2, which gives the same J")
    known = moments(-hessian @ theta, estimates, probs)
    smoothness = quadratic_smoothness(hessian)
    moved = theta + step * np.asarray(estimates)
    after = float(probs @ (-np.einsum("kd,de,ke->k", moved, hessian, moved) / 2))
    predicted = true_progress(step, smoothness, known.gradient_squared) + bias_error(step, smoothness, known.alignment)
    penalties = {"noise": float(noise_penalty(step, smoothness, known.variance, known.bias_squared))}
    return Bound("003 SGA lemma", after + float(theta @ hessian @ theta) / 2, float(predicted), penalties, -np.inf)


def token_moments(model: TokenModel, target: Policy, behavior: Policy, weights: np.ndarray, batch: int = 1) -> Moments:
    """Moments of the mean of ``batch`` answers' estimates, by logits: a batch divides the variance and nothing else.

    ``weights`` (B, V**T, T) are those of :mod:`rlnotes.exact.token_gradients`.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, policy, _ = one_step([0.5, 0.5], [0.5, 0.5], reward=[1, 0])
    >>> token_moments(model, policy, policy, token_gradients.reinforce_weights(model))
    Moments(gradient_squared=0.125, alignment=0.0, bias_squared=0.0, variance=0.125)
    """
    if batch < 1:
        raise ValueError(f"batch is {batch}; at least 1 answer is needed")
    gradient = token_gradients.flat(token_gradients.reward_gradient(model, target))
    bias = token_gradients.flat(token_gradients.mean_gradient(model, target, behavior, weights)) - gradient
    variance = token_gradients.total_variance(model, target, behavior, weights)
    return Moments(float(gradient @ gradient), float(gradient @ bias), float(bias @ bias), variance / batch)


def token_step(
    model: TokenModel,
    logits: Sequence[np.ndarray],
    behavior: Policy,
    weights: np.ndarray,
    step: float,
    smoothness: float,
) -> Bound:
    """The lemma on a token model with one answer per step: exact expected progress beside A + B and C.

    ``smoothness`` is a bound on L, as :func:`rlnotes.exact.token_progress.smoothness_bound`, or an estimate; with an
    estimate that is too small the lemma need not hold.

    >>> from rlnotes.exact.token_families import one_step
    >>> model, policy, _ = one_step([0.5, 0.5], [0.5, 0.5], reward=[1, 0])
    >>> logits, weights = [np.zeros((1, 1, 2))], token_gradients.reinforce_weights(model)
    >>> bound = token_step(model, logits, policy, weights, step=1.0, smoothness=0.5)
    >>> print(f"{bound.true:.4f} >= {bound.lower:.4f}")
    0.1155 >= 0.0625
    """
    target = token_gradients.softmax_policy(model, logits)
    known = token_moments(model, target, behavior, weights)
    predicted = true_progress(step, smoothness, known.gradient_squared) + bias_error(step, smoothness, known.alignment)
    penalties = {"noise": float(noise_penalty(step, smoothness, known.variance, known.bias_squared))}
    true = expected_progress(model, logits, behavior, weights, step)
    floor = reward_span(model).low - expected_reward(model, target)
    return Bound("003 SGA lemma, tokens", true, float(predicted), penalties, floor)
