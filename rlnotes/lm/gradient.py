"""The second half of an RL step: the gradient of the loss on some groups, in one piece or in several."""

from collections.abc import Callable, Sequence
from statistics import fmean

import torch
from torch import Tensor

from rlnotes.estimators.divergences import entropy
from rlnotes.lm.clipped import ClippedTokens, bad_updates
from rlnotes.lm.collection import Collection
from rlnotes.lm.config import Metrics, TrainConfig
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import taken
from rlnotes.lm.share import ALONE, Share
from rlnotes.objectives import Batch, Choices, policy_loss
from rlnotes.objectives.aggregations import Totals
from rlnotes.objectives.diagnostics import no_gradient_fraction


def minibatches(config: TrainConfig, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
    """Prompt rows of each update of a pass: all in order on the first one, shuffled by ``generator`` on later ones."""
    prompts = config.prompts
    rows = torch.arange(prompts) if epoch == 0 else torch.randperm(prompts, generator=generator)
    return rows.chunk(config.minibatches)


def add_gradient(
    collected: Collection,
    rows: Tensor,
    choices: Choices,
    log_probs: Callable[[Rollout], Tensor],
    eos: int,
    micro_batches: int = 1,
    look: bool = True,
    clipped: ClippedTokens | None = None,
    share: Share = ALONE,
) -> Metrics:
    """Add the gradient of the loss on the groups of prompts ``rows`` to the model's. Returns what was seen on the way.

    ``log_probs`` gives pi's log-probabilities (N, T, V), with gradients. The groups are taken in ``micro_batches``
    parts, which need less memory and give the gradient of the whole: each part is divided by the sizes of the whole.
    Metrics: ``loss``; ``no_gradient``, the share of tokens with an advantage and no gradient; ``bad_updates``; and, to
    ``look`` at before the first update: ``entropy``, ``ratio_deviation``, ``mismatch`` (see :meth:`Trainer.rl_step`).
    ``clipped`` counts the tokens, if it is given.

    Of several processes each adds the gradient of its ``share`` of the groups, and counts its own tokens; the metrics
    are those of all.
    """
    g = collected.rollout.group_size
    mask = collected.rollout.mask.unflatten(0, (-1, g))[rows]
    size = int(mask.sum())
    totals = Totals(len(rows) * g, size, mask.shape[-1])
    if choices.needs_whole_batch:
        totals = None  # what is kept, or weighs, is known only on the way: the whole is one part, and says itself
    else:
        rows = rows[teaching(choices, collected.advantages.view(-1, g)[rows])]
    rows = share.of(rows)
    sums, seen_first, deviation = torch.zeros(4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), 0.0
    for part in rows.chunk(micro_batches) if len(rows) else ():
        used = collected.groups(part)
        every = log_probs(used.rollout)
        batch, gradient, loss = backward(used, every, choices, totals, eos)
        sums += update_sums(batch, gradient, loss).cpu()
        if clipped is not None:
            clipped.add(used.rollout.tokens, batch, gradient, every)
        if look:
            *looked, largest = first_look(batch, every, batch.mask).tolist()
            seen_first += torch.tensor(looked, dtype=torch.float64)
            deviation = max(deviation, largest)
    *sums, tokens, width, distance = share.total(torch.cat([sums, seen_first])).tolist()
    if not look:
        return update_metrics(sums, size)
    deviation = max(share.parts(torch.tensor(deviation, dtype=torch.float64))).item()
    return update_metrics(sums, size) | look_metrics((tokens, width, distance, deviation))


def backward(
    part: Collection, every: Tensor, choices: Choices, totals: Totals | None, eos: int
) -> tuple[Batch, Tensor, Tensor]:
    """Add the gradient of the loss on ``part`` to the model's. Returns the batch, d loss / d logp (N, T), the loss ().

    ``every`` (N, T, V) are pi's log-probabilities of all tokens, with gradients.
    """
    logp = taken(every, part.rollout.tokens)
    logp.retain_grad()
    loss = policy_loss(choices, batch := batch_of(part, logp, every, choices, totals, eos))
    loss.backward()
    assert logp.grad is not None
    return batch, logp.grad, loss.detach()


def batch_of(part: Collection, logp: Tensor, every: Tensor, choices: Choices, totals: Totals | None, eos: int) -> Batch:
    """What the loss on ``part`` is computed from: ``every`` (N, T, V) as above, and in it ``logp`` (N, T), the tokens'
    own.
    """
    rollout, asked = part.rollout, choices.needs_divergence
    return Batch(
        logp=logp,
        mask=rollout.mask,
        advantages=part.advantages,
        logp_behavior=rollout.logp_behavior,
        logp_proximal=part.proximal,
        logp_reference=part.reference,
        totals=totals,
        entropy=entropy(every) if choices.entropy else None,
        truncated=rollout.truncated(eos),
        divergence=None
        if asked is None
        else asked(every, rollout.tokens, rollout.logp_behavior, rollout.topk_ids, rollout.topk_logp),
    )


def update_sums(batch: Batch, gradient: Tensor, loss: Tensor) -> Tensor:
    """(4,) float64: the loss; how many tokens have an advantage; those of them with no ``gradient``; bad updates."""
    active = (batch.mask & (batch.token_advantages != 0)).sum().double()
    silent = active * no_gradient_fraction(batch, gradient).double()
    return torch.stack([loss.double(), active, silent, bad_updates(batch).double()])


def update_metrics(sums: Sequence[float], size: float) -> Metrics:
    """What is reported of :func:`update_sums` of an update on ``size`` tokens."""
    loss, active, silent, bad = sums
    return dict(loss=loss, no_gradient=silent / max(active, 1), bad_updates=bad / size)


def of_updates(updates: Sequence[Metrics]) -> Metrics:
    """What a step reports of its ``updates``: the last, the first look, and means of what was counted in each."""
    metrics: Metrics = {}
    for seen in updates:
        metrics |= seen
    return metrics | {name: fmean(seen[name] for seen in updates) for name in ("no_gradient", "bad_updates")}


def not_finite(norm: float) -> ValueError:
    """The error of an update whose gradient has no finite ``norm``."""
    return ValueError(f"the gradient norm is {norm}; the weights were left as they were: lower the learning rate")


@torch.no_grad()
def first_look(batch: Batch, every: Tensor, among: Tensor) -> Tensor:
    """(4,) float64 of the tokens ``among`` (N, T) bool: their number, sums of pi's entropy and of abs(pi - mu), and the
    largest abs(pi / mu - 1).
    """
    assert batch.logp_behavior is not None  # the sampler recorded it
    mu, pi = batch.logp_behavior, batch.logp
    of_tokens = torch.stack([entropy(every), (pi.exp() - mu.exp()).abs(), torch.expm1(pi - mu).abs()]).double()
    width, distance, deviation = torch.where(among, of_tokens, 0.0)
    return torch.stack([among.sum().double(), width.sum(), distance.sum(), deviation.amax()])


def look_metrics(looked: Sequence[float]) -> Metrics:
    """What is reported of :func:`first_look`."""
    tokens, width, distance, deviation = looked
    return dict(entropy=width / tokens, ratio_deviation=deviation, mismatch=distance / tokens)


def teaching(choices: Choices, advantages: Tensor) -> Tensor:
    """(b,) bool: groups with a gradient, by their advantages (b, G). The others can be left out.

    That is where an advantage is not 0, or all where a penalty or a bonus in the loss moves any response. One group
    stays in any case: the metrics need something to look at.
    """
    if choices.entropy > 0 or (choices.kl is not None and choices.kl.where == "loss"):
        return torch.ones_like(advantages[:, 0], dtype=torch.bool)
    some = (advantages != 0).any(-1)
    first = torch.arange(len(some), device=some.device) == 0
    return some | (first & ~some.any())
