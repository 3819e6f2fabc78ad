"""The instrument panel's numbers for the classic loops."""

import pytest
import torch

from rlnotes.control.collector import Collector, make_envs, make_network
from rlnotes.control.instruments import instruments
from rlnotes.control.settings import ActorCriticConfig

CONFIG = ActorCriticConfig()
READINGS = {"kl", "outside", "promised", "change", "J"}


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
    assert {name: row[name] for name in READINGS - {"J"}} == dict(kl=0, outside=0, promised=0, change=0)
    assert row["J"] > 1


def test_each_update_is_read_against_the_one_before_and_on_new_episodes():
    policy = network()
    small, none, large = instruments(pushes(policy, [0.1, 0.0, 3.0]), policy, CONFIG, episodes=16)
    # from even chances p = 1/2: KL of a shift by c is log cosh(c / 2), and both ratios are outside after 3
    assert small["kl"] == pytest.approx(0.1**2 / 8, rel=0.05) and small["outside"] == 0
    assert none["kl"] == none["change"] == none["promised"] == 0
    assert large["kl"] > 0.5 and large["outside"] == 1
    assert large["promised"] < 0 and large["change"] < -5  # a pole that is always pushed one way falls
    episodes = Collector(make_envs(CONFIG.env, 16, 0), torch.Generator().manual_seed(1), 1).collect_episodes(policy)
    assert large["J"] == pytest.approx(sum(episodes.finished) / 16, abs=2)  # about nine steps, whatever the start


def test_updates_between_are_passed_on_unread_and_the_reading_is_of_one_update():
    policy = network()
    rows = list(instruments(pushes(policy, [3.0, 0.1]), policy, CONFIG, every=2, episodes=4))
    assert rows[0] == dict(update=1.0) and rows[1].keys() >= READINGS
    assert rows[1]["kl"] < 0.01  # of the second push alone
    with pytest.raises(ValueError, match="every is 0; it must be at least 1"):
        next(instruments([], policy, CONFIG, every=0))
    with pytest.raises(ValueError, match="n is 0; at least one environment"):
        next(instruments([], policy, CONFIG, episodes=0))
