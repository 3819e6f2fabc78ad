"""Kernels that training uses on a GPU, held against PyTorch in float64. Most of it needs a GPU."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlnotes.gpu.kernels import dtype_behind, usable
from rlnotes.gpu.operations import GroupPrefix
from rlnotes.lm import sampler
from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.kv_cache import Prefix, attention_mask
from rlnotes.lm.model import Transformer
from rlnotes.lm.trainer import Trainer
from rlnotes.lm.trust_region import trpo_step

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
NEAR = {torch.float32: 1e-5, torch.bfloat16: 1e-2}  # of the largest number there is
TEXTS = (  # B, G, H, P, T, D
    (2, 3, 2, 9, 8, 32),
    (1, 1, 1, 1, 1, 16),
    (3, 2, 2, 33, 31, 64),
    (2, 5, 3, 64, 64, 64),
    (2, 16, 6, 32, 31, 64),
)


def close(found: Sequence[Tensor], expected: Sequence[Tensor], dtype: torch.dtype) -> None:
    """``expected`` is float64."""
    for one, same in zip(found, expected, strict=True):
        away = (one.detach().double() - same.detach()).abs().max()
        assert float(away) <= NEAR[dtype] * max(1.0, float(same.detach().abs().max()))


@on_gpu
@DTYPES
@pytest.mark.parametrize("sizes", TEXTS, ids=str)
def test_responses_attend_to_their_prompt_and_themselves_as_pytorch_does(sizes: tuple[int, ...], dtype: torch.dtype):
    from rlnotes.gpu.prefix_kernel import attend

    b, g, h, p, t, d = sizes
    qkv, prompt = (
        torch.randn(n, length, 3, h, d, device="cuda", dtype=dtype, requires_grad=True)
        for n, length in ((b * g, t), (b, p))
    )
    slope = torch.randn(b * g, t, h * d, device="cuda", dtype=dtype)
    found = attend(qkv, *prompt.permute(2, 0, 3, 1, 4)[1:])
    assert found.dtype == dtype
    (q, k, v), (_, prompt_k, prompt_v) = (one.double().permute(2, 0, 3, 1, 4) for one in (qkv, prompt))
    keys, values = (torch.cat([first.repeat_interleave(g, 0), own], 2) for first, own in ((prompt_k, k), (prompt_v, v)))
    mask = attention_mask(t, p + t, None, qkv.device)
    expected = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask).transpose(1, 2).flatten(2)
    close([found], [expected], dtype)
    slopes = torch.autograd.grad(found, (qkv, prompt), slope)
    close(slopes, torch.autograd.grad(expected, (qkv, prompt), slope.double()), dtype)


@on_gpu
@DTYPES
@pytest.mark.parametrize(("n", "width"), [(1, 64), (5000, 64), (37, 384), (3, 96)])
def test_a_sum_is_normed_as_pytorch_does(n: int, width: int, dtype: torch.dtype):
    from rlnotes.gpu.norm_kernel import add_norm, norm

    x, weight = (torch.randn(*size, device="cuda", requires_grad=True) for size in ((n, 2, width), (width,)))
    y = torch.randn(n, 2, width, device="cuda", dtype=dtype, requires_grad=True)
    slopes = torch.randn_like(x), torch.randn_like(y)
    found = add_norm(x, y, weight, 1e-5, dtype)
    total = x.double() + y.double()
    expected = total, F.layer_norm(total, (width,), weight.double(), eps=1e-5)
    assert [one.dtype for one in found] == [torch.float32, dtype]
    close(found, expected, dtype)
    wide = [slope.double() for slope in slopes]
    of_sum = torch.autograd.grad(found, (x, y, weight), slopes)
    close(of_sum, torch.autograd.grad(expected, (x, y, weight), wide), dtype)
    alone, usual = norm(x, weight, 1e-5, dtype), F.layer_norm(x.double(), (width,), weight.double(), eps=1e-5)
    assert alone.dtype == dtype
    close([alone], [usual], dtype)
    close(torch.autograd.grad(alone, (x, weight), slopes[1]), torch.autograd.grad(usual, (x, weight), wide[1]), dtype)


def scores_and_gradient(trainer: Trainer, rollout: sampler.Rollout) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the tokens, and the gradient of their sum."""
    scored = sampler.token_logp(trainer.model, rollout, trainer.dtype)
    trainer.model.zero_grad()
    scored.where(rollout.mask, 0.0).sum().backward()
    gradient = [weight.grad.flatten() for weight in trainer.model.parameters() if weight.grad is not None]
    return scored.detach(), torch.cat(gradient)


@on_gpu
@pytest.mark.parametrize("preset", ["tiny", "medium", "moe-top2"])
def test_scores_and_gradients_are_the_usual_ones(preset: str, monkeypatch: pytest.MonkeyPatch):
    trainer = Trainer(TrainConfig(prompts=8, group_size=4, device="cuda", preset=preset, warm_start="none"))
    rollout = trainer.parts.draw()
    used: list[int] = []
    attend = GroupPrefix.attend

    def seen(self: GroupPrefix, layer: int, qkv: Tensor, mask: Tensor | None) -> Tensor:
        used.append(layer)
        return attend(self, layer, qkv, mask)

    monkeypatch.setattr(GroupPrefix, "attend", seen)
    scored, gradient = scores_and_gradient(trainer, rollout)
    assert used == list(range(trainer.model.config.n_layers))
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):  # no kernel of our own
        usual, same = scores_and_gradient(trainer, rollout)
    assert len(used) == trainer.model.config.n_layers
    torch.testing.assert_close(scored, usual, rtol=0, atol=1e-5)
    assert float((gradient - same).norm()) <= 1e-5 * float(same.norm())


@on_gpu
def test_what_needs_second_derivatives_has_them():
    trainer = Trainer(TrainConfig(prompts=8, group_size=4, device="cuda"))
    rollout = trainer.parts.draw()
    advantages = torch.randn(len(rollout.tokens), device="cuda")
    report = trpo_step(trainer.model, rollout, advantages, delta=0.01)
    assert report.accepted
    assert 0 < report.realised_kl <= 0.01


@on_gpu
def test_kernels_compute_in_what_linear_layers_compute_in():
    x = torch.zeros(2, 64, device="cuda")
    transformer = Transformer(preset_config("tiny", 24, 16)).cuda()
    assert dtype_behind(x) == transformer.norm(x).dtype == torch.float32
    with torch.autocast("cuda", torch.bfloat16):
        assert dtype_behind(x) == transformer.norm(x).dtype == torch.bfloat16


@pytest.mark.parametrize(("shared", "longest"), [(65_536, 32), (102_400, 32), (167_936, 64), (233_472, 64)])
def test_texts_that_are_too_long_are_read_as_usual(shared: int, longest: int, monkeypatch: pytest.MonkeyPatch):
    gpu = SimpleNamespace(shared_memory_per_multiprocessor=shared)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr("rlnotes.gpu.operations.usable", lambda device: True)
    config = preset_config("tiny", 24, 256)
    assert GroupPrefix.serves(config, torch.device("cuda"), longest)
    assert not GroupPrefix.serves(config, torch.device("cuda"), longest + 1)
    assert not GroupPrefix.serves(replace(config, n_heads=1, d_model=128), torch.device("cuda"), longest)


def test_a_cache_that_attends_by_itself_gives_no_keys():
    with pytest.raises(NotImplementedError, match="call attend"):
        GroupPrefix(Prefix(), 4).extend(0, torch.zeros(1), torch.zeros(1))


def test_there_are_no_kernels_on_a_cpu():
    assert not usable(torch.device("cpu"))
