import math
from typing import Any

import pytest
import torch

from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.sampler import Sampler, response_logits, token_logp


def logits(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float32)


def probabilities(transform: SamplingTransform, *values: float) -> list[float]:
    return [round(p, 6) for p in transform.log_probs(logits(*values)).exp()[0].tolist()]


def prompts(n: int = 4) -> torch.Tensor:
    return torch.randint(1, 24, (n, 9), generator=torch.Generator().manual_seed(3))


def test_top_k_leaves_nothing_outside():
    assert probabilities(SamplingTransform(top_k=1), -5, -6, -7, -8) == [1, 0, 0, 0]
    assert probabilities(SamplingTransform(top_k=2), 2, 1, 0, -1) == [0.731059, 0.268941, 0, 0]
    assert probabilities(SamplingTransform(top_k=9), 2, 1, 0, -1) == probabilities(SamplingTransform(), 2, 1, 0, -1)


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    values = [math.log(p) for p in (0.5, 0.3, 0.15, 0.05)]
    assert probabilities(SamplingTransform(top_p=0.49), *values) == [1, 0, 0, 0]
    assert probabilities(SamplingTransform(top_p=0.6), *values) == [0.625, 0.375, 0, 0]
    assert probabilities(SamplingTransform(top_p=1.0), *values) == [0.5, 0.3, 0.15, 0.05]


def test_temperature_zero_is_greedy_and_has_log_probability_zero():
    transform = SamplingTransform(temperature=0)
    assert transform.log_probs(logits(1, 3, 2)).tolist() == [[-math.inf, 0.0, -math.inf]]
    assert transform.changes_support


def test_temperature_is_part_of_the_distribution():
    half = SamplingTransform(temperature=0.5).log_probs(logits(2, 0))
    assert half[0, 0].item() == pytest.approx(-0.018150, abs=1e-6)
    plain = SamplingTransform().log_probs(logits(2, 0))
    assert plain[0, 0].item() == pytest.approx(-0.126928, abs=1e-6)
    # the ratio before any update if the loss forgot the temperature
    assert (plain - half).exp()[0].tolist() == pytest.approx([0.896929, 6.627461], abs=1e-5)
    values = torch.randn(5, 24)
    assert torch.equal(SamplingTransform(temperature=1.0).log_probs(values), values.log_softmax(-1))


@pytest.mark.parametrize("transform", [SamplingTransform(), SamplingTransform(0.5), SamplingTransform(0.7, top_k=3)])
def test_recorded_log_probabilities_are_those_of_the_trainer(model, transform):
    rollout = Sampler(9, eos=0, transform=transform).sample(model, prompts(), 8, torch.Generator().manual_seed(0))
    recomputed = token_logp(model, rollout)
    assert ((recomputed - rollout.logp_behavior).exp() - 1)[rollout.mask].abs().max() < 1e-5
    assert (rollout.logp_behavior[~rollout.mask] == 0).all()


@pytest.mark.parametrize(
    "transform",
    [SamplingTransform(0.6), SamplingTransform(top_k=3), SamplingTransform(top_p=0.8), SamplingTransform(1.5, 5, 0.7)],
    ids=str,
)
def test_samples_follow_every_transform_and_the_record_says_how_likely_they_were(model, transform):
    """Every token that comes is in the support, its frequency is its recorded probability, and these sum to one."""
    n = 20_000
    rollout = Sampler(1, eos=0, transform=transform).sample(model, prompts(1), n, torch.Generator().manual_seed(1))
    tokens, recorded = rollout.tokens[:, 0], rollout.logp_behavior[:, 0].exp()
    seen = tokens.unique()
    probabilities = torch.stack([recorded[tokens == token][0] for token in seen])
    assert probabilities.sum().item() == pytest.approx(1, abs=2e-3)  # a token too rare to come is missing
    expected = (transform.log_probs(model(prompts(1))[:, -1]).exp()[0] * n).detach()
    assert (expected[seen] > 0).all()
    counts, likely = torch.bincount(tokens, minlength=24).float(), expected > 5
    chi2 = ((counts - expected) ** 2 / expected)[likely].sum().item()
    freedom = int(likely.sum()) - 1
    assert chi2 < freedom + 4 * math.sqrt(2 * freedom) + 6


@pytest.mark.parametrize("transform", [SamplingTransform(top_k=3), SamplingTransform(top_p=0.8)], ids=str)
def test_cutting_off_tokens_is_a_mismatch_of_exactly_the_mass_that_is_left(model, transform):
    """pi keeps every token: pi / mu is the mass of the support, at most 1, the same for all of its tokens."""
    rollout = Sampler(9, eos=0, transform=transform).sample(model, prompts(), 8, torch.Generator().manual_seed(0))
    with torch.no_grad():
        ratio = (token_logp(model, rollout, transform=SamplingTransform()) - rollout.logp_behavior).exp()
        log_probs = response_logits(model, rollout).log_softmax(-1)
    support = transform.log_probs(log_probs) > -math.inf
    mass = (log_probs.exp() * support).sum(-1)
    assert torch.allclose(ratio[rollout.mask], mass[rollout.mask], atol=1e-5)
    assert 0.3 < ratio[rollout.mask].min() < 0.99


