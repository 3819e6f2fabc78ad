"""Inputs at the edge: each recipe has a stated result or a clear error, and never NaN."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlnotes.objectives import GRPO, RECIPES, Batch, policy_loss
from rlnotes.objectives.aggregations import Totals, constant, response_mean, response_sum, token_mean
from rlnotes.objectives.gates import Cap, Clip, Soft, SoftOneSided, no_gate
from rlnotes.objectives.ratios import sequence, sequence_mean, token
from rlnotes.objectives.recipes_trust_region import TRUST_REGION_RECIPES
from tests.objectives.batches import loss_and_gradient, tensors

E30 = math.exp(30)
# the weight before A grad log pi where pi is e^30 times as likely as mu and pi_k, and A < 0: as the module says
PULL = dict(vanilla_pg=1.0, rloo=1.0, sapo=0.0, cispo=3.0, minirl_tis=3.0, token_tis=2.0, seq_tis=2.0)
PULL |= dict(token_mis=0.0, seq_mis=0.0, geo_mis=0.0)
PULL |= dict.fromkeys(("ppo_clip", "grpo", "dr_grpo", "dapo", "gspo", "pg_is", "minirl", "decoupled_ppo"), E30)
PULL |= dict.fromkeys(("sapo_one_sided", "stale_ppo", "method_1", "method_2", "sequence_is"), E30)
PULL |= dict.fromkeys(("trm_max", "trm_avg", "trm", "dppo_symmetric"), 0.0)
PULL |= dict.fromkeys(("trm_one_sided", "dppo_tv", "dppo_kl", "dppo_topk_tv", "dppo_topk_kl"), E30)
PULL |= dict.fromkeys(("negative_mask", "relax_both"), E30)


def one_token(log_ratio: float, advantage: float, dtype: torch.dtype = torch.float64, proximal: float | None = None):
    """A response of one token. ``log_ratio`` is log pi - log mu; ``proximal`` is log pi_k - log mu."""
    given = dict(logp=min(log_ratio, 0.0) - 2**-6, logp_behavior=-max(log_ratio, 0.0) - 2**-6)
    given["logp_proximal"] = given["logp_behavior"] + (proximal or 0.0)
    given["divergence"] = abs(math.exp(given["logp"]) - math.exp(given["logp_behavior"]))
    made = {name: torch.tensor([[value]], dtype=dtype) for name, value in given.items()}
    return made | dict(mask=torch.ones(1, 1, dtype=torch.bool), advantages=torch.tensor([advantage], dtype=dtype))


def pull(name: str, log_ratio: float, advantage: float, proximal: float | None = None) -> float:
    """The gradient of the objective by log pi, over A."""
    _, gradient = loss_and_gradient(RECIPES[name], one_token(log_ratio, advantage, proximal=proximal))
    return float(-gradient[0, 0] / advantage)


@pytest.mark.parametrize("name", PULL)
def test_a_token_that_became_e30_times_as_likely_and_should_not_have(name: str):
    np.testing.assert_allclose(pull(name, 30.0, -1.0), PULL[name], rtol=1e-12)
    value, _ = loss_and_gradient(RECIPES[name], one_token(30.0, -1.0))
    assert math.isfinite(value)


@pytest.mark.parametrize("name", TRUST_REGION_RECIPES)
def test_a_likely_token_that_is_all_but_gone_is_pushed_no_further(name: str):
    """The other column of the trust regions' table: e^-30 times as likely, and A < 0."""
    assert pull(name, -30.0, -1.0) == 0
    np.testing.assert_allclose(pull("pg_is", -30.0, -1.0), 1 / E30)


