"""A mixture routes as its definition says, in the trainer and in the sampler alike, and learns where to route."""

import sys
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.nn import functional as F

from rlnotes import cli
from rlnotes.lm.behavior import Behavior
from rlnotes.lm.config import ModelConfig, TrainConfig, preset_config
from rlnotes.lm.experts import Expert, Experts, Routes, flips, gates, top_experts
from rlnotes.lm.kv_cache import KVCache
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.trainer import Trainer
from tests.lm.mixtures import random_mixture

SMALL = TrainConfig(size=4, prompts=4, group_size=4, steps=3, warm_start="train", warm_limit=3, preset="moe-top1")


@pytest.fixture(params=[1, 2], ids=["top1", "top2"])
def mixture(request) -> Transformer:
    return random_mixture(request.param, 0.4)


def layer_of(model: Transformer) -> Experts:
    layer = model.blocks[0].experts
    assert isinstance(layer, Experts)
    return layer


def sampled(model: Transformer, behavior: Behavior | None = None, mask: torch.Tensor | None = None) -> Rollout:
    prompts = torch.randint(1, 11, (3, 6), generator=torch.Generator().manual_seed(1))
    sampler = Sampler(8, eos=0, behavior=behavior or Behavior())
    return sampler.sample(model, prompts, 5, torch.Generator().manual_seed(2), prompt_mask=mask)


def by_definition(layer: Experts, x: torch.Tensor) -> torch.Tensor:
    """One token after the other: its k experts, weighted by their share of exp(logit), Switch's among all for k = 1."""
    out = []
    for token in x.flatten(0, 1):
        logits = layer.router.weight @ token
        order = sorted(range(len(logits)), key=lambda i: -logits[i].item())[: layer.k]
        among = range(len(logits)) if layer.k == 1 else order
        total = sum(logits[i].exp() for i in among)
        terms = []
        for i in order:
            expert = layer.experts[i]
            assert isinstance(expert, Expert)
            terms.append(logits[i].exp() / total * (expert.down.weight @ F.relu(expert.up.weight @ token)))
        out.append(torch.stack(terms).sum(0))
    return torch.stack(out).view_as(x)


def test_the_output_and_its_gradients_are_those_of_the_definition(mixture):
    layer, x = layer_of(mixture), torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    assert len(top_experts(layer.router(x), 1).unique()) == 4
    weight = torch.randn(3, 7, 32)
    gradients = []
    for output in (layer(x), by_definition(layer, x)):
        inputs = [x, *layer.parameters()]
        gradients.append((output, *torch.autograd.grad((output * weight).sum(), inputs)))
    for ours, defined in zip(*gradients, strict=True):
        assert torch.allclose(ours, defined, rtol=1e-3, atol=1e-4)
    assert gradients[0][2].abs().max() > 0.01  # the router learns, with one expert per token, too


def test_equal_experts_that_share_a_weight_of_one_are_the_dense_network(model):
    mixture = Transformer(replace(model.config, experts=4, experts_per_token=2))
    weights = {name: model.state_dict().get(name, value) for name, value in mixture.state_dict().items()}
    for name in weights:
        if ".experts.experts." in name:
            before, after = name.split(".experts.experts.")
            weights[name] = model.state_dict()[f"{before}.{after[2:]}"]
    mixture.load_state_dict(weights)
    with torch.no_grad():
        for block in [*model.blocks, *mixture.blocks]:
            block.norm_mlp.weight.mul_(3)  # so that what goes in matters
        text = torch.randint(24, (5, 12), generator=torch.Generator().manual_seed(0))
        assert torch.allclose(model(text), mixture(text), atol=1e-5)


def test_a_mixture_computes_in_bfloat16_where_it_is_told_to(mixture):
    text = torch.randint(11, (6, 12), generator=torch.Generator().manual_seed(0))
    exact = mixture(text)
    with torch.autocast("cpu", torch.bfloat16):
        rough = mixture(text).float()
    rough.sum().backward()
    assert 1e-4 < (rough - exact).abs().median() < 0.05 * exact.abs().max()


def test_a_mixture_adds_up_its_experts_in_float32_whatever_comes_in(mixture):
    x = torch.randn(6, 12, mixture.config.d_model, generator=torch.Generator().manual_seed(0)).bfloat16()
    experts = mixture.blocks[0].experts
    with torch.autocast("cpu", torch.bfloat16):
        rough = experts(x)
    assert rough.dtype == torch.float32


def test_weights_of_several_sum_to_one_and_that_of_one_is_its_probability():
    logits = torch.tensor([1.0, 3.0, 2.0, -1.0])
    one, two = top_experts(logits, 1), top_experts(logits, 2)
    assert one.tolist() == [1] and two.tolist() == [1, 2]
    assert gates(logits, one).item() == pytest.approx(0.657, abs=1e-3)  # e3 / (e1 + e3 + e2 + e-1)
    assert gates(logits, two).tolist() == pytest.approx([0.731, 0.269], abs=1e-3)  # 1 / (1 + e-1)


