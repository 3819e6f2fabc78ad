"""What comes in float16 or bfloat16 is computed in float32: by every public function of estimators and objectives."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import rlnotes.estimators
import rlnotes.objectives
from rlnotes.estimators import baselines, bucketed, divergences, importance, returns, score_function
from rlnotes.objectives import (
    GRPO,
    RECIPES,
    Batch,
    KLPenalty,
    aggregations,
    gates,
    masks,
    one_sided,
    penalised_rewards,
    policy_loss,
    ratios,
    shaping,
    values,
)
from rlnotes.objectives.rows import RowDivergence
from tests.objectives.batches import tensors

Make = Callable[[Any], Any]  # from numbers to an array of the precision that is tried

REWARDS = [0.0, 0.0, 0.1, 1e-4, 3e4, 2.9e4]
ROW, OTHER = [-20.0, -0.1, -2.5], [-0.9, -0.6, -3.0]
LOG_RATIO = [[12.0, -0.01, 3.1], [-11.0, 0.3, 0.0]]
STEPS = [0.1, 1e-4, 2049.0, -0.3]
ENDED = [False, True, False, False]


def plain(a: Make, found: Any) -> Any:
    """Integers or bool of the library of ``a``."""
    return np.asarray(found) if isinstance(a([0.0]), np.ndarray) else torch.tensor(found)


def batch(a: Make, **more: Any) -> Batch:
    """A random batch, with all that a recipe may read."""
    made = {name: a(value) if value.is_floating_point() else value for name, value in tensors(spread=1.0).items()}
    return Batch(**made | more)


def topk(function: Any) -> Callable[[Make], Any]:
    return lambda a: function(a(ROW), a(OTHER), plain(a, 1), 1)


ESTIMATORS: dict[Any, Callable[[Make], Any]] = {
    **{
        function: lambda a, function=function: function(a(REWARDS), 2)
        for function in (
            baselines.in_groups,
            baselines.no_baseline,
            baselines.group_mean,
            baselines.group_mean_std,
            baselines.group_mean_batch_std,
            baselines.leave_one_out,
        )
    },
    bucketed.binary_tv: lambda a: bucketed.binary_tv(a(ROW), a(OTHER)),
    bucketed.binary_kl: lambda a: bucketed.binary_kl(a(ROW), a(OTHER)),
    bucketed.with_other: lambda a: bucketed.with_other(a(ROW), a(1e-4)),
    bucketed.kept_tokens: lambda a: bucketed.kept_tokens(a(ROW), plain(a, 1), 1),
    **{
        function: topk(function)
        for function in (
            bucketed.topk_tv,
            bucketed.topk_tv_as_printed,
            bucketed.topk_kl,
            bucketed.topk_tv_gap_bound,
        )
    },
    divergences.entropy: lambda a: divergences.entropy(a(ROW)),
    **{
        function: lambda a, function=function: function(a(ROW), a(OTHER))
        for function in (divergences.kl, divergences.tv, divergences.chi2)
    },
    divergences.tv_from_ratios: lambda a: divergences.tv_from_ratios(a(ROW), a(OTHER), a(OTHER[::-1])),
    **{
        function: lambda a, function=function: function(a([1e-4, 3.1, 300.0]))
        for function in (
            divergences.pinsker,
            divergences.bretagnolle_huber,
            divergences.tv_bound_from_chi2,
            divergences.tv_bound_from_chi2_as_printed,
        )
    },
    divergences.tv_estimate: lambda a: divergences.tv_estimate(a(LOG_RATIO), a(LOG_RATIO[::-1])),
    divergences.kl_estimate: lambda a: [divergences.kl_estimate(a(LOG_RATIO), name) for name in ("k1", "k2", "k3")],
    importance.require_support: lambda a: importance.require_support(a(ROW), a(OTHER)),  # e^-20 is 0 in float16
    importance.sampled_log_ratio: lambda a: importance.sampled_log_ratio(a(ROW), a(OTHER)),
    **{
        function: lambda a, function=function: function(a([ROW] * 2), a([OTHER] * 2), a([ROW] * 2) < 0)
        for function in (importance.sequence_log_ratio, importance.sequence_mean_log_ratio)
    },
    importance.monte_carlo: lambda a: importance.monte_carlo(a(REWARDS)),
    importance.importance_weights: lambda a: importance.importance_weights(a(LOG_RATIO[0])),
    importance.importance_sampling: lambda a: importance.importance_sampling(a(LOG_RATIO[0]), a(STEPS[:3])),
    importance.clipped: lambda a: importance.clipped(a(LOG_RATIO[0]), a(STEPS[:3]), 2.0),
    importance.balanced_cap: lambda a: importance.balanced_cap(a(LOG_RATIO[0])),
    importance.self_normalized: lambda a: importance.self_normalized(a(LOG_RATIO[0]), a(STEPS[:3])),
    importance.effective_sample_size: lambda a: importance.effective_sample_size(a(LOG_RATIO[0])),
    importance.expected_effective_sample_size: lambda a: importance.expected_effective_sample_size(5000, a(3.1)),
    returns.discounted_return: lambda a: returns.discounted_return(a(STEPS), 0.99),
    returns.reward_to_go: lambda a: returns.reward_to_go(a(STEPS), 0.99, plain(a, ENDED)),
    returns.discounted_reward_to_go: lambda a: returns.discounted_reward_to_go(a(STEPS), 0.99, plain(a, ENDED)),
    returns.td_target: lambda a: returns.td_target(a(STEPS), a(STEPS[::-1]), plain(a, ENDED), 0.99),
    returns.td_error: lambda a: returns.td_error(a(STEPS), a(STEPS), a(STEPS[::-1]), plain(a, ENDED), 0.99),
    returns.gae: lambda a: returns.gae(
        a(STEPS), a(STEPS), a(STEPS[::-1]), plain(a, ENDED), plain(a, ENDED[::-1]), 0.99, 0.9
    ),
    score_function.score_function: lambda a: score_function.score_function(a(ROW), a(STEPS[:3]), a(STEPS[1:])),
    score_function.softmax_score: lambda a: score_function.softmax_score(a([0.25, 0.25, 0.5]), plain(a, 1)),
    score_function.normalize_advantages: lambda a: score_function.normalize_advantages(a(STEPS)),
    shaping.OverlongPenalty: lambda a: shaping.OverlongPenalty(20, 7)(a([10.0, 14.0, 19.0])),
    shaping.informative: lambda a: [shaping.informative(a(REWARDS), 2, rule) for rule in ("std", "mean")],
}

OWN = torch.tensor([[True, True, True], [True, True, False]])


def gate(made: Any) -> Callable[[Make], Any]:
    return lambda a: made(a(LOG_RATIO), a([[0.1, -0.3, 1.0], [3.0, -1e-4, 0.1]]))


def mask(made: Any) -> Callable[[Make], Any]:
    return lambda a: made(batch(a))


def rows(a: Make) -> Any:
    pi, mu = (torch.tensor([[ROW, OTHER]]).log_softmax(-1) for ROW in (LOG_RATIO[0], LOG_RATIO[1]))
    ids, tokens = mu.argsort(-1, descending=True), torch.tensor([[0, 1]])
    likeliest = a(mu.gather(-1, ids).tolist())
    own = a(mu.gather(-1, tokens[..., None])[..., 0].tolist())
    return [RowDivergence(kind, 1)(a(pi.tolist()), tokens, own, ids, likeliest) for kind in ("tv", "kl")]


OBJECTIVES: dict[Any, Callable[[Make], Any]] = {
    **{
        function: lambda a, function=function: function(a(np.ones((2, 2049))), aggregations.Totals(2, 3000, 2049))
        for function in (
            aggregations.response_mean,
            aggregations.constant,
            aggregations.token_mean,
            aggregations.response_sum,
        )
    },
    **{
        function: lambda a, function=function: function(a(LOG_RATIO), OWN)
        for function in (ratios.token, ratios.sequence, ratios.sequence_mean)
    },
    gates.no_gate: gate(gates.no_gate),
    gates.Clip: gate(gates.Clip(dual=3.0)),
    gates.ClipAround: lambda a: gate(gates.ClipAround().around(a(LOG_RATIO[::-1])))(a),
    gates.Cap: gate(gates.Cap(high=2.0)),
    gates.Soft: gate(gates.Soft()),
    gates.SoftOneSided: gate(gates.SoftOneSided()),
    gates.Correction: lambda a: [
        gates.Correction(normalised=True)(a(LOG_RATIO), OWN),
        gates.Correction().mean(a(LOG_RATIO), OWN),
    ],
    masks.OffPolicyMask: mask(masks.OffPolicyMask(0.1)),
    masks.MismatchBand: mask(masks.MismatchBand(0.5, 2.0)),
    masks.DivergenceMask: mask(masks.DivergenceMask(0.5, "k3", "sum")),
    masks.veto: mask(masks.veto(0.5)),
    masks.Every: mask(masks.Every((masks.ClipMask(), masks.StalenessFilter(0.5)))),
    masks.StalenessFilter: mask(masks.StalenessFilter(0.5, "response")),
    masks.ClipMask: mask(masks.ClipMask()),
    masks.ProximalMask: mask(masks.ProximalMask()),
    one_sided.OneSided: mask(one_sided.OneSided(masks.DivergenceMask(0.05, "binary_tv", "token"))),
    one_sided.Relaxed: mask(one_sided.Relaxed(masks.ClipMask())),
    RowDivergence: rows,
    penalised_rewards: lambda a: penalised_rewards(
        KLPenalty(0.1, "k3", where="reward"), a([1.0, 0.1]), a(LOG_RATIO), OWN
    ),
    policy_loss: lambda a: policy_loss(replace(GRPO, kl=KLPenalty(0.1), entropy=0.1), batch(a)),
    values.clipped_value_loss: lambda a: values.clipped_value_loss(a(STEPS), a(STEPS[::-1]), a([1.0] * 4), 0.3),
}

WITHOUT_NUMBERS = {
    "rlnotes.estimators.checks": "it looks at arrays and computes none",
    "rlnotes.estimators.exponents": "its argument is wide by then",
    "rlnotes.objectives.natural_gradient": "its vectors are those of the parameters",
    "rlnotes.objectives.recipes_in_libraries": "it computes nothing",
    "Estimate, Totals, Batch, Choices, KLPenalty": "data",
    "Gate": "a protocol",
    "per_token, not_truncated": "of bool alone",
    "active, no_gradient_fraction": "they compare with 0",
    "log_probs, where_possible": "of exact arrays, and a choice of values",
    "pass_at_k": "of whole numbers",
}


def public() -> Iterator[Any]:
    """Functions and classes of the two rooms."""
    exempt = {name for names in WITHOUT_NUMBERS for name in names.split(", ")}
    for room in (rlnotes.estimators, rlnotes.objectives):
        for found in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
            module = import_module(found.name)
            for name, thing in vars(module).items():
                own = getattr(thing, "__module__", None) == module.__name__
                asked = own and not name.startswith("_") and not {name, module.__name__} & exempt
                if asked and (inspect.isfunction(thing) or inspect.isclass(thing)):
                    yield thing


def test_every_public_function_is_tried():
    assert set(public()) <= {*ESTIMATORS, *OBJECTIVES}


def numbers(found: Any) -> list[Any]:
    """What a function returned, one by one."""
    return [*found] if isinstance(found, tuple | list) else [found]


def same(function: Callable[[Make], Any], half: Make, wide: Make) -> None:
    for ours, expected in zip(numbers(function(half)), numbers(function(wide)), strict=True):
        assert getattr(ours, "dtype", None) == getattr(expected, "dtype", None)
        assert "float16" not in str(getattr(ours, "dtype", None))
        np.testing.assert_array_equal(ours, expected)


def name_of(thing: Any) -> str | None:
    return getattr(thing, "__name__", None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("thing", [*ESTIMATORS, *OBJECTIVES], ids=name_of)
def test_it_is_what_float32_makes_of_the_same_numbers(thing: Any, dtype: torch.dtype):
    def half(numbers: Any) -> torch.Tensor:
        return torch.as_tensor(numbers).to(dtype)

    same((ESTIMATORS | OBJECTIVES)[thing], half, lambda numbers: half(numbers).float())


@pytest.mark.parametrize("thing", ESTIMATORS, ids=name_of)
def test_numpys_float16_too(thing: Any):
    def half(numbers: Any) -> Any:
        return np.asarray(numbers, np.float16)

    same(ESTIMATORS[thing], half, lambda numbers: half(numbers).astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_in_value_and_gradient(name: str, dtype: torch.dtype):
    given = {key: value.to(dtype) if value.is_floating_point() else value for key, value in tensors().items()}
    found = []
    for wide in (False, True):
        made = {key: value.float() if wide and value.is_floating_point() else value for key, value in given.items()}
        logp = made["logp"].requires_grad_()
        loss = policy_loss(RECIPES[name], Batch(**made | dict(logp=logp)))
        assert loss.dtype == torch.float32
        found.append((loss, torch.autograd.grad(loss, logp)[0].to(dtype)))
    assert torch.equal(*(loss for loss, _ in found))
    assert torch.equal(*(gradient for _, gradient in found))


def test_equal_rewards_have_no_advantage_and_a_ratio_is_not_cut_at_22():
    assert baselines.group_mean_std(torch.zeros(4, dtype=torch.float16), 4).tolist() == [0, 0, 0, 0]
    ratio = ratios.token(torch.tensor([[9.0]], dtype=torch.float16), torch.ones(1, 1) > 0)
    assert ratio.item() == pytest.approx(np.exp(9.0), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_longer_floats_keep_their_precision(dtype: type):
    assert baselines.group_mean_std(np.array([0, 1], dtype), 2).dtype == dtype
    assert divergences.kl_estimate(np.array([0.5], dtype), "k3").dtype == dtype
