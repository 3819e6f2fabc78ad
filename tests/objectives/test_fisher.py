"""Conjugate gradient and Fisher-vector products, against matrices written out."""

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.divergences import kl
from rlnotes.objectives.natural_gradient import (
    CurvatureError,
    conjugate_gradient,
    fisher_vector_product,
    flat_gradient,
    natural_step,
)
from tests.cases import cases
from tests.control.small_policies import H, Linear, SoftmaxPolicy, times, vector

# --- Conjugate gradient


def test_conjugate_gradient_solves_as_a_direct_solver_does():
    rng = np.random.default_rng(0)
    for _ in range(cases()):
        n = int(rng.integers(1, 9))
        root = rng.normal(size=(n, n))
        matrix, b = root @ root.T + np.eye(n), rng.normal(size=n) * 10.0 ** rng.integers(-6, 6)
        x = conjugate_gradient(times(torch.from_numpy(matrix)), torch.from_numpy(b), iterations=2 * n)
        np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-8, atol=1e-10 * np.abs(b).max())


def test_fewer_iterations_give_the_best_of_a_smaller_space():
    """After k products x minimises x'Hx / 2 - b'x over the span of b, Hb, ..., H^(k-1) b: so it falls with each k."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(8, 8))
    matrix, b = torch.from_numpy(root @ root.T + 0.1 * np.eye(8)), torch.from_numpy(rng.normal(size=8))
    for k in range(1, 8):
        x = conjugate_gradient(times(matrix), b, iterations=k)
        krylov = np.linalg.qr(np.stack([np.linalg.matrix_power(matrix.numpy(), i) @ b.numpy() for i in range(k)], 1))[0]
        inner = np.linalg.solve(krylov.T @ matrix.numpy() @ krylov, krylov.T @ b.numpy())
        np.testing.assert_allclose(x, krylov @ inner, rtol=1e-6, atol=1e-8)


def test_a_zero_gradient_gives_a_zero_direction_without_a_product():
    def never(v: Tensor) -> Tensor:
        raise AssertionError("a product was asked for")

    x = conjugate_gradient(never, vector(0, 0))
    assert x.tolist() == [0.0, 0.0]


def test_the_direction_and_the_full_step_have_the_right_numbers():
    x = conjugate_gradient(times(H), vector(1, 2))
    np.testing.assert_allclose(x, [0.090909, 0.636364], atol=1e-6)
    assert float(x @ H @ x) == pytest.approx(1.363636, abs=1e-6)
    model = Linear(H, vector(1, 2))
    report = natural_step([model.x], model.surrogate, model.kl, 0.01, damping=0.0)
    step = model.x.detach() / report.fraction
    np.testing.assert_allclose(step, 0.121106 * x, atol=1e-6)
    assert float(step @ H @ step / 2) == pytest.approx(0.01, rel=1e-9)


def test_negative_curvature_is_refused_with_its_number():
    saddle = torch.diag(vector(1, -1))
    with pytest.raises(CurvatureError, match="is -3, not positive"):
        conjugate_gradient(times(saddle), vector(1, 2))
    model = Linear(saddle, vector(1, 2))
    with pytest.raises(CurvatureError):
        natural_step([model.x], model.surrogate, model.kl, 0.01, damping=0.0)
    assert model.x.tolist() == [0.0, 0.0]


def test_a_singular_fisher_matrix_is_refused_and_damping_mends_it():
    fisher = vector(0.21, -0.21, -0.21, 0.21).view(2, 2)
    with pytest.raises(CurvatureError, match="pass damping above 0"):
        conjugate_gradient(times(fisher), vector(1, 1))
    damped = conjugate_gradient(times(fisher + 0.1 * torch.eye(2)), vector(1, 1))
    np.testing.assert_allclose(damped, [10.0, 10.0])


def test_a_gradient_in_the_range_of_a_singular_matrix_needs_no_damping():
    fisher = vector(0.21, -0.21, -0.21, 0.21).view(2, 2)
    np.testing.assert_allclose(conjugate_gradient(times(fisher), vector(1, -1)), [1 / 0.42, -1 / 0.42])


# --- Fisher-vector products


def test_the_kl_is_zero_to_first_order_and_bends_the_same_way_in_both_directions():
    p = vector(0.7, 0.3).log()
    logits = p.clone().requires_grad_()
    for divergence in (lambda: kl(p, logits.log_softmax(-1)), lambda: kl(logits.log_softmax(-1), p)):
        assert float(divergence().detach()) == pytest.approx(0, abs=1e-15)
        np.testing.assert_allclose(flat_gradient(divergence(), [logits]), [0, 0], atol=1e-15)
        product = fisher_vector_product(divergence, [logits], damping=0.0)
        matrix = torch.stack([product(row) for row in torch.eye(2, dtype=torch.float64)])
        np.testing.assert_allclose(matrix, [[0.21, -0.21], [-0.21, 0.21]], atol=1e-12)
        assert float(vector(1, -1) @ product(vector(1, -1))) == pytest.approx(0.84)


def test_a_kl_with_itself_has_no_curvature_and_one_with_half_a_side_detached_the_opposite_one():
    logits = vector(0.7, 0.3).log().requires_grad_()
    p, v = logits.detach().clone(), vector(1, -1)

    def new() -> Tensor:
        return logits.log_softmax(-1)

    wrong = {
        "0, not": lambda: kl(new(), new()),
        "-0.84, not": lambda: (p.exp() * (new() - p)).sum(),
        "-0.84,": lambda: (new().exp() * (p - new())).sum(),
    }
    for number, divergence in wrong.items():
        with pytest.raises(CurvatureError, match=f"is {number}.*detach weights and logarithms of the old side"):
            conjugate_gradient(fisher_vector_product(divergence, [logits], damping=0.0), v)


def test_far_away_the_direction_of_the_kl_matters():
    p, q = vector(0.7, 0.3).log(), vector(0.5, 0.5).log()
    assert (float(kl(p, q)), float(kl(q, p))) == pytest.approx((0.082283, 0.087177), abs=1e-6)


@pytest.mark.parametrize("direction", ["kl", "reverse_kl"])
def test_products_are_those_with_the_hessian_and_with_the_mean_outer_product_of_scores(direction: str):
    policy = SoftmaxPolicy(0)
    names = [name for name, _ in policy.net.named_parameters()]
    sizes = [parameter.numel() for parameter in policy.parameters]

    def log_probs_at(flat: Tensor) -> Tensor:
        parts = zip(names, policy.parameters, flat.split(sizes), strict=True)
        weights = {name: part.view_as(parameter) for name, parameter, part in parts}
        return torch.func.functional_call(policy.net, weights, (policy.obs,)).log_softmax(-1)

    def kl_at(flat: Tensor) -> Tensor:
        rows = (policy.old, log_probs_at(flat)) if direction == "kl" else (log_probs_at(flat), policy.old)
        return kl(*rows).mean()

    here = torch.cat([parameter.detach().reshape(-1) for parameter in policy.parameters])
    hessian = torch.as_tensor(torch.autograd.functional.hessian(kl_at, here))
    scores = torch.as_tensor(torch.autograd.functional.jacobian(log_probs_at, here))
    fisher = torch.einsum("sa,sai,saj->ij", policy.old.exp(), scores, scores) / len(policy.obs)
    product = fisher_vector_product(getattr(policy, direction), policy.parameters, damping=0.3)
    matrix = torch.stack([product(row) for row in torch.eye(len(here), dtype=torch.float64)])
    assert len(here) == 21
    for expected in (hessian, fisher):
        np.testing.assert_allclose(matrix, expected + 0.3 * torch.eye(len(here)), atol=1e-12)


def test_products_are_those_of_finite_differences_of_the_gradient():
    policy = SoftmaxPolicy(1)
    product = fisher_vector_product(policy.kl, policy.parameters, damping=0.0)
    size, step = sum(parameter.numel() for parameter in policy.parameters), 1e-5
    direction = torch.randn(size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = product(direction)
    sides = []
    for sign in (1, -2):
        with torch.no_grad():
            for parameter, part in zip(
                policy.parameters, direction.split([p.numel() for p in policy.parameters]), strict=True
            ):
                parameter += sign * step * part.view_as(parameter)
        sides.append(flat_gradient(policy.kl(), policy.parameters))
    np.testing.assert_allclose(expected, (sides[0] - sides[1]) / (2 * step), atol=1e-8)


def test_a_kl_that_is_no_distance_from_here_is_refused():
    policy = SoftmaxPolicy(2)
    with pytest.raises(ValueError, match="kl carries no gradient"):
        fisher_vector_product(lambda: policy.kl().detach(), policy.parameters, 0.1)
    policy.old = policy.old.roll(1, 0)
    with pytest.raises(ValueError, match="before the step; it must be 0"):
        fisher_vector_product(policy.kl, policy.parameters, 0.1)
    x = torch.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="second derivative is 0 everywhere"):
        fisher_vector_product(lambda: x.sum(), [x], 0.1)
    with pytest.raises(ValueError, match="damping is -1"):
        fisher_vector_product(policy.kl, policy.parameters, -1)
