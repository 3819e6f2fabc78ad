"""Our losses, gradients, weights, advantages, KL estimates and filters are those of seven production libraries."""

from collections import Counter

import numpy as np
import pytest

from rlnotes.objectives.aggregations import constant
from tests import golden
from tests.golden import batch_of, comparison, ids, tables, variant_of
from tests.golden.losses import LOSSES
from tests.golden.not_covered import NOT_COVERED
from tests.golden.tables import ADVANTAGES, DIVERGENCES, FILTERS, KLS, PENALTIES, REJECTIONS, WEIGHTS

ADVANTAGE_IDS = [case_id for case_id in ids(ADVANTAGES) if batch_of(case_id) != "single"]
GROUP_OF_ONE_IDS = [case_id for case_id in ids(ADVANTAGES) if batch_of(case_id) == "single"]


# --- The same numbers


@pytest.mark.parametrize("case_id", ids(LOSSES))
def test_loss_and_gradient(case_id: str):
    comparison.assert_same_loss(case_id, LOSSES[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(WEIGHTS))
def test_weights(case_id: str):
    tables.assert_same_weights(case_id, WEIGHTS[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(REJECTIONS))
def test_rejections(case_id: str):
    tables.assert_same_rejections(case_id, REJECTIONS[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(DIVERGENCES))
def test_divergences_of_reduced_rows(case_id: str):
    for key, divergence in DIVERGENCES[variant_of(case_id)].items():
        tables.assert_same_divergence(case_id, key, divergence)


@pytest.mark.parametrize("case_id", [case_id for case_id in ids(LOSSES) if f"{case_id}/trust_mask" in golden.arrays()])
def test_trust_masks(case_id: str):
    """What is kept, token by token; where A = 0 it does not matter."""
    choices = LOSSES[variant_of(case_id)].choices
    found = comparison.batch_arrays(batch_of(case_id), "rollout_logp", choices.needs_proximal)
    if asked := choices.needs_divergence:
        found["divergence"] = comparison.divergences(batch_of(case_id), asked)
    made = comparison.batch(found)
    counts = (made.mask & (made.token_advantages != 0)).numpy()
    ours = np.ones(counts.shape, bool) if choices.keep is None else choices.keep(made).numpy()
    np.testing.assert_array_equal(ours[counts], golden.arrays()[f"{case_id}/trust_mask"].astype(bool)[counts])


@pytest.mark.parametrize("case_id", ADVANTAGE_IDS)
def test_advantages(case_id: str):
    tables.assert_same_advantages(case_id, ADVANTAGES[variant_of(case_id)])


@pytest.mark.parametrize("case_id", GROUP_OF_ONE_IDS)
def test_a_group_of_one_is_refused(case_id: str):
    """The libraries disagree here: the reward itself, 0, or NaN. None of them is an advantage."""
    rewards = golden.arrays()["in/single/rewards"]
    assert golden.group_size("single") == 1
    with pytest.raises(ValueError, match="group of one"):
        ADVANTAGES[variant_of(case_id)](rewards, 1)


@pytest.mark.parametrize("case_id", ids(KLS))
def test_kl_estimates(case_id: str):
    tables.assert_same_kl(case_id, KLS[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(PENALTIES))
def test_penalties_of_overlong_responses(case_id: str):
    tables.assert_same_penalties(case_id, PENALTIES[variant_of(case_id)])


@pytest.mark.parametrize("case_id", ids(FILTERS))
def test_groups_that_are_kept(case_id: str):
    tables.assert_same_groups(case_id, FILTERS[variant_of(case_id)])


# --- Nothing is left out unsaid


def test_every_variant_is_covered_or_named():
    covered = [*LOSSES, *{**WEIGHTS, **REJECTIONS}, *ADVANTAGES, *KLS, *PENALTIES, *FILTERS, *DIVERGENCES, *NOT_COVERED]
    assert sorted(covered) == sorted({variant_of(case_id) for case_id in golden.manifest()})


def test_number_of_cases():
    def per_peer(case_ids: list[str]) -> dict[str, int]:
        return dict(Counter(case_id.split("/")[0] for case_id in case_ids))

    losses = {"verl": 117, "trl": 91, "openrlhf": 33, "slime": 37, "oat": 30, "stable_rl": 50, "trl_dppo": 8}
    assert per_peer(ids(LOSSES)) == losses
    assert per_peer(ids(WEIGHTS)) == {"verl": 18, "slime": 12}
    assert per_peer(ids(REJECTIONS)) == {"verl": 39, "slime": 2}  # slime's two are among its weights too
    assert per_peer(ids(DIVERGENCES)) == {"stable_rl": 1}
    assert per_peer(ADVANTAGE_IDS) == {"verl": 15, "trl": 9, "openrlhf": 9, "r1zero": 6, "slime": 6}
    assert per_peer(GROUP_OF_ONE_IDS) == {"verl": 5, "trl": 3, "openrlhf": 2, "r1zero": 2, "slime": 1}
    assert per_peer(ids(KLS)) == {"verl": 18, "openrlhf": 9, "slime": 24}
    assert per_peer(ids(PENALTIES)) == {"verl": 1, "trl": 1, "openrlhf": 1}
    assert per_peer(ids(FILTERS)) == {"verl": 1, "openrlhf": 1, "slime": 1}
    assert len(golden.manifest()) == 560
    assert len(ids(NOT_COVERED)) == 9


# Settings of the manifest that say which function was run or that were switched off, not a number of ours
STRUCTURE = {"rollout_correction", "global_batch_info", "calculate_per_token_loss", "custom_tis", "use_tis"}
STRUCTURE |= {"policy_loss_type", "advantage_estimator", "enable_vllm_is_correction", "vllm_is_correction_type"}
STRUCTURE |= {"use_vllm", "vllm_importance_sampling_correction"}
UNUSED = {"stable_rl/pg_no_mask": {"clip_ratio_low", "clip_ratio_high"}}  # handed over, and not read


@pytest.mark.parametrize("case_id", ids(LOSSES))
def test_the_table_holds_the_peers_settings(case_id: str):
    loss = LOSSES[variant_of(case_id)]
    theirs = golden.manifest()[case_id]["hyperparameters"]
    theirs = theirs | theirs.get("global_batch_info", {})
    ours = comparison.settings(case_id.split("/")[0], loss)
    for name, value in theirs.items():
        if name in ("loss_agg_mode", "loss_type", "critic_type"):
            if variant_of(case_id) != "verl/bypass_pg_seq_tis":  # a sum over tokens of what is the same at each
                assert loss.choices.aggregation is comparison.AGGREGATIONS[value]
        elif name in ("max_completion_length", "generate_max_length"):
            assert loss.choices.aggregation is not constant or ours[name] == value
        elif name == "global_batch_size":
            assert loss.choices.divide_by == "all" and value == len(golden.mask_of(batch_of(case_id)))
        elif name not in STRUCTURE | UNUSED.get(variant_of(case_id), set()):
            assert ours[name] == value, name


# --- Clip fractions

CLIP_FRACTIONS = {
    "trl/dapo@extreme": ("clip_ratio/region_mean",),
    "trl/grpo@stale": ("clip_ratio/region_mean",),
    "openrlhf/ppo_token@extreme": ("clip_ratio",),
    # verl counts what the dual clip holds back apart
    "verl/vanilla_default@extreme": ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"),
    "verl/bypass_ppo_clip@stale": ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"),
    # Stable-RL divides by the tokens with an advantage, as we do
    **{
        f"stable_rl/{name}@{batch}": ("actor/pg_clipfrac",)
        for name in ("ppo", "ppo_recompute", "dppo_binary_tv", "dppo_binary_kl", "dppo_binary_kl_recompute")
        for batch in ("mild", "extreme", "stale", "toolmask")
    },
}


@pytest.mark.parametrize("case_id", CLIP_FRACTIONS)
def test_the_no_gradient_fraction_is_the_peers_clip_fraction(case_id: str):
    loss = LOSSES[variant_of(case_id)]
    proximal = loss.choices.needs_proximal
    batch = comparison.batch(comparison.batch_arrays(batch_of(case_id), loss.behavior, proximal))
    # the other libraries divide by all tokens, we by those with an advantage
    active = float((batch.mask & (batch.token_advantages != 0)).sum() / batch.mask.sum())
    active = 1.0 if case_id.startswith("stable_rl") else active
    expected = sum(golden.manifest()[case_id]["metrics"][name] for name in CLIP_FRACTIONS[case_id])
    np.testing.assert_allclose(comparison.no_gradient(loss.choices, batch) * active, expected, rtol=1e-6)
