"""Each token is written by the version that the record names, versions follow their law, none is lost on the way."""

from copy import deepcopy
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mixtures import Mixture, occupancy, step_kernel
from rlnotes.lm.behavior import Behavior, VersionMixture, mixture_of
from rlnotes.lm.config import ModelConfig, TrainConfig, preset_config
from rlnotes.lm.experts import Routes
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.versions import Snapshots
from tests.cases import cases

SMALL = TrainConfig(prompts=4, group_size=4, steps=6, epochs=2, minibatches=2)  # four updates a step
LAGS, ALPHA = (0, 3, 7), (0.5, 0.2, 0.3)
KERNEL = step_kernel(np.full(3, 0.4), np.tile(ALPHA, (3, 1)))
VERSION = 10  # of the newest weights; the lags reach 10, 7 and 3


def versions(model: Transformer) -> tuple[Snapshots, dict[int, Transformer]]:
    """``model`` as version 10, behind others that are clearly different, and all of them as copies of our own."""
    generator = torch.Generator().manual_seed(5)
    past, own = Snapshots(max(LAGS)), {}
    for version in (3, 7):
        old = deepcopy(model)
        with torch.no_grad():
            for weight in old.parameters():
                weight += 0.05 * torch.empty_like(weight).normal_(generator=generator)
        past.remember(version, old)
        own[version] = deepcopy(old)
    return past, own | {VERSION: deepcopy(model)}


def sampled(model: Transformer, behavior: Behavior, seed: int = 0, **changes) -> Rollout:
    generator = torch.Generator().manual_seed(3)
    prompts = torch.randint(1, 24, (4, 9), generator=generator)
    sampler = Sampler(9, eos=0, behavior=behavior, transform=changes.pop("transform", SamplingTransform()))
    return sampler.sample(model, prompts, 64, torch.Generator().manual_seed(seed), VERSION, **changes)


def equal(a: Rollout, b: Rollout, but: tuple[str, ...] = ()) -> bool:
    pairs = {own.name: (getattr(a, own.name), getattr(b, own.name)) for own in fields(Rollout) if own.name not in but}
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in pairs.values())


# --- who wrote what


@pytest.mark.parametrize("kernel", [None, KERNEL], ids=["trajectory", "step"])
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
def test_the_recorded_log_probability_is_that_of_the_version_in_the_record(model, kernel, weights, padded):
    """Scored without any cache; a writer that had looked at another's keys and values would be found out."""
    past, own = versions(model)
    prompt_mask = None
    if padded:
        prompt_mask = torch.ones(4, 9, dtype=torch.bool)
        prompt_mask[1, :3] = False
    behavior = Behavior(weights, mixture=VersionMixture(LAGS, ALPHA, kernel))
    rollout = sampled(
        model, behavior, past=past, prompt_mask=prompt_mask, transform=SamplingTransform(temperature=0.7, top_k=20)
    )
    assert set(rollout.version[rollout.mask].tolist()) == {3, 7, 10}
    changes = (rollout.version[:, 1:] != rollout.version[:, :-1]).any()
    assert bool(changes) == (kernel is not None)
    with torch.no_grad():
        for version, its in own.items():
            off = (token_logp(Behavior(weights).rollout_model(its), rollout) - rollout.logp_behavior).abs()
            written = rollout.version == version
            assert off[rollout.mask & written].max() < 1e-5
            assert off[rollout.mask & ~written].median() > 1e-3


def test_only_versions_in_use_run(model, monkeypatch):
    past, _ = versions(model)
    ran = []
    monkeypatch.setattr(Behavior, "rollout_model", lambda self, model: ran.append(model) or model)
    sampled(model, Behavior(mixture=VersionMixture(LAGS, (0.0, 0.0, 1.0))), past=past)
    assert ran == [past.model_of(3)]
    ran.clear()
    sampled(model, Behavior(mixture=VersionMixture((8, 7, 100), (0.3, 0.3, 0.4))), past=past)
    assert ran == [past.model_of(3)]  # three lags, one version


def test_one_lag_of_zero_is_no_mixture_bit_for_bit(model):
    plain = sampled(model, Behavior())
    zero = sampled(model, Behavior(mixture=VersionMixture((0,), (1.0,))))
    assert equal(plain, zero, but=("behavior",))


