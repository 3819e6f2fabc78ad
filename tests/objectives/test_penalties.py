"""What each KL penalty really descends, by enumeration of every response, and the entropy bonus."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.estimators.baselines import group_mean
from rlnotes.estimators.divergences import KLEstimator
from rlnotes.exact.token_divergences import context_kl, mean_by_position, sequence_kl
from rlnotes.exact.token_gradients import softmax_policy
from rlnotes.exact.tokens import TokenModel, own_tokens, sequence_probs, sequences, single_prompt
from rlnotes.objectives import PG_IS, VANILLA_PG, Batch, Choices, KLPenalty, penalised_rewards, policy_loss
from rlnotes.objectives.aggregations import response_sum
from rlnotes.objectives.ratios import token

V = 3
Logits = list[np.ndarray]


def model_of(horizon: int) -> TokenModel:
    """Answers of up to ``horizon`` tokens of 3, the last of which is the end."""
    return single_prompt(np.zeros(V**horizon), V, horizon, eos=2)


def logits_of(seed: int, horizon: int) -> Logits:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(1, V**t, V)) for t in range(horizon)]


def logp_of(model: TokenModel, logits: Sequence[Tensor]) -> Tensor:
    """log pi (V**T, T) of every answer's tokens, NaN after its end."""
    answers = sequences(V, model.horizon)
    columns = []
    for t, rows in enumerate(logits):
        context = np.arange(len(answers)) // V ** (model.horizon - t)
        columns.append(rows[0].log_softmax(-1)[context, answers[:, t]])
    return torch.where(torch.from_numpy(own_tokens(model)), torch.stack(columns, 1), torch.nan)