def test_an_expert_without_tokens_has_a_gradient_of_zero():
    """And not none: an optimiser that skipped it could not be restored."""
    layer = Experts(ModelConfig(vocab_size=5, context=4, d_model=8, n_heads=1, experts=3))
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.weight[1] = 1.0
    layer(torch.ones(2, 3, 8)).sum().backward()
    for number in range(3):
        gradient = layer.get_parameter(f"experts.{number}.down.weight").grad
        assert gradient is not None and bool((gradient != 0).any()) == (number == 1)


def test_cached_decoding_and_shared_prefixes_equal_the_plain_pass(mixture):
    rollout = sampled(mixture)
    whole = torch.cat([rollout.prompts.repeat_interleave(5, 0), rollout.tokens], 1)
    with torch.no_grad():
        logits = mixture(whole)
        plain = logits[:, 5:-1].log_softmax(-1).gather(-1, rollout.tokens[..., None])[..., 0]
        cache = KVCache(mixture.config, 15, 14, whole.device, torch.float32)
        steps = [mixture.hidden(whole[:, t : t + 1], torch.tensor([t]), None, cache) for t in range(14)]
        assert (mixture.head(torch.cat(steps, 1)) - logits).abs().max() < 1e-4
        shared = token_logp(mixture, rollout)
    for logp in (shared, rollout.logp_behavior):
        assert (logp - plain)[rollout.mask].abs().max() < 1e-4


@pytest.mark.parametrize("pads", [False, True])
def test_the_rollout_says_which_experts_predicted_each_token(mixture, pads):
    mask = None
    if pads:
        mask = torch.ones(3, 6, dtype=torch.bool)
        mask[1, :2] = False
    rollout = sampled(mixture, mask=mask)
    assert rollout.experts is not None and rollout.experts.shape == (15, 8, 2, mixture.config.experts_per_token)
    for row in range(15):
        prompt = rollout.prompts[row // 5]
        prompt = prompt if mask is None else prompt[mask[row // 5]]
        routes = Routes()
        with torch.no_grad():
            text = torch.cat([prompt, rollout.tokens[row]])[None]
            mixture.hidden(text, torch.arange(text.shape[1]), routes=routes)
        taken = routes.take()
        assert taken is not None
        own = rollout.mask[row]
        assert torch.equal(rollout.experts[row][own], taken[0, len(prompt) - 1 : -1][own])
        assert (rollout.experts[row][~own] == -1).all()
    assert (~rollout.mask).any() and len(rollout.experts[rollout.mask].unique()) == 4


def test_experts_go_with_their_rows(mixture):
    rollout = sampled(mixture)
    part = rollout.groups(torch.tensor([2, 0]))
    assert rollout.experts is not None and part.experts is not None
    assert torch.equal(part.experts, torch.cat([rollout.experts[10:], rollout.experts[:5]]))
    joined = Rollout.joined([rollout, part]).experts
    assert joined is not None and torch.equal(joined, torch.cat([rollout.experts, part.experts]))


def test_the_rollout_copys_experts_are_in_the_record(mixture):
    """With another mu the experts are mu's: scoring by the copy finds them, scoring by pi does not."""
    rollout = sampled(mixture, Behavior("int4"))
    copy = Behavior("int4").rollout_model(mixture)
    whole = torch.cat([rollout.prompts.repeat_interleave(5, 0), rollout.tokens], 1)
    agreement = []
    for model in (copy, mixture):
        routes = Routes()
        with torch.no_grad():
            model.hidden(whole, torch.arange(14), routes=routes)
        taken = routes.take()
        assert taken is not None and rollout.experts is not None
        agreement.append((taken[:, 5:-1] == rollout.experts)[rollout.mask].float().mean().item())
    assert agreement[0] == 1.0 > 0.995 > agreement[1]


def test_a_dense_model_has_no_experts_and_its_old_weights_names(model):
    assert sampled_dense(model).experts is None
    assert Routes().take() is None
    assert {name.split(".", 2)[2] for name in model.state_dict() if name.startswith("blocks.0.")} == {
        "norm_attention.weight", "norm_mlp.weight", "qkv.weight", "out.weight", "up.weight", "down.weight",
    }  # fmt: skip


def sampled_dense(model: Transformer) -> Rollout:
    return Sampler(9, eos=0).sample(model, torch.randint(1, 24, (2, 9)), 2, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_flips_is_a_change_of_the_chosen_set(k):
    generator = torch.Generator().manual_seed(k)
    logits, drift = torch.randn(2, 4000, 4, generator=generator).unbind()
    drift = 0.5 * drift
    before, after = (top_experts(x, k).sort(-1).values for x in (logits, logits + drift))
    changed = (before != after).any(-1)
    assert torch.equal(flips(logits, drift, k), changed)
    assert changed.any() == (k < 4)


def test_a_gap_below_the_norm_of_the_drift_need_not_flip():
    """001 section 1.2.1 says it does. Both may rise together, and a drift longer than the gap may point away."""
    logits = torch.tensor([1.0, 0.9, -5.0])
    together, apart, crossing = torch.tensor([[0.5, 0.5, 0.0], [0.3, -0.3, 0.0], [-0.06, 0.06, 0.0]])
    gap = (logits[0] - logits[1]).item()
    assert all(gap < drift.norm() for drift in (together, apart))
    assert not flips(logits, together, 1) and not flips(logits, apart, 1)
    # the other way round it is not needed either: the gap is above the norm, and the set changes
    assert gap > crossing.norm() and flips(logits, crossing, 1)


def test_a_gap_of_root_two_norms_rules_a_flip_out_and_no_smaller_factor_does():
    generator = torch.Generator().manual_seed(0)
    logits, drift = torch.randn(2, 20_000, 4, generator=generator).unbind()
    for k, factor in product((1, 2, 3), (0.3, 1.0)):
        ordered = logits.sort(-1, descending=True).values
        gap, moved = ordered[:, k - 1] - ordered[:, k], factor * drift
        safe = (gap > 2**0.5 * moved.norm(dim=-1)) | (gap > 2 * moved.abs().amax(-1))
        assert safe.any() and not flips(logits, moved, k)[safe].any()
    worst = torch.tensor([-0.51, 0.51, 0.0, 0.0])
    assert 1.38 * worst.norm() < 1.0 and flips(torch.tensor([1.0, 0.0, -3.0, -3.0]), worst, 1)


@pytest.mark.parametrize(
    ("drift", "k", "message"),
    [(torch.zeros(3), 1, r"drift has shape \(3,\)"), (torch.zeros(4), 0, "k is 0"), (torch.zeros(4), 5, "k is 5")],
)
def test_what_cannot_be_compared_is_refused(drift, k, message):
    with pytest.raises(ValueError, match=message):
        flips(torch.zeros(4), drift, k)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(experts=1), "experts is 1; it must be 0"),
        (dict(experts=-2), "experts is -2"),
        (dict(experts=4, experts_per_token=5), "experts_per_token is 5; it must be from 1 to the number of experts, 4"),
        (dict(experts=4, experts_per_token=0), "experts_per_token is 0"),
        (dict(experts_per_token=2), "a dense model has none: leave it at 1"),
    ],
)
def test_impossible_mixtures_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**(dict(vocab_size=24, context=18) | changes))


