"""The loops of chapter 04 reach their thresholds on five of five seeds, and show what the chapter says of them."""

from copy import deepcopy

import gymnasium
import numpy as np
import pytest
import torch

from rlnotes.bounds import cpi as bounds
from rlnotes.bounds.token_closed_forms import coupling_chain
from rlnotes.control import cpi
from rlnotes.exact.gymnasium_mdp import from_gymnasium
from rlnotes.exact.mdp import expected_return, optimal_policy, values
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_prompt, every_response, expected_reward
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import ShortReverse
from rlnotes.lm.trainer import Trainer

SEEDS = pytest.mark.parametrize("seed", range(5))
ENV = gymnasium.make("FrozenLake-v1", max_episode_steps=1000)
LAKE = from_gymnasium(ENV, gamma=0.9)
ANYHOW = np.full((16, 4), 0.25)
BEST = float(LAKE.start @ optimal_policy(LAKE)[1].v)


def look_by_walks(seed: int, own_judges: bool = False):
    rng = np.random.default_rng(seed)

    def look(pi: np.ndarray) -> cpi.Look:
        choosers = cpi.counted(ENV, pi, LAKE.gamma, 200, rng)
        judges = choosers if own_judges else cpi.counted(ENV, pi, LAKE.gamma, 200, rng)
        return cpi.look_at(choosers, judges, pi)

    return look


@pytest.mark.parametrize("size", [bounds.step_size, bounds.kakade_langford_step_size])
def test_chapter_04_exact_steps_keep_their_promises_and_nearly_reach_the_best(size):
    updates = list(cpi.iterate(LAKE, ANYHOW, 2000, lambda pi: cpi.look_at(LAKE, LAKE, pi), size))
    assert all(update.true >= update.promised > 0 for update in updates)
    goal, after = (0.065 if size is bounds.kakade_langford_step_size else 0.064), updates[-1].J
    assert after >= goal
    assert updates[999].J < 0.25 * BEST
    assert all(1.9 < update.true / update.promised < 2.1 for update in updates)


@SEEDS
def test_chapter_04_small_steps_planned_on_walks_learn_where_full_steps_get_stuck(seed: int):
    tenths = list(cpi.iterate(LAKE, ANYHOW, 50, look_by_walks(seed), lambda _, g, __: 0.1 if g > 1e-12 else 0.0))
    full = list(cpi.iterate(LAKE, ANYHOW, 50, look_by_walks(seed), lambda *_: 1.0))
    assert tenths[-1].J >= 0.04
    assert pytest.approx(full[0].J) == full[-1].J and full[-1].J < tenths[-1].J - 0.003
    assert all(update.promised < 0 for update in tenths if update.alpha > 0)
    assert 5 <= sum(update.alpha == 0 for update in tenths) <= 25


@SEEDS
def test_chapter_04_promises_from_estimates_are_kept_more_often_if_others_judge(seed: int):
    kept, praise = [], []
    for own in (False, True):
        size = bounds.kakade_langford_step_size
        updates = list(cpi.iterate(LAKE, ANYHOW, 20, look_by_walks(seed, own), size))
        kept.append(sum(update.promised <= update.true for update in updates))
        praise.append(np.mean([update.look.g for update in updates]) / np.mean([update.g for update in updates]))
        after = updates[-1].J
        assert after < expected_return(LAKE, ANYHOW) + 0.0002
    assert 12 <= kept[0] < 20 and kept[1] < min(kept[0], 13)
    assert 0.6 < praise[0] < 1.5 and praise[1] > 1.8


@SEEDS
def test_chapter_04_a_mixture_of_two_transformers_keeps_its_promise(seed: int):
    task = ShortReverse()
    trainer = Trainer(TrainConfig(prompts=16, group_size=8, warm_start="train", seed=seed), task=task)
    list(trainer.run(0))
    old = deepcopy(trainer.model)
    list(trainer.run(60))
    responses = every_response(task, every_prompt(task))
    reward, mask = task.reward(responses).double(), responses.mask
    with torch.no_grad():
        p_old, p_new = (token_logp(model, responses).double().exp() for model in (old, trainer.model))
        ends = [float(expected_reward(model, task, responses)) for model in (old, trainer.model)]

    def J(alpha: float) -> float:
        token = torch.where(mask, (1 - alpha) * p_old + alpha * p_new, 1.0)
        return float((token.prod(-1) * reward).sum() / len(responses.prompts))

    assert [J(0), J(1)] == pytest.approx(ends, abs=1e-5)
    g = (J(1e-6) - J(0)) / 1e-6
    right = reward > 0
    assert mask[right].all()
    finish = p_old[right].flip(-1).cumprod(-1).flip(-1)
    epsilon = float(((p_new / p_old - 1)[right] * finish).abs().max())
    alphas = np.linspace(0, 1, 201)
    promise = alphas * g - epsilon * coupling_chain(responses.tokens.shape[1], alphas)
    true = np.array([J(float(alpha)) for alpha in alphas]) - J(0)
    assert (true >= promise - 1e-9).all()
    best = int(promise.argmax())
    assert 0.02 < alphas[best] < 0.2 and promise[best] > 0.005
    assert true[-1] > 5 * true[best]


def test_chapter_04_an_action_that_was_never_tried_is_never_chosen():
    """The counted process lets it stay and pay nothing, so its advantage is -(1 - gamma) V(s), a loss."""
    rng = np.random.default_rng(0)
    first = cpi.counted(ENV, ANYHOW, 0.9, 200, rng)
    pi = cpi.look_at(first, first, ANYHOW).other
    seen = cpi.counted(ENV, pi, 0.9, 200, rng)
    found = values(seen, pi)
    untried = (seen.P[np.arange(16), :, np.arange(16)] == 1) & (seen.r == 0)
    assert untried.sum() > 40
    np.testing.assert_allclose(found.a[untried], (-0.1 * found.v[:, None] * np.ones(4))[untried], atol=1e-12)
    assert (cpi.greedy(found.a, pi) == pi).all()