def descended(
    model: TokenModel, logits: Logits, reference: Logits, loss_of: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> np.ndarray:
    """The mean over pi of the gradient by the logits of ``loss_of(logp, reference, mask)`` (responses,).

    An answer is counted once: after its end a policy can only pad.
    """
    parameters = [torch.from_numpy(rows).requires_grad_() for rows in logits]
    probs = torch.from_numpy(sequence_probs(model, softmax_policy(model, logits))[0])
    happens = probs > 0
    logp = logp_of(model, parameters)[happens]
    logp_reference = logp_of(model, [torch.from_numpy(rows) for rows in reference])[happens]
    losses = loss_of(logp, logp_reference, torch.from_numpy(own_tokens(model))[happens])
    gradients = torch.autograd.grad((probs[happens] * losses).sum(), parameters)
    return np.concatenate([gradient.numpy().ravel() for gradient in gradients])


def slope(value: Callable[[list[np.ndarray]], float], logits: Logits) -> np.ndarray:
    """The gradient of ``value`` by central differences."""
    sizes, flat = [rows.shape for rows in logits], np.concatenate([rows.ravel() for rows in logits])

    def at(point: np.ndarray) -> float:
        parts = np.split(point, np.cumsum([int(np.prod(size)) for size in sizes])[:-1])
        return value([part.reshape(size) for part, size in zip(parts, sizes, strict=True)])

    step = 1e-5
    return np.array([(at(flat + step * e) - at(flat - step * e)) / (2 * step) for e in np.eye(len(flat))])


def per_response(choices: Choices, advantages_of: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None):
    """The losses of responses taken one at a time. Without ``advantages_of``, every advantage is 0."""

    def loss_of(logp: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
        zeros = logp.new_zeros(len(logp))
        advantages = zeros if advantages_of is None else advantages_of(logp, reference, mask)
        return torch.stack(
            [
                policy_loss(
                    choices,
                    Batch(
                        logp[i : i + 1],
                        mask[i : i + 1],
                        advantages[i : i + 1].detach(),
                        logp_reference=reference[i : i + 1],
                    ),
                )
                for i in range(len(logp))
            ]
        )

    return loss_of


def in_loss(estimator: KLEstimator, weighted: bool = False):
    kl = KLPenalty(1.0, estimator, weighted)
    return per_response(Choices(ratio=token, anchor="current", aggregation=response_sum, kl=kl))


def in_reward(estimator: KLEstimator):
    """Plain policy gradient on a reward of 0 less the penalty."""
    kl = KLPenalty(1.0, estimator, where="reward")

    def advantages_of(logp: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
        return penalised_rewards(kl, logp.new_zeros(len(logp)), logp - reference, mask)

    return per_response(replace(VANILLA_PG, kl=kl), advantages_of)


def next_token_kl(horizon: int, logits: Logits, reference: Logits, reverse: bool):
    """The sum over positions of the next token's KL, prefixes drawn from ``logits`` whatever the policy becomes."""
    model = model_of(horizon)
    drawn, ref = softmax_policy(model, logits), softmax_policy(model, reference)

    def value(moved: list[np.ndarray]) -> float:
        policy = softmax_policy(model, moved)
        divergences = context_kl(model, *((ref, policy) if reverse else (policy, ref)))
        return float(mean_by_position(model, divergences, drawn).sum())

    return value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_k1_in_the_loss_descends_nothing(horizon: int, seed: int):
    gradient = descended(model_of(horizon), logits_of(seed, horizon), logits_of(seed + 10, horizon), in_loss("k1"))
    np.testing.assert_allclose(gradient, 0, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize(
    ("estimator", "weighted", "reverse"),
    [("k2", False, False), ("k3", False, True), ("k1", True, False), ("k3", True, False)],
)
def test_the_other_estimates_in_the_loss_descend_a_kl_of_the_next_token(
    estimator: KLEstimator, weighted: bool, reverse: bool, horizon: int, seed: int
):
    logits, reference = logits_of(seed, horizon), logits_of(seed + 10, horizon)
    gradient = descended(model_of(horizon), logits, reference, in_loss(estimator, weighted))
    expected = slope(next_token_kl(horizon, logits, reference, reverse), logits)
    np.testing.assert_allclose(gradient, expected, atol=1e-9)
    wrong = slope(next_token_kl(horizon, logits, reference, not reverse), logits)
    assert np.abs(gradient - wrong).max() > 0.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_k1_in_the_reward_descends_the_kl_of_whole_responses(horizon: int, seed: int):
    model, logits, reference = model_of(horizon), logits_of(seed, horizon), logits_of(seed + 10, horizon)
    ref = softmax_policy(model, reference)
    expected = slope(lambda moved: sequence_kl(model, softmax_policy(model, moved), ref), logits)
    np.testing.assert_allclose(descended(model, logits, reference, in_reward("k1")), expected, atol=1e-9)
    # k2 in the loss does so for one token, and no longer for two: a token answers only for its own KL
    error = np.abs(descended(model, logits, reference, in_loss("k2")) - expected).max()
    assert error < 1e-9 if horizon == 1 else error > 0.01


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_k2_and_k3_in_the_reward_descend_no_divergence(estimator: KLEstimator, horizon: int):
    """As constants they lack one half of the gradient of their mean: the half that they have in the loss."""
    model, logits, reference = model_of(horizon), logits_of(0, horizon), logits_of(10, horizon)
    ref = softmax_policy(model, reference)

    def mean(moved: list[np.ndarray]) -> float:
        policy = softmax_policy(model, moved)
        if estimator == "k3":
            return sequence_kl(model, policy, ref)
        pairs = zip(policy, ref, strict=True)  # after the end both are 0 or 1
        squares = [(p * np.log(np.where(p > 0, p, 1) / np.where(q > 0, q, 1)) ** 2 / 2).sum(-1) for p, q in pairs]
        return float(mean_by_position(model, squares, policy).sum())

    expected = slope(mean, logits) - descended(model, logits, reference, in_loss(estimator))
    np.testing.assert_allclose(descended(model, logits, reference, in_reward(estimator)), expected, atol=1e-9)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_penalty_in_the_reward_adds_nothing_to_the_loss(estimator: KLEstimator):
    made = Batch(torch.tensor([[-1.0, -2.0]]), torch.ones(1, 2, dtype=torch.bool), torch.ones(1))
    plain = policy_loss(VANILLA_PG, made)  # needs no reference either
    assert policy_loss(replace(VANILLA_PG, kl=KLPenalty(3.0, estimator, where="reward")), made) == plain


# --- Penalised rewards


def test_penalised_rewards_on_paper():
    rewards = torch.tensor([1.0, 0.0])
    log_ratio = torch.tensor([[0.5, -0.2], [2.0, torch.nan]], requires_grad=True)
    mask = torch.tensor([[True, True], [True, False]])
    penalised = penalised_rewards(KLPenalty(0.1, "k1", where="reward"), rewards, log_ratio, mask)
    assert not penalised.requires_grad
    np.testing.assert_allclose(penalised, [1 - 0.1 * 0.3, -0.1 * 2.0], rtol=1e-6)
    assert penalised.dtype == rewards.dtype
    penalised = penalised_rewards(KLPenalty(0.1, "k2", where="reward"), rewards, log_ratio, mask)
    np.testing.assert_allclose(penalised, [1 - 0.1 * (0.125 + 0.02), -0.1 * 2.0], rtol=1e-6)


def test_a_log_ratio_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match=r"log_ratio is inf at \[0, 1\], under the mask"):
        penalised_rewards(
            KLPenalty(0.1), torch.zeros(1), torch.tensor([[0.0, torch.inf]]), torch.ones(1, 2, dtype=torch.bool)
        )


# --- Entropy


def test_the_entropy_bonus_raises_entropy():
    """A step down the loss leads to policies with more of it; value as in 002 eq. (85)."""
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.1, 0.0]], dtype=torch.float64, requires_grad=True)
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    made = Batch(
        logp[:, :1], torch.ones(2, 1, dtype=torch.bool), torch.zeros(2, dtype=torch.float64), entropy=entropy[:, None]
    )
    loss = policy_loss(replace(VANILLA_PG, entropy=0.5), made)
    np.testing.assert_allclose(float(loss.detach()), -0.5 * float(entropy.mean().detach()), rtol=1e-12)
    (gradient,) = torch.autograd.grad(loss, logits)
    moved = (logits.detach() - gradient).log_softmax(-1)
    assert float(-(moved.exp() * moved).sum()) > float(entropy.detach().sum())


