"""The second half of an RL step: the gradient of the loss on some groups, in one piece or in several."""

from collections.abc import Callable, Sequence

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
    elif not _moves_without_advantage(choices):
        rows = rows[_teaching(collected.advantages.view(-1, g)[rows])]
    rows = share.of(rows)
    asked = choices.needs_divergence
    loss = tokens = active = silent = bad = width = distance = deviation = 0.0
    for part in rows.chunk(micro_batches) if len(rows) else ():
        used = collected.rollout.groups(part)
        member = (part[:, None] * g + torch.arange(g, device=part.device)).reshape(-1)
        every = log_probs(used)
        batch = Batch(
            logp=taken(every, used.tokens),
            mask=used.mask,
            advantages=collected.advantages[member],
            logp_behavior=used.logp_behavior,
            logp_proximal=None if collected.proximal is None else collected.proximal[member],
            logp_reference=None if collected.reference is None else collected.reference[member],
            totals=totals,
            entropy=entropy(every) if choices.entropy else None,
            truncated=used.truncated(eos),
            divergence=None
            if asked is None
            else asked(every, used.tokens, used.logp_behavior, used.topk_ids, used.topk_logp),
        )
        part_loss = policy_loss(choices, batch)
        batch.logp.retain_grad()
        part_loss.backward()
        assert batch.logp.grad is not None
        loss += part_loss.item()
        with_advantage = int((used.mask & (batch.token_advantages != 0)).sum())
        active += with_advantage
        silent += with_advantage * no_gradient_fraction(batch, batch.logp.grad).item()
        bad += bad_updates(batch).item()
        if clipped is not None:
            clipped.add(used.tokens, batch, batch.logp.grad, every)
        if look:
            with torch.no_grad():
                mu, pi = used.logp_behavior[used.mask], batch.logp[used.mask]
                tokens += len(mu)
                width += entropy(every)[used.mask].sum().item()
                distance += (pi.exp() - mu.exp()).abs().sum().item()
                deviation = max(deviation, torch.expm1(pi - mu).abs().max().item())
    sums = torch.tensor([loss, tokens, active, silent, bad, width, distance], dtype=torch.float64)
    loss, tokens, active, silent, bad, width, distance = share.total(sums).tolist()
    seen: Metrics = dict(loss=loss, no_gradient=silent / max(active, 1), bad_updates=bad / size)
    if look:
        deviation = max(share.parts(torch.tensor(deviation, dtype=torch.float64))).item()
        seen |= dict(entropy=width / tokens, ratio_deviation=deviation, mismatch=distance / tokens)
    return seen


def _moves_without_advantage(choices: Choices) -> bool:
    """True if a response has a gradient even where its advantage is 0: from a penalty or a bonus in the loss."""
    return choices.entropy > 0 or (choices.kl is not None and choices.kl.where == "loss")


def _teaching(advantages: Tensor) -> Tensor:
    """(b,) bool: groups with an advantage (b, G) that is not 0. The others have no gradient and can be left out.

    One group stays in any case: the metrics need something to look at.
    """
    teaching = (advantages != 0).any(-1)
    teaching[0] |= not bool(teaching.any())
    return teaching
