import pytest
import torch
from torch.nn import functional as F

from rlnotes.lm.config import PRESETS, ModelConfig, preset_config
from rlnotes.lm.kv_cache import KVCache, Prefix, attention_mask
from rlnotes.lm.model import Transformer, positions
from rlnotes.lm.quantize import fake_quantized
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, token_logp


@pytest.fixture
def model() -> Transformer:
    """A small random model with weights large enough that a wrong position or mask shows."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=11, context=12, d_model=32, n_layers=2, n_heads=4))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.4)
    return model


def rollout_of(prompts: torch.Tensor, tokens: torch.Tensor, prompt_mask: torch.Tensor | None = None) -> Rollout:
    group_size = len(tokens) // len(prompts)
    return Rollout(
        prompts=prompts,
        group=torch.arange(len(prompts)).repeat_interleave(group_size),
        tokens=tokens,
        mask=torch.ones_like(tokens, dtype=torch.bool),
        logp_behavior=torch.zeros(tokens.shape),
        version=torch.zeros_like(tokens),
        transform=SamplingTransform(),
        prompt_mask=prompt_mask,
    )


def test_positions_are_counted_from_the_mask():
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert positions(mask).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert not positions(mask).is_floating_point()


def test_left_pads_change_no_logit(model):
    tokens = torch.randint(11, (1, 8))
    alone = model(tokens)
    padded = torch.cat([torch.full((1, 3), 7), tokens], 1)
    mask = torch.tensor([[False] * 3 + [True] * 8])
    assert (model(padded, mask)[:, 3:] - alone).abs().max() < 1e-5
    # both halves matter: without the mask's positions, or without its key mask, the answer is far off
    key_mask_only = model.head(model.hidden(padded, torch.arange(11), mask))[:, 3:]
    positions_only = model.head(model.hidden(padded, positions(mask)))[:, 3:]
    assert (key_mask_only - alone).abs().max() > 0.1
    assert (positions_only - alone).abs().max() > 0.1


def test_left_pads_change_no_score_and_no_greedy_sample(model):
    prompt, answer = torch.randint(11, (1, 5)), torch.randint(1, 11, (2, 4))
    padded = torch.cat([torch.full((1, 3), 7), prompt], 1)
    mask = torch.tensor([[False] * 3 + [True] * 5])
    alone = token_logp(model, rollout_of(prompt, answer))
    assert (token_logp(model, rollout_of(padded, answer, mask)) - alone).abs().max() < 1e-5
    sampler = Sampler(4, eos=0, transform=SamplingTransform(temperature=0))
    short = sampler.sample(model, prompt, 1, torch.Generator())
    long = sampler.sample(model, padded, 1, torch.Generator(), prompt_mask=mask)
    assert short.tokens.tolist() == long.tokens.tolist()


@pytest.mark.parametrize("prompt_length", [1, 5])
def test_cached_decoding_equals_the_full_pass_at_every_step(model, prompt_length):
    tokens = torch.randint(11, (3, 12))
    full = model(tokens)
    cache = KVCache(model.config, 3, 12, tokens.device, torch.float32)
    first = model.hidden(tokens[:, :prompt_length], torch.arange(prompt_length), None, cache)
    steps = [model.head(first)]
    for t in range(prompt_length, 12):
        assert cache.length == t
        steps.append(model.head(model.hidden(tokens[:, t : t + 1], torch.tensor([t]), None, cache)))
    assert (torch.cat(steps, 1) - full).abs().max() < 1e-5
    stuck = KVCache(model.config, 3, 12, tokens.device, torch.float32)
    model.hidden(tokens[:, :5], torch.arange(5), None, stuck)
    assert (model.head(model.hidden(tokens[:, 5:6], torch.tensor([0]), None, stuck)) - full[:, 5:6]).abs().max() > 0.1


def test_in_bfloat16_the_two_agree_up_to_rounding(model):
    """One rounding of a number near 1 is 1/256: a tolerance, never equality."""
    model.bfloat16()
    tokens = torch.randint(11, (3, 12))
    full = model(tokens)
    cache = KVCache(model.config, 3, 12, tokens.device, torch.bfloat16)
    steps = [model.head(model.hidden(tokens[:, t : t + 1], torch.tensor([t]), None, cache)) for t in range(12)]
    difference = (torch.cat(steps, 1) - full).abs().max().item()
    assert difference < 0.05 * full.abs().max().item()


@pytest.mark.parametrize("kind", ["bfloat16", "float8"])
def test_a_rounding_cache_gives_back_what_the_format_holds_prompt_included(model, kind):
    """Filled from a prefix and then token by token; each key and each value is a row of its own."""
    tokens = torch.randint(11, (2, 8))
    prefix, caches = Prefix(), {}
    states = model.hidden(tokens[:, :5], torch.arange(5), None, prefix)
    for kept in ("float32", kind):
        caches[kept] = KVCache(model.config, 6, 8, tokens.device, torch.float32, kept)
        caches[kept].start(prefix, 3)
    for name in ("k", "v"):
        exact, kept = (getattr(cache, name)[..., :5, :] for cache in caches.values())
        assert torch.equal(kept, fake_quantized(exact, kind)) and not torch.equal(kept, exact)
    new = torch.randn(2, 6, 4, 1, 8)
    k, v = caches[kind].extend(0, *new)
    assert torch.equal(torch.stack([k, v])[..., 5:, :], fake_quantized(new, kind))
    assert torch.equal(k[..., :5, :], caches[kind].k[0, ..., :5, :]) and states.shape == (2, 5, 32)


def test_one_query_sees_all_keys_of_the_cache():
    query, keys = torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 5, 4)
    values = torch.arange(5.0).view(1, 1, 5, 1).expand(1, 1, 5, 4)
    seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=attention_mask(1, 5, None, query.device))
    assert torch.allclose(seen, torch.tensor(2.0))
    # what PyTorch's own causal flag does with one query and five keys
    assert F.scaled_dot_product_attention(query, keys, values, is_causal=True).max() == 0
    two = attention_mask(2, 5, None, query.device)
    assert two is not None and two[0, 0].tolist() == [[True] * 4 + [False], [True] * 5]


def test_the_context_is_a_limit_and_not_a_wrap(model):
    assert model(torch.randint(11, (1, 12))).shape == (1, 12, 11)
    with pytest.raises(ValueError, match="13 positions do not fit the model's context of 12"):
        model(torch.randint(11, (1, 13)))
    with pytest.raises(ValueError, match="context of 12"):
        Sampler(5, eos=0).sample(model, torch.randint(11, (1, 8)), 2, torch.Generator())
    with pytest.raises(ValueError, match="context of 12"):
        token_logp(model, rollout_of(torch.randint(11, (1, 8)), torch.randint(11, (2, 5))))


def test_shared_prefix_scoring_equals_the_plain_pass_in_value_and_gradient(model):
    prompts, tokens = torch.randint(11, (2, 5)), torch.randint(11, (6, 4))
    weight = torch.randn(6, 4)
    shared = token_logp(model, rollout_of(prompts, tokens))
    (shared * weight).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    whole = torch.cat([prompts.repeat_interleave(3, 0), tokens], 1)
    plain = model(whole)[:, 4:-1].log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    (plain * weight).sum().backward()
    assert (shared - plain).abs().max() < 1e-5
    for expected, parameter in zip(gradients, model.parameters(), strict=True):
        assert parameter.grad is not None and torch.allclose(expected, parameter.grad, atol=1e-4)


def test_bfloat16_integers_are_not_positions():
    # why positions must be integers: bfloat16 cannot count past 256
    counted = torch.arange(255, 261).to(torch.bfloat16).int().tolist()
    assert counted == [255, 256, 256, 258, 260, 260]
    assert positions(torch.ones(1, 300, dtype=torch.bool))[0, -1] == 299


def test_presets_span_100k_to_10m_parameters():
    dense = [name for name in PRESETS if not preset_config(name, 24, 32).experts]
    sizes = {name: Transformer(preset_config(name, 24, 32)).n_parameters for name in dense}
    assert list(sizes.values()) == sorted(sizes.values())
    assert 90_000 < sizes["tiny"] < 120_000
    assert 9_000_000 < sizes["large"] < 11_500_000


def test_weights_come_from_the_generator_that_is_passed():
    config = preset_config("tiny", 24, 18)
    first, same, other = (Transformer(config, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.head.weight, same.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


@pytest.mark.parametrize(
    ("changes", "message"),
    [(dict(n_heads=3), "n_heads 3 does not divide d_model 64"), (dict(context=0), "context is 0")],
)
def test_impossible_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**(dict(vocab_size=24, context=18) | changes))
    with pytest.raises(ValueError, match="unknown preset 'huge'; choose one of tiny"):
        preset_config("huge", 24, 18)
