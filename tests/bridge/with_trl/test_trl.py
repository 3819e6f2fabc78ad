"""Every recipe is what `policy_loss` says, on TRL's data, and an update in parts is the update in one."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from rlnotes.bridge.trl import RecipeTrainer, own_tokens
from rlnotes.estimators.divergences import entropy
from rlnotes.objectives import (
    CISPO,
    GRPO,
    METHOD_2,
    RECIPES,
    TRM,
    Batch,
    Choices,
    KLPenalty,
    policy_loss,
)
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, Correction
from rlnotes.objectives.masks import not_truncated
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]

VARIANTS: dict[str, Choices] = {
    "kept alone counts": replace(TRM, divide_by="kept"),
    "kept alone counts, over T_max": replace(TRM, divide_by="kept", aggregation=constant),
    "weights over their mean": replace(METHOD_2, correction=Correction(high=2.0, normalised=True)),
    "entropy": replace(GRPO, entropy=0.3),
    "kl": replace(CISPO, kl=KLPenalty(0.5, "k2")),
    "not truncated": replace(GRPO, keep=not_truncated),
}
POSSIBLE = {
    name: recipe for name, recipe in RECIPES.items() if not (recipe.needs_divergence or recipe.dynamic_sampling)
}


@pytest.mark.parametrize("name", [*POSSIBLE, *VARIANTS])
def test_every_recipe_is_the_policy_loss_of_the_models_own_logits(tmp_path: Path, name: str):
    """With a temperature, a sampler that is not pi_k, and T_max larger than the longest response."""
    recipe = (POSSIBLE | VARIANTS)[name]
    made.model().save_pretrained(tmp_path / "model")
    longest = made.TASK.max_response_length + 3
    trainer = RecipeTrainer(
        str(tmp_path / "model"),
        args=made.settings(tmp_path, temperature=0.7, max_completion_length=longest),
        recipe=recipe,
        **made.arguments(),
    )
    trainer.model.eval()
    inputs = made.part(trainer)
    loss = trainer._compute_loss(trainer.model, inputs)
    mask = inputs["completion_mask"].bool()
    wide = partial(F.pad, pad=(0, 3))
    logp = made.logp(trainer, inputs, 0.7)
    tokens = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    logits = trainer.model(input_ids=tokens).logits[:, made.TASK.prompt_length - 1 : -1] / 0.7
    batch = Batch(
        logp=wide(logp),
        mask=wide(mask),
        advantages=inputs["advantages"],
        logp_behavior=wide(inputs["sampling_per_token_logps"]),
        logp_proximal=wide(inputs["old_per_token_logps"]),
        logp_reference=wide(inputs["ref_per_token_logps"]),
        totals=None if recipe.needs_whole_batch else Totals(8, int(mask.sum()), longest),
        entropy=wide(entropy(logits.log_softmax(-1))),
        truncated=torch.arange(8) % 3 == 0,
    )
    expected = policy_loss(recipe, batch)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(made.gradient(trainer, loss), made.gradient(trainer, expected), rtol=1e-4, atol=1e-5)


def test_recipes_that_trl_has_no_place_for_are_these():
    assert {"dapo", "dppo_topk_tv", "dppo_topk_kl"} <= set(RECIPES) - set(POSSIBLE)


@pytest.mark.parametrize("name", POSSIBLE)
def test_every_recipe_trains(tmp_path: Path, name: str):
    trainer = made.trainer(tmp_path, name, max_steps=2, num_iterations=2, logging_strategy="steps", logging_steps=1)
    before = made.weights(trainer)
    made.train(trainer)
    assert (made.weights(trainer) - before).abs().max() > 1e-4
    logged = trainer.state.log_history
    for name in ("mismatch", "tv"):
        assert logged[0][name] == pytest.approx(0, abs=1e-6) != logged[1][name]
    assert all(0 <= step["no_gradient"] <= 1 and step["entropy"] > 0 for step in logged[:2])


@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize("parts", [2, 4])
def test_an_update_in_parts_is_the_update_in_one(tmp_path: Path, aggregation: Any, parts: int):
    recipe = replace(GRPO, aggregation=aggregation)
    whole, split = (
        made.trainer(
            tmp_path,
            recipe,
            max_steps=4,
            per_device_train_batch_size=16 // n,
            gradient_accumulation_steps=n,
            steps_per_generation=2 * n,  # two updates on a generation
        )
        for n in (1, parts)
    )
    for trainer in (whole, split):
        made.train(trainer)
    lengths = own_tokens(split._buffered_inputs[0]).sum(-1)
    assert len(set(lengths.tolist())) > 1
    torch.testing.assert_close(made.weights(split), made.weights(whole), rtol=1e-6, atol=1e-6)


PARTS = (1, 2, 4)


def parts_of(inputs: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """A generation in ``n`` parts, as TRL cuts it."""
    tensors = {name: value for name, value in inputs.items() if value.dim()}
    return [{name: value.chunk(n)[i] for name, value in tensors.items()} for i in range(n)]


def update(trainer: Any, parts: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Value and gradient of the loss of an update, and what is logged of it."""
    trainer.model.train()
    trainer._buffered_inputs = parts
    trainer._metrics["train"].clear()
    loss = torch.zeros(())
    for trainer._step, part in enumerate(parts):
        loss = loss + trainer._compute_loss(trainer.model, part)
    return loss, made.gradient(trainer, loss), dict(trainer._metrics["train"])