def test_what_bounds_the_pull():
    """The remarks of the table: the dual clip, and the bounded weight of decoupled PPO where mu alone is far off."""
    _, gradient = loss_and_gradient(replace(GRPO, gate=Clip(dual=3.0)), one_token(30.0, -1.0))
    assert gradient[0, 0] == 0
    assert pull("decoupled_ppo", 30.0, -1.0, proximal=30.0) == 2.0
    np.testing.assert_allclose(pull("minirl", 30.0, -1.0, proximal=30.0), E30)
    # Method 2's weight and ratio make pi / mu between them, wherever pi_k is
    np.testing.assert_allclose(pull("method_2", 30.0, -1.0, proximal=15.0), E30)
    np.testing.assert_allclose(pull("method_2", 30.0, -1.0, proximal=30.0), E30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("advantage", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("log_ratio", [-1e4, -800.0, -120.0, 120.0, 800.0, 1e4])
@pytest.mark.parametrize("name", RECIPES)
def test_no_log_ratio_makes_a_nan(name: str, log_ratio: float, advantage: float, dtype: torch.dtype):
    """exp overflows at 89 in float32 and at 710 in float64. The ratio stays finite, and so do value and gradient."""
    value, gradient = loss_and_gradient(RECIPES[name], one_token(log_ratio, advantage, dtype))
    assert math.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("log_ratio", [-1e4, -800.0, -120.0, -1.0, 0.0, 1.0, 120.0, 800.0, 1e4])
@pytest.mark.parametrize("ratio", [token, sequence, sequence_mean])
def test_the_cap_holds_at_every_log_ratio(ratio, log_ratio: float, dtype: torch.dtype):
    choices = replace(GRPO, ratio=ratio, gate=Cap(low=0.5, high=3.0))
    for advantage in (2.0, -2.0):
        value, gradient = loss_and_gradient(choices, one_token(log_ratio, advantage, dtype))
        expected = -advantage * min(max(math.exp(min(log_ratio, 10.0)), 0.5), 3.0)
        np.testing.assert_allclose([value, gradient[0, 0]], expected, rtol=1e-6)


@pytest.mark.parametrize("name", RECIPES)
def test_a_log_probability_that_is_not_finite_is_an_error(name: str):
    for bad in (-math.inf, math.nan):
        for field in ("logp", "logp_behavior", "logp_proximal"):
            made = one_token(0.0, 1.0) | {field: torch.tensor([[bad]], dtype=torch.float64)}
            with pytest.raises(ValueError, match=rf"{field} is (nan|-inf) at \[0, 0\], under the mask"):
                loss_and_gradient(RECIPES[name], made)


def test_logits_that_are_all_minus_infinity_are_an_error():
    logp = torch.full((1, 1, 4), -torch.inf).log_softmax(-1)[..., 0]
    with pytest.raises(ValueError, match="logp is nan"):
        Batch(logp, torch.ones(1, 1, dtype=torch.bool), torch.zeros(1), torch.zeros(1, 1))


@pytest.mark.parametrize("name", RECIPES)
def test_equal_rewards_leave_the_policy_alone(name: str):
    """0.1 seven times in float32, whose mean is not 0.1: advantages of exactly 0, and so is the gradient."""
    choices = RECIPES[name]
    advantages = choices.advantage(torch.full((7,), 0.1), 7)
    if name == "vanilla_pg":  # has no baseline: the only recipe that is pushed
        assert advantages.tolist() == torch.full((7,), 0.1).tolist()
        return
    assert advantages.tolist() == [0.0] * 7
    made = tensors(responses=7) | dict(advantages=advantages.double())
    value, gradient = loss_and_gradient(choices, made)
    assert value == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("name", RECIPES)
def test_a_group_of_one_is_an_error(name: str):
    with pytest.raises(ValueError, match="a group of one has no other response to be compared with"):
        RECIPES[name].advantage(torch.ones(3), 1)


@pytest.mark.parametrize("name", RECIPES)
def test_an_empty_mask_is_an_error(name: str):
    made = tensors()
    made["mask"][3] = False
    with pytest.raises(ValueError, match="mask is empty in row 3"):
        loss_and_gradient(RECIPES[name], made)


@pytest.mark.parametrize("divide_by", ["all", "kept"])
@pytest.mark.parametrize("aggregation", [response_mean, constant, token_mean, response_sum])
def test_a_mask_that_keeps_nothing_leaves_the_policy_alone(aggregation, divide_by):
    choices = replace(GRPO, aggregation=aggregation, divide_by=divide_by, keep=lambda batch: batch.advantages > 1e9)
    value, gradient = loss_and_gradient(choices, tensors())
    assert value == 0
    assert (gradient == 0).all()


def test_totals_of_nothing_divide_by_one():
    assert Totals.of(torch.zeros(2, 3)) == Totals(1, 1, 3)
    assert Totals.of(torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 0]])) == Totals(2, 3, 3)


@pytest.mark.parametrize("gate", [no_gate, Clip(), Clip(dual=3.0), Cap(high=3.0), Soft(), SoftOneSided()])
def test_a_long_response_overflows_no_product(gate):
    """2000 tokens, each twice as likely as before: the ratio of the response is 2^2000."""
    shape = (1, 2000)
    for sign in (1.0, -1.0):
        made = dict(
            logp=torch.full(shape, -1.0),
            logp_behavior=torch.full(shape, -1.0 - sign * math.log(2)),
            mask=torch.ones(shape, dtype=torch.bool),
            advantages=torch.tensor([-1.0]),
        )
        value, gradient = loss_and_gradient(replace(GRPO, ratio=sequence, gate=gate), made)
        assert math.isfinite(value)
        assert np.isfinite(gradient).all()


def test_a_loss_in_bfloat16_is_finite():
    made = {key: value.bfloat16() if value.is_floating_point() else value for key, value in tensors().items()}
    for choices in RECIPES.values():
        assert math.isfinite(float(policy_loss(choices, Batch(**made))))
