"""The instrument panel's numbers for the classic loops."""

import pytest
import torch

from rlnotes.control.collector import Collector, Steps, make_envs, make_network
from rlnotes.control.instruments import centred_returns, instruments
from rlnotes.control.settings import ActorCriticConfig

CONFIG = ActorCriticConfig()
READINGS = {"kl", "outside", "promised", "by_returns", "change", "J"}


def network():
    return make_network(make_envs(CONFIG.env, 1, 0), torch.Generator().manual_seed(0))


def pushes(policy, sizes):
    """A run that leans ever more to the second action."""
    for update, size in enumerate(sizes, 1):
        with torch.no_grad():
            policy.policy_net[-1].bias += torch.tensor([0.0, size])
        yield dict(update=float(update))


def test_an_update_that_changes_nothing_reads_nothing():
    policy = network()
    (row,) = instruments(pushes(policy, [0.0]), policy, CONFIG, episodes=4)
    read = {name: row[name] for name in READINGS - {"J"}}
    assert read == pytest.approx(dict.fromkeys(read, 0), abs=1e-5) and read["change"] == 0
    assert row["J"] > 1


def test_each_update_is_read_against_the_one_before_and_on_new_episodes():
    policy = network()
    small, none, large = instruments(pushes(policy, [0.1, 0.0, 3.0]), policy, CONFIG, episodes=16)
    # from even chances p = 1/2: KL of a shift by c is log cosh(c / 2), and both ratios are outside after 3
    assert small["kl"] == pytest.approx(0.1**2 / 8, rel=0.05) and small["outside"] == 0
    assert none["kl"] == none["change"] == none["outside"] == 0
    assert large["kl"] > 0.5 and large["outside"] == 1
    assert large["change"] < -5  # a pole that is always pushed one way falls
    episodes = Collector(make_envs(CONFIG.env, 16, 0), torch.Generator().manual_seed(1), 1).collect_episodes(policy)
    assert large["J"] == pytest.approx(sum(episodes.finished) / 16, abs=2)  # about nine steps, whatever the start


def leaning(size):
    """From even chances, one update towards pushing where the pole leans and turns."""
    policy = network()
    layer = torch.nn.Linear(4, 2)
    policy.policy_net = torch.nn.Sequential(layer)
    for weights in layer.parameters():
        torch.nn.init.zeros_(weights)

    def run():
        with torch.no_grad():
            layer.weight[1] += size * torch.tensor([0.0, 0.0, 1.0, 1.0])
        yield dict(update=1.0)

    return next(instruments(run(), policy, CONFIG))


def test_the_surrogate_by_returns_is_the_slope_of_the_mean_return():
    up, down = leaning(0.2), leaning(-0.2)
    slope = (up["change"] - down["change"]) / 2  # its standard error, of 256 episodes of some 22 steps, is 0.6
    assert up["by_returns"] == pytest.approx(slope, abs=1.2) and slope > 1.5
    assert up["promised"] > 0 > down["promised"]


def test_a_return_is_held_against_those_of_the_episodes_still_on():
    """Two episodes of three steps and of one, each step paid 1; what comes after an end is no part of it."""
    off = torch.tensor([[False, False], [False, True], [False, True]])
    ends = torch.tensor([[False, True], [False, False], [True, False]])
    rows = torch.zeros(3, 2)
    steps = Steps(rows, rows.long(), rows, torch.ones(3, 2), ends, ends & off, ~off, rows, [3.0, 1.0])
    assert centred_returns(steps).tolist() == [3 - 2, 1 - 2, 0, 0]


def test_several_updates_are_read_as_one_and_rows_between_are_passed_on():
    policy = network()
    rows = list(instruments(pushes(policy, [1.5, 1.5]), policy, CONFIG, every=2, episodes=4))
    assert rows[0] == dict(update=1.0) and rows[1].keys() >= READINGS
    assert rows[1]["kl"] == pytest.approx(0.855, rel=0.05)  # log cosh(3 / 2), of both pushes


def test_what_is_no_number_of_updates_or_episodes_is_refused():
    for name in ("every", "episodes"):
        with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
            next(instruments([], network(), CONFIG, **{name: 0}))
