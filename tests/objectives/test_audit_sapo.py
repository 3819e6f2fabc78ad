"""SAPO, 002 section 5.6: the golden values of the audit, what is wrong as printed, and what chapter 10 adds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import root_scalar

from rlnotes.estimators.divergences import kl
from rlnotes.objectives import GRPO, SAPO, Batch, KLPenalty, policy_loss
from rlnotes.objectives.gates import Cap, Clip, Gate, Soft, no_gate
from tests.cases import cases
from tests.golden_audit import GOLDEN

G08 = GOLDEN["G08"]
CLIP = Clip(0.2, 0.2)


def slope(gate: Gate, ratio: np.ndarray, advantage: float) -> np.ndarray:
    """The derivative by the ratio."""
    r = torch.from_numpy(np.asarray(ratio, dtype=np.float64)).requires_grad_()
    (found,) = torch.autograd.grad(gate(r, torch.full_like(r, advantage).detach()).sum(), r)
    return found.numpy()


def value(gate: Gate, ratio: np.ndarray, advantage: float) -> np.ndarray:
    r = torch.from_numpy(np.asarray(ratio, dtype=np.float64))
    return gate(r, torch.full_like(r, advantage)).numpy()


def sech2(x: np.ndarray) -> np.ndarray:
    return np.cosh(x) ** -2.0


# --- Golden values


def test_shape_and_gate_are_those_of_the_audit():
    given, right = G08["inputs"], G08["outputs"]
    gate, ratio = Soft(given["tau_pos"], given["tau_neg"]), np.exp(given["token_logratios"])
    np.testing.assert_allclose(value(gate, ratio, given["Ahat"]), right["sapo_f"], rtol=1e-14)
    np.testing.assert_allclose(slope(gate, ratio, given["Ahat"]), right["sapo_gate"], rtol=1e-12)
    np.testing.assert_allclose(right["sapo_gate"], right["sech2"], rtol=1e-12)


def test_the_recipe_has_the_temperatures_of_the_audit():
    assert SAPO.gate == Soft(G08["inputs"]["tau_pos"], G08["inputs"]["tau_neg"])


@pytest.mark.parametrize(("advantage", "tau"), [(0.5, 2.0), (-0.5, 5.0), (0.0, 5.0)])
def test_the_temperature_goes_by_the_sign_of_the_advantage(advantage: float, tau: float):
    """002 (118), with A = 0 on the negative side, where it makes no difference."""
    found = value(Soft(2.0, 5.0), np.array([1.3]), advantage)
    np.testing.assert_allclose(found, 4 / tau / (1 + np.exp(-tau * 0.3)) * advantage, rtol=1e-14)


# --- What is wrong as printed


def printed_hard_gate(ratio: float, advantage: float) -> float:
    """002 (116)."""
    return float(ratio <= 1.2 if advantage > 0 else ratio >= 0.8)


@pytest.mark.parametrize("ratio", [0.3, 0.9, 1.0, 1.1, 3.0])
@pytest.mark.parametrize("advantage", [2.0, -2.0, 0.0])
def test_the_clip_has_the_slope_of_the_printed_gate_times_the_advantage(ratio: float, advantage: float):
    h = 1e-6
    ends = value(CLIP, np.array([ratio + h, ratio - h]), advantage)
    true = (ends[0] - ends[1]) / (2 * h)
    assert true == pytest.approx(printed_hard_gate(ratio, advantage) * advantage, abs=1e-8)
    assert slope(CLIP, np.array([ratio]), advantage)[0] == pytest.approx(true, abs=1e-8)


def test_the_printed_hard_gate_alone_is_no_derivative():
    assert slope(CLIP, np.array([1.0]), 2.0)[0] == 2.0 != printed_hard_gate(1.0, 2.0)
    assert slope(CLIP, np.array([1.0]), 0.0)[0] == 0.0 != printed_hard_gate(1.0, 0.0)


def test_outside_the_band_a_bad_token_is_pulled_back_in_full():
    assert value(CLIP, np.array([3.0]), -1.0)[0] == -3.0
    assert slope(CLIP, np.array([3.0]), -1.0)[0] == -1.0


def test_the_printed_form_of_the_soft_gate_is_closed_where_the_gate_is_open():
    """002 (120): 2 (tau / 2)(r - 1) is 0 at r = 1 and grows without limit."""
    ratio = np.array([1.0, 1.1])
    np.testing.assert_allclose(slope(Soft(), ratio, 1.0), [1.0, 0.9975041608], rtol=1e-9)
    assert 2 * 0.5 * (ratio[0] - 1) == 0


def one_token(pi: list[float], old: torch.Tensor, ref: torch.Tensor, kl_penalty: KLPenalty) -> tuple[np.ndarray, ...]:
    """Slopes by logit of the penalty in SAPO's loss, in the mean over old, and of KL(pi, ref) and KL(old, pi)."""
    logits = torch.tensor(pi, dtype=torch.float64).log().requires_grad_()
    drawn = torch.tensor([0] * 7 + [1] * 3)  # in the proportions of (.7, .3)
    log_probs = logits.log_softmax(-1)
    batch = Batch(
        log_probs[drawn][:, None],
        torch.ones(10, 1, dtype=torch.bool),
        torch.zeros(10, dtype=torch.float64),
        logp_behavior=old.log()[drawn][:, None],
        logp_reference=ref.log()[drawn][:, None],
    )
    losses = (
        policy_loss(replace(SAPO, kl=kl_penalty), batch),
        kl(log_probs, ref.log()),
        kl(old.log(), log_probs),
    )
    return tuple(torch.autograd.grad(loss, logits, retain_graph=True)[0].numpy() for loss in losses)


