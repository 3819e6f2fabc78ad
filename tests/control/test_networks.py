import pytest
import torch

from rlnotes.control.networks import ActorCritic


def network(seed: int = 0) -> ActorCritic:
    return ActorCritic(4, 3, torch.Generator().manual_seed(seed))


def test_values_have_the_shape_of_the_observations():
    obs = torch.zeros(5, 2, 4)
    assert network().logits(obs).shape == network().log_probs(obs).shape == (5, 2, 3)
    assert network().value(obs).shape == (5, 2)
    torch.testing.assert_close(network().log_probs(obs).exp().sum(-1), torch.ones(5, 2))


def test_weights_are_orthogonal_and_biases_zero():
    for net, last in ((network().policy_net, 0.01), (network().value_net, 1.0)):
        layers = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
            w = layer.weight if layer.weight.shape[0] <= layer.weight.shape[1] else layer.weight.T
            torch.testing.assert_close(w @ w.T, gain**2 * torch.eye(len(w)), atol=1e-5, rtol=1e-5)
            assert not layer.bias.any()


def test_it_starts_almost_uniform():
    log_probs = network().log_probs(torch.randn(100, 4, generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(log_probs.exp(), torch.full((100, 3), 1 / 3), atol=0.01, rtol=0)


def test_the_critic_does_not_move_the_policy():
    net = network()
    net.value(torch.ones(7, 4)).sum().backward()
    assert all(parameter.grad is None for parameter in net.policy_net.parameters())
    assert all(parameter.grad is not None for parameter in net.value_net.parameters())


def test_weights_come_from_the_generator_alone():
    state = torch.get_rng_state()
    first, again, other = network(0).state_dict(), network(0).state_dict(), network(1).state_dict()
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["policy_net.0.weight"], other["policy_net.0.weight"])


def test_sizes_that_make_no_network_are_refused():
    with pytest.raises(ValueError, match="observation_size is 0"):
        ActorCritic(0, 2, torch.Generator())
    with pytest.raises(ValueError, match="actions is 1"):
        ActorCritic(4, 1, torch.Generator())