@pytest.fixture(scope="module")
def accumulating(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """Trainers that make an update of 16 responses of so many parts, of one model."""
    folder = tmp_path_factory.mktemp("accumulating")
    return {
        n: made.trainer(folder, "grpo", per_device_train_batch_size=16 // n, gradient_accumulation_steps=n)
        for n in PARTS
    }


@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize("name", POSSIBLE)
def test_value_and_gradient_of_an_update_and_what_is_logged_are_the_same_in_any_number_of_parts(
    accumulating: dict[int, Any], name: str, aggregation: Any
):
    """Of parts with 1 to 5 tokens a response, one of which the model did not write itself."""
    inputs = made.part(accumulating[1], n=16)
    inputs["tool_mask"] = (torch.arange(16) != 4).long()[:, None].expand_as(inputs["completion_mask"])
    found = []
    for n in PARTS:
        accumulating[n].choices = replace(POSSIBLE[name], aggregation=aggregation)
        found.append(update(accumulating[n], parts_of(inputs, n)))
    (value, gradient, logged), *others = found
    assert gradient.abs().max() > 1e-4
    for other in others:
        torch.testing.assert_close(other[0], value, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(other[1], gradient, rtol=1e-4, atol=1e-6)
        for metric in ("entropy", "mismatch", "tv", "no_gradient"):
            assert other[2][metric] == pytest.approx(logged[metric], rel=1e-5)


def test_what_is_logged_begins_anew_after_a_log(accumulating: dict[int, Any]):
    trainer = accumulating[2]
    trainer.choices = GRPO
    parts = parts_of(made.part(trainer, n=16), 2)
    first, second = (update(trainer, [part] * 2)[2]["tv"] for part in parts)
    assert first != second
    update(trainer, [parts[0]] * 2)
    trainer.log({})
    trainer._compute_loss(trainer.model, parts[1])
    assert trainer._metrics["train"]["tv"] == pytest.approx(second)


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_changes_nothing(tmp_path: Path, name: str):
    """T_max is the longest that a completion may be, 20 tokens; TRL pads to a multiple of what one says."""
    trainer = made.trainer(tmp_path, GRPO)
    trainer.choices = VARIANTS[name]  # without its reference, which the inputs bring
    trainer.model.eval()
    inputs = made.part(trainer)
    columns = [name for name, value in inputs.items() if name.startswith("completion") or "logps" in name]
    found = []
    for width in (0, 15, 59):
        wide = inputs | {name: F.pad(inputs[name], (0, width)) for name in columns}
        loss = trainer._compute_loss(trainer.model, wide)
        found.append((loss, made.gradient(trainer, loss)))
    for loss, gradient in found[1:]:
        torch.testing.assert_close(loss, found[0][0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [*POSSIBLE, *VARIANTS])
def test_a_response_without_own_tokens_counts_and_has_no_loss(tmp_path: Path, accumulating: dict[int, Any], name: str):
    """An environment's mask may leave none; where the whole batch is needed it does not count."""
    trainer, recipe = accumulating[1], (POSSIBLE | VARIANTS)[name]
    trainer.choices = recipe
    trainer.model.eval()
    inputs = made.part(trainer)
    others = torch.arange(8) != 2
    tool = others.long()[:, None].expand_as(inputs["completion_mask"])
    loss = trainer._compute_loss(trainer.model, inputs | dict(tool_mask=tool))
    alone = {key: value[others] for key, value in inputs.items() if value.dim()}
    expected = trainer._compute_loss(trainer.model, alone)
    by_responses = recipe.aggregation is not token_mean and not recipe.needs_whole_batch
    torch.testing.assert_close(loss, expected * (7 / 8 if by_responses else 1), rtol=1e-5, atol=1e-6)
    nothing = trainer._compute_loss(trainer.model, inputs | dict(tool_mask=torch.zeros_like(tool)))
    assert nothing.item() == 0
    assert not made.gradient(trainer, nothing).any()


def test_the_sizes_are_those_of_the_update_and_not_of_the_generation(tmp_path: Path):
    """Two passes over a generation of four parts, two of which make an update."""
    trainer = made.trainer(
        tmp_path,
        "ppo_clip",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        steps_per_generation=4,
        num_iterations=2,
    )
    trainer.model.train()
    trainer._buffered_inputs = [dict(completion_mask=torch.ones(4, length)) for length in (1, 2, 5, 9)]
    seen = []
    for trainer._step in range(8):
        seen.append(trainer._totals(trainer._buffered_inputs[trainer._step % 4]))
    assert seen == [Totals(8, 12, 20), Totals(8, 12, 20), Totals(8, 56, 20), Totals(8, 56, 20)] * 2


def test_a_token_that_the_sampler_could_not_score_counts_as_sampled_by_the_proximal_policy(tmp_path: Path):
    trainer = made.trainer(tmp_path, "method_1")
    trainer.model.eval()
    inputs = made.part(trainer)
    known = inputs["sampling_per_token_logps"].clone()
    known[2, 1] = inputs["old_per_token_logps"][2, 1]
    expected = trainer._compute_loss(trainer.model, inputs | dict(sampling_per_token_logps=known))
    known[2, 1] = torch.nan
    loss = trainer._compute_loss(trainer.model, inputs | dict(sampling_per_token_logps=known))
    assert loss.item() == expected.item()


def test_tokens_of_a_tool_are_not_trained_on(tmp_path: Path):
    trainer = made.trainer(tmp_path, "pg_is")
    trainer.model.eval()
    inputs = made.part(trainer)
    tool = torch.ones_like(inputs["completion_mask"])
    tool[:, 1] = inputs["completion_mask"][:, 2] == 0  # the second of three or more tokens is a tool's
    loss = trainer._compute_loss(trainer.model, inputs | dict(tool_mask=tool))
    mask = inputs["completion_mask"].bool() & tool.bool()
    expected = policy_loss(
        RECIPES["pg_is"],
        Batch(made.logp(trainer, inputs), mask, inputs["advantages"], inputs["sampling_per_token_logps"]),
    )
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    assert loss.item() != pytest.approx(trainer._compute_loss(trainer.model, inputs).item(), rel=1e-3)


def test_no_gradient_is_the_share_of_tokens_behind_a_closed_gate(tmp_path: Path):
    trainer = made.trainer(tmp_path, replace(GRPO, gate=Clip(0.0, 0.0)))  # every token that moved away
    trainer.model.eval()
    inputs = made.part(trainer)
    trainer._compute_loss(trainer.model, inputs)
    moved = (made.logp(trainer, inputs) - inputs["sampling_per_token_logps"])[inputs["completion_mask"].bool()]
    sign = inputs["advantages"][:, None].expand(8, 5)[inputs["completion_mask"].bool()].sign()
    share = (moved.sign() == sign).float().mean().item()
    assert trainer._metrics["eval"]["no_gradient"] == [pytest.approx(share)]
    assert 0.2 < share < 0.8
    assert RecipeTrainer._compute_loss(trainer, trainer.model, inputs).requires_grad


def test_mismatch_and_tv_compare_pi_with_mu_on_the_models_own_tokens(tmp_path: Path):
    trainer = made.trainer(tmp_path, "decoupled_ppo")
    trainer.model.eval()
    inputs = made.part(trainer)
    inputs["tool_mask"] = torch.ones_like(inputs["completion_mask"])
    inputs["tool_mask"][:, 1] = inputs["completion_mask"][:, 2] == 0  # the second of three or more tokens is a tool's
    trainer._compute_loss(trainer.model, inputs)
    pi, mu = made.logp(trainer, inputs).detach().double().exp(), inputs["sampling_per_token_logps"].double().exp()
    own = [
        (pi[i, t].item(), mu[i, t].item())
        for i, t in (inputs["completion_mask"] * inputs["tool_mask"]).nonzero().tolist()
    ]
    logged = trainer._metrics["eval"]
    assert logged["mismatch"] == [pytest.approx(fmean(abs(p - q) for p, q in own), rel=1e-4)]
    assert logged["tv"] == [pytest.approx(fmean(abs(p - q) / q for p, q in own) / 2, rel=1e-4)]
    assert logged["tv"][0] > 2 * logged["mismatch"][0]  # rare tokens hardly count in the one


def test_a_cap_is_as_tall_as_it_says(tmp_path: Path):
    """The gradient of CISPO with a cap of 1 is that of the plain policy gradient where all ratios are above 1."""
    capped, plain = (made.trainer(tmp_path, recipe) for recipe in (replace(CISPO, gate=Cap(high=1.0)), "rloo"))
    for trainer in (capped, plain):
        trainer.model.eval()
    inputs = made.part(capped)
    inputs["sampling_per_token_logps"] = made.logp(capped, inputs).detach() - 0.5
    found, expected = (made.gradient(t, t._compute_loss(t.model, inputs)) for t in (capped, plain))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_any_of_several_end_tokens_ends_a_response(tmp_path: Path):
    trainer = made.trainer(tmp_path, "grpo")
    trainer.eos_token_ids = [0, 3]
    ids, own = torch.tensor([[5, 3], [5, 6], [0, 9]]), torch.tensor([[1, 1], [1, 1], [1, 0]])
    assert trainer._truncated(dict(completion_ids=ids, completion_mask=own)).tolist() == [False, True, False]
