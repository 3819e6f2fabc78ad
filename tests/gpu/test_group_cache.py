"""The attention of a new token by one kernel, held against the usual one. Most of it needs a GPU."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from rlnotes.gpu import kernels
from rlnotes.gpu.operations import GroupCache
from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, Writer, token_logp
from rlnotes.lm.trainer import Trainer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIZES = (  # B, G, H, P, room, D, written
    (2, 3, 2, 9, 8, 32, 0),
    (2, 3, 2, 9, 8, 32, 5),
    (1, 2, 3, 40, 30, 16, 29),
    (2, 5, 6, 32, 70, 64, 65),
)


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_kernel_attends_as_pytorch_does_and_writes_one_place(sizes: tuple[int, ...], dtype: torch.dtype):
    from rlnotes.gpu.decode_kernel import attend

    b, g, h, p, room, d, written = sizes
    n = b * g
    q, k, v = torch.randn(n, 1, 3, h, d, device="cuda", dtype=dtype).permute(2, 0, 3, 1, 4)
    prompt_k, prompt_v = torch.randn(b, p, 3, h, d, device="cuda", dtype=dtype).permute(2, 0, 3, 1, 4)[1:]
    own_k, own_v = torch.randn(2, n, h, room, d, device="cuda", dtype=dtype)
    before = own_k.clone(), own_v.clone()
    keys, values = (
        torch.cat([prompt.repeat_interleave(g, 0), own[:, :, :written], new], 2).double()
        for prompt, own, new in ((prompt_k, own_k, k), (prompt_v, own_v, v))
    )
    expected = F.scaled_dot_product_attention(q.double(), keys, values).transpose(1, 2).reshape(n, 1, h * d)
    found = attend(q, k, v, prompt_k, prompt_v, own_k, own_v, written)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6 if dtype == torch.float32 else 1e-2)
    for own, old, new in ((own_k, before[0], k), (own_v, before[1], v)):
        old[:, :, written] = new[:, :, 0]
        assert torch.equal(own, old)


def rollout_and_scores(config: TrainConfig) -> tuple[Rollout, torch.Tensor]:
    """What a trainer's sampler writes, and what its model says of it."""
    trainer = Trainer(config)
    rollout = trainer.parts.draw()
    with torch.no_grad():
        return rollout, token_logp(trainer.model, rollout, trainer.dtype)


@on_gpu
@pytest.mark.parametrize("preset", ["tiny", "medium", "moe-top1"])
def test_a_rollout_by_the_kernel_is_the_usual_one(preset: str, monkeypatch: pytest.MonkeyPatch):
    config = TrainConfig(prompts=8, group_size=4, device="cuda", preset=preset, warm_start="none")
    found, scored = rollout_and_scores(config)
    torch.testing.assert_close(found.logp_behavior, scored.where(found.mask, 0.0), rtol=0, atol=1e-5)
    monkeypatch.setattr(GroupCache, "serves", staticmethod(lambda config, device: False))
    usual, _ = rollout_and_scores(config)
    assert torch.equal(found.tokens, usual.tokens)
    torch.testing.assert_close(found.logp_behavior, usual.logp_behavior, rtol=0, atol=1e-5)


@on_gpu
def test_a_rollout_in_bfloat16_is_scored_alike():
    config = TrainConfig(
        prompts=8, group_size=4, device="cuda", precision="bfloat16", warm_start="none", preset="large"
    )
    found, scored = rollout_and_scores(config)
    torch.testing.assert_close(found.logp_behavior, scored.where(found.mask, 0.0), rtol=0, atol=0.05)


@on_gpu
def test_what_the_kernel_cannot_do_is_done_as_usual():
    sizes = preset_config("tiny", 24, 16)
    transformer = Transformer(sizes).cuda()
    prompts = torch.zeros(2, 5, dtype=torch.long, device="cuda")
    whole = torch.ones_like(prompts, dtype=torch.bool)
    assert isinstance(Writer(transformer, prompts, None, 2, 4, "float32").cache, GroupCache)
    assert not isinstance(Writer(transformer, prompts, whole, 2, 4, "float32").cache, GroupCache)
    assert not isinstance(Writer(transformer, prompts, None, 2, 4, "float8").cache, GroupCache)


def test_there_is_no_kernel_for_a_cpu_or_a_head_of_another_width():
    sizes = preset_config("tiny", 24, 16)
    assert not GroupCache.serves(sizes, torch.device("cpu"))
    assert not GroupCache.serves(replace(sizes, d_model=96), torch.device("cuda"))
    prompts = torch.zeros(2, 5, dtype=torch.long)
    sampled = Sampler(4, 0).sample(Transformer(sizes), prompts, 3, torch.Generator().manual_seed(0))
    assert sampled.tokens.shape == (6, 4)


@pytest.mark.parametrize(
    ("missing", "value"),
    [(None, None), ("find_spec", None), ("which", None), ("capability", (6, 1))],
    ids=["nothing", "triton", "a compiler", "a newer GPU"],
)
def test_there_is_a_kernel_if_nothing_is_missing(missing: str | None, value: object, monkeypatch: pytest.MonkeyPatch):
    there = dict(find_spec="found", which="found", capability=(9, 0)) | ({} if missing is None else {missing: value})
    monkeypatch.setattr(kernels, "find_spec", lambda name: there["find_spec"])
    monkeypatch.setattr(kernels, "which", lambda name: there["which"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: there["capability"])
    kernels._triton_works.cache_clear()
    try:
        assert GroupCache.serves(preset_config("tiny", 24, 16), torch.device("cuda")) == (missing is None)
    finally:
        kernels._triton_works.cache_clear()
