"""The natural step with its line search: what is accepted, what is put back, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_prompt, every_response, expected_reward, response_kl
from rlnotes.lm.model import Transformer
from rlnotes.lm.tasks import ShortReverse
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives.natural_gradient import natural_step
from tests.cases import cases
from tests.control.small_policies import H, Linear, SoftmaxPolicy, vector


def copies(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]


def same(parameters: list[nn.Parameter], before: list[Tensor]) -> bool:
    return all(torch.equal(a.detach(), b) for a, b in zip(parameters, before, strict=True))


def test_an_accepted_step_raises_the_surrogate_within_the_limit():
    accepted = 0
    for seed in range(cases() // 4):
        policy = SoftmaxPolicy(seed, scale=1 + seed % 3)
        delta = (1e-4, 1e-2, 0.3)[seed % 3]
        before = float(policy.surrogate().detach())
        report = natural_step(policy.parameters, policy.surrogate, policy.kl, delta, damping=1e-3)
        if not report.accepted:
            continue
        accepted += 1
        # measured anew, from the probabilities
        p, q = policy.old.exp().numpy(), policy.log_probs().detach().exp().numpy()
        realised = (p * np.log(p / q)).sum(-1).mean()
        assert realised <= delta * (1 + 1e-9)
        assert report.realised_kl == pytest.approx(realised, rel=1e-6, abs=1e-12)
        assert float(policy.surrogate().detach()) - before == pytest.approx(report.gained, rel=1e-9)
        assert report.gained > 0
        assert report.quadratic_kl == pytest.approx(report.fraction**2 * delta)
        assert report.fraction == pytest.approx(0.8 ** (report.tried - 1))
    assert accepted >= 0.8 * (cases() // 4)


def test_a_small_step_does_what_the_two_models_predict():
    policy = SoftmaxPolicy(3)
    report = natural_step(policy.parameters, policy.surrogate, policy.kl, 1e-11, damping=1e-6, iterations=40)
    assert report.gained == pytest.approx(report.predicted, rel=1e-2)
    assert report.realised_kl == pytest.approx(report.quadratic_kl, rel=1e-2)


def test_the_step_is_the_best_one_within_the_quadratic_limit():
    """No other vector with x'Hx / 2 <= delta has a larger g'x: compared with many drawn at random."""
    model = Linear(H, vector(1, 2))
    report = natural_step([model.x], model.surrogate, model.kl, 0.01, damping=0.0)
    drawn = np.random.default_rng(2).normal(size=(10_000, 2))
    drawn *= np.sqrt(0.02 / np.einsum("ni,ij,nj->n", drawn, H.numpy(), drawn))[:, None]
    best = (drawn @ np.array([1.0, 2.0])).max()
    assert report.predicted / report.fraction == pytest.approx(best, rel=1e-5)


def test_a_zero_gradient_makes_no_update_and_no_nan():
    policy = SoftmaxPolicy(4)
    policy.advantages.zero_()
    before = copies(policy.parameters)
    report = natural_step(policy.parameters, policy.surrogate, policy.kl, 0.01, damping=0.0)
    assert not report.accepted and "gradient of the surrogate is 0" in report.reason
    assert same(policy.parameters, before)
    assert report[2:] == (0.0, 0.0, 0.0, 0.0, 0.0, 0)


def surrogate_that_falls(policy: SoftmaxPolicy) -> Callable[[], Tensor]:
    """Its gradient is the policy's, and away from here it is lower."""
    start = copies(policy.parameters)

    def value() -> Tensor:
        away = sum((a - b).square().sum() for a, b in zip(policy.parameters, start, strict=True))
        return policy.surrogate() - 1e9 * away

    return value


def surrogate_that_is_nan_elsewhere(policy: SoftmaxPolicy) -> Callable[[], Tensor]:
    start = copies(policy.parameters)
    return lambda: policy.surrogate() if same(policy.parameters, start) else policy.surrogate() * torch.nan


@pytest.mark.parametrize("wicked", [surrogate_that_falls, surrogate_that_is_nan_elsewhere])
def test_where_no_length_serves_the_old_parameters_come_back_bit_for_bit(wicked: Callable):
    policy = SoftmaxPolicy(5)
    before = copies(policy.parameters)
    report = natural_step(policy.parameters, wicked(policy), policy.kl, 0.01, most_tries=6)
    assert not report.accepted
    assert report.reason.startswith("none of 6 lengths, down to 0.33 of the full step")
    assert (report.realised_kl, report.gained, report.fraction, report.tried) == (0.0, 0.0, 0.0, 6)
    assert report.predicted > 0 and report.quadratic_kl == 0.01
    assert same(policy.parameters, before)


def test_a_kl_steeper_than_its_model_shortens_the_step():
    """KL = x^2 / 2 + c x^4: the full step of size sqrt(2 delta) overshoots, and the first that fits is taken."""
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    report = natural_step([x], lambda: x.sum(), lambda: (x**2 / 2 + 1000 * x**4).sum(), 0.01, damping=0.0)
    lengths = np.sqrt(0.02) * 0.8 ** np.arange(10)
    fits = lengths**2 / 2 + 1000 * lengths**4 <= 0.01
    assert report.tried == int(np.argmax(fits)) + 1 > 1
    assert x.item() == pytest.approx(lengths[np.argmax(fits)])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_breaks_in_the_line_search_leaves_the_old_parameters(error: type[BaseException]):
    policy = SoftmaxPolicy(6)
    before, calls = copies(policy.parameters), 0

    def breaks() -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 3:  # once for the gradient, once for the first length
            raise error("stop")
        return policy.surrogate() - (calls > 1) * 1e9

    with pytest.raises(error):
        natural_step(policy.parameters, breaks, policy.kl, 0.01)
    assert calls == 3 and same(policy.parameters, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(delta=0.0), "delta is 0"),
        (dict(delta=float("nan")), "delta is nan"),
        (dict(delta=0.01, shrink=1.0), "shrink is 1"),
        (dict(delta=0.01, most_tries=0), "most_tries is 0"),
        (dict(delta=0.01, iterations=0), "iterations is 0"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict, message: str):
    policy = SoftmaxPolicy(7)
    with pytest.raises(ValueError, match=message):
        natural_step(policy.parameters, policy.surrogate, policy.kl, **settings)


def test_a_gradient_that_is_not_finite_is_refused():
    policy = SoftmaxPolicy(8)
    policy.advantages[0] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        natural_step(policy.parameters, policy.surrogate, policy.kl, 0.01)


def test_a_language_model_takes_a_step_too():
    """On everything a tiny transformer can write: J rises, and the KL of whole responses stays within the limit."""
    task = ShortReverse(size=2)
    model, old = (Trainer(TrainConfig(seed=0, warm_start="none"), task=task).model for _ in range(2))
    assert isinstance(model, Transformer)
    old.requires_grad_(False)
    responses = every_response(task, every_prompt(task)[:2])
    with torch.no_grad():
        before = float(expected_reward(model, task, responses))
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no second derivative
        report = natural_step(
            list(model.parameters()),
            lambda: expected_reward(model, task, responses),
            lambda: response_kl(old, model, responses),
            0.01,
        )
    with torch.no_grad():
        gained = float(expected_reward(model, task, responses)) - before
        realised = float(response_kl(old, model, responses))
    assert report.accepted
    assert gained == pytest.approx(report.gained, rel=1e-3) and gained > 0
    assert 0.001 < realised <= 0.01 * (1 + 1e-3)
