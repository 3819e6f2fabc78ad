import pytest
import torch

from rlnotes.lm.config import preset_config
from rlnotes.lm.model import Transformer


@pytest.fixture
def model() -> Transformer:
    """Untrained, and yet with distributions far from uniform."""
    model = Transformer(preset_config("tiny", 24, 18))
    with torch.no_grad():
        model.head.weight.mul_(20)
    return model
