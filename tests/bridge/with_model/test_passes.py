"""What the sampler writes and records is what the model itself says, whatever the widths of the prompts."""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

import pytest
import torch

from rlnotes.bridge.real.passes import response_logits
from rlnotes.bridge.real.sampler import Sampler
from rlnotes.lm.sampler import taken
from tests.bridge.with_model import tiny

pytestmark = pytest.mark.extras

PROMPTS = torch.tensor([[0, 0, 5, 6, 7], [3, 4, 5, 6, 7], [0, 0, 0, 0, 9]])
MASK = torch.tensor([[False, False, True, True, True], [True] * 5, [False] * 4 + [True]])


def sampler(length: int = 7, **changed) -> Sampler:
    model = changed.pop("model", None) or tiny.model()
    return Sampler(model, length, 0, torch.Generator().manual_seed(0), **changed)


def test_greedy_tokens_are_those_of_generate():
    own = sampler()
    tokens = own.sample(PROMPTS, MASK, 1, greedy=True).tokens
    expected = own.copy.generate(
        input_ids=PROMPTS, attention_mask=MASK.long(), do_sample=False, max_new_tokens=7, pad_token_id=0
    )[:, 5:]
    assert torch.equal(tokens[:, : expected.shape[1]], expected)
    assert len(tokens.unique()) > 3


def test_what_is_recorded_is_what_the_model_says_of_each_text_alone():
    own = sampler(temperature=1.5)
    rollout = own.sample(PROMPTS, MASK, 4)
    shared = own.transform.log_probs(response_logits(own.copy, rollout, torch.float32))
    assert torch.allclose(taken(shared, rollout.tokens)[rollout.mask], rollout.logp_behavior[rollout.mask], atol=1e-5)
    for row, prompt in enumerate(rollout.group.tolist()):
        text = torch.cat([PROMPTS[prompt][MASK[prompt]], rollout.tokens[row]])
        logits = own.copy(input_ids=text[None]).logits[0, int(MASK[prompt].sum()) - 1 : -1]
        alone = taken((logits / 1.5).log_softmax(-1)[None], rollout.tokens[row][None])[0]
        assert torch.allclose(alone[rollout.mask[row]], rollout.logp_behavior[row][rollout.mask[row]], atol=1e-5)


def test_a_mean_over_samples_is_the_probability():
    """Of the first token, of which there are many draws."""
    own = sampler(length=2)
    first = own.sample(PROMPTS[:1], MASK[:1], 20_000)
    found = torch.bincount(first.tokens[:, 0], minlength=len(tiny.CHARACTERS) + 2) / 20_000
    expected = response_logits(own.copy, first.groups(torch.tensor([0])), torch.float32)[0, 0].softmax(-1)
    assert (found - expected).abs().max() < 4 * (0.25 / 20_000) ** 0.5


@pytest.mark.parametrize(("weights", "least", "most"), [("float32", 0, 1e-5), ("int8", 1e-4, 0.05), ("int4", 5e-3, 1)])
def test_a_rounded_copy_differs_by_as_much_as_its_bits(weights, least, most):
    model = tiny.model()
    rollout = sampler(model=model, weights=weights).sample(PROMPTS, MASK, 8)
    pi = taken(response_logits(model, rollout, torch.float32).log_softmax(-1), rollout.tokens)
    gap = (pi.exp() - rollout.logp_behavior.exp())[rollout.mask].abs().mean().item()
    assert least <= gap <= most


def test_weights_on_a_grid_stand_still_until_they_are_spread():
    """A copy of as many bits follows small updates in the mean only if the weights were not in the middle of cells."""
    from rlnotes.bridge.real.models import matrices, spread
    from rlnotes.lm.quantize import rounded_in_groups

    def moved(model) -> float:
        own = sampler(model=model, weights="int4")
        before = {name: weight.clone() for name, weight in own.copy.named_parameters()}
        with torch.no_grad():
            for _, layer in matrices(model):
                layer.weight += 1e-3 * torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(1))
        own.refresh(model, 1)
        gaps = [(weight - before[f"{name}.weight"]).abs() for name, weight in own_weights(own)]
        return max(float((gap > 0.02).float().mean()) for gap in gaps)

    def own_weights(own):
        return [(name, layer.weight) for name, layer in matrices(own.copy)]

    model = tiny.model()
    with torch.no_grad():
        for _, layer in matrices(model):
            layer.weight.copy_(rounded_in_groups(layer.weight, 4))
    loose = tiny.model()
    loose.load_state_dict(model.state_dict())
    spread(loose, 4, torch.Generator().manual_seed(0))
    assert moved(model) == 0
    assert moved(loose) > 0
