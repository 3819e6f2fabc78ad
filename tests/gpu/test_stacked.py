"""Several models as one: each block of rows is read by its own model, and by no other."""

import pytest
import torch
from torch import Tensor

from rlnotes.gpu.stacked import StackedAdamW, StackedTransformer, clip, shared_weights
from rlnotes.lm.config import preset_config
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits

R, N = 3, 4


def models(preset: str = "tiny") -> list[Transformer]:
    """Untrained, unlike each other, with distributions far from uniform."""
    made = [Transformer(preset_config(preset, 24, 18), torch.Generator().manual_seed(seed)) for seed in range(R)]
    with torch.no_grad():
        for model in made:
            for name, weight in model.named_parameters():
                if "norm" in name:
                    weight.normal_(1.0, 0.5, generator=torch.Generator().manual_seed(int(weight.numel())))
            model.head.weight.mul_(20)
    return made


def stacked(of: list[Transformer]) -> StackedTransformer:
    return StackedTransformer(of[0].config, shared_weights(of))


def tokens(width: int = 6) -> Tensor:
    return torch.randint(1, 24, (R * N, width), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("padded", [False, True])
def test_each_block_of_rows_is_read_by_its_own_model(padded: bool):
    alone = models()
    mask = torch.arange(6) >= torch.arange(R * N)[:, None] % 3 if padded else None
    expected = torch.cat(
        [
            model(part, None if mask is None else mask[r * N : (r + 1) * N])
            for r, (model, part) in enumerate(zip(alone, tokens().split(N), strict=True))
        ]
    ).detach()
    found = stacked(alone)(tokens(), mask).detach()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
    turned = stacked([alone[1], alone[2], alone[0]])(tokens(), mask).detach()
    assert float((turned - expected).abs().max()) > 0.1


def test_gradients_are_those_of_each_model_behind_shared_prompts():
    alone, together = models(), stacked(models())
    weight = torch.randn(R * N, 5, 24, generator=torch.Generator().manual_seed(1))
    prompts, responses = tokens(), tokens(width=5)
    for r, model in enumerate(alone):
        own = slice(r * N, (r + 1) * N)
        rollout = Rollout.of_responses(prompts[own][:2], responses[own], eos=0)
        (response_logits(model, rollout).log_softmax(-1) * weight[own]).sum().backward()
    shown = prompts.view(R, N, -1)[:, :2].flatten(0, 1)
    logits = response_logits(together, Rollout.of_responses(shown, responses, eos=0))
    (logits.log_softmax(-1) * weight).sum().backward()
    names = [name for name, _ in together.named_parameters()]
    sizes = [weight[0].numel() for weight in together.parameters()]
    for model, row in zip(alone, together.taken_gradients(), strict=True):
        for (name, own), same in zip(model.named_parameters(), row.split(sizes), strict=True):
            assert own.grad is not None
            assert float((own.grad.flatten() - same).norm()) < 1e-5 * float(own.grad.norm()), name
        assert names == [name for name, _ in model.named_parameters()]
    assert all(one.grad is None for one in together.parameters())


def test_weights_are_shared_both_ways():
    alone = models()
    together = stacked(alone)
    before = together(tokens()).detach()
    with torch.no_grad():
        alone[1].head.weight.mul_(2)
    after = together(tokens()).detach()
    assert torch.equal(after[:N], before[:N]) and torch.equal(after[2 * N :], before[2 * N :])
    assert torch.allclose(after[N : 2 * N], 2 * before[N : 2 * N])
    with torch.no_grad():
        together.get_parameter("head.weight")[2].zero_()
    assert not alone[2].head.weight.detach().any()


def test_a_mixture_of_experts_is_refused():
    with pytest.raises(ValueError, match="4 experts; only dense models can be stacked"):
        stacked([Transformer(preset_config("moe-top1", 24, 18))])


def test_rows_of_the_optimiser_go_the_way_of_torchs_own():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(R, 50, generator=generator)
    rates, limit = torch.tensor([1e-3, 3e-2, 0.1]), 5.0
    alone = [torch.nn.Parameter(row.clone()) for row in start]
    theirs = [
        torch.optim.AdamW([own], float(rate), (0.9, 0.95), weight_decay=0.0)
        for own, rate in zip(alone, rates, strict=True)
    ]
    weights = start.clone()
    ours = StackedAdamW(weights, (0.9, 0.95), 1e-8)
    for _ in range(6):
        gradients = torch.randn(R, 50, generator=generator) * torch.tensor([0.1, 1.0, 10.0])[:, None]
        for own, optimizer, gradient in zip(alone, theirs, gradients, strict=True):
            own.grad = gradient.clone()
            norm = torch.nn.utils.clip_grad_norm_([own], limit)
            assert norm == pytest.approx(float(gradient.norm()))
            optimizer.step()
        norms = clip(gradients, torch.full((R,), limit))
        assert torch.allclose(gradients.norm(dim=1), norms.clamp(max=limit), rtol=1e-5)
        ours.step(gradients, rates, torch.ones(R, dtype=torch.bool))
    assert torch.allclose(weights, torch.stack([own.detach() for own in alone]), rtol=1e-5, atol=1e-7)
    assert float((weights - start).abs().amin(1).max()) > 0


def test_a_row_that_is_not_going_stays_whatever_its_gradient_and_the_others_do_not_notice():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(R, 50, generator=generator)
    whole, rates = weights.clone(), torch.full((R,), 0.01)
    ours, others = StackedAdamW(weights, (0.9, 0.95), 1e-8), StackedAdamW(whole, (0.9, 0.95), 1e-8)
    going, before = torch.tensor([True, True, True]), weights[1]
    for update in range(4):
        gradients = torch.randn(R, 50, generator=generator)
        others.step(gradients, rates, torch.ones(R, dtype=torch.bool))
        if update == 2:
            going, before = torch.tensor([True, False, True]), weights[1].clone()
        if update >= 2:
            gradients[1] = float("nan")
        ours.step(gradients, rates, going)
    assert torch.equal(weights[1], before)
    assert torch.equal(weights[::2], whole[::2])
    assert ours.count.flatten().tolist() == [4, 2, 4]
