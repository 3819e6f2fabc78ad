"""The layers of pi and of its rollout copy are compared on the same tokens, and as the sampler computes them."""

import pytest
import torch

from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import ModelConfig
from rlnotes.lm.experts import flips
from rlnotes.lm.kv_cache import KeysValues, attention_mask
from rlnotes.lm.mismatch import layer_mismatch, read
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler

CAUSES = [
    Behavior("bfloat16"),
    Behavior("int4"),
    Behavior(kv_cache="float8"),
    Behavior(blocks=4),
    Behavior("float8", kv_cache="bfloat16", blocks=2),
]


def random_model(experts: int, k: int = 1) -> Transformer:
    config = ModelConfig(
        vocab_size=11, context=14, d_model=32, n_layers=3, n_heads=4, experts=experts, experts_per_token=k
    )
    model, generator = Transformer(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.25, generator=generator)
    return model


@pytest.fixture(params=[(0, 1), (4, 1), (4, 2)], ids=["dense", "top1", "top2"])
def any_model(request) -> Transformer:
    return random_model(*request.param)


def sampled(model: Transformer, behavior: Behavior, group_size: int = 8, mask: torch.Tensor | None = None) -> Rollout:
    prompts = torch.randint(1, 11, (4, 6), generator=torch.Generator().manual_seed(1))
    sampler = Sampler(8, eos=0, behavior=behavior)
    return sampler.sample(model, prompts, group_size, torch.Generator().manual_seed(2), prompt_mask=mask)


def test_without_a_cause_there_is_no_mismatch(any_model):
    found = layer_mismatch(any_model, sampled(any_model, Behavior()), Behavior())
    assert found.largest_gap == found.largest_probability_gap == found.mean_gap == 0
    assert [row[1:] for row in found.layers] == [(0, 0, 0)] * 3


@pytest.mark.parametrize("pads", [False, True], ids=["", "pads"])
@pytest.mark.parametrize("behavior", CAUSES, ids=str)
def test_mu_is_the_mu_that_sampled(any_model, behavior, pads):
    """Teacher-forced on its own tokens the copy gives the log-probabilities and routes that the sampler recorded."""
    mask = None
    if pads:
        mask = torch.ones(4, 6, dtype=torch.bool)
        mask[1, :2] = False
    rollout = sampled(any_model, behavior, mask=mask)
    found = layer_mismatch(any_model, rollout, behavior)
    gap = (found.logp_behavior - rollout.logp_behavior)[rollout.mask].abs()
    # with a rounded cache a key between two numbers may go either way, and take a route with it
    assert gap.median() < 1e-5 and (gap < 1e-4).float().mean() > 0.98
    assert found.largest_gap > 0
    if behavior.kv_cache == "float32":
        assert gap.max() < 1e-4
        experts = read(behavior.rollout_model(any_model), rollout).experts
        if experts is not None and rollout.experts is not None:
            assert torch.equal(experts[rollout.mask], rollout.experts[rollout.mask])
        else:
            assert experts is rollout.experts is None


def by_hand(model: Transformer, text: torch.Tensor) -> list[torch.Tensor]:
    """Every block's output on whole texts, in one plain pass."""
    x = model.token_embedding(text) + model.position_embedding(torch.arange(text.shape[1]))
    states = []
    for layer, block in enumerate(model.blocks):
        x = block(x, layer, attention_mask(text.shape[1], text.shape[1], None, text.device), KeysValues())
        states.append(x)
    return states


def test_errors_are_of_each_layer_where_a_token_is_predicted(any_model):
    behavior = Behavior("int4")
    rollout = sampled(any_model, behavior)
    found = layer_mismatch(any_model, rollout, behavior)
    text = torch.cat([rollout.prompts.repeat_interleave(8, 0), rollout.tokens], 1)
    with torch.no_grad():
        pairs = zip(by_hand(any_model, text), by_hand(behavior.rollout_model(any_model), text), strict=True)
        for layer, (pi, mu) in enumerate(pairs):
            error = ((mu - pi).square().sum(-1).sqrt() / pi.square().sum(-1).sqrt())[:, 5:-1][rollout.mask]
            assert torch.allclose(found.errors[..., layer][rollout.mask], error, atol=1e-4)
            row = found.layers[layer]
            assert row.layer == layer and row.mean_error == pytest.approx(error.mean().item(), rel=1e-3)
            assert row.largest_error == pytest.approx(error.max().item(), rel=1e-3)
        logits = any_model(text)[:, 5:-1].log_softmax(-1).gather(-1, rollout.tokens[..., None])[..., 0]
    assert torch.allclose(found.logp[rollout.mask], logits[rollout.mask], atol=1e-4)


