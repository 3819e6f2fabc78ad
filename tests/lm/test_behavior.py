"""mu differs from pi as much as it is told to, and its log-probabilities are those of the mu that sampled."""

import math
from dataclasses import replace

import pytest
import torch

from rlnotes.lm.behavior import Behavior, SplitLinear
from rlnotes.lm.config import RolloutWeights, TrainConfig, preset_config
from rlnotes.lm.kv_cache import Prefix, SharedPrefix
from rlnotes.lm.model import Transformer
from rlnotes.lm.quantize import fake_quantized
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, prefill, token_logp
from rlnotes.lm.trainer import Trainer

SMALL = TrainConfig(prompts=4, group_size=4, steps=6, epochs=2, minibatches=2)


def sampled(model: Transformer, behavior: Behavior, n: int = 64, length: int = 9, seed: int = 0) -> Rollout:
    prompts = torch.randint(1, 24, (1, 9), generator=torch.Generator().manual_seed(3))
    return Sampler(length, eos=0, behavior=behavior).sample(model, prompts, n, torch.Generator().manual_seed(seed))


def test_nothing_switched_on_is_the_plain_sampler(model):
    prompts = torch.randint(1, 24, (1, 9), generator=torch.Generator().manual_seed(3))
    plain = Sampler(9, eos=0).sample(model, prompts, 64, torch.Generator().manual_seed(0))
    off = sampled(model, Behavior())
    assert torch.equal(plain.tokens, off.tokens) and torch.equal(plain.logp_behavior, off.logp_behavior)
    assert Behavior().rollout_model(model) is model


