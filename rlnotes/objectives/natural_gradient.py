"""The natural gradient without the Fisher matrix, and TRPO's step with it: 002 section 4.6.3.

Nothing here knows what a policy is. ``surrogate`` and ``kl`` are functions of no argument that return a tensor () with
gradient, computed from ``parameters`` as they stand: a module's forward pass inside a closure. P is their number.
"""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

Scalar = Callable[[], Tensor]
Product = Callable[[Tensor], Tensor]

AT_HOME = 1e-4  # nats that rounding may leave of KL(old, old)


class CurvatureError(ValueError):
    """The quadratic model has no curvature along a direction: no step length follows from it."""


class StepReport(NamedTuple):
    """What :func:`natural_step` did.

    ``accepted``: False means that the parameters are the old ones, bit for bit, and ``reason`` says why.
    ``realised_kl``, ``gained``: KL and change of the surrogate after the step, as computed, 0 if none was made.
    ``predicted``: the change of the surrogate to first order; ``quadratic_kl``: what the damped quadratic model says
    of the KL. Both are of the step made, or of the full one if none was. ``fraction``: of the full step, 0 if none.
    ``tried``: step lengths that were looked at.
    """

    accepted: bool
    reason: str
    realised_kl: float = 0.0
    gained: float = 0.0
    predicted: float = 0.0
    quadratic_kl: float = 0.0
    fraction: float = 0.0
    tried: int = 0


def flat_gradient(value: Tensor, parameters: Sequence[Tensor], create_graph: bool = False) -> Tensor:
    """Gradient (P,) of ``value`` (), parameter after parameter; 0 for those that it does not depend on.

    >>> x, y = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> flat_gradient((x * x).sum(), [x, y])
    tensor([2., 2., 0.])
    """
    parts = torch.autograd.grad(value, parameters, create_graph=create_graph, materialize_grads=True)
    return torch.cat([part.reshape(-1) for part in parts])


def fisher_vector_product(kl_of_parameters: Scalar, parameters: Sequence[Tensor], damping: float) -> Product:
    """The function v -> (A + damping I) v on vectors (P,), where A is the Hessian of the KL: 002 eqs. (72), (73).

    By double backward: the gradient of (gradient of KL, v). A is never formed, one product costs about two gradients.
    The KL and its gradient are 0 at the old policy; only the second derivative says anything, and it is the same for
    both directions of the KL. The old side must be detached, the new one not. Raises ``ValueError`` for a negative
    damping, a KL without gradient, and one that is not 0 here: it compares with another policy.

    >>> theta = torch.zeros(1, requires_grad=True)
    >>> product = fisher_vector_product(lambda: 2 * (theta**2).sum(), [theta], damping=0.0)
    >>> product(torch.tensor([3.0]))  # the second derivative is 4
    tensor([12.])
    """
    if not damping >= 0:
        raise ValueError(f"damping is {damping}; it must not be negative")
    kl = kl_of_parameters()
    if not kl.requires_grad:
        raise ValueError("kl carries no gradient; detach the old policy only, and compute the new one with gradient")
    if not abs(float(kl.detach())) <= AT_HOME:
        raise ValueError(
            f"kl is {float(kl.detach()):.6g} before the step; it must be 0: compare with the policy as it stands"
        )
    gradient = flat_gradient(kl, parameters, create_graph=True)
    if not gradient.requires_grad:
        raise ValueError("the gradient of kl does not depend on parameters: its second derivative is 0 everywhere")

    def product(vector: Tensor) -> Tensor:
        parts = torch.autograd.grad(gradient @ vector, parameters, retain_graph=True, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts]) + damping * vector

    return product


def curvature(vector: Tensor, image: Tensor) -> float:
    """v'Hv, where ``image`` is Hv. Raises :class:`CurvatureError` unless it is above what rounding leaves of 0."""
    bent = float(vector @ image)
    if not bent > torch.finfo(vector.dtype).eps * float(vector @ vector):
        raise CurvatureError(
            f"the curvature v'Hv along a search direction is {bent:.6g}, not positive; without damping a Fisher matrix "
            "is singular (a softmax does not feel a constant added to its logits): pass damping above 0. If it is 0 "
            "along every direction, kl compares the policy with itself: detach the old side. If clearly negative, H "
            "is no Hessian of a KL at its minimum: detach weights and logarithms of the old side, and check the sign"
        )
    return bent


