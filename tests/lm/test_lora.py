"""Adapters start as nothing, train alone, and are one with the weights when the model samples."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.lora import Adapted, add_adapters, merged
from rlnotes.lm.model import Transformer
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, KLPenalty

RUN = TrainConfig(prompts=4, group_size=4, steps=4, epochs=2, minibatches=2, lora_rank=4)
WARM = replace(RUN, warm_start="train", warm_batch=8, warm_limit=4, steps=3)


def rows(trainer: Trainer, steps: int | None = None) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k not in ("seconds", "waited")} for row in trainer.run(steps)]


def filled(model: Transformer, rank: int = 3) -> Transformer:
    """``model`` with adapters that say something."""
    add_adapters(model, rank, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, Adapted):
                layer.b.normal_(0, 0.01, generator=generator)
    return model


def test_the_first_policy_is_the_old_one_to_the_bit(model):
    text = torch.randint(24, (5, 12), generator=torch.Generator().manual_seed(0))
    before = model(text)
    add_adapters(model, 4, torch.Generator().manual_seed(0))
    assert torch.equal(model(text), before)
    assert torch.equal(merged(model)(text), before)


def test_a_layer_computes_what_the_formula_says():
    linear = torch.nn.Linear(6, 5, bias=False)
    layer = Adapted(linear, rank=2, alpha=3.0, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.b.normal_()
        x = torch.randn(4, 6)
        expected = x @ (linear.weight + 1.5 * layer.b @ layer.a).T
        assert torch.allclose(layer(x), expected, atol=1e-5)
        assert torch.allclose(layer.merged()(x), expected, atol=1e-5)


@pytest.mark.parametrize("preset", ["tiny", "moe-top2"])
def test_every_linear_layer_is_adapted_and_nothing_else_is_trained(preset):
    trainer = Trainer(TrainConfig(preset=preset, warm_start="none", lora_rank=4))
    trained = {name for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    adapted = {name for name, layer in trainer.model.named_modules() if isinstance(layer, Adapted)}
    assert trained == {f"{name}.{matrix}" for name in adapted for matrix in "ab"}
    assert len(adapted) == 1 + 2 * (4 if preset == "tiny" else 2 + 4 * 2)
    share = sum(w.numel() for w in trainer.model.parameters() if w.requires_grad) / trainer.model.n_parameters
    assert share < 0.15


def test_merging_gives_a_plain_model_that_computes_the_same(model):
    text = torch.randint(24, (5, 12), generator=torch.Generator().manual_seed(0))
    before = model(text)
    names = [name for name, _ in model.named_parameters()]
    assert merged(model) is model
    adapted = filled(model)
    plain = merged(adapted)
    assert [name for name, _ in plain.named_parameters()] == names  # in this order: an actor shares them as one row
    assert not any(isinstance(layer, Adapted) for layer in plain.modules())
    assert torch.allclose(plain(text), adapted(text), atol=1e-4)
    assert (plain(text) - before).abs().max() > 0.05


def test_a_run_moves_the_adapters_only_and_samples_from_what_it_trains():
    trainer = Trainer(replace(RUN, prompts=16, learning_rate=3e-3))
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    for row in trainer.run():
        assert row["mismatch"] < 1e-5 and row["gradient_norm"] > 0  # merged or not: the same but for rounding
    for name, weight in trainer.model.named_parameters():
        assert torch.equal(weight, before[name]) != weight.requires_grad, name
    # a rollout from the weights without the adapters would not agree with pi any more
    assert not torch.allclose(merged(trainer.model).head.weight, before["head.weight"], atol=1e-2)


def test_adapters_learn():
    trainer = Trainer(TrainConfig(prompts=16, steps=25, lora_rank=4, learning_rate=3e-3))
    before = trainer.evaluate()
    list(trainer.run())
    assert trainer.evaluate() > before + 0.2


@pytest.mark.parametrize(
    ("config", "cut"),
    [(RUN, 2), (WARM, 2), (WARM, 4), (WARM, 6), (replace(RUN, lags=(0, 3), switch=0.2), 2)],
    ids=["rl", "warm-2", "warm-4", "warm-6", "lags"],
)
@pytest.mark.parametrize("kl", [None, KLPenalty(0.1)], ids=["plain", "kl"])
def test_a_resumed_run_is_exact(tmp_path, config, cut, kl):
    choices = replace(GRPO, kl=kl)
    whole, first = Trainer(config, choices=choices), Trainer(config, choices=choices)
    expected, run = rows(whole), first.run()
    seen = [{k: v for k, v in next(run).items() if k != "seconds"} for _ in range(cut)]
    first.save(tmp_path)
    again = Trainer.load(tmp_path, choices=choices)
    assert seen + rows(again) == expected
    assert whole.model.state_dict().keys() == again.model.state_dict().keys()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)


def test_the_warm_start_trains_all_weights():
    trainer = Trainer(WARM)
    before = trainer.model.head.weight.clone()
    trainer.warm_step()
    assert not torch.equal(trainer.model.head.weight, before)
    assert all(weight.requires_grad for weight in trainer.model.parameters())


def test_an_actor_gets_the_merged_weights():
    config = replace(RUN, steps=3, prompts=16, learning_rate=3e-3)
    with AsyncTrainer(config, queue=0) as trainer:
        deviations = [row["ratio_deviation"] for row in trainer.run()]
    assert max(deviations) < 1e-3


@pytest.mark.parametrize(("rank", "message"), [(-1, "lora_rank is -1"), (65, "at most the model's width, 64")])
def test_ranks_out_of_range_are_refused(rank, message):
    with pytest.raises(ValueError, match=message):
        replace(RUN, lora_rank=rank)


def test_adapters_on_adapters_are_refused(model):
    with pytest.raises(ValueError, match="rank is 0; it must be from 1 to the model's width, 64"):
        add_adapters(model, 0, torch.Generator())
    add_adapters(model, 2, torch.Generator())
    with pytest.raises(ValueError, match="the model has adapters already"):
        add_adapters(model, 2, torch.Generator())


def test_the_reference_stays_where_the_adapters_began(tmp_path):
    choices = replace(GRPO, kl=KLPenalty(0.1))
    trainer = Trainer(RUN, choices=choices)
    assert trainer.reference is not None
    start = {name: weight.clone() for name, weight in trainer.reference.state_dict().items()}
    list(trainer.run())
    trainer.save(tmp_path)
    for one in (trainer, Trainer.load(tmp_path, choices=choices)):
        assert one.reference is not None
        assert all(torch.equal(weight, start[name]) for name, weight in one.reference.state_dict().items())
        assert any(not torch.equal(weight, start[name]) for name, weight in merged(one.model).state_dict().items())
