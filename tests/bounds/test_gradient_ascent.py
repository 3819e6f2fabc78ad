"""The SGA lemma: golden values, no violation on random quadratics, equality, and mutants caught."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rlnotes.bounds import gradient_ascent as sga
from rlnotes.bounds.result import Bound
from tests.bounds.mdp_cases import GOLDEN, close, spread
from tests.cases import cases


def test_golden_values():
    inputs, expected = GOLDEN["G09"]["inputs"]["sga"], GOLDEN["G09"]["outputs"]["sga"]
    hessian, theta, eta = np.array(inputs["H"]), np.array(inputs["theta"]), inputs["eta"]
    estimates, probs = np.array(inputs["g_values"]), np.array(inputs["g_probs"])
    gradient = -hessian @ theta
    known = sga.moments(gradient, estimates, probs)
    bound, smoothness = sga.quadratic_step(hessian, theta, estimates, probs, eta), sga.quadratic_smoothness(hessian)
    bias = np.array(expected.pop("bias"))
    assert known.bias_squared == close(bias @ bias)
    assert known.alignment == close(gradient @ bias)
    assert gradient.tolist() == close(expected.pop("grad"))
    assert known.gradient_squared == close(gradient @ gradient)
    found = {
        "L_smooth": smoothness,
        "var": known.variance,
        "termA": float(sga.true_progress(eta, smoothness, known.gradient_squared)),
        "termB": float(sga.bias_error(eta, smoothness, known.alignment)),
        "termC": float(sga.noise_penalty(eta, smoothness, known.variance, known.bias_squared)),
        "rhs": bound.lower,
        "lhs": bound.true,
    }
    assert found == close(expected)
    assert sga.progress(eta, smoothness, known) == pytest.approx(bound.lower)


def random_problem(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """H of any sign, theta, and estimates around the gradient with noise and bias of any size."""
    size, values = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    root = rng.normal(size=(size, size))
    hessian = root @ root.T if rng.random() < 0.5 else root + root.T
    theta = rng.normal(size=size)
    noise = rng.normal(size=(values, size)) * 10 ** rng.uniform(-2, 1)
    estimates = -hessian @ theta * rng.uniform(-0.5, 1.5) + noise
    return hessian, theta, estimates, rng.dirichlet(np.ones(values)), float(10 ** rng.uniform(-3, 0.5))


def test_no_random_quadratic_breaks_the_lemma(record_property: Callable[[str, object], None]):
    rng, tightness = np.random.default_rng(1), []
    for _ in range(cases()):
        bound = sga.quadratic_step(*random_problem(rng))
        assert bound.holds, bound
        tightness.append(bound.tightness)
    record_property("tightness", spread(tightness))
    print(f"SGA lemma: {spread(tightness)}")


def test_the_lemma_covers_what_is_smooth_and_not_quadratic():
    """J = -sum log cosh theta is 1-smooth."""
    rng = np.random.default_rng(2)
    for _ in range(cases()):
        theta, estimates = rng.normal(size=3) * 2, rng.normal(size=(4, 3))
        probs, step = rng.dirichlet(np.ones(4)), float(rng.uniform(0, 2))
        known = sga.moments(-np.tanh(theta), estimates, probs)
        after = probs @ -np.log(np.cosh(theta + step * estimates)).sum(-1)
        true = float(after + np.log(np.cosh(theta)).sum())
        assert true >= float(sga.progress(step, 1.0, known)) - 1e-10


def bowl(rng: np.random.Generator, curvature: float = 1.7) -> Bound:
    """All eigenvalues equal."""
    _, theta, estimates, probs, step = random_problem(rng)
    return sga.quadratic_step(curvature * np.eye(len(theta)), theta, estimates, probs, step)


def test_equal_curvature_gives_equality_and_no_smaller_penalty_passes():
    rng = np.random.default_rng(3)
    for _ in range(100):
        bound = bowl(rng)
        assert bound.lower == pytest.approx(bound.true, rel=1e-8, abs=1e-9)
        if bound.penalty > 1e-6:
            assert not replace(bound, penalties={"noise": 0.99 * bound.penalty}).holds
            assert not replace(bound, penalties={"noise": 0.5 * bound.penalty}).holds


@pytest.mark.parametrize("forgotten", ["variance", "bias_squared", "alignment"])
def test_a_forgotten_moment_is_caught(forgotten: str):
    theta, estimates, probs = np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, -1.0]]), np.array([0.5, 0.5])
    bound = sga.quadratic_step(2 * np.eye(2), theta, estimates, probs, 0.25)
    known = sga.moments(-2 * theta, estimates, probs)
    assert bound.true == pytest.approx(float(sga.progress(0.25, 2.0, known)))
    mutant = known._replace(**{forgotten: 0.0})
    assert bound.true < float(sga.progress(0.25, 2.0, mutant)) - 1e-3


# --- Moments, and steps


def test_moments_by_hand():
    known = sga.moments(np.array([1.0, 0.0]), np.array([[3.0, 1.0], [1.0, -1.0]]), np.array([0.5, 0.5]))
    assert known == pytest.approx((1.0, 1.0, 1.0, 2.0))  # the mean is (2, 0), the bias (1, 0)


def test_variance_and_bias_make_up_the_second_moment():
    rng = np.random.default_rng(4)
    for _ in range(50):
        hessian, theta, estimates, probs, _ = random_problem(rng)
        known = sga.moments(-hessian @ theta, estimates, probs)
        squared = known.gradient_squared + 2 * known.alignment + known.bias_squared + known.variance
        assert squared == pytest.approx(float(probs @ (estimates**2).sum(-1)))


def test_the_best_step_promises_most_and_twice_that_nothing():
    rng = np.random.default_rng(5)
    for _ in range(100):
        hessian, theta, estimates, probs, _ = random_problem(rng)
        known, smoothness = sga.moments(-hessian @ theta, estimates, probs), sga.quadratic_smoothness(hessian)
        best, last = sga.best_step(smoothness, known), sga.largest_step(smoothness, known)
        steps = np.linspace(0, max(2 * last, 1e-3), 401)
        promises = sga.progress(steps, smoothness, known)
        scale = 1e-9 * (1 + np.abs(promises).max())
        assert float(sga.progress(best, smoothness, known)) >= promises.max() - scale
        assert (promises[(steps > 0) & (steps < last * (1 - 1e-9))] > -scale).all()
        assert (promises[steps > last * (1 + 1e-9)] < scale).all()
        assert float(sga.progress(last, smoothness, known)) == pytest.approx(0, abs=scale)


def test_without_noise_the_best_step_is_one_over_the_curvature():
    known = sga.Moments(gradient_squared=4.0, alignment=0.0, bias_squared=0.0, variance=0.0)
    assert sga.best_step(2.0, known) == pytest.approx(0.5)
    assert sga.largest_step(2.0, known) == pytest.approx(1.0)


def test_the_largest_step_falls_as_one_over_the_variance():
    """003 section 3.2."""
    largest = [sga.largest_step(1.0, sga.Moments(1.0, 0.0, 0.0, variance)) for variance in (1e4, 1e5)]
    assert largest[0] / largest[1] == pytest.approx(10, rel=1e-3)


def test_an_estimate_that_points_away_allows_no_step():
    assert sga.best_step(1.0, sga.moments(np.ones(2), -np.ones((1, 2)), np.ones(1))) == 0


def test_a_negative_term_b_need_not_mean_a_wrong_optimum():
    """003 section 3.1 says it leads there. Half the gradient has a bias against it, and the same optimum."""
    hessian, theta = np.diag([2.0, 1.0]), np.array([1.0, -0.5])
    known = sga.moments(-hessian @ theta, -(hessian @ theta)[None] / 2, np.ones(1))
    assert float(sga.bias_error(0.1, 2.0, known.alignment)) < 0
    for _ in range(400):
        theta = theta + 0.1 * (-hessian @ theta) / 2
    assert np.abs(theta).max() < 1e-8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sga.moments(np.ones(2), np.ones((1, 3)), np.ones(1)), r"estimates has shape \(1, 3\)"),
        (lambda: sga.moments(np.ones(2), np.ones((2, 2)), np.ones(2)), "probs sums to 2"),
        (
            lambda: sga.quadratic_step(np.eye(2) + np.eye(2, k=1), np.ones(2), np.ones((1, 2)), np.ones(1), 1),
            "symmetric",
        ),
        (lambda: sga.best_step(1.0, sga.moments(np.ones(1), np.zeros((1, 1)), np.ones(1))), "0 for certain"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        call()