@pytest.mark.parametrize("reference", [[0.5, 0.5], [0.1, 0.9]])
@pytest.mark.parametrize("pi", [[0.7, 0.3], [0.6, 0.4], [0.95, 0.05]])
def test_the_printed_kl_penalty_does_not_see_the_reference(pi: list[float], reference: list[float]):
    """002 5.6.3: on policy its slope is 0; elsewhere it is that of -KL(old, pi)."""
    old, ref = (torch.tensor(p, dtype=torch.float64) for p in ([0.7, 0.3], reference))
    printed, to_reference, from_old = one_token(pi, old, ref, KLPenalty(1.0, "k1"))
    np.testing.assert_allclose(printed, old.numpy() - np.array(pi), atol=1e-14)
    np.testing.assert_allclose(printed, -from_old, atol=1e-14)
    assert not np.allclose(printed, to_reference, atol=1e-3)


# --- What chapter 10 adds


def test_on_policy_the_gradient_is_that_of_grpo_and_the_value_is_not():
    """The audit's case, A = (1, -1): 0.047619. And random batches."""
    rng = np.random.default_rng(0)
    batches = [(np.array([1.0, -1.0]), np.ones((2, 1), dtype=bool))]
    batches += [(rng.normal(size=6), np.arange(5) < rng.integers(1, 6, size=(6, 1))) for _ in range(20)]
    for advantages, mask in batches:
        logp = torch.from_numpy(-rng.random(mask.shape)).requires_grad_()
        batch = Batch(logp, torch.from_numpy(mask), torch.from_numpy(advantages), logp.detach())
        losses = [policy_loss(choices, batch) for choices in (SAPO, GRPO)]
        ours, theirs = (torch.autograd.grad(loss, logp)[0] for loss in losses)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        mean = np.mean(2 / np.where(advantages > 0, 1.0, 1.05) * advantages)
        assert losses[0].item() == pytest.approx(-mean, abs=1e-12)
        if len(advantages) == 2:
            assert -losses[0].item() == pytest.approx(0.047619, abs=1e-6)
            assert losses[1].item() == 0


@pytest.mark.parametrize("tau", [0.5, 1.0, 1.05, 3.0, 10.0])
def test_how_wide_the_gate_is(tau: float):
    gate, ratio = Soft(tau, tau), np.linspace(1e-6, 5, 2001)
    half = root_scalar(lambda r: slope(gate, np.array([r]), 1.0)[0] - 0.5, bracket=(1, 100)).root
    assert half - 1 == pytest.approx(2 * np.arccosh(np.sqrt(2)) / tau, rel=1e-9)
    found = slope(gate, ratio, 1.0)
    assert found[ratio < 1].min() >= sech2(np.array(tau / 2)) > 0
    assert (1 - found <= tau**2 / 4 * (ratio - 1) ** 2 + 1e-12).all() and (found <= 1).all()
    peak = root_scalar(lambda r: tau * r * np.tanh(tau / 2 * (r - 1)) - 1, bracket=(1, 100)).root
    around = peak + np.array([-1e-3, 0, 1e-3])
    pushes = around * slope(gate, around, 1.0)
    assert pushes[1] > max(pushes[0], pushes[2]) and pushes[1] > 1


