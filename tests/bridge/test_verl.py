"""Recipes in verl's registries: in a stand-in with verl's signatures, and in verl itself where it is installed."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.bridge.verl import register
from rlnotes.estimators.baselines import group_mean_std
from rlnotes.objectives import (
    DECOUPLED_PPO,
    DR_GRPO,
    GRPO,
    PPO_CLIP,
    RECIPES,
    SAPO,
    TRM,
    Batch,
    Choices,
    KLPenalty,
    policy_loss,
)
from rlnotes.objectives.aggregations import constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Clip
from rlnotes.objectives.masks import not_truncated
from rlnotes.objectives.recipes_in_libraries import DIFFERENCES
from rlnotes.objectives.shaping import OverlongPenalty


def stand_in() -> ModuleType:
    """The two registries of verl 0.9.1, and how its functions put into them and take out."""
    module = ModuleType("verl.trainer.ppo.core_algos")
    losses: dict[str, Callable] = dict(bypass_mode=lambda **_: None, vanilla=lambda **_: None)
    advantages: dict[str, Callable] = dict(gae=lambda **_: None)

    def register_in(registry: dict[str, Callable], again: bool) -> Callable:
        def under(name: str) -> Callable:
            def decorator(function: Callable) -> Callable:
                if name in registry and registry[name] != function and not again:
                    raise ValueError(f"{name} has already been registered")
                registry[name] = function
                return function

            return decorator

        return under

    module.__dict__.update(
        POLICY_LOSS_REGISTRY=losses,
        ADV_ESTIMATOR_REGISTRY=advantages,
        register_policy_loss=register_in(losses, again=True),
        register_adv_est=register_in(advantages, again=False),
        get_policy_loss_fn=losses.__getitem__,
        get_adv_estimator_fn=advantages.__getitem__,
    )
    return module


VERL = importlib.util.find_spec("verl") is not None


@pytest.fixture(params=["stand-in", "verl"] if VERL else ["stand-in"])
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What is registered in a test is gone after it."""
    if request.param == "stand-in":
        made = stand_in()
        for name in ("verl", "verl.trainer"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "verl.trainer.ppo", package := ModuleType("verl.trainer.ppo"))
        package.__dict__.update(core_algos=made)
        monkeypatch.setitem(sys.modules, "verl.trainer.ppo.core_algos", made)
        yield made
        return
    real = importlib.import_module("verl.trainer.ppo.core_algos")
    registries = real.POLICY_LOSS_REGISTRY, real.ADV_ESTIMATOR_REGISTRY
    before = [dict(registry) for registry in registries]
    yield real
    for registry, old in zip(registries, before, strict=True):
        registry.clear()
        registry.update(old)