@pytest.mark.parametrize("k", [1, 2])
def test_a_route_is_flipped_exactly_if_the_routers_drift_crosses_the_gap(k):
    model, behavior = random_model(4, k), Behavior("int4")
    rollout = sampled(model, behavior, group_size=32)
    found = layer_mismatch(model, rollout, behavior)
    logits = []
    for one in (model, behavior.rollout_model(model)):
        rows: list[torch.Tensor] = []
        routers = [one.get_submodule(f"blocks.{layer}.experts.router") for layer in range(3)]
        hooks = [router.register_forward_hook(lambda _m, _x, out, rows=rows: rows.append(out)) for router in routers]
        with torch.no_grad():
            one(torch.cat([rollout.prompts.repeat_interleave(32, 0), rollout.tokens], 1))
        for hook in hooks:
            hook.remove()
        logits.append(torch.stack(rows, 2)[:, 5:-1][rollout.mask])
    pi, mu = logits
    crossed = flips(pi, mu - pi, k)
    assert torch.equal(found.flipped[rollout.mask], crossed) and 0.01 < crossed.float().mean() < 0.5
    assert torch.equal(found.rerouted, crossed.any(-1))
    assert [row.flipped for row in found.layers] == pytest.approx(crossed.float().mean(0).tolist())


def test_the_summary_is_of_the_rollouts_own_tokens():
    model, behavior = random_model(0), Behavior("int4")
    rollout = sampled(model, behavior)
    assert not rollout.mask.all()
    found = layer_mismatch(model, rollout, behavior)
    pairs = [
        (pi, mu)
        for pi, mu, own in zip(
            found.logp.flatten().tolist(),
            found.logp_behavior.flatten().tolist(),
            rollout.mask.flatten().tolist(),
            strict=True,
        )
        if own
    ]
    gaps = [abs(pi - mu) for pi, mu in pairs]
    assert found.mean_gap == pytest.approx(sum(gaps) / len(gaps), rel=1e-5)
    assert found.largest_gap == pytest.approx(max(gaps), rel=1e-5)
    e = torch.tensor(1.0).exp().item()
    assert found.largest_probability_gap == pytest.approx(max(abs(e**pi - e**mu) for pi, mu in pairs), rel=1e-4)


def test_a_coarser_format_is_a_larger_mismatch(any_model):
    rollout = sampled(any_model, Behavior())
    causes = [Behavior(blocks=4), Behavior("bfloat16"), Behavior("float8"), Behavior("int4")]
    means = [layer_mismatch(any_model, rollout, cause).mean_gap for cause in causes]
    assert means == sorted(means) and means[0] < 1e-5 < 1e-2 < means[-1]


def test_a_flip_jumps_where_everything_else_moves_a_little():
    """The states of a token that is rerouted, in the layer that does it, are far off; those of the others are not."""
    model = random_model(4)
    rollout = sampled(model, Behavior(), group_size=64)
    found = layer_mismatch(model, rollout, Behavior("int8"))
    first = found.errors[..., 0][rollout.mask], found.flipped[..., 0][rollout.mask]
    assert 1 < first[1].sum() < len(first[1]) / 20
    assert first[0][first[1]].min() > 5 * first[0][~first[1]].max()


def test_one_token_responses_can_be_read(any_model):
    prompts = torch.randint(1, 11, (2, 6), generator=torch.Generator().manual_seed(1))
    rollout = Sampler(1, eos=0).sample(any_model, prompts, 2, torch.Generator().manual_seed(2))
    assert layer_mismatch(any_model, rollout, Behavior("int4")).errors.shape == (4, 1, 3)


def test_the_model_keeps_no_hook_and_no_gradient(any_model):
    rollout = sampled(any_model, Behavior())
    found = layer_mismatch(any_model, rollout, Behavior("int8"))
    assert not found.logp.requires_grad and not found.errors.requires_grad
    assert all(not block._forward_hooks for block in any_model.blocks)


def test_what_is_no_copy_is_refused():
    model = random_model(0)
    rollout = sampled(model, Behavior())
    with pytest.raises(ValueError, match=r"logit_noise 0\.5 .* pass dataclasses\.replace"):
        layer_mismatch(model, rollout, Behavior(logit_noise=0.5))
