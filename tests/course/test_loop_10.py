"""The loops of chapter 10 reach their threshold on three of three seeds, and show what the chapter says of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import root_scalar

from rlnotes.exact import token_gradients, tokens
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.trainer import Trainer
from rlnotes.objectives import GRPO, SAPO, Batch, Choices, policy_loss
from rlnotes.objectives.gates import Cap, Clip, Gate, Soft, no_gate
from rlnotes.studies import load_table, paired_interval

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
CLIP, SHARP = Clip(0.2, 0.2), Soft(10.0, 10.5)


def config(task: str, seed: int) -> TrainConfig:
    return TrainConfig(task=task, size=8, seed=seed, epochs=4, minibatches=4, learning_rate=3e-4)


def push(gate: Gate, ratio: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    log_ratio = torch.from_numpy(np.log(ratio)).requires_grad_()
    term = gate(log_ratio.exp(), torch.from_numpy(np.array(np.broadcast_to(advantage, ratio.shape))))
    return torch.autograd.grad(term.sum(), log_ratio)[0].numpy()


@SEEDS
def test_chapter_10_sapo_learns_reverse_from_ten_rollouts(seed: int):
    trainer = Trainer(config("reverse", seed), choices=SAPO)
    assert trainer.evaluate(1024) < 0.45
    rows = list(trainer.run(10))
    assert trainer.evaluate(1024) >= 0.85
    assert all(row["loss"] < -0.02 for row in rows)


@SEEDS
def test_chapter_10_sapo_loses_sort_where_grpo_keeps_it(seed: int):
    ended = {}
    for choices in (SAPO, GRPO):
        trainer = Trainer(config("sort", seed), choices=choices)
        start = trainer.evaluate(512)
        list(trainer.run(10))
        ended[choices] = trainer.evaluate(512)
    assert ended[SAPO] < 0.35 < start < ended[GRPO]


def after_one_rollout(choices: Choices) -> tuple[np.ndarray, np.ndarray]:
    """Ratios and advantages of the tokens that teach, after 16 updates."""
    trainer = Trainer(TrainConfig(task="sort", size=8, seed=0))
    rollout = trainer.sample(prompts=32, group_size=16, split="train")
    advantages = choices.advantage(trainer.task.reward(rollout), 16)
    optimizer = torch.optim.AdamW(trainer.model.parameters(), weight_decay=0.0)
    for update in range(16):
        rows = torch.arange(32).chunk(4)[update % 4]
        part, own = rollout.groups(rows), advantages.view(32, 16)[rows].flatten()
        batch = Batch(token_logp(trainer.model, part), part.mask, own, part.logp_behavior)
        optimizer.param_groups[0]["lr"] = 3e-4 * min(1, (update + 1) / 10)
        optimizer.zero_grad()
        policy_loss(choices, batch).backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        ratio = (token_logp(trainer.model, rollout) - rollout.logp_behavior).exp()
    taught = rollout.mask & (advantages != 0)[:, None]
    return ratio[taught].double().numpy(), advantages[:, None].expand_as(ratio)[taught].double().numpy()


def test_chapter_10_after_sixteen_updates_the_usual_gate_has_hardly_closed():
    wrong_way = {}
    for gate in (CLIP, Soft(), SHARP):
        ratio, advantage = after_one_rollout(replace(GRPO, gate=gate))
        wrong_way[gate] = float(((abs(ratio - 1) > 0.2) & ((ratio - 1) * advantage < 0)).mean())
        if gate == Soft():
            assert (push(gate, ratio, advantage) / (ratio * advantage)).mean() > 0.98
            assert (push(CLIP, ratio, advantage) == 0).mean() > 0.05
    assert wrong_way[CLIP] < wrong_way[Soft()] < wrong_way[SHARP]


def test_chapter_10_the_bias_of_four_gates_on_a_model_that_can_be_listed():
    rng = np.random.default_rng(0)
    model = tokens.single_prompt((rng.random(81) < 0.3).astype(float), 3, 4)
    logits = [rng.normal(size=(1, 3**t, 3)) for t in range(4)]
    mu = token_gradients.softmax_policy(model, logits)
    uphill = token_gradients.reward_gradient(model, mu)
    largest = np.abs(token_gradients.flat(uphill)).max()
    pi = token_gradients.softmax_policy(model, [z + d / largest for z, d in zip(logits, uphill, strict=True)])
    true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
    ratios, advantage = tokens.token_ratios(model, pi, mu), model.reward - tokens.expected_reward(model, mu)
    mean, bias = {}, {}
    for gate in (no_gate, CLIP, Soft(), SHARP, Cap(high=3.0)):
        weights = push(gate, ratios, advantage[..., None])
        mean[gate] = token_gradients.flat(token_gradients.mean_gradient(model, pi, mu, weights))
        bias[gate] = np.linalg.norm(mean[gate] - true) / np.linalg.norm(true)
    assert bias[no_gate] < bias[Soft()] < 1.1 * bias[no_gate] < bias[SHARP] < 1 < bias[CLIP]
    assert bias[Cap(high=3.0)] == pytest.approx(bias[no_gate], rel=1e-2)
    assert mean[CLIP] @ true < 0 < mean[Soft()] @ true


@pytest.mark.parametrize("seed", range(1, 9))
def test_chapter_10_the_clip_is_more_biased_than_no_gate_on_other_models(seed: int):
    rng = np.random.default_rng(seed)
    model = tokens.single_prompt((rng.random(81) < 0.3).astype(float), 3, 4)
    logits = [rng.normal(size=(1, 3**t, 3)) for t in range(4)]
    mu = token_gradients.softmax_policy(model, logits)
    advantage = (model.reward - tokens.expected_reward(model, mu))[..., None]
    uphill = token_gradients.reward_gradient(model, mu)
    random = [rng.normal(size=rows.shape) for rows in logits]

    def moved(way, step: float):
        pi = token_gradients.softmax_policy(model, [z + step * d for z, d in zip(logits, way, strict=True)])
        ratios = tokens.token_ratios(model, pi, mu)
        return pi, ratios, (tokens.sequence_probs(model, mu)[..., None] * abs(ratios - 1)).sum() / 4

    for way, distance in product((uphill, random), (0.1, 0.2)):
        step = root_scalar(lambda x, way=way, distance=distance: moved(way, x)[2] - distance, bracket=(0, 100)).root
        pi, ratios, _ = moved(way, step)
        true = token_gradients.flat(token_gradients.reward_gradient(model, pi))
        bias = {}
        for gate in (no_gate, CLIP, Soft()):
            mean = token_gradients.mean_gradient(model, pi, mu, push(gate, ratios, advantage))
            bias[gate] = np.linalg.norm(token_gradients.flat(mean) - true)
        assert bias[CLIP] > 1.1 * max(bias[no_gate], bias[Soft()])


def test_chapter_10_what_the_stored_comparison_shows():
    evidence = load_table("10_sapo")
    last = {name: evidence.last(name, "accuracy") for name in evidence.rows}

    def difference(a: str, b: str, rate: str):
        return paired_interval(last[f"{a} {rate}"], last[f"{b} {rate}"])

    for name in ("grpo", "no gate", "sapo-10"):
        assert difference("sapo", name, "3e-5").low <= 0 <= difference("sapo", name, "3e-5").high
    for rate in ("1e-4", "3e-4"):
        assert difference("sapo", "grpo", rate).high < -0.1
        assert difference("sapo-10", "grpo", rate).high < 0
        assert difference("sapo", "no gate", rate).low <= 0 <= difference("sapo", "no gate", rate).high
        assert difference("sapo-10", "sapo", rate).low <= 0
    for name in ("grpo", "no gate", "sapo", "sapo-10"):
        medians = {rate: np.median(last[f"{name} {rate}"]) for rate in ("3e-5", "1e-4", "3e-4")}
        assert max(medians, key=lambda rate: medians[rate]) == "1e-4"
        assert (medians["3e-4"] < 0.05) == (name != "grpo")
    assert (last["sapo 1e-4"] < 0.43).sum() == 1