def test_every_maximiser_gives_up_the_tokens_without_an_advantage():
    """Along any exchange of probability from A <= 0 to A > 0 the objective rises, however far the policy has gone."""
    rng = np.random.default_rng(0)
    for _ in range(cases()):
        size = int(rng.integers(2, 6))
        old, pi = rng.dirichlet(np.ones(size), 2)
        advantages = rng.normal(size=size)
        advantages[0], advantages[1] = abs(advantages[0]) + 0.1, -abs(advantages[1])
        tau = rng.uniform(0.1, 5, 2)
        A, weights = torch.from_numpy(advantages), torch.from_numpy(old)
        moved = np.zeros(size)
        moved[0], moved[1] = pi[1] / 2, -pi[1] / 2
        before, after = (float((weights * Soft(*tau)(torch.from_numpy(p / old), A)).sum()) for p in (pi, pi + moved))
        assert after >= before - 1e-12


@pytest.mark.parametrize(
    ("gate", "bad"), [(CLIP, (0.75, 0.85)), (Soft(), (0.0, 0.01)), (Soft(10.0, 10.0), (0.25, 0.4))]
)
def test_ascent_on_the_clip_stands_still_and_on_the_soft_gate_goes_on(gate: Gate, bad: tuple[float, float]):
    old, A = (torch.tensor(p, dtype=torch.float64) for p in ([0.6, 0.3, 0.1], [-0.5, 0.5, 1.5]))
    logits, ratios = old.log().requires_grad_(), []
    for _ in range(3001):
        ratio = logits.softmax(-1) / old
        ratios.append(ratio.detach().numpy())
        (direction,) = torch.autograd.grad((old * gate(ratio, A)).sum(), logits)
        logits = (logits + 0.1 * direction).detach().requires_grad_()
    assert bad[0] < ratios[-1][0] < bad[1]
    assert (abs(ratios[-1] - ratios[1000]).max() < 1e-12) == (gate is CLIP)


def test_how_hard_a_bad_token_is_pulled_back():
    ratio = np.array([3.0, 10.0])
    pulls = {
        name: ratio * slope(gate, ratio, -1.0) for name, gate in dict(clip=CLIP, cap=Cap(high=3.0), soft=Soft()).items()
    }
    np.testing.assert_allclose(pulls["clip"], [-3, -10])
    np.testing.assert_allclose(pulls["cap"], [-3, -3])
    np.testing.assert_allclose(pulls["soft"], -ratio * sech2(0.525 * (ratio - 1)), rtol=1e-9)
    assert -0.004 < pulls["soft"][1] < 0


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("tau", [1.0, 10.0])
def test_the_soft_term_is_pessimistic_on_one_side_only(advantage: float, tau: float):
    ratio = np.linspace(0.01, 5, 500)
    shifted = value(Soft(tau, tau), ratio, advantage) + (1 - 2 / tau) * advantage
    over = shifted - value(no_gate, ratio, advantage)
    right_way = (ratio - 1) * advantage >= 0
    assert (over[right_way] <= 1e-12).all() and (over[~right_way] >= -1e-12).all()
    assert over.max() > 0.01


def test_the_average_gate_is_the_gate_at_the_mean_up_to_the_variance():
    rng, closest = np.random.default_rng(0), 0.0
    for _ in range(cases()):
        tau = 10 ** rng.uniform(-1, 1.2)
        ratio = np.exp(rng.normal(0, 0.5) + 10 ** rng.uniform(-3, 0.3) * rng.normal(size=int(rng.integers(2, 30))))
        gate = Soft(tau, tau)
        gap = abs(slope(gate, ratio, 1.0).mean() - slope(gate, ratio.mean(keepdims=True), 1.0)[0])
        bound = tau**2 / 4 * ratio.var()
        assert gap <= bound + 1e-12
        closest = max(closest, gap / bound)
    assert closest > 0.9
