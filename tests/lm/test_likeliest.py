"""What is recorded of mu beside the token is its K likeliest tokens, the likeliest first."""

import pytest
import torch

from rlnotes.lm.likeliest import MOST, likeliest
from rlnotes.lm.rollout import SamplingTransform


@pytest.mark.parametrize("n_tokens", [1, 24, MOST, MOST + 1])
@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_they_are_those_of_topk(n_tokens, scale):
    logits = torch.randn(200, n_tokens, generator=torch.Generator().manual_seed(0))
    log_probs = (scale * logits).log_softmax(-1)
    for k in {1, min(5, n_tokens), n_tokens}:
        ids, values = likeliest(log_probs, k)
        assert ids.shape == values.shape == (200, k) and ids.dtype == torch.int64
        assert torch.equal(values, log_probs.topk(k).values)
        assert torch.equal(values, log_probs.gather(-1, ids))
        assert all(len(set(row)) == k for row in ids.tolist())


def test_tokens_without_a_chance_come_last_and_equal_ones_in_the_order_of_their_ids():
    logits = torch.tensor([[0.0, 2.0, 0.0, 1.0, 2.0], [0.0, 50.0, 0.0, 0.0, 0.0]])
    ids, values = likeliest(SamplingTransform(top_k=3).log_probs(logits), 5)
    assert ids[0].tolist() == [1, 4, 3, 0, 2] and values[0, 3:].tolist() == [-torch.inf] * 2
    certain = SamplingTransform(temperature=0).log_probs(logits)
    ids, values = likeliest(certain, 2)
    assert ids.tolist() == [[1, 0], [1, 0]] and values.tolist() == [[0, -torch.inf]] * 2
