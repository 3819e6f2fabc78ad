"""What both can do is the same through the bridge and by TRL itself: the loss, its gradient, and a whole run."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from rlnotes.bridge.trl import RecipeTrainer
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.objectives import (
    DAPO,
    DR_GRPO,
    GRPO,
    GSPO,
    PPO_CLIP,
    SAPO,
    Choices,
    KLPenalty,
)
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.masks import OffPolicyMask
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]

TRLS = partial(group_mean_std, ddof=1, eps=1e-4, eps_inside=False)
SAME: dict[str, tuple[Choices, dict[str, Any]]] = {
    "grpo": (replace(GRPO, advantage=TRLS), dict(loss_type="grpo")),
    "dr_grpo": (DR_GRPO, dict(loss_type="dr_grpo", scale_rewards="none")),
    "dapo": (
        replace(DAPO, advantage=TRLS, dynamic_sampling=False),
        dict(loss_type="dapo", epsilon_high=0.28),
    ),
    "bnpo": (replace(PPO_CLIP, advantage=TRLS), dict(loss_type="bnpo")),
    "dual clip": (
        replace(GRPO, advantage=TRLS, gate=Clip(0.1, 0.1, dual=1.2)),
        dict(loss_type="grpo", epsilon=0.1, delta=1.2),
    ),
    "gspo": (
        replace(GSPO, advantage=TRLS),
        dict(loss_type="grpo", importance_sampling_level="sequence", epsilon=3e-4, epsilon_high=4e-4),
    ),
    "sapo": (replace(SAPO, advantage=TRLS), dict(loss_type="sapo")),
    "kl": (
        replace(GRPO, advantage=TRLS, kl=KLPenalty(0.5)),
        dict(loss_type="grpo", beta=0.5, use_bias_correction_kl=False),
    ),
    "weighted kl": (
        replace(GRPO, advantage=TRLS, kl=KLPenalty(0.5, weighted=True)),
        dict(loss_type="grpo", beta=0.5),
    ),
    "opsm": (
        replace(GRPO, advantage=TRLS, keep=OffPolicyMask(0.02)),
        dict(loss_type="grpo", off_policy_mask_threshold=0.02),
    ),
}


def pair(folder: Path, name: str, kind: str = "qwen", **changed: Any) -> tuple[RecipeTrainer, GRPOTrainer]:
    """The bridge and TRL itself, told the same; each with a model of its own, from one folder if it has a reference."""
    recipe, said = SAME[name]
    made.model(kind).save_pretrained(folder / "model")
    here, common = str(folder / "model"), made.arguments()
    ours = RecipeTrainer(here, args=made.settings(folder, **changed), recipe=recipe, **common)
    return ours, GRPOTrainer(here, args=made.settings(folder, **changed | said), **common)


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("kind", ["qwen", "llama", "mixtral"])
def test_the_loss_and_its_gradient_are_those_of_trl(tmp_path: Path, name: str, kind: str):
    ours, theirs = pair(tmp_path, name, kind)
    for one in (ours.model, theirs.model):
        assert one is not None
        one.eval()
    inputs = made.part(ours)
    inputs["old_per_token_logps"] = inputs.pop("sampling_per_token_logps")  # TRL measures OPSM from either: one here
    expected, loss = (trainer._compute_loss(trainer.model, inputs) for trainer in (theirs, ours))
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(made.gradient(ours, loss), made.gradient(theirs, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "kind"), [*((name, "qwen") for name in SAME), ("grpo", "mixtral")])
def test_a_run_ends_with_the_weights_of_trls_run(tmp_path: Path, name: str, kind: str):
    """Sampling, rewards, advantages, four updates on two generations in two parts each, and how the parts add up."""
    parts = 1 if name == "bnpo" else 2  # TRL's divides each part by its own tokens
    steps = dict(per_device_train_batch_size=16 // parts, gradient_accumulation_steps=parts)
    ours, theirs = pair(tmp_path, name, kind, max_steps=4, num_iterations=2, **steps)
    before = made.weights(ours)
    for trainer in (ours, theirs):
        made.train(trainer)
    assert (made.weights(ours) - before).abs().max() > 1e-3
    torch.testing.assert_close(made.weights(ours), made.weights(theirs), rtol=1e-6, atol=1e-6)