def test_entropy_outside_the_mask_does_not_matter():
    entropy = torch.tensor([[0.7, torch.nan], [0.2, 0.4]], dtype=torch.float64, requires_grad=True)
    logp = torch.zeros(2, 2, dtype=torch.float64)
    mask = torch.tensor([[True, False], [True, True]])
    made = Batch(logp, mask, torch.zeros(2, dtype=torch.float64), entropy=entropy)
    loss = policy_loss(replace(VANILLA_PG, entropy=1.0), made)
    (gradient,) = torch.autograd.grad(loss, entropy)
    assert float(loss.detach()) == pytest.approx(-1.3 / 2)
    assert gradient.tolist() == [[-0.5, 0.0], [-0.5, -0.5]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("log_ratio", [-89.0, -200.0, -1e30])
def test_a_token_that_all_but_left_the_reference_has_a_finite_penalty(log_ratio: float, weighted: bool):
    """In float32, where e^89 is infinite; beside a ratio to mu that is as large."""
    logp = torch.tensor([[log_ratio, -0.5]], requires_grad=True)
    batch = Batch(
        logp,
        torch.ones(1, 2) > 0,
        torch.ones(1),
        logp_behavior=torch.tensor([[2 * log_ratio, -0.5]]),
        logp_reference=torch.tensor([[0.0, -0.5]]),
    )
    loss = policy_loss(replace(PG_IS, kl=KLPenalty(0.1, "k3", weighted)), batch)
    (gradient,) = torch.autograd.grad(loss, logp)
    assert loss.isfinite() and gradient.isfinite().all()


def test_a_penalty_that_float32_cannot_hold_is_not_the_reward_functions_fault():
    penalty, far = KLPenalty(0.1, "k3", where="reward"), torch.tensor([[-89.0], [0.0]])
    rewards = penalised_rewards(penalty, torch.ones(2), far, torch.ones(2, 1) > 0)
    assert group_mean(rewards, 2).isfinite().all()
