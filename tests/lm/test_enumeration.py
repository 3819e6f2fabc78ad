"""What is listed is everything, once; and the sums are those of the court for token models."""

import math

import numpy as np
import pytest
import torch

from rlnotes.exact.token_divergences import sequence_kl
from rlnotes.exact.tokens import TokenModel
from rlnotes.exact.tokens import expected_reward as exact_reward
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.enumeration import every_prompt, every_response, expected_reward, response_kl, response_logp
from rlnotes.lm.model import Transformer
from rlnotes.lm.tasks import Reverse, ShortReverse
from rlnotes.lm.trainer import Trainer

TASK = ShortReverse(size=2)
V, T = 5, 3


def model(seed: int) -> Transformer:
    return Trainer(TrainConfig(seed=seed, warm_start="none"), task=TASK).model


def court(transformer: Transformer, prompts: torch.Tensor) -> list[np.ndarray]:
    """The model's next-token probabilities after every prefix, read off one prefix at a time."""
    policy = []
    for t in range(T):
        rows = np.zeros((len(prompts), V**t, V))
        for b, prompt in enumerate(prompts):
            for c in range(V**t):
                prefix = [c // V ** (t - 1 - i) % V for i in range(t)]
                if 0 in prefix:
                    rows[b, c, 0] = 1.0
                    continue
                tokens = torch.cat([prompt, torch.tensor(prefix, dtype=prompt.dtype)])[None]
                with torch.no_grad():
                    rows[b, c] = transformer(tokens)[0, -1].double().softmax(-1).numpy()
        policy.append(rows)
    return policy


def test_sums_over_everything_equal_the_court():
    pi, reference = model(0), model(1)
    prompts = every_prompt(TASK)
    responses = every_response(TASK, prompts)
    answers = TASK.solve(prompts).numpy()
    reward = np.zeros((len(prompts), V**T))
    reward[np.arange(len(prompts)), answers @ V ** np.arange(T - 1, -1, -1)] = 1
    weights = np.full(len(prompts), 1 / len(prompts))
    exact = TokenModel(reward=reward, vocab_size=V, horizon=T, prompt_weights=weights, eos=0)
    with torch.no_grad():
        assert response_logp(pi, responses).exp().sum(-1) == pytest.approx(np.ones(len(prompts)), abs=1e-5)
        assert float(expected_reward(pi, TASK, responses)) == pytest.approx(
            exact_reward(exact, court(pi, prompts)), rel=1e-5
        )
        assert float(response_kl(pi, reference, responses)) == pytest.approx(
            sequence_kl(exact, court(pi, prompts), court(reference, prompts)), rel=1e-4
        )


def test_the_gradient_is_that_of_finite_differences():
    pi = model(0)
    responses = every_response(TASK, every_prompt(TASK))
    weight = pi.get_parameter("head.weight")
    expected_reward(pi, TASK, responses).backward()
    assert weight.grad is not None
    h, place = 1e-2, (3, 1)  # wide, for float32
    values = []
    with torch.no_grad():
        for sign in (1, -1):
            weight[place] += sign * h
            values.append(float(expected_reward(pi, TASK, responses)))
            weight[place] -= sign * h
    assert float(weight.grad[place]) == pytest.approx((values[0] - values[1]) / (2 * h), rel=2e-3)


def test_every_response_stands_there_once():
    responses = every_response(TASK, every_prompt(TASK))
    group = responses.tokens[: responses.group_size]
    assert responses.group_size == 1 + 4 + 16 + 64 == len(torch.unique(group, dim=0))
    assert math.comb(3, 1) ** 2 == len(every_prompt(TASK, "train")) + len(every_prompt(TASK, "heldout"))


def test_too_many_are_refused_before_they_are_listed():
    with pytest.raises(ValueError, match="take fewer prompts"):
        every_response(Reverse(), torch.zeros(1, 9, dtype=torch.long))