def tensors(n: int = 6, length: int = 5) -> dict[str, Tensor]:
    """What verl hands to a loss."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(length) < (torch.arange(n) % length + 1)[:, None]
    old = -torch.rand(n, length, generator=generator, dtype=torch.float64) - 0.1
    log_prob = old + 0.3 * torch.randn(n, length, generator=generator, dtype=torch.float64)
    advantages = torch.randn(n, 1, generator=generator, dtype=torch.float64).expand(n, length) * mask
    return dict(old_log_prob=old, log_prob=log_prob.requires_grad_(), advantages=advantages, response_mask=mask)


def sizes(**given: Any) -> Any:
    return SimpleNamespace(global_batch_info=given)


def called(core: Any, name: str, **given: Any) -> Any:
    loss, _ = core.get_policy_loss_fn(name)(**given)
    return loss


@pytest.mark.parametrize(("old", "field"), [("proximal", "logp_proximal"), ("behavior", "logp_behavior")])
def test_the_old_policy_is_the_one_that_was_named(core: Any, old: Any, field: str):
    recipe = replace(GRPO, anchor=old)
    register("mine", recipe, old)
    given = tensors()
    named: dict[str, Any] = {field: given["old_log_prob"]}
    expected = policy_loss(recipe, Batch(given["log_prob"], given["response_mask"], given["advantages"], **named))
    loss = called(core, "mine", **given)
    torch.testing.assert_close(loss, expected)
    gradients = (torch.autograd.grad(one, given["log_prob"])[0] for one in (loss, expected))
    torch.testing.assert_close(*gradients)


POSSIBLE = {name for name in DIFFERENCES if name not in ("dapo", "dppo_topk_tv", "dppo_topk_kl")}
BOTH = {"minirl", "minirl_tis", "decoupled_ppo", "method_1", "method_2"}  # pi_k and mu


@pytest.mark.parametrize("name", sorted(DIFFERENCES))  # the recipes of the papers
def test_a_recipe_registers_or_says_what_it_lacks(core: Any, name: str):
    if name in POSSIBLE - BOTH:
        register("mine", name)
        assert called(core, "mine", **tensors()).isfinite()
        return
    said = "verl's losses are given no more" if name != "dapo" else "set algorithm.filter_groups"
    with pytest.raises(ValueError, match=said):
        register("mine", name)
    assert "mine" not in core.POLICY_LOSS_REGISTRY


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
@pytest.mark.parametrize("name", sorted(POSSIBLE - BOTH))
def test_parts_on_several_processes_add_up_to_the_whole(
    core: Any, name: str, aggregation: Any, parts: int, processes: int
):
    """verl adds up the parts of a process and takes the mean over processes. A part is as wide as its longest."""
    recipe = replace(RECIPES[name], aggregation=aggregation)
    register("mine", recipe)
    given = tensors(n=8)
    mask = given["response_mask"]
    all_sizes = dict(dp_size=processes, global_batch_size=8, batch_num_tokens=mask.sum(), loss_scale_factor=9)
    total = torch.zeros((), dtype=torch.float64)
    for rows in torch.arange(8).tensor_split(parts):
        longest = int(mask[rows].sum(-1).max())
        part = {name: value[rows, :longest] for name, value in given.items()}
        total = total + called(core, "mine", **part, config=sizes(**all_sizes)) / processes
    whole = called(core, "mine", **given, config=sizes(loss_scale_factor=9))
    torch.testing.assert_close(total, whole)
    gradients = (torch.autograd.grad(loss, given["log_prob"])[0] for loss in (total, whole))
    torch.testing.assert_close(*gradients)


def test_a_response_without_tokens_counts_and_has_no_loss(core: Any):
    """verl's rejection masks leave such responses."""
    register("mine", replace(PPO_CLIP, aggregation=response_sum))
    given = tensors()
    empty = given["response_mask"].clone()
    empty[2] = False
    all_sizes = sizes(global_batch_size=6, batch_num_tokens=100)
    without = given | dict(response_mask=empty)
    part = {name: value[[2]] for name, value in given.items()}
    expected = called(core, "mine", **given, config=all_sizes) - called(core, "mine", **part, config=all_sizes)
    torch.testing.assert_close(called(core, "mine", **without, config=all_sizes), expected)
    nothing = called(core, "mine", **without | dict(response_mask=torch.zeros_like(empty)))
    assert nothing.item() == 0
    assert nothing.requires_grad


def test_t_max_is_verls_scale_factor(core: Any):
    register("mine", DR_GRPO)
    given = tensors()
    narrow, wide = (called(core, "mine", **given, config=sizes(loss_scale_factor=t)) for t in (5, 50))
    torch.testing.assert_close(narrow, 10 * wide)
    with pytest.raises(ValueError, match=r"actor\.loss_scale_factor to data\.max_response_length"):
        called(core, "mine", **given, config=sizes(global_batch_size=12, batch_num_tokens=40, loss_scale_factor=None))


def test_the_metric_is_the_share_of_closed_gates(core: Any):
    register("mine", replace(GRPO, gate=Clip(0.0, 0.0)))
    given = tensors()
    _, metrics = core.get_policy_loss_fn("mine")(**given)
    moved = ((given["log_prob"] - given["old_log_prob"]).sign() == given["advantages"].sign())[given["response_mask"]]
    assert metrics == {"actor/no_gradient": pytest.approx(moved.double().mean().item())}


