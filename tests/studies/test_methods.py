"""One registry: every method has one name, and every name one meaning."""

from collections import defaultdict
from dataclasses import replace

import pytest

from rlnotes.objectives import PG_IS, RECIPES
from rlnotes.studies.comparisons import COMPARISONS
from rlnotes.studies.methods import METHODS, VARIANTS
from rlnotes.studies.tables import METHOD_NAMES, canonical

ROLES = ("unclipped", "unmasked")  # what pg_is is beside a clip, or a mask, that is in question


def test_no_method_has_two_names():
    names = defaultdict(list)
    for name, choices in METHODS.items():
        names[repr(choices)].append(name)
    assert [own for own in names.values() if len(own) > 1] == []
    assert not RECIPES.keys() & VARIANTS.keys()


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_differ_from_pg_is_in_mask_and_cap_alone(name: str):
    assert replace(VARIANTS[name], keep=None, gate=PG_IS.gate) == PG_IS


def test_older_names_are_names_of_the_registry():
    assert {*METHOD_NAMES.values()} - METHODS.keys() == {*ROLES}
    assert canonical("mask 0.5, A > 0, stale 3e-4") == "positive_mask, stale 3e-4"
    assert canonical("mask 0.5 at pi_k, int4 1e-4") == "negative_mask at pi_k, int4 1e-4"
    assert canonical("dppo-kl C5, experts 1e-4") == "dppo_kl C5, experts 1e-4"
    assert canonical("dppo once") == "dppo_tv once"
    assert canonical("dppokl 1e-4") == "dppokl 1e-4" and canonical("grpo, token mean") == "grpo, token mean"
    assert canonical("token", known=["token"]) == "token"
    for name in METHODS:
        assert canonical(name) == name


TOLD = {repr(choices): name for name, choices in METHODS.items()}


# in chapter 12 conditions are compared; in 08_ramble one part of GRPO after the other is changed
@pytest.mark.parametrize("name", [name for name in COMPARISONS if not name.startswith(("12", "08_ramble"))])
def test_a_method_has_its_own_name_in_every_table(name: str):
    for method, one in COMPARISONS[name].methods.items():
        if own := TOLD.get(repr(one.choices)):
            assert method.startswith((own, *ROLES)), own