def test_a_kernel_that_never_moves_is_the_trajectory_level_bit_for_bit(model):
    past, _ = versions(model)
    fixed = sampled(model, Behavior(mixture=VersionMixture(LAGS, ALPHA)), past=past)
    still = sampled(model, Behavior(mixture=VersionMixture(LAGS, ALPHA, np.eye(3))), past=past)
    moving = sampled(model, Behavior(mixture=VersionMixture(LAGS, ALPHA, KERNEL)), past=past)
    assert equal(fixed, still, but=("behavior",))
    assert not torch.equal(fixed.version, moving.version)


# --- the law of the index


def test_first_indices_follow_alpha_and_moves_follow_the_kernel():
    """A kernel with nothing in common with alpha, with zeros, and not symmetric."""
    kernel = np.array([[0.1, 0.9, 0.0], [0.0, 0.3, 0.7], [0.6, 0.0, 0.4]])
    indices = VersionMixture(LAGS, ALPHA, kernel).indices(4000, 12, torch.Generator().manual_seed(1)).numpy()
    first = np.bincount(indices[:, 0], minlength=3)
    assert stats.chisquare(first, 4000 * np.array(ALPHA)).pvalue > 1e-3
    moves = np.zeros((3, 3))
    np.add.at(moves, (indices[:, :-1].ravel(), indices[:, 1:].ravel()), 1)
    assert (moves[kernel == 0] == 0).all()
    for row, chances in zip(moves, kernel, strict=True):
        possible = chances > 0
        assert stats.chisquare(row[possible], row.sum() * chances[possible]).pvalue > 1e-3
        wrong = np.full(possible.sum(), 1 / possible.sum())
        assert stats.chisquare(row[possible], row.sum() * wrong).pvalue < 1e-3


@pytest.mark.parametrize("kernel", [None, KERNEL, np.roll(np.eye(3), 1, 1)], ids=["trajectory", "step", "in turn"])
def test_shares_of_versions_are_the_exact_occupancy(kernel):
    """Discounted, on a process with one state, where only the index moves."""
    gamma, n = 0.8, 4000
    exact = Mixture(np.ones((3, 1, 1)), np.array(ALPHA), np.eye(3) if kernel is None else kernel)
    process = MDP(P=np.ones((1, 1, 1)), r=np.zeros((1, 1)), start=np.ones(1), gamma=gamma)
    expected = occupancy(process, exact)[0]
    indices = VersionMixture(LAGS, ALPHA, kernel).indices(n, 60, torch.Generator().manual_seed(2)).numpy()
    weights = (1 - gamma) * gamma ** np.arange(60)
    for i in range(3):
        shares = ((indices == i) * weights).sum(-1)
        assert abs(shares.mean() - expected[i]) < 4 * shares.std() / np.sqrt(n) + gamma**60
    assert ((indices == 0) * weights).sum(-1).std() > 0.05  # drawn, one by one


def test_a_chance_of_zero_is_never_drawn_and_one_always():
    generator = torch.Generator().manual_seed(0)
    kernel = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    indices = VersionMixture(LAGS, (1.0, 0.0, 0.0), kernel).indices(500, 5, generator)
    assert (indices == torch.tensor([0, 1, 2, 1, 2])).all()


def test_switch_draws_the_lag_anew_from_the_weights():
    mixture = mixture_of(replace(SMALL, lags=[2, 0], lag_weights=[3, 1], switch=0.2))
    assert mixture is not None and mixture.kernel is not None
    assert mixture.lags == (2, 0) and mixture.alpha == (0.75, 0.25)
    np.testing.assert_allclose(mixture.kernel, [[0.8 + 0.15, 0.05], [0.15, 0.8 + 0.05]], atol=1e-15)
    assert mixture_of(replace(SMALL, lags=(2, 0))) == VersionMixture((2, 0), (0.5, 0.5))
    assert mixture_of(SMALL) is None
    assert len({mixture, mixture_of(replace(SMALL, lags=(2, 0), lag_weights=(6, 2), switch=0.2))}) == 1


# --- snapshots


