"""What TRL cannot do, and what goes against the recipe, is an error before anything is made."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from trl.trainer.grpo_config import GRPOConfig

from rlnotes.bridge.settings import DECIDED, UNTRUNCATED, check_choices
from rlnotes.bridge.trl import RecipeTrainer
from rlnotes.objectives import GRPO, METHOD_2, TRM, Choices, KLPenalty
from rlnotes.objectives.gates import Correction
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]
KL = replace(GRPO, kl=KLPenalty(0.1))


@pytest.mark.parametrize(
    ("recipe", "changed", "said"),
    [
        ("gppo", {}, "unknown recipe 'gppo'; choose one of vanilla_pg"),
        ("dppo_topk_tv", {}, "TRL does not record mu's likeliest tokens"),
        ("dapo", {}, r"dataclasses.replace\(recipe, dynamic_sampling=False\)"),
        (replace(TRM, divide_by="kept"), dict(gradient_accumulation_steps=2), "2 parts; use one process"),
        (replace(GRPO, kl=KLPenalty(0.0)), {}, "kl.beta is 0"),
        (KL, {}, "model was made in memory"),
        ("grpo", dict(loss_type="grpo"), r"loss_type is 'grpo'.*default, 'dapo'.*\(gate and aggregation\)"),
        ("grpo", dict(beta=0.04), r"beta is 0.04.*KLPenalty"),
        ("grpo", dict(steps_per_generation=2, gradient_accumulation_steps=4), "steps_per_generation is 2"),
        ("grpo", dict(num_generations_eval=1), "a group of one has no advantage"),
        ("trm", dict(top_p=0.9), "top_p is 0.9.*leave top_p at 1.0, or sample with use_vllm=True"),
        ("method_2", dict(top_k=20), "top_k is 20"),
        ("grpo", dict(generation_kwargs=dict(typical_p=0.5)), "generation_kwargs is"),
    ],
)
def test_what_cannot_be_honoured_says_why_and_what_to_do(
    tmp_path: Path, recipe: str | Choices, changed: dict[str, Any], said: str
):
    with pytest.raises(ValueError, match=said):
        made.trainer(tmp_path, recipe, **changed)


@pytest.mark.parametrize(("processes", "accumulated", "parts"), [(2, 1, 2), (1, 4, 4), (2, 2, 4)])
def test_what_a_part_cannot_know_is_an_error_on_several_processes_too(processes: int, accumulated: int, parts: int):
    for recipe in (replace(TRM, divide_by="kept"), replace(METHOD_2, correction=Correction(high=2.0, normalised=True))):
        check_choices(recipe, 1, 1)
        with pytest.raises(ValueError, match=f"{parts} parts"):
            check_choices(recipe, processes, accumulated)


def test_a_recipe_that_does_not_look_at_the_sampler_may_truncate_it(tmp_path: Path):
    made.train(made.trainer(tmp_path, "rloo", top_k=5))


def test_a_sampler_that_records_may_truncate(tmp_path: Path):
    """And what it recorded is mu."""

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = made.TOKENIZER(prompts)["input_ids"]
        responses = [[1 + (i + t) % 20 for t in range(3 + i % 4)] for i in range(len(prompts))]
        return dict(prompt_ids=ids, completion_ids=responses, logprobs=[[-0.5] * len(row) for row in responses])

    quiet = pytest.warns(UserWarning, match="rollout_func")
    with quiet:
        trainer = made.trainer(tmp_path, "pg_is", more=dict(rollout_func=rollout), top_k=5)
    made.train(trainer)
    inputs = trainer._buffered_inputs[0]
    batch = trainer._batch(inputs, *trainer._score(trainer.model, inputs)[:2])
    assert set(batch.masked("logp_behavior")[batch.mask].tolist()) == {-0.5}


def test_a_token_for_which_a_sampler_records_nothing_stays_and_has_no_ratio_of_its_own(tmp_path: Path):
    """As a server does that answers NaN: None for that token."""

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        ids = made.TOKENIZER(prompts)["input_ids"]
        responses = [[1 + (i + t) % 20 for t in range(3)] for i in range(len(prompts))]
        return dict(prompt_ids=ids, completion_ids=responses, logprobs=[[-0.5, None, -0.5]] * len(prompts))

    with pytest.warns(UserWarning, match="rollout_func"):
        trainer = made.trainer(tmp_path, "pg_is", more=dict(rollout_func=rollout))
    before = made.weights(trainer)
    made.train(trainer)
    after = made.weights(trainer)
    assert after.isfinite().all() and not after.equal(before)
    inputs = trainer._buffered_inputs[0]
    batch = trainer._batch(inputs, *trainer._score(trainer.model, inputs)[:2])
    assert batch.mask.all()
    recorded, proximal = (batch.masked(name) for name in ("logp_behavior", "logp_proximal"))
    assert recorded[:, 1].equal(proximal[:, 1]) and set(recorded[:, [0, 2]].flatten().tolist()) == {-0.5}


def test_the_settings_given_are_left_as_they_are(tmp_path: Path):
    made.model().save_pretrained(tmp_path / "model")
    args = made.settings(tmp_path)
    trainer = RecipeTrainer(str(tmp_path / "model"), args=args, recipe=KL, **made.arguments())
    assert (args.beta, trainer.beta) == (0.0, 0.1)


def test_the_settings_that_are_looked_at_are_trls():
    assert set(DECIDED) | set(UNTRUNCATED) <= {field.name for field in fields(GRPOConfig)}


def test_a_model_card_names_the_recipe(tmp_path: Path):
    trainer = made.trainer(tmp_path, "trm")
    trainer.create_model_card("made")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "the recipe 'trm' of rlnotes" in card
    assert "DeepSeekMath" not in card


def test_what_chapter_18_prints_of_trl_holds_in_the_version_that_is_tested(tmp_path: Path):
    """Its column was read at another version: the lines on GRPO, CISPO, TRM and DPPO were read again in this one."""
    fixed = {field.name: field.default for field in fields(GRPOConfig)}
    assert fixed["loss_type"] == "dapo"
    assert fixed["vllm_importance_sampling_correction"] is True
    assert fixed["vllm_importance_sampling_mode"] == "sequence_mask"
    assert (fixed["vllm_importance_sampling_clip_max"], fixed["vllm_importance_sampling_clip_min"]) == (3.0, None)
    assert (
        GRPOConfig(str(tmp_path), use_cpu=True, bf16=False, loss_type="cispo", epsilon_high=0.28).epsilon_high == 0.28
    )
    package = Path(str(find_spec("trl").origin)).parent  # pyright: ignore[reportOptionalMemberAccess]
    code = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    assert "torch.clamp(coef_1, max=self.epsilon_high)" in code
    assert "dppo" not in code.lower() and "binary_tv" not in code
