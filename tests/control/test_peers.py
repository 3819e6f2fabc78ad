"""One update of Stable-Baselines3 and sb3-contrib, and ours, from the same weights and the same rollout."""

# pyright: reportMissingImports=false
# The extra `peers` brings them: where it is missing, their types are unknown and the rest is still checked.

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.control.collector import Steps
from rlnotes.control.networks import ActorCritic
from rlnotes.control.ppo import PPOConfig, ppo_loss
from rlnotes.control.samples import Samples, make_samples
from rlnotes.estimators.divergences import kl
from rlnotes.estimators.returns import gae
from rlnotes.objectives.natural_gradient import conjugate_gradient, natural_step

pytestmark = pytest.mark.extras
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

ENVS, STEPS, GAMMA, LAM = 4, 64, 0.98, 0.9


@pytest.fixture(autouse=True)
def global_generators() -> Iterator[None]:
    """The peers draw from torch's and NumPy's global generators and may seed them."""
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    yield
    torch.set_rng_state(torch_state)
    np.random.set_state(numpy_state)


@dataclass
class Peer:
    """A peer that has collected one rollout, and our network with its weights."""

    model: Any
    network: ActorCritic
    samples: Samples


def peer(kind: type, normalize: bool = True, **settings: Any) -> Peer:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.logger import Logger

    model = kind(
        "MlpPolicy",
        make_vec_env("CartPole-v1", ENVS, seed=3),
        n_steps=STEPS,
        batch_size=ENVS * STEPS,  # one minibatch: the order of its rows does not matter
        gamma=GAMMA,
        gae_lambda=LAM,
        normalize_advantage=normalize,
        seed=3,
        device="cpu",
        **settings,
    )
    model.set_logger(Logger(folder=None, output_formats=[]))  # else every run leaves a folder behind
    _, callback = model._setup_learn(ENVS * STEPS)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
    network = ActorCritic(4, 2, torch.Generator().manual_seed(0))
    copy_weights(model.policy, network)
    return Peer(model, network, make_samples(network, steps_of(model), GAMMA, LAM, normalize))


def layers(policy: Any) -> dict[str, list[Any]]:
    extractor = policy.mlp_extractor
    return dict(
        policy_net=[extractor.policy_net[0], extractor.policy_net[2], policy.action_net],
        value_net=[extractor.value_net[0], extractor.value_net[2], policy.value_net],
    )


def copy_weights(policy: Any, network: ActorCritic) -> None:
    for name, found in layers(policy).items():
        for source, place in zip(found, (0, 2, 4), strict=True):
            getattr(network, name)[place].load_state_dict(source.state_dict())


def weights(policy: Any, name: str) -> Tensor:
    parts = [p.detach().reshape(-1) for layer in layers(policy)[name] for p in (layer.weight, layer.bias)]
    return torch.cat(parts)


def own_weights(network: ActorCritic, name: str) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in getattr(network, name).parameters()])


def steps_of(model: Any) -> Steps:
    """The peer's rollout as ours. It has no time limit in it: 64 steps are fewer than 500."""
    buffer = model.rollout_buffer
    starts = np.concatenate([buffer.episode_starts[1:], model._last_episode_starts[None]]).astype(bool)
    obs = torch.from_numpy(buffer.observations.copy())
    following = torch.cat([obs[1:], torch.from_numpy(np.array(model._last_obs))[None]])
    assert starts.any(), "no episode ended: the comparison says little"
    return Steps(
        obs=obs,
        next_obs=following,  # after an end it is the next episode's: `terminated` must keep it out
        actions=torch.from_numpy(buffer.actions[..., 0].copy()).long(),
        logp=torch.from_numpy(buffer.log_probs.copy()),
        rewards=torch.from_numpy(buffer.rewards.copy()),
        terminated=torch.from_numpy(starts),
        truncated=torch.zeros(starts.shape, dtype=torch.bool),
        valid=torch.ones(starts.shape, dtype=torch.bool),
        finished=[],
    )


# --- GAE