@given(
    longest=st.integers(0, 12),
    steps=st.lists(st.integers(0, 5), min_size=1, max_size=12),
    asked=st.lists(st.integers(0, 12), min_size=1, max_size=4),
)
@settings(derandomize=True, deadline=None, max_examples=cases())
def test_what_is_forgotten_is_what_no_lag_can_reach(longest, steps, asked):
    """Against a memory of everything, at every step and for every lag up to the longest. And nothing more is kept."""
    past, everything, version = Snapshots(longest), [], 0
    tiny = Transformer(ModelConfig(2, 2, 4, 1, 1))
    for gap in steps:
        version += gap
        with torch.no_grad():
            tiny.head.weight.fill_(float(version))
        past.remember(version, tiny)
        everything.append(version)
        for lag in {min(lag, longest) for lag in asked} | {longest}:
            older = [kept for kept in everything if kept <= version - lag]
            expected = max(older) if older else everything[0]
            assert past.version_of(version - lag) == expected
            assert past.model_of(version - lag).head.weight[0, 0] == expected
        assert min(past.models) == past.version_of(version - longest)


def test_a_snapshot_is_a_copy_that_is_not_trained(model):
    past = Snapshots(0)
    past.remember(4, model)
    before = model.head.weight.clone()
    with torch.no_grad():
        model.head.weight += 1
    assert torch.equal(past.model_of(4).head.weight, before)
    assert not any(weight.requires_grad for weight in past.model_of(4).parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VersionMixture((), ()), "lags is empty; name at least one version"),
        (lambda: VersionMixture((0, -1), (0.5, 0.5)), r"lags\[1\] is -1; a lag is a whole number of updates"),
        (lambda: VersionMixture((0.5,), (1.0,)), r"lags\[0\] is 0.5; a lag is a whole number"),  # type: ignore[arg-type]
        (lambda: VersionMixture((0, 1), (0.5, 0.6)), "alpha sums to 1.1"),
        (lambda: VersionMixture((0, 1), (1.0,)), r"alpha has shape \(1,\); shape \(2\) is needed"),
        (lambda: VersionMixture((0, 1), (0.5, 0.5), [[1, 0], [0.5, 0.4]]), r"kernel\[1\] sums to 0.9"),
        (lambda: Snapshots(-1), "longest is -1"),
        (lambda: Snapshots(3).model_of(0), "no version is kept; call remember"),
        (lambda: replace(SMALL, lags=(-4,)), r"lags\[0\] is -4"),
        (lambda: replace(SMALL, lags=(4,), lag_weights=(1, 1)), "lag_weights has 2 entries, lags 1"),
        (lambda: replace(SMALL, lag_weights=(1,)), "lag_weights has 1 entries, lags 0"),
        (lambda: replace(SMALL, lags=(0, 4), lag_weights=(1, 0)), r"lag_weights\[1\] is 0; it must be in"),
        (lambda: replace(SMALL, lags=(0, 4), switch=1.5), "switch is 1.5; it must be in"),
        (lambda: replace(SMALL, lags=(4,), switch=0.5), "switch is 0.5 and lags is .*; name at least two"),
    ],
)
def test_impossible_mixtures_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_old_weights_that_nobody_kept_are_asked_for(model):
    with pytest.raises(ValueError, match=r"lags \(4,\) and no past weights; pass past=Snapshots"):
        sampled(model, Behavior(mixture=VersionMixture((4,), (1.0,))))
    past = Snapshots(4)
    past.remember(4, model)
    with pytest.raises(ValueError, match="version 3 comes after version 4"):
        past.remember(3, model)


def test_experts_in_the_record_are_those_of_the_version_that_wrote():
    """Routes of a mixture of experts, read off again by each version over the whole text."""
    model = Transformer(preset_config("moe-top1", 24, 18))
    with torch.no_grad():
        model.head.weight.mul_(20)
    past, own = versions(model)
    rollout = sampled(model, Behavior(mixture=VersionMixture(LAGS, ALPHA, KERNEL)), past=past)
    assert rollout.experts is not None
    text = torch.cat([rollout.prompts.repeat_interleave(64, 0), rollout.tokens[:, :-1]], 1)
    for version, its in own.items():
        routes = Routes()
        with torch.no_grad():
            its.hidden(text, torch.arange(text.shape[1]), routes=routes)
        taken = routes.take()
        assert taken is not None
        agree = (taken[:, 8:] == rollout.experts).all(-1).all(-1)
        written = rollout.version == version
        assert agree[rollout.mask & written].float().mean() > 0.999  # rounding may turn a tie
        assert agree[rollout.mask & ~written].float().mean() < 0.9
