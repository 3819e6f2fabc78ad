"""A mixture-of-experts model that is used by more than one file of tests."""

import torch

from rlnotes.lm.config import ModelConfig
from rlnotes.lm.model import Transformer


def random_mixture(experts_per_token: int, spread: float) -> Transformer:
    """Random weights, large enough that every expert is used and that a wrong route shows."""
    config = ModelConfig(
        vocab_size=11, context=14, d_model=32, n_heads=4, experts=4, experts_per_token=experts_per_token
    )
    model, generator = Transformer(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, spread, generator=generator)
    return model
