"""A number that means nothing is refused by name before anything is made."""

from dataclasses import dataclass
from math import inf, nan

import pytest

from rlnotes.control.a2c import A2CConfig
from rlnotes.control.a3c import A3CConfig
from rlnotes.control.ppo import PPOConfig
from rlnotes.control.reinforce import ReinforceConfig
from rlnotes.control.trpo import TRPOConfig
from rlnotes.lm.token_ppo import TokenPPOConfig
from rlnotes.settings import positive, within


@dataclass
class Some:
    a: float = 0.5


@pytest.mark.parametrize("value", [-0.1, 1.1, nan, inf, -inf])
def test_within_refuses_what_is_outside(value):
    with pytest.raises(ValueError, match=rf"a is {value}; it must be in \[0, 1\]"):
        within(Some(value), 0, "a", most=1)


@pytest.mark.parametrize("value", [0, 1])
def test_within_takes_its_ends(value):
    within(Some(value), 0, "a", most=1)


@pytest.mark.parametrize("value", [-1, nan, inf])
def test_no_largest_number_is_no_leave_for_infinity(value):
    with pytest.raises(ValueError, match=f"a is {value}; it must be at least 0 and finite"):
        within(Some(value), 0, "a")


@pytest.mark.parametrize("value", [0, -1, nan, inf])
def test_positive_refuses_zero_and_what_is_not_finite(value):
    with pytest.raises(ValueError, match=f"a is {value}; it must be positive and finite"):
        positive(Some(value), "a")


@pytest.mark.parametrize("name, value", [("updates", 0), ("gamma", 1.01), ("seed", -1), ("learning_rate", nan)])
@pytest.mark.parametrize("config", [A2CConfig, A3CConfig, PPOConfig, ReinforceConfig, TRPOConfig])
def test_every_loop_has_the_checks_of_all(config, name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        config(**{name: value})


@pytest.mark.parametrize(
    "config, name, value",
    [
        *[(config, name, 0) for config in (A2CConfig, A3CConfig, PPOConfig, TRPOConfig) for name in ("envs", "steps")],
        *[(config, "lam", -0.1) for config in (A2CConfig, A3CConfig, PPOConfig, TRPOConfig, TokenPPOConfig)],
        (A2CConfig, "gradient_clip", 0),
        (A2CConfig, "value_coefficient", -1),
        (PPOConfig, "epochs", 0),
        (PPOConfig, "value_clip", -1),
        (PPOConfig, "clip", -0.1),
        (PPOConfig, "gradient_clip", 0),
        (TRPOConfig, "delta", 0),
        (TRPOConfig, "damping", -1),
        (TRPOConfig, "cg_iterations", 0),
        (TRPOConfig, "value_epochs", -1),
        (ReinforceConfig, "episodes", 0),
        (ReinforceConfig, "value_epochs", -1),
        (TokenPPOConfig, "minibatches", 0),
        (TokenPPOConfig, "learning_rate", 0),
        (TokenPPOConfig, "seed", -1),
    ],
)
def test_a_loop_refuses_what_means_nothing_to_it(config, name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        config(**{name: value})