def test_gae_equals_the_buffer_of_stable_baselines3():
    """Their truncated rows have gamma V(final observation) added to the reward by the collector."""
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer

    for seed in range(20):
        rng = np.random.default_rng(seed)
        rewards, values = rng.normal(size=(2, 30, 3)).astype(np.float32)
        last, final = rng.normal(size=3).astype(np.float32), rng.normal(size=(30, 3)).astype(np.float32)
        ended = rng.random((30, 3)) < 0.2
        truncated = ended & (rng.random((30, 3)) < 0.5)
        buffer = RolloutBuffer(30, Box(-1, 1, (1,)), Discrete(2), "cpu", LAM, GAMMA, n_envs=3)
        for t in range(30):
            buffer.add(
                np.zeros((3, 1)),
                np.zeros((3, 1)),
                np.where(truncated[t], rewards[t] + GAMMA * final[t], rewards[t]),
                ended[t - 1] if t else np.ones(3, bool),
                torch.from_numpy(values[t]),
                torch.zeros(3),
            )
        buffer.compute_returns_and_advantage(torch.from_numpy(last), ended[-1])
        following = np.where(ended, final, np.concatenate([values[1:], last[None]]))
        own = gae(rewards, values, following, ended & ~truncated, truncated, GAMMA, LAM)
        np.testing.assert_allclose(own, buffer.advantages, atol=1e-5)
        np.testing.assert_allclose(own + values, buffer.returns, atol=1e-5)


# --- PPO


@pytest.mark.parametrize("entropy_coefficient", [0.0, 0.05])
def test_ten_steps_of_ppo_end_at_the_weights_of_stable_baselines3(entropy_coefficient: float):
    from stable_baselines3 import PPO

    found = peer(PPO, n_epochs=10, learning_rate=3e-3, ent_coef=entropy_coefficient)
    start = own_weights(found.network, "policy_net")
    config = PPOConfig(entropy_coefficient=entropy_coefficient)
    optimizer = torch.optim.Adam(found.network.parameters(), 3e-3, eps=1e-5)
    for _ in range(10):
        optimizer.zero_grad()
        ppo_loss(config, found.network, found.samples, 0.0).backward()
        torch.nn.utils.clip_grad_norm_(found.network.parameters(), config.gradient_clip)
        optimizer.step()
    found.model.train()
    assert found.model.logger.name_to_value["train/clip_fraction"] > 0.01, "the clip did nothing"
    for name in ("policy_net", "value_net"):
        np.testing.assert_allclose(own_weights(found.network, name), weights(found.model.policy, name), atol=2e-5)
    assert float((own_weights(found.network, "policy_net") - start).abs().max()) > 0.01


# --- TRPO


def test_conjugate_gradient_agrees_with_sb3_contrib():
    from sb3_contrib.common.utils import conjugate_gradient_solver

    rng = np.random.default_rng(0)
    for _ in range(20):
        root = torch.from_numpy(rng.normal(size=(6, 6)))
        matrix, b = root @ root.T + torch.eye(6), torch.from_numpy(rng.normal(size=6))
        theirs = conjugate_gradient_solver(lambda v, matrix=matrix: matrix @ v, b, 20, 1e-20)
        np.testing.assert_allclose(conjugate_gradient(lambda v, m=matrix: m @ v, b, 20), theirs, atol=1e-8)


def test_a_step_of_trpo_ends_at_the_weights_of_sb3_contrib():
    """They limit KL(new, old) and we KL(old, new): equal to second order, so here the same length is accepted."""
    from sb3_contrib import TRPO

    found = peer(TRPO, cg_max_steps=15, cg_damping=0.1, target_kl=0.01, n_critic_updates=1)
    network, old = found.network, found.samples
    start = own_weights(network, "policy_net")
    report = natural_step(
        list(network.policy_net.parameters()),
        lambda: (old.log_ratio(network.log_probs(old.obs)).exp() * old.advantages).mean(),
        lambda: kl(old.old_log_probs, network.log_probs(old.obs)).mean(),
        0.01,
        damping=0.1,
        iterations=15,
    )
    found.model.train()
    logged = found.model.logger.name_to_value
    assert report.accepted and logged["train/is_line_search_success"] == 1
    theirs = weights(found.model.policy, "policy_net") - start
    ours = own_weights(network, "policy_net") - start
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-2  # they start conjugate gradient from noise
    assert report.realised_kl == pytest.approx(logged["train/kl_divergence_loss"], rel=0.1)