def test_a_weight_cannot_bring_back_what_was_cut_off(model):
    """With top-k the mean of pi / mu is the mass of the support and not 1; with a temperature alone it is 1."""
    n = 100_000
    with torch.no_grad():
        logp = model(prompts(1))[0, -1].log_softmax(-1)
    means = {}
    for transform in (SamplingTransform(0.8), SamplingTransform(top_k=3)):
        rollout = Sampler(1, eos=0, transform=transform).sample(model, prompts(1), n, torch.Generator().manual_seed(0))
        weights = (logp[rollout.tokens[:, 0]] - rollout.logp_behavior[:, 0]).exp()
        means[transform.changes_support] = weights.mean().item(), 4 * weights.std().item() / math.sqrt(n) + 1e-4
    mass = logp.exp().topk(3).values.sum().item()
    assert means[False][0] == pytest.approx(1, abs=means[False][1])
    assert means[True][0] == pytest.approx(mass, abs=means[True][1]) and mass < 0.95


def test_samples_follow_the_recorded_distribution(model):
    n = 20_000
    rollout = Sampler(1, eos=0, transform=SamplingTransform(0.8)).sample(
        model, prompts(1), n, torch.Generator().manual_seed(0)
    )
    logits_ = model(prompts(1))[:, -1] / 0.8
    expected = logits_.softmax(-1)[0] * n
    counts = torch.bincount(rollout.tokens[:, 0], minlength=24)
    chi2 = ((counts - expected) ** 2 / expected).sum().item()
    assert chi2 < 55  # 23 degrees of freedom: exceeded with probability 2e-4


def test_same_seed_same_tokens(model):
    sampler = Sampler(9, eos=0)
    runs = [sampler.sample(model, prompts(), 4, torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(runs[0].tokens, runs[1].tokens)
    assert torch.equal(runs[0].logp_behavior, runs[1].logp_behavior)
    assert not torch.equal(runs[0].tokens, runs[2].tokens)


def test_rollout_holds_what_the_sampler_knew(model):
    rollout = Sampler(9, eos=0, top_logp=3).sample(model, prompts(), 4, torch.Generator().manual_seed(0), version=7)
    assert rollout.group.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert (rollout.version == 7).all()
    assert rollout.topk_ids is not None and rollout.topk_logp is not None
    assert rollout.topk_ids.shape == rollout.topk_logp.shape == (16, 9, 3)
    in_top = rollout.topk_ids == rollout.tokens[..., None]
    hit = in_top.any(-1) & rollout.mask
    assert hit.any()
    top_logp = rollout.topk_logp.masked_fill(~in_top, 0).sum(-1)
    assert torch.allclose(top_logp[hit], rollout.logp_behavior[hit])


def test_mask_keeps_the_first_eos_and_drops_the_rest():
    tokens = torch.tensor([[5, 6, 0, 0, 0], [5, 6, 7, 8, 9]])
    assert response_mask(tokens, eos=0).int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    rollout = rollout_with(tokens)
    assert rollout.truncated(eos=0).tolist() == [False, True]


def rollout_with(tokens: torch.Tensor, **changes: Any) -> Rollout:
    fields: dict[str, Any] = dict(
        prompts=torch.zeros(1, 2, dtype=torch.long),
        group=torch.zeros(len(tokens), dtype=torch.long),
        tokens=tokens,
        mask=response_mask(tokens, 0),
        logp_behavior=torch.zeros(tokens.shape),
        version=torch.zeros_like(tokens),
        transform=SamplingTransform(),
    )
    return Rollout(**(fields | changes))


def test_a_rollout_that_does_not_fit_together_is_refused():
    tokens = torch.tensor([[5, 6, 0], [5, 0, 0]])
    with pytest.raises(ValueError, match=r"logp_behavior has shape \(2, 2\); tokens has \(2, 3\)"):
        rollout_with(tokens, logp_behavior=torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"mask has dtype torch\.int64"):
        rollout_with(tokens, mask=torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="rows of a group contiguous"):
        rollout_with(tokens.repeat(2, 1), prompts=torch.zeros(2, 2), group=torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="2 responses cannot be split over 3 prompts"):
        rollout_with(tokens, prompts=torch.zeros(3, 2))


def test_groups_picks_whole_groups(model):
    rollout = Sampler(9, eos=0).sample(model, prompts(), 4, torch.Generator().manual_seed(0))
    part = rollout.groups(torch.tensor([2, 0]))
    assert torch.equal(part.prompts, rollout.prompts[[2, 0]])
    assert torch.equal(part.tokens, torch.cat([rollout.tokens[8:12], rollout.tokens[:4]]))
    assert part.group.tolist() == [0] * 4 + [1] * 4


def test_a_diverged_model_is_named_and_not_sampled(model):
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="no distribution to sample from for response 0"):
        Sampler(9, eos=0).sample(model, prompts(), 2, torch.Generator())


def test_a_row_with_every_logit_minus_infinity_is_refused(model):
    class Nothing(torch.nn.Module):
        def forward(self, states):
            return torch.full((*states.shape[:-1], 24), -math.inf)

    model.head = Nothing()
    with pytest.raises(ValueError, match="NaN or all -inf"):
        Sampler(9, eos=0).sample(model, prompts(), 2, torch.Generator())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(temperature=-1.0), "temperature is -1.0"),
        (dict(temperature=math.nan), "temperature is nan"),
        (dict(top_k=0), "top_k is 0"),
        (dict(top_p=0.0), "top_p is 0.0"),
        (dict(top_p=1.5), "top_p is 1.5"),
    ],
)
def test_impossible_transforms_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SamplingTransform(**arguments)


def test_bfloat16_is_for_gpus(model):
    with pytest.raises(ValueError, match="needs a CUDA device; on cpu use float32"):
        Sampler(9, eos=0, dtype=torch.bfloat16).sample(model, prompts(), 2, torch.Generator())
