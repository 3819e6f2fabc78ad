"""PPO on tokens: the critic, advantages along responses, exact values, and that it learns."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.lm.config import preset_config
from rlnotes.lm.critic import Critic, exact_values, token_advantages
from rlnotes.lm.enumeration import every_prompt, every_response, response_logp
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Reverse, ShortReverse
from rlnotes.lm.token_ppo import TokenPPOConfig, closed_share, look, token_ppo
from rlnotes.lm.warm_start import shipped_start
from rlnotes.objectives import PPO_CLIP, Batch, policy_loss
from rlnotes.objectives.values import clipped_value_loss

SMALL = TokenPPOConfig(steps=1, prompts=8, epochs=1, minibatches=2)


def random_model(task: Reverse, seed: int = 0) -> Transformer:
    context = task.prompt_length + task.max_response_length
    sizes = replace(preset_config("tiny", len(task.vocabulary), context), d_model=16, n_layers=1, n_heads=2)
    model = Transformer(sizes, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.head.weight.mul_(20)  # far from uniform
    return model


def shipped() -> tuple[Reverse, Transformer]:
    return Reverse(8), shipped_start("reverse", 8)


def sampled(task: Reverse, model: Transformer, n: int = 32, seed: int = 0) -> Rollout:
    prompts = task.sample(n, torch.Generator().manual_seed(seed)).prompts
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    return sampler.sample(model, prompts, 1, torch.Generator().manual_seed(seed))


def two_responses() -> tuple[Tensor, Tensor, Tensor]:
    """One of two tokens, one of four that the limit has cut."""
    mask = response_mask(torch.tensor([[5, 0, 0, 0], [5, 6, 7, 8]]), eos=0)
    values = torch.tensor([[0.3, 0.6, 0.0, 0.0], [0.5, 0.1, 0.2, 0.9]], dtype=torch.float64)
    return torch.tensor([1.0, 0.25], dtype=torch.float64), values, mask


# --- Advantages


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
def test_advantages_are_the_direct_sum_of_each_response(lam: float):
    rewards, values, mask = two_responses()
    found = token_advantages(rewards, values, mask, lam)
    for row, length in enumerate((2, 4)):
        v = [*values[row, :length].tolist(), 0.0]
        errors = [v[t + 1] - v[t] + (float(rewards[row]) if t == length - 1 else 0.0) for t in range(length)]
        expected = [sum(lam ** (k - t) * errors[k] for k in range(t, length)) for t in range(length)]
        np.testing.assert_allclose(found[row, :length], expected, atol=1e-12)
        assert not found[row, length:].any()


def test_with_lambda_one_it_is_the_reward_minus_the_value():
    rewards, values, mask = two_responses()
    found = token_advantages(rewards, values, mask, 1.0)
    np.testing.assert_allclose(found[mask], (rewards[:, None] - values)[mask], atol=1e-12)


def test_a_column_of_rewards_is_refused():
    rewards, values, mask = two_responses()
    with pytest.raises(ValueError, match=r"rewards has shape \(2, 1\) and values\[:, 0\] has shape \(2,\)"):
        token_advantages(rewards[:, None], values, mask, 1.0)


# --- The critic


def test_the_critic_starts_at_zero_and_says_nothing_after_the_end():
    task = ShortReverse()
    policy = random_model(task)
    critic, rollout = Critic(policy), sampled(task, policy)
    assert not critic.values(rollout).any()
    assert (~rollout.mask).any(), "no response ended early: the test says little"
    with torch.no_grad():
        critic.head.weight.fill_(0.3)
        critic.head.bias.fill_(0.7)
    values = critic.values(rollout)
    assert (values[rollout.mask] != 0).all() and not values[~rollout.mask].any()


def test_the_value_of_a_prefix_does_not_know_what_follows():
    task = ShortReverse()
    critic = Critic(random_model(task))
    torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(1))
    rollout = sampled(task, random_model(task))
    rollout = replace(rollout, mask=torch.ones_like(rollout.mask))
    for t in range(task.max_response_length):
        changed = rollout.tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % 5
        before, after = (critic.values(r) for r in (rollout, replace(rollout, tokens=changed)))
        moved = (before - after).abs().max(0).values > 1e-6
        assert not moved[: t + 1].any()
        assert t == task.max_response_length - 1 or bool(moved[t + 1])


def test_the_critic_has_weights_of_its_own():
    policy = random_model(ShortReverse())
    critic = Critic(policy)
    mine = {p.data_ptr() for p in policy.parameters()}
    assert not mine & {p.data_ptr() for p in critic.parameters()}


# --- Exact values


def test_exact_values_are_those_of_enumeration():
    """V of a prefix by its definition: the reward of all that may follow it, weighted."""
    task = ShortReverse()
    model = random_model(task, 3)
    responses = every_response(task, every_prompt(task)[:2])
    found = exact_values(model, task, responses)
    with torch.no_grad():
        p = response_logp(model, responses).exp().double().numpy()
    R = task.reward(responses).view(p.shape).numpy()
    tokens = responses.tokens.view(*p.shape, -1).numpy()
    for b, i in itertools.product(range(2), range(0, p.shape[1], 7)):
        row = b * p.shape[1] + i
        for t in range(task.max_response_length):
            alike = (tokens[b, :, :t] == tokens[b, i, :t]).all(-1)
            expected = (p[b] * R[b])[alike].sum() / p[b][alike].sum() if responses.mask[row, t] else 0.0
            assert float(found[row, t]) == pytest.approx(expected, abs=1e-6)


# --- The update


def losses(policy: Transformer, critic: Critic, rollout: Rollout, advantages: Tensor, targets: Tensor):
    batch = Batch(token_logp(policy, rollout), rollout.mask, advantages, rollout.logp_behavior)
    values = critic.values(rollout)[rollout.mask]
    return policy_loss(PPO_CLIP, batch), clipped_value_loss(values, targets[rollout.mask], values.detach(), None)


def gradient(loss: Tensor, model: Transformer) -> Tensor:
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return torch.cat([torch.zeros(p.numel()) if g is None else g.flatten() for g, p in zip(found, model.parameters())])  # noqa: B905


def test_on_the_first_update_the_gradient_is_advantage_times_score():
    task = ShortReverse()
    policy = random_model(task, 2)
    critic, rollout = Critic(policy), sampled(task, policy)
    A = torch.randn(rollout.mask.shape, generator=torch.Generator().manual_seed(0))
    loss, _ = losses(policy, critic, rollout, A, A)
    plain = -(token_logp(policy, rollout) * A)[rollout.mask].mean()
    np.testing.assert_allclose(gradient(loss, policy), gradient(plain, policy), atol=1e-6)


def test_padding_carries_nothing():
    """NaN after the end reaches neither loss nor gradient; other filler tokens change nothing."""
    task = ShortReverse()
    policy = random_model(task, 2)
    critic, rollout = Critic(policy), sampled(task, policy)
    torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(1))
    A = torch.randn(rollout.mask.shape, generator=torch.Generator().manual_seed(0))
    spoiled = replace(
        rollout,
        tokens=rollout.tokens.where(rollout.mask, 3),
        logp_behavior=rollout.logp_behavior.where(rollout.mask, torch.nan),
    )
    bad = A.where(rollout.mask, torch.nan)
    for clean, dirty, model in zip(
        losses(policy, critic, rollout, A, A), losses(policy, critic, spoiled, bad, bad), (policy, critic), strict=True
    ):
        assert torch.equal(clean, dirty)
        assert torch.equal(gradient(clean, model), gradient(dirty, model))


def test_policy_and_critic_pull_at_their_own_weights_only():
    task = ShortReverse()
    policy = random_model(task, 2)
    critic, rollout = Critic(policy), sampled(task, policy)
    A = torch.ones(rollout.mask.shape)
    policy_part, value_part = losses(policy, critic, rollout, A, A)
    assert gradient(policy_part, policy).abs().sum() > 0 and gradient(value_part, critic).abs().sum() > 0
    assert not gradient(policy_part, critic).any() and not gradient(value_part, policy).any()


def test_a_seed_decides_everything():
    task = ShortReverse()
    policy = random_model(task, 2)

    def run(seed: int):
        copied = copy.deepcopy(policy)
        return repr(list(token_ppo(replace(SMALL, seed=seed, steps=2), task, copied, Critic(copied))))

    assert run(0) == run(0) != run(1)


def test_numbers_to_watch_are_those_of_the_rollout():
    task = ShortReverse()
    old, new = random_model(task, 2), random_model(task, 4)
    rollout = sampled(task, old)
    still = look(old, rollout)
    assert still["outside"] == 0 and abs(still["kl"]) < 1e-6 and still["largest_ratio"] == pytest.approx(1, abs=1e-4)
    with torch.no_grad():
        r = (token_logp(new, rollout) - token_logp(old, rollout))[rollout.mask].exp().double().numpy()
    moved = look(new, rollout)
    assert moved["largest_ratio"] == pytest.approx(r.max(), rel=1e-4)
    assert moved["outside"] == pytest.approx((np.abs(r - 1) > 0.2).mean())
    assert moved["kl"] == pytest.approx((r - 1 - np.log(r)).mean(), rel=1e-4)


def test_seven_rollouts_teach_the_model_and_its_critic_what_is_usual():
    task, policy = shipped()
    critic = Critic(policy)
    rows = list(token_ppo(TokenPPOConfig(steps=7), task, policy, critic))
    assert rows[0]["reward"] < 0.45 and rows[-1]["reward"] > 0.6
    assert rows[0]["value"] == 0
    assert abs(rows[-1]["value"] - rows[-1]["reward"]) < 0.25


def rounds(**settings) -> tuple[list[dict[str, float]], Transformer]:
    task = ShortReverse()
    policy = random_model(task, 2)
    config = replace(SMALL, steps=3, prompts=32, epochs=4, learning_rate=3e-2, **settings)
    return list(token_ppo(config, task, policy, Critic(policy))), policy


def test_a_limit_on_kl_ends_a_round_and_not_the_next():
    free, _ = rounds()
    held, _ = rounds(kl_limit=1e-3)
    assert [row["updates"] for row in free] == [8, 8, 8]
    assert all(1 <= row["updates"] < 8 for row in held)
    assert held[0]["kl"] < free[0]["kl"]


def test_a_round_that_ends_early_leaves_the_prompts_that_follow_as_they_are(monkeypatch: pytest.MonkeyPatch):
    asked, sample = [], ShortReverse.sample
    monkeypatch.setattr(ShortReverse, "sample", lambda *arguments: asked.append(sample(*arguments)) or asked[-1])
    rounds()
    rounds(kl_limit=1e-3)
    assert len(asked) == 6
    for free, held in zip(asked[:3], asked[3:], strict=True):
        assert torch.equal(free.prompts, held.prompts)


def test_without_a_clip_a_closed_gate_pushes_on():
    (_, clipped), (_, free) = rounds(), rounds(clip=None)
    assert any(not torch.equal(p, q) for p, q in zip(clipped.parameters(), free.parameters(), strict=True))


def test_closed_gates_are_those_that_went_where_their_advantage_wants_them():
    ratio = torch.tensor([1.5, 0.5, 1.0, 4.0, 1.5, 0.5, 1.1, 0.9])
    advantages = torch.tensor([1.0] * 4 + [-1.0] * 4)
    assert closed_share(ratio.log(), advantages) == pytest.approx(3 / 8)


def test_the_log_before_each_step_sees_nothing_of_a_single_update_and_the_one_after_does():
    task, policy = shipped()
    config = replace(SMALL, minibatches=1, learning_rate=1e-2)
    (one,) = token_ppo(config, task, copy.deepcopy(policy), Critic(policy))
    assert one["kl_steps"] == pytest.approx(0, abs=1e-5) and one["kl"] > 1e-4
    (four,) = token_ppo(replace(config, epochs=4), task, policy, Critic(policy))
    assert abs(four["kl_steps"]) > 1e-4
