"""The named objectives: what siblings share, what they are, and what is said of libraries."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlnotes import objectives
from rlnotes.objectives import (
    CISPO,
    DECOUPLED_PPO,
    GSPO,
    MINIRL,
    MINIRL_TIS,
    PG_IS,
    RECIPES,
    RLOO,
    SAPO,
    SAPO_ONE_SIDED,
    VANILLA_PG,
    Choices,
)
from rlnotes.objectives.gates import no_gate
from rlnotes.objectives.ratios import sequence
from rlnotes.objectives.recipes_in_libraries import DIFFERENCES, VERSIONS
from tests.objectives.batches import loss_and_gradient, tensors


def test_a_recipe_that_is_exported_is_so_under_its_name():
    named = {name.upper(): choices for name, choices in RECIPES.items()}
    exported = {name: getattr(objectives, name) for name in objectives.__all__}
    assert {name: one for name, one in exported.items() if isinstance(one, Choices)}.items() <= named.items()


# the papers' recipes; of one made later its own test says what is expected
PROXIMAL = ("minirl", "minirl_tis", "decoupled_ppo", "method_1", "method_2")
STANDARDISED = ("ppo_clip", "grpo", "dapo", "gspo", "sapo", "sapo_one_sided")


@pytest.mark.parametrize("name", DIFFERENCES)
def test_which_recipes_need_the_recomputed_policy(name: str):
    assert RECIPES[name].needs_proximal == (name in PROXIMAL)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_advantages_of_one_right_answer_in_four(name: str):
    """As they are; less the mean of the others, 0; less the mean, 1/4; over the standard deviation, sqrt(3) / 4."""
    expected = dict(vanilla_pg=(1, 0), rloo=(1, -1 / 3)) | dict.fromkeys(STANDARDISED, (3**0.5, -(3**-0.5)))
    advantages = RECIPES[name].advantage(torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 4)
    first, other = expected.get(name, (0.75, -0.25))
    np.testing.assert_allclose(advantages, [first, other, other, other], rtol=1e-6)


@pytest.mark.parametrize("recipe", [VANILLA_PG, RLOO])
def test_plain_policy_gradient_is_the_score_times_the_advantage(recipe: Choices):
    """002 eq. (39), and no log-probability of a sampler is needed."""
    made = tensors()
    alone = {name: made[name] for name in ("logp", "mask", "advantages")}
    value, gradient = loss_and_gradient(recipe, alone)
    expected = -torch.where(made["mask"], made["advantages"][:, None], 0.0) / len(made["mask"])
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    np.testing.assert_allclose(value, float(expected.sum()), rtol=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_on_policy_every_gradient_is_the_weighted_score(name: str):
    """At ratio 1 no gate is closed: only advantage and aggregation are left of an objective."""
    made = tensors(spread=0.0)
    choices = RECIPES[name]
    _, gradient = loss_and_gradient(choices, made)
    expected = loss_and_gradient(replace(VANILLA_PG, aggregation=choices.aggregation), made)[1]
    if choices.ratio is sequence:  # the product over a response is differentiated as a whole, by each of its tokens
        expected = np.where(made["mask"], expected.sum(-1, keepdims=True), 0.0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)


def test_gspo_is_a_mean_over_responses():
    """002 eq. (109), directly."""
    made = tensors(spread=3e-4)
    mask = made["mask"].numpy()
    log_ratio = np.where(mask, made["logp"] - made["logp_behavior"], 0.0)
    s, a = np.exp(log_ratio.sum(1) / mask.sum(1)), made["advantages"].numpy()
    expected = -np.minimum(s * a, np.clip(s, 1 - 3e-4, 1 + 4e-4) * a).mean()
    np.testing.assert_allclose(loss_and_gradient(GSPO, made)[0], expected, rtol=1e-12)


def test_sapo_is_a_mean_of_means_of_soft_terms():
    """002 eqs. (117) to (119), directly."""
    made = tensors()
    mask, a = made["mask"].numpy(), made["advantages"].numpy()[:, None]
    r = np.exp(np.where(mask, made["logp"] - made["logp_behavior"], 0.0))
    tau = np.where(a > 0, 1.0, 1.05)
    terms = np.where(mask, 4 / tau / (1 + np.exp(-tau * (r - 1))) * a, 0.0)
    expected = -(terms.sum(1) / mask.sum(1)).mean()
    np.testing.assert_allclose(loss_and_gradient(SAPO, made)[0], expected, rtol=1e-12)


def test_one_sided_sapo_has_the_gradient_of_sapo_for_what_moves_away_and_of_no_gate_for_what_comes_back():
    made = tensors(seed=5, spread=1.0)
    ratio = np.exp(np.where(made["mask"], made["logp"] - made["logp_behavior"], 0.0))
    a = np.broadcast_to(made["advantages"].numpy()[:, None], ratio.shape)
    away = made["mask"].numpy() & ((ratio - 1) * a > 0)
    back = made["mask"].numpy() & ((ratio - 1) * a < 0)
    ours, sapo, plain = (
        loss_and_gradient(choices, made)[1] for choices in (SAPO_ONE_SIDED, SAPO, replace(SAPO, gate=no_gate))
    )
    assert away.sum() > 5 and back.sum() > 5
    np.testing.assert_allclose(ours[away], sapo[away], rtol=1e-12)
    np.testing.assert_allclose(ours[back], plain[back], rtol=1e-12)
    assert (abs(ours - sapo)[back] > 1e-6).all()


@pytest.mark.parametrize(
    ("recipe", "cap", "mask"),
    [(PG_IS, np.inf, None), (CISPO, 3.0, None), (MINIRL, np.inf, "proximal"), (MINIRL_TIS, 3.0, "proximal")],
)
def test_the_family_of_004_has_the_gradient_of_its_equation(recipe: Choices, cap: float, mask: str | None):
    """004 eq. (23): M min(pi / mu, C) A, summed over tokens, mean over responses."""
    made = tensors(seed=5, spread=1.0)
    ratio, drift = (
        np.exp(np.where(made["mask"], made["logp"] - made[f"logp_{anchor}"], 0.0))
        for anchor in ("behavior", "proximal")
    )
    a = made["advantages"].numpy()[:, None]
    dropped = ((a > 0) & (drift > 1.28)) | ((a < 0) & (drift < 0.8))
    kept = made["mask"].numpy() & ~(dropped if mask else np.zeros_like(dropped))
    expected = -np.where(kept, np.minimum(ratio, cap) * a, 0.0) / len(a)
    assert (ratio[kept] > 3).any()
    np.testing.assert_allclose(loss_and_gradient(recipe, made)[1], expected, rtol=1e-12)


def test_decoupled_ppo_weighs_by_the_truncated_proximal_over_behavior():
    made = tensors(seed=6, spread=1.0)
    mask, a = made["mask"].numpy(), made["advantages"].numpy()[:, None]
    r = np.exp(np.where(mask, made["logp"] - made["logp_proximal"], 0.0))
    w = np.minimum(np.exp(np.where(mask, made["logp_proximal"] - made["logp_behavior"], 0.0)), 2.0)
    terms = np.where(mask, w * np.minimum(r * a, np.clip(r, 0.8, 1.28) * a), 0.0)
    assert (w == 2).any()
    np.testing.assert_allclose(loss_and_gradient(DECOUPLED_PPO, made)[0], -terms.sum() / len(a), rtol=1e-12)


def test_the_recipes_of_the_papers_say_how_libraries_differ():
    libraries = {"TRL", "verl", "OpenRLHF", "slime", "Stable-RL"}
    assert list(DIFFERENCES) == [name for name in RECIPES if name in DIFFERENCES]
    assert all(set(row) == libraries and all(row.values()) for row in DIFFERENCES.values())


def test_the_versions_read_are_those_of_the_golden_data():
    manifest = Path(__file__).parents[1] / "golden" / "peers" / "manifest.json"
    repositories = json.loads(manifest.read_text(encoding="utf-8"))["repositories"]
    assert list(VERSIONS) == list(DIFFERENCES["grpo"])
    for library, said in VERSIONS.items():
        assert repositories[library.lower().replace("-", "_")]["commit"].startswith(said[:7])
    assert repositories["trl_dppo"]["commit"][:7] in VERSIONS["TRL"]


def test_names_of_verl_rejections_are_names_that_it_was_asked_for():
    """Those after ``rollout_rs=`` stand in the golden data, which were made with them."""
    golden = (Path(__file__).parents[1] / "golden" / "peers" / "manifest.json").read_text(encoding="utf-8")
    named = [re.search(r"rollout_rs=([\w,]*)", row["verl"]) for row in DIFFERENCES.values()]
    names = {name for found in named if found for name in found[1].split(",")}
    assert {"token_k1", "seq_max_k2", "seq_mean_k3"} <= names
    for name in names:
        assert re.search(rf"\b{name}\b", golden), name
