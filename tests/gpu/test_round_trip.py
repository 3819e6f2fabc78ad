"""A run goes from a GPU to a CPU and back."""

from pathlib import Path

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("lags", [(), (0, 2)], ids=["newest", "lags"])
def test_a_run_goes_on_on_a_cpu_and_comes_back(tmp_path: Path, precision, lags, capsys):
    config = TrainConfig(prompts=4, group_size=4, steps=3, lags=lags, device="cuda", precision=precision)
    trainer = Trainer(config)
    list(trainer.run())
    trainer.save(tmp_path)
    left = trainer.tensors()
    for step, device in ((4, "cpu"), (5, "cuda")):
        trainer = Trainer.load(tmp_path, device=device)
        assert f"goes on with device {device}, not bit for bit" in capsys.readouterr().err
        assert {one.device.type for one in trainer.model.parameters()} == {device}
        assert trainer.generator.device.type == device
        if device == "cuda":
            assert torch.equal(trainer.generator.get_state(), left["rng.sample.cuda"])
        else:
            assert all(torch.equal(one, left[name].cpu()) for name, one in trainer.tensors().items() if name in left)
        (row,) = trainer.run(step)
        assert row["step"] == trainer.step == step
        trainer.save(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_the_same_gpu_nothing_is_said_and_random_numbers_go_on(tmp_path: Path, capsys):
    trainer = Trainer(TrainConfig(prompts=4, group_size=4, steps=3, device="cuda"))
    list(trainer.run())
    trainer.save(tmp_path)
    again = Trainer.load(tmp_path)
    assert not capsys.readouterr().err
    assert torch.equal(again.parts.draw().tokens, trainer.parts.draw().tokens)