def test_presets_have_four_experts_and_use_one_or_two():
    used = {name: preset_config(name, 24, 18) for name in ("moe-top1", "moe-top2")}
    assert [(c.experts, c.experts_per_token) for c in used.values()] == [(4, 1), (4, 2)]


@pytest.mark.parametrize("preset", ["moe-top1", "moe-top2"])
def test_a_mixture_warms_up_trains_and_goes_on_bit_for_bit(tmp_path, preset):
    config = replace(SMALL, preset=preset, rollout_weights="int8", rollout_kv_cache="float8", rollout_blocks=2)

    def rows(trainer: Trainer) -> list[dict[str, float]]:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.run()]

    whole = Trainer(config)
    expected = rows(whole)
    assert [row["phase"] for row in expected] == [0] * 3 + [1] * 3
    for stop in (2, 4):  # in the warm start, and in RL
        first = Trainer(config)
        for _, _row in zip(range(stop), first.run(), strict=False):
            pass
        first.save(tmp_path / str(stop))
        again = Trainer.load(tmp_path / str(stop))
        assert again.sampler.behavior == first.sampler.behavior
        assert rows(again) == expected[stop:]
        for name, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], value)


def test_the_command_line_takes_a_mixture_and_a_quantised_sampler(monkeypatch, tmp_path, capsys):
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["rlnotes", *arguments, "--out", str(tmp_path)])
        return cli.main()

    sizes = ["--size", "4", "--prompts", "4", "--group-size", "4", "--warm-limit", "2", "--steps", "1"]
    mu = ["--rollout-weights", "float8", "--rollout-kv-cache", "bfloat16", "--rollout-blocks", "4"]
    assert run("train", "--preset", "moe-top1", "--warm-start", "train", *sizes, *mu) == 0
    assert run("resume", "--steps", "2") == 0
    assert "step 2: held-out accuracy" in capsys.readouterr().out
    trainer = Trainer.load(tmp_path / "checkpoints")
    assert trainer.model.config.experts == 4
    assert trainer.sampler.behavior == Behavior("float8", kv_cache="bfloat16", blocks=4)
