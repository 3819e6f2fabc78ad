"""Numbers that explorers and exercises repeat, since they work without torch, are those of the recipes."""

import pytest

import rlnotes.chapters.c15.explorers as explorers15
import rlnotes.chapters.c16.exercises as exercises16
import rlnotes.chapters.c16.explorers as explorers16
import rlnotes.chapters.c18.explorers as explorers18
from rlnotes.bridge.settings import find_recipe
from rlnotes.objectives import RECIPES, RELAX_BOTH
from rlnotes.objectives.gates import Cap
from rlnotes.objectives.masks import DivergenceMask
from rlnotes.objectives.one_sided import OneSided, Relaxed
from rlnotes.studies.methods import CLIP_HIGHER


def limit(name: str) -> float:
    """As the bridge finds it by the recipe's name."""
    keep = find_recipe(name).keep
    mask = keep.mask if isinstance(keep, OneSided) else keep
    assert isinstance(mask, DivergenceMask)
    return mask.delta


def test_clips_and_caps():
    assert RELAX_BOTH.keep == Relaxed(CLIP_HIGHER, 0.1, "both")
    clip = CLIP_HIGHER.epsilon_low, CLIP_HIGHER.epsilon_high
    for chapter in (explorers15, explorers16, exercises16):
        assert clip == (chapter.LOW, chapter.HIGH)
    assert pytest.approx((1 - clip[0], 1 + clip[1])) == explorers18.CLIP
    for cap in (explorers16.CAP, exercises16.CAP):
        assert RECIPES["cispo"].gate == RECIPES["minirl_tis"].gate == Cap(high=cap)


def test_limits_on_divergences():
    assert explorers15.LIMIT == explorers16.TV == explorers18.DPPO == limit("dppo_tv")
    assert (limit("dppo_kl"), limit("negative_mask")) == (explorers16.KL, explorers16.BAD)
    assert limit("trm_max") == explorers18.TRM
