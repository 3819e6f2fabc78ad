"""Routing replay: pi is computed with mu's experts, so that no token is lost to a route that flipped."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.behavior import Behavior, VersionMixture
from rlnotes.lm.config import RolloutWeights, TrainConfig
from rlnotes.lm.experts import Routes, gates
from rlnotes.lm.mismatch import layer_mismatch
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, response_logits, token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.versions import Snapshots
from tests.lm.mixtures import random_mixture

RUN = TrainConfig(
    task="sort", size=4, preset="moe-top1", prompts=4, group_size=4, steps=3, epochs=2, minibatches=2, warm_limit=3
)


@pytest.fixture(params=[1, 2], ids=["top1", "top2"])
def mixture(request) -> Transformer:
    return random_mixture(request.param, 0.25)


def sampled(model: Transformer, behavior: Behavior, mask: torch.Tensor | None = None) -> Rollout:
    prompts = torch.randint(1, 11, (16, 6), generator=torch.Generator().manual_seed(1))
    sampler = Sampler(8, eos=0, behavior=behavior)
    return sampler.sample(model, prompts, 16, torch.Generator().manual_seed(2), prompt_mask=mask)


def gaps(model: Transformer, rollout: Rollout, replay: bool) -> torch.Tensor:
    with torch.no_grad():
        return (token_logp(model, rollout, replay=replay) - rollout.logp_behavior)[rollout.mask].abs()


@pytest.mark.parametrize("weights", ["bfloat16", "float8"])
def test_the_largest_gap_falls_where_only_the_routes_were_at_fault(mixture, weights: RolloutWeights):
    """Rounding to bfloat16 is small, and so are the gaps once nothing is rerouted; float8 is an error of its own."""
    rollout = sampled(mixture, Behavior(weights))
    without, replayed = gaps(mixture, rollout, False), gaps(mixture, rollout, True)
    found = layer_mismatch(mixture, rollout, Behavior(weights))
    assert found.rerouted.any()
    assert replayed.max() < without.max() * (0.5 if weights == "bfloat16" else 0.9)
    assert replayed.mean() < without.mean()
    assert found.largest_gap == pytest.approx(without.max().item(), rel=1e-3)
    assert found.largest_gap_replayed == pytest.approx(replayed.max().item(), rel=1e-3)


@pytest.mark.parametrize("pads", [False, True])
def test_with_no_mismatch_nothing_changes(mixture, pads):
    mask = None
    if pads:
        mask = torch.ones(16, 6, dtype=torch.bool)
        mask[1, :2] = False
    rollout = sampled(mixture, Behavior(), mask)
    with torch.no_grad():
        own, replayed = (response_logits(mixture, rollout, replay=replay)[rollout.mask] for replay in (False, True))
    assert torch.allclose(own, replayed, atol=1e-5)
    assert gaps(mixture, rollout, True).max() < 1e-4
    assert layer_mismatch(mixture, rollout, Behavior()).largest_gap_replayed == 0


def test_a_run_without_mismatch_is_the_same_run():
    rows = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in Trainer(replace(RUN, routing_replay=on)).run()]
        for on in (False, True)
    ]
    for own, replayed in zip(*rows, strict=True):
        assert replayed == pytest.approx(own, rel=1e-3, abs=1e-5)


def test_the_routes_are_those_that_were_recorded_and_the_gates_are_the_models_own(mixture):
    """Other routes than a model's own give other logits, and gradients go through the gates to the router."""
    rollout = sampled(mixture, Behavior("int4"))
    assert rollout.experts is not None and rollout.prompt_experts is not None
    k = mixture.config.experts_per_token
    assert rollout.prompt_experts.shape == (16, 6, 2, k)
    assert torch.equal(rollout.prompt_experts[:, -1].repeat_interleave(16, 0), rollout.experts[:, 0])
    text = torch.cat([rollout.prompts.repeat_interleave(16, 0), rollout.tokens[:, :-1]], 1)
    every = torch.cat([rollout.prompt_experts.repeat_interleave(16, 0), rollout.experts[:, 1:]], 1)
    plain = mixture.head(mixture.hidden(text, torch.arange(text.shape[1]), routes=Routes(every)))[:, 5:]
    replayed = response_logits(mixture, rollout, replay=True)
    assert torch.allclose(plain[rollout.mask], replayed[rollout.mask], atol=1e-4)
    replayed[rollout.mask].logsumexp(-1).sum().backward()
    router = mixture.get_parameter("blocks.1.experts.router.weight")
    assert router.grad is not None and router.grad.abs().max() > 0


def test_a_route_that_is_replayed_does_not_depend_on_the_logits():
    routes = torch.tensor([[[[2], [-1]]]])  # one token, two layers; -1: the token does not matter
    pass_ = Routes(routes)
    logits = torch.tensor([[[9.0, 0.0, 1.0]]])
    first, second = pass_.choose(logits, 1), pass_.choose(logits, 1)
    assert first.tolist() == [[[2]]] and second.tolist() == [[[0]]]
    assert gates(logits, first).item() == pytest.approx(logits.softmax(-1)[0, 0, 2].item())


def test_resumed_run_is_exact(tmp_path):
    config = replace(RUN, routing_replay=True, rollout_weights="bfloat16", steps=4)
    whole, cut = Trainer(config), Trainer(config)
    losses = [row["loss"] for row in whole.run()]
    seen = [row["loss"] for row in cut.run(2)]
    cut.save(tmp_path)
    again = Trainer.load(tmp_path)
    assert again.config.routing_replay
    assert seen + [row["loss"] for row in again.run()] == losses
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)


def test_the_trainer_scores_with_the_recorded_routes():
    """At the first update the largest ratio is what rounding makes of it, and no more, in every step."""
    config = replace(RUN, rollout_weights="float8", steps=1, prompts=32, group_size=16, warm_limit=40)
    deviation = {on: list(Trainer(replace(config, routing_replay=on)).run())[-1]["mismatch"] for on in (False, True)}
    assert 0 < deviation[True] < deviation[False]


def test_what_has_no_routes_is_refused(mixture, model):
    with pytest.raises(ValueError, match="routing_replay needs a mixture of experts, and preset 'tiny' is dense"):
        replace(RUN, preset="tiny", routing_replay=True)
    with pytest.raises(ValueError, match=r"routing_replay with lags \(0, 2\): several versions"):
        replace(RUN, lags=(0, 2), routing_replay=True)
    prompts = torch.randint(1, 11, (4, 6), generator=torch.Generator().manual_seed(1))
    dense = Sampler(4, eos=0).sample(model, prompts, 4, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="the rollout has no routes to replay: a dense model wrote it"):
        token_logp(model, dense, replay=True)
    past = Snapshots(2)
    past.remember(0, mixture)
    behavior = Behavior(mixture=VersionMixture((0, 2), [0.5, 0.5]))
    sampler = Sampler(4, eos=0, behavior=behavior)
    mixed = sampler.sample(mixture, prompts, 4, torch.Generator().manual_seed(0), version=2, past=past)
    with pytest.raises(ValueError, match="or several versions"):
        token_logp(mixture, mixed, replay=True)


def test_groups_take_their_prompts_routes_along(mixture):
    rollout = sampled(mixture, Behavior("bfloat16"))
    rows = torch.tensor([3, 1])
    part = rollout.groups(rows)
    with torch.no_grad():
        whole = token_logp(mixture, rollout, replay=True).unflatten(0, (16, 16))[rows].flatten(0, 1)
        assert torch.allclose(token_logp(mixture, part, replay=True)[part.mask], whole[part.mask], atol=1e-4)