def test_a_recorded_behaviour_policy_comes_by_verls_bypass_mode(core: Any):
    before = core.get_policy_loss_fn("bypass_mode")
    register("first", "trm")
    assert core.get_policy_loss_fn("bypass_mode") is before
    register("second", "trm", old="behavior")
    assert core.get_policy_loss_fn("bypass_mode") is core.get_policy_loss_fn("second")


def test_the_advantage_is_the_recipes_whatever_the_order_of_the_responses(core: Any):
    register("mine", "sapo")
    rewards = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(6, 4)
    advantages, returns = core.get_adv_estimator_fn("mine")(
        token_level_rewards=rewards, response_mask=mask, index=np.array(["b", "a", "b", "a", "a", "b"]), config=None
    )
    sums = rewards.sum(-1)
    b, a = group_mean_std(sums[[0, 2, 5]], 3), group_mean_std(sums[[1, 3, 4]], 3)
    expected = torch.stack([b[0], a[0], b[1], a[1], a[2], b[2]])
    torch.testing.assert_close(advantages, expected[:, None] * mask)
    assert returns is advantages
    with pytest.raises(ValueError, match=r"groups of \[2, 4\] responses"):
        core.get_adv_estimator_fn("mine")(token_level_rewards=rewards, response_mask=mask, index=list("aabbbb"))


@pytest.mark.parametrize(
    ("recipe", "old", "said"),
    [
        ("gppo", "proximal", "unknown recipe 'gppo'"),
        ("grpo", "current", "old is 'current'; choose"),
        (replace(GRPO, kl=KLPenalty(0.1)), "proximal", "set actor.use_kl_loss or algorithm.use_kl_in_reward"),
        (replace(GRPO, entropy=0.1), "proximal", r"replace\(recipe, entropy=0.0\) and set actor.entropy_coeff"),
        (replace(GRPO, overlong=OverlongPenalty(8, 4)), "proximal", "overlong_buffer"),
        (replace(TRM, divide_by="kept"), "proximal", "computes its losses on parts"),
        (replace(GRPO, keep=not_truncated), "proximal", "truncated is missing"),
        (DECOUPLED_PPO, "proximal", "logp_proximal is missing"),
        (SAPO, "behavior", "name is 'vanilla', which verl knows already"),
    ],
)
def test_what_verl_does_not_hand_over_is_an_error(core: Any, recipe: str | Choices, old: Any, said: str):
    with pytest.raises(ValueError, match=said):
        register("vanilla", recipe, old)


def test_what_is_wrong_in_a_call_is_an_error(core: Any):
    register("mine", "grpo")
    loss = partial(core.get_policy_loss_fn("mine"), **tensors())
    with pytest.raises(ValueError, match="rollout_is=null"):
        loss(rollout_is_weights=torch.ones(6, 5))
    with pytest.raises(ValueError, match="dp_size above 1"):
        loss(config=sizes(dp_size=2, global_batch_size=12))


@pytest.mark.parametrize(("mode", "aggregation"), [("token-mean", token_mean), ("seq-mean-token-sum", response_sum)])
def test_verls_own_ppo_is_the_same_where_it_does_the_same(mode: str, aggregation: Any):
    """The whole way: its configuration, its sizes, its loss; with the dual clip that it always has."""
    real = pytest.importorskip("verl.trainer.ppo.core_algos")
    from verl.workers.config import FSDPActorConfig  # pyright: ignore[reportMissingImports]

    register("mine", Choices(anchor="proximal", gate=Clip(0.2, 0.28, dual=3.0), aggregation=aggregation))
    config = FSDPActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=2, clip_ratio_low=0.2, clip_ratio_high=0.28
    )
    config.global_batch_info.update(dp_size=2, batch_num_tokens=40, global_batch_size=12, loss_scale_factor=None)
    given = tensors()
    theirs, ours = (called(real, name, **given, loss_agg_mode=mode, config=config) for name in ("vanilla", "mine"))
    torch.testing.assert_close(ours, theirs)
    gradients = (torch.autograd.grad(loss, given["log_prob"])[0] for loss in (ours, theirs))
    torch.testing.assert_close(*gradients)
    for registry in (real.POLICY_LOSS_REGISTRY, real.ADV_ESTIMATOR_REGISTRY):
        registry.pop("mine")