def conjugate_gradient(product: Product, b: Tensor, iterations: int = 10) -> Tensor:
    """Approximate solution x (P,) of H x = ``b`` (P,) for H symmetric positive, ``product`` is v -> Hv: 002 eq. (73).

    Exact, but for rounding, after P iterations; stops before where the residual is down to rounding. ``b`` = 0 gives
    exactly 0. Raises :class:`CurvatureError` where H is not positive along a direction, rather than a huge vector.

    >>> conjugate_gradient(lambda v: torch.tensor([2.0, 4.0]) * v, torch.tensor([2.0, 8.0]))
    tensor([1., 2.])
    """
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}; at least 1 is needed")
    x, residual = torch.zeros_like(b), b.clone()
    direction = residual
    squared = float(residual @ residual)
    enough = (1000 * torch.finfo(b.dtype).eps) ** 2 * squared
    for _ in range(iterations):
        if squared <= enough:
            break
        image = product(direction)
        length = squared / curvature(direction, image)
        x = x + length * direction
        residual = residual - length * image
        before, squared = squared, float(residual @ residual)
        direction = residual + squared / before * direction
    return x


def natural_step(
    parameters: Sequence[Tensor],
    surrogate: Scalar,
    kl: Scalar,
    delta: float,
    *,
    damping: float = 0.1,
    iterations: int = 10,
    shrink: float = 0.8,
    most_tries: int = 10,
) -> StepReport:
    """One TRPO step: raise ``surrogate`` and keep ``kl`` at most ``delta``, in nats. 002 section 4.6.4, steps 3 to 6.

    The direction solves (A + damping I) s = g; the full step is s scaled until the quadratic model of the KL says
    delta, 002 eq. (74); then it is shortened by ``shrink`` until the surrogate has truly risen and the true KL is at
    most delta. If no length of ``most_tries`` does, or the gradient is 0, the old parameters are put back, exactly, and
    the report says so. They are put back as well if anything is raised on the way, an interrupt too.

    The damping counts in the step length too, so that the quadratic model of the KL itself is at most delta.
    Raises ``ValueError`` for settings out of range and a gradient that is not finite, :class:`CurvatureError` where no
    step length follows. Attention kernels may lack a second derivative: run inside
    ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)``.

    >>> theta = torch.zeros(1, requires_grad=True)
    >>> kl = lambda: (2 * theta**2 - theta**3).sum()  # to second order 2 * 0.1^2 = 0.02
    >>> report = natural_step([theta], theta.sum, kl, delta=0.02, damping=0.0)
    >>> report.accepted, theta.detach()
    (True, tensor([0.1000]))
    """
    _settings(delta, shrink, most_tries)
    before = surrogate()
    g = flat_gradient(before, parameters)
    if not bool(torch.isfinite(g).all()):
        raise ValueError("the gradient of the surrogate is not finite; look for NaN in advantages and log-probs")
    if not bool(g.any()):
        return StepReport(False, "the gradient of the surrogate is 0: no direction is better than another")
    product = fisher_vector_product(kl, parameters, damping)
    s = conjugate_gradient(product, g, iterations)
    full = s * (2 * delta / curvature(s, product(s))) ** 0.5
    slope = float(g @ full)
    with torch.no_grad(), _restored_unless_kept(parameters) as keep:
        old = torch.cat([parameter.reshape(-1) for parameter in parameters])
        for k in range(most_tries):
            fraction = shrink**k
            _assign(parameters, old + fraction * full)
            gained, realised = float(surrogate() - before), float(kl())
            if gained > 0 and realised <= delta:  # NaN is neither
                keep()
                return StepReport(
                    True, "accepted", realised, gained, fraction * slope, fraction**2 * delta, fraction, k + 1
                )
    last = shrink ** (most_tries - 1)
    reason = f"none of {most_tries} lengths, down to {last:.2g} of the full step, raised the surrogate within delta"
    return StepReport(False, reason, predicted=slope, quadratic_kl=delta, tried=most_tries)


def _settings(delta: float, shrink: float, most_tries: int) -> None:
    """Raise ``ValueError`` for what makes no line search."""
    if not 0 < delta < float("inf"):
        raise ValueError(f"delta is {delta}; the largest KL allowed must be positive and finite")
    if not 0 < shrink < 1:
        raise ValueError(f"shrink is {shrink}; it must lie between 0 and 1")
    if most_tries < 1:
        raise ValueError(f"most_tries is {most_tries}; at least 1 is needed")


def _assign(parameters: Sequence[Tensor], flat: Tensor) -> None:
    """Write ``flat`` (P,) into the parameters, in place."""
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, part in zip(parameters, flat.split(sizes), strict=True):
        parameter.copy_(part.view_as(parameter))


@contextmanager
def _restored_unless_kept(parameters: Sequence[Tensor]):
    """Put the parameters back on leaving, in whatever way, unless the function that it gives was called."""
    copies = [parameter.clone() for parameter in parameters]
    kept = []
    try:
        yield lambda: kept.append(True)
    finally:
        if not kept:
            for parameter, copy in zip(parameters, copies, strict=True):
                parameter.copy_(copy)
