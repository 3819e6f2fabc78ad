"""The smallest case of chapter 08: four responses to one prompt, three parameters, and every group listed.

The first token is right or wrong. Then the response stops, at 2 tokens with EOS, or goes on to the limit of 8. The
parameters act through sigmoids: on the letter, on going on after a right letter, on going on after a wrong one.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from rlnotes.objectives import Batch, Choices, policy_loss

KINDS = ("right, stops", "right, goes on", "wrong, stops", "wrong, goes on")
LENGTH = torch.tensor([2, 8, 2, 8])
REWARD = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
MASK = torch.arange(8) < LENGTH[:, None]
START = torch.tensor([1 / 3, 1.0, 1.0], dtype=torch.float64).log()  # the letter is right with 1/4, going on has 1/2

Estimate = Callable[[Tensor, Tensor], Tensor]  # the objective of a group, from log-probs (G, 8) and its rows (G,)


def token_logp(theta: Tensor) -> Tensor:
    """Log-probabilities (4, 8) of the tokens of the four responses; fillers are written with probability 1."""
    yes, no = torch.nn.functional.logsigmoid(theta), torch.nn.functional.logsigmoid(-theta)
    logp = torch.zeros(4, 8, dtype=torch.float64)
    logp[:, 0] = torch.stack([yes[0], yes[0], no[0], no[0]])
    logp[:, 1] = torch.stack([no[1], yes[1], no[2], yes[2]])
    return logp


def reward_gradient() -> Tensor:
    """The gradient (3,) of J, exact."""
    theta = START.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(token_logp(theta).sum(1).exp() @ REWARD, theta)
    return gradient


def mean_gradient(estimate: Estimate, size: int = 4) -> Tensor:
    """The mean (3,) of an estimated gradient over all groups of ``size``, each with its probability."""
    probability, total = token_logp(START).sum(1).exp(), torch.zeros(3, dtype=torch.float64)
    for kinds in itertools.combinations_with_replacement(range(4), size):
        orders = math.factorial(size) / math.prod(map(math.factorial, Counter(kinds).values()))
        rows, theta = torch.tensor(kinds), START.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(estimate(token_logp(theta)[rows], rows), theta)
        total += orders * probability[rows].prod() * gradient
    return total


def of_choices(choices: Choices) -> Estimate:
    """The objective of a recipe on groups of this case, as the loss that trains has it."""

    def objective(logp: Tensor, rows: Tensor) -> Tensor:
        advantages = choices.advantage(REWARD[rows], len(rows))
        truncated = LENGTH[rows] == LENGTH.max()
        batch = Batch(logp, MASK[rows], advantages, logp_behavior=logp.detach(), truncated=truncated)
        return -policy_loss(choices, batch)

    return objective
