"""A mixture of experts in place of a block's network: a linear router sends each token to k of E small networks.

The choice is a step function of the router's logits. A drift of the logits that is too small to see elsewhere moves a
token to another expert where two logits are close, and what comes out jumps: the error of a route is not small.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlnotes.lm.config import ModelConfig


def top_experts(logits: Tensor, k: int) -> Tensor:
    """The k experts (..., k) with the largest router ``logits`` (..., E), the largest first."""
    return logits.topk(k, dim=-1).indices


def gates(logits: Tensor, chosen: Tensor) -> Tensor:
    """Weights (..., k) of the ``chosen`` experts (..., k), differentiable in the router's ``logits`` (..., E).

    Several experts share a weight of 1: a softmax over the chosen (Mixtral). One expert alone would get 1 whatever its
    logit, and the router no gradient; its weight is its probability among all experts (Switch Transformer).
    """
    if chosen.shape[-1] == 1:
        return logits.softmax(-1).gather(-1, chosen)
    return logits.gather(-1, chosen).softmax(-1)


def flips(logits: Tensor, drift: Tensor, k: int) -> Tensor:
    """(...) bool: ``drift`` (..., E), added to ``logits`` (..., E), changes which k experts are chosen.

    That is so exactly if the drifted logit of some expert outside passes that of some expert inside: if
    drift_out - drift_in > logit_in - logit_out for one such pair. A gap between the k-th and the next logit below the
    norm of the drift (001 section 1.2.1) makes that possible and not certain: both may move together, or apart. A
    gap of sqrt(2) times the drift's 2-norm, or of twice its largest entry, rules it out (elementary, derived for this
    course). Two drifted logits that are equal count as not passed. Raises ``ValueError`` for shapes that differ and
    for a ``k`` that is not from 1 to E.
    """
    if logits.shape != drift.shape:
        raise ValueError(f"drift has shape {tuple(drift.shape)}; logits has {tuple(logits.shape)}: give one drift each")
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k is {k}; it must be from 1 to the number of experts, {logits.shape[-1]}")
    inside = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, top_experts(logits, k), True)
    drifted = logits + drift
    weakest_inside = drifted.masked_fill(~inside, torch.inf).amin(-1)
    strongest_outside = drifted.masked_fill(inside, -torch.inf).amax(-1)
    return strongest_outside > weakest_inside


class Routes:
    """The experts of a pass, taken down layer by layer: those it chose, or those that it was told to take again.

    ``replayed`` (N, n, L, k) are such, from another pass (routing replay). Their weights are the pass's own, with
    gradients. A negative number stands where the token does not matter.
    """

    def __init__(self, replayed: Tensor | None = None):
        self.layers: list[Tensor] = []
        self._replayed = None if replayed is None else replayed.clamp(min=0)

    def choose(self, logits: Tensor, k: int) -> Tensor:
        """The k experts (N, n, k) of the next layer, from its router's ``logits`` (N, n, E) or as they were."""
        again = self._replayed
        self.layers.append(top_experts(logits, k) if again is None else again[:, :, len(self.layers)])
        return self.layers[-1]

    def take(self) -> Tensor | None:
        """Hand over what was chosen since the last call, (N, n, L, k): the likeliest of the k first. None if nothing
        was, as in a dense model.
        """
        taken, self.layers = self.layers, []
        return torch.stack(taken, 2) if taken else None


class Expert(nn.Module):
    """One expert: the ReLU network of a dense block."""

    def __init__(self, d: int):
        super().__init__()
        self.up = nn.Linear(d, 4 * d, bias=False)
        self.down = nn.Linear(4 * d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` (m, d) to (m, d)."""
        return self.down(F.relu(self.up(x)))


class Experts(nn.Module):
    """A router and E experts. Each token's output is that of its k experts, weighted by :func:`gates`."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.k = config.experts_per_token
        self.router = nn.Linear(config.d_model, config.experts, bias=False)
        self.experts = nn.ModuleList(Expert(config.d_model) for _ in range(config.experts))

    def forward(self, x: Tensor, routes: Routes | None = None) -> Tensor:
        """``x`` (N, n, d) to (N, n, d). Each expert computes its own tokens only, so the cost is that of k networks."""
        logits = self.router(x)
        chosen = (Routes() if routes is None else routes).choose(logits, self.k)
        weight, chosen, tokens = gates(logits, chosen).flatten(0, 1), chosen.flatten(0, 1), x.flatten(0, 1)
        # a sum is at least float32, though under autocast the networks give bfloat16
        out = torch.zeros_like(tokens, dtype=torch.promote_types(tokens.dtype, torch.float32))
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            share = weight[row, place, None] * expert(tokens[row])
            out = out.index_add(0, row, share.type_as(out))
        return out.view_as(x)