def test_rounded_weights_sample_and_the_model_keeps_its_own(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rollout = sampled(model, Behavior("bfloat16"))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    by_hand = Transformer(model.config)
    by_hand.load_state_dict({name: value.bfloat16().float() for name, value in before.items()})
    with torch.no_grad():
        off = [
            (token_logp(m, rollout) - rollout.logp_behavior)[rollout.mask].abs().max().item() for m in (by_hand, model)
        ]
    assert off[0] < 1e-5 < 1e-3 < off[1]
    assert rollout.behavior == Behavior("bfloat16")


@pytest.mark.parametrize("kind", ["float8", "int8", "int4"])
def test_a_format_with_a_scale_rounds_the_linear_layers_of_the_blocks(model, kind):
    copy = Behavior(kind).rollout_model(model)
    assert Behavior(kind).rollout_model(model).config == model.config
    changed = {n for n, w in copy.named_parameters() if not torch.equal(w, model.get_parameter(n))}
    assert changed == {f"blocks.{i}.{n}.weight" for i in (0, 1) for n in ("qkv", "out", "up", "down")}
    for name in changed:
        assert torch.equal(copy.get_parameter(name), fake_quantized(model.get_parameter(name), kind))


def test_a_mixtures_experts_are_rounded_and_its_router_is_not():
    model = Transformer(preset_config("moe-top1", 24, 18))
    copy = Behavior("int8").rollout_model(model)
    changed = {n for n, w in copy.named_parameters() if not torch.equal(w, model.get_parameter(n))}
    assert len(changed) == 2 * (2 + 4 * 2) and not any("router" in name for name in changed)


@pytest.mark.parametrize("kind", ["bfloat16", "float8", "int8", "int4"])
@pytest.mark.parametrize("preset", ["tiny", "moe-top1"])
def test_the_record_is_of_the_copy_that_sampled(kind, preset):
    model = Transformer(preset_config(preset, 24, 18))
    with torch.no_grad():
        model.head.weight.mul_(20)
    rollout = sampled(model, Behavior(kind))
    copy = Behavior(kind).rollout_model(model)
    with torch.no_grad():
        off = [(token_logp(m, rollout) - rollout.logp_behavior)[rollout.mask].abs().max().item() for m in (copy, model)]
    assert off[0] < 1e-5 < 3e-5 < off[1]


def test_a_weight_that_is_not_finite_is_named(model):
    with torch.no_grad():
        model.blocks[1].down.weight[3, 4] = math.nan
    with pytest.raises(ValueError, match=r"blocks\.1\.down\.weight holds NaN"):
        sampled(model, Behavior("int8"))


class Rounding(SharedPrefix):
    """A prompt and a response whose keys and values are rounded when they are kept."""

    def __init__(self, prefix: Prefix, repeat: int, kind: RolloutWeights):
        kept = Prefix()
        kept.layers = [(fake_quantized(k, kind), fake_quantized(v, kind)) for k, v in prefix.layers]
        super().__init__(kept, repeat)
        self.kind: RolloutWeights = kind

    def extend(self, layer, k, v):
        return super().extend(layer, fake_quantized(k, self.kind), fake_quantized(v, self.kind))


@pytest.mark.parametrize("kind", ["bfloat16", "float8"])
def test_rounded_keys_and_values_are_what_the_responses_see(model, kind):
    """The record against a pass without a cache, in which prompt and response are rounded by hand."""
    for block in model.blocks:  # attention that matters
        block.qkv.weight.data.mul_(10)
        block.out.weight.data.mul_(10)
    rollout = sampled(model, Behavior(kv_cache=kind))
    assert Behavior(kv_cache=kind).rollout_model(model) is model
    with torch.no_grad():
        prefix, last = prefill(model, rollout.prompts, None)
        rest = model.hidden(rollout.tokens[:, :-1], 9 + torch.arange(8), None, Rounding(prefix, 64, kind))
        states = torch.cat([last.repeat_interleave(64, 0), rest], 1)
        by_hand = model.head(states).log_softmax(-1).gather(-1, rollout.tokens[..., None])[..., 0]
        half = model.hidden(rollout.tokens[:, :-1], 9 + torch.arange(8), None, SharedPrefix(prefix, 64))
        exact = model.head(half).log_softmax(-1).gather(-1, rollout.tokens[:, 1:, None])[..., 0]
    gap = (by_hand - rollout.logp_behavior)[rollout.mask].abs()
    # a key at the middle of two numbers may go either way, so that a few are a step apart
    assert gap.median() < 1e-5 and gap.max() < 0.05 * (exact - rollout.logp_behavior[:, 1:]).abs().max()


def test_another_order_of_the_same_sums_is_a_small_mismatch_and_not_none(model):
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    copy = Behavior(blocks=4).rollout_model(model)
    assert {name: value.tolist() for name, value in copy.state_dict().items()} == {
        name: value.tolist() for name, value in weights.items()
    }
    whole, split = sampled(model, Behavior()), sampled(model, Behavior(blocks=4))
    with torch.no_grad():
        gap = (token_logp(model, split) - split.logp_behavior)[split.mask].abs()
        own = (token_logp(copy, split) - split.logp_behavior)[split.mask].abs()
    same = (whole.tokens == split.tokens).all(-1)
    difference = (whole.logp_behavior - split.logp_behavior)[same].abs()
    assert same.float().mean() > 0.9 and 0 < difference.max() < 1e-4
    assert 0 < gap.max() < 1e-4 and own.max() < 1e-5


def test_a_split_layer_adds_up_its_pieces_one_after_the_other():
    layer, x = torch.nn.Linear(10, 3, bias=False), torch.randn(4, 10)
    w = layer.weight
    split = SplitLinear(layer, 3)(x)
    assert torch.equal(split, x[:, :4] @ w[:, :4].T + x[:, 4:7] @ w[:, 4:7].T + x[:, 7:] @ w[:, 7:].T)
    assert torch.allclose(split, layer(x), atol=1e-6)


def test_noise_is_what_the_generator_gave_and_is_in_the_record(model):
    """One token, drawn again by hand from the same generator."""
    rollout = sampled(model, Behavior(logit_noise=0.7), n=64, length=1)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        logits = model(rollout.prompts)[:, -1].expand(64, -1)
    noise = torch.empty(64, 24).normal_(0.0, 0.7, generator=generator)
    logp = (logits + noise).log_softmax(-1).gather(-1, rollout.tokens)
    assert torch.allclose(logp, rollout.logp_behavior, atol=1e-5)
    assert noise.std(0).min() > 0.3  # each response has its own


@pytest.mark.parametrize(("recorded", "holds"), [("as sampled", True), ("without the noise", False)])
def test_weights_from_the_recorded_noise_are_unbiased(model, recorded, holds):
    """E_mu[pi / mu f] = E_pi[f], whatever the noise. With pi's own log-probability in the record it is not."""
    n = 100_000
    rollout = sampled(model, Behavior(logit_noise=0.7), n=n, length=1)
    with torch.no_grad():
        logp = model(rollout.prompts)[0, -1].log_softmax(-1)
    f = torch.linspace(0, 1, 24)
    mu = rollout.logp_behavior[:, 0] if recorded == "as sampled" else logp[rollout.tokens[:, 0]]
    values = (logp[rollout.tokens[:, 0]] - mu).exp() * f[rollout.tokens[:, 0]]
    error = (values.mean() - (logp.exp() * f).sum()).abs().item()
    assert (error < 4 * (values.std() / math.sqrt(n)).item()) == holds


@pytest.mark.parametrize(
    ("setting", "smallest"),
    [
        (dict(rollout_weights="bfloat16"), 1e-4),
        (dict(rollout_weights="int8"), 1e-4),
        (dict(rollout_kv_cache="float8"), 1e-4),
        (dict(logit_noise=0.1), 1e-2),
    ],
    ids=str,
)
def test_the_trainer_measures_the_mismatch(setting, smallest):
    off, on = Trainer(SMALL), Trainer(replace(SMALL, **setting))
    (plain,), (apart,) = off.run(1), on.run(1)
    assert plain["ratio_deviation"] < 1e-5 and plain["mismatch"] < 1e-6
    assert apart["ratio_deviation"] > smallest and apart["mismatch"] > smallest / 100


def test_mismatch_is_the_mean_distance_of_the_tokens_probabilities(monkeypatch):
    trainer = Trainer(replace(SMALL, minibatches=1, epochs=1, logit_noise=0.3))
    rollouts = []
    draw = trainer.parts.rollout
    monkeypatch.setattr(trainer.parts, "rollout", lambda prompts: rollouts.append(draw(prompts)) or rollouts[-1])
    twin = Trainer(replace(SMALL, minibatches=1, epochs=1)).model  # the same weights, before the update
    (row,) = trainer.run(1)
    rewards = trainer.task.reward(rollouts[0]).view(4, 4)
    teaching = (rewards != rewards[:, :1]).any(-1).repeat_interleave(4)
    with torch.no_grad():
        distance = (token_logp(twin, rollouts[0]).exp() - rollouts[0].logp_behavior.exp()).abs()
    expected = distance[teaching][rollouts[0].mask[teaching]].mean().item()
    assert row["mismatch"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("setting", [dict(rollout_weights="bfloat16"), dict(logit_noise=0.2), dict(top_p=0.9)], ids=str)
def test_a_resumed_run_goes_on_bit_for_bit(tmp_path, setting):
    config = replace(SMALL, **setting)

    def rows(trainer: Trainer) -> list[dict[str, float]]:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.run()]

    whole = rows(Trainer(config))
    first = Trainer(config)
    list(first.run(2))
    first.save(tmp_path)
    again = Trainer.load(tmp_path)
    assert again.sampler.behavior == first.sampler.behavior
    assert rows(again) == whole[2:]
    assert whole != rows(Trainer(SMALL))


def test_what_is_looked_at_is_pi():
    plain, noisy = Trainer(SMALL), Trainer(replace(SMALL, logit_noise=3.0, rollout_weights="bfloat16", top_k=2))
    assert torch.equal(plain.sample(16).tokens, noisy.sample(16).tokens)
    assert noisy.sample(4).behavior == Behavior() and noisy.sample(4).transform == SamplingTransform()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Behavior("int3"), "weights is 'int3'; choose one of float32, bfloat16"),  # type: ignore[arg-type]
        (lambda: Behavior(kv_cache="int8"), "kv_cache is 'int8'; choose one of float32, bfloat16, float8"),  # type: ignore[arg-type]
        (lambda: Behavior(blocks=0), "blocks is 0; it must be 1"),
        (
            lambda: Behavior(blocks=65).rollout_model(Trainer(SMALL).model),
            "blocks is 65; the shortest sum has 64 terms",
        ),
        (lambda: Trainer(replace(SMALL, rollout_blocks=0)), "blocks is 0"),
        (lambda: Behavior(logit_noise=-1.0), "logit_noise is -1.0; it must be 0"),
        (lambda: Behavior(logit_noise=math.nan), "logit_noise is nan"),
        (lambda: Trainer(replace(SMALL, logit_noise=-0.5)), "logit_noise is -0.5"),
        (lambda: Trainer(replace(SMALL, rollout_weights="int3")), "weights is 'int3'"),  # type: ignore[arg-type]
        (lambda: Trainer(replace(SMALL, top_k=0)), "top_k is 0"),
    ],
)
def test_impossible_switches_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
