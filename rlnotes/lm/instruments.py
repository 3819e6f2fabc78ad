"""What an update did, read on responses that it has not seen: the numbers of the instrument panel."""

from collections.abc import Iterable, Iterator
from copy import deepcopy

import torch

from rlnotes.estimators.divergences import kl
from rlnotes.lm.config import Metrics
from rlnotes.lm.critic import exact_values, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.sampler import Sampler, response_logits
from rlnotes.lm.tasks import ExactMatchTask

BAND = 0.2


def instruments(
    run: Iterable[Metrics], task: ExactMatchTask, policy: Transformer, prompts: int = 256, seed: int = 0
) -> Iterator[Metrics]:
    """Pass on the metrics of a ``run`` that trains ``policy`` in place, with four readings of what each round did.

    They are taken on one response of the *old* policy to each of ``prompts`` held-out prompts:

    | reading | meaning |
    |---|---|
    | ``kl`` | KL(old, new) of a token, all tokens of the vocabulary summed, in nats |
    | ``outside`` | share of tokens whose ratio is outside [0.8, 1.2] |
    | ``promised`` | the surrogate: mean of the sum over tokens of (r - 1) A, with exact advantages |
    | ``change`` | the true change of J, exact on these prompts; ``J`` is where it ends |
    """
    generator = torch.Generator().manual_seed(seed)
    sampler, old = Sampler(task.max_response_length, task.vocabulary.eos), deepcopy(policy)
    for metrics in run:
        asked = task.sample(prompts, generator, "heldout").prompts.to(policy.device)
        rollout = sampler.sample(old, asked, 1, generator)
        with torch.no_grad():
            before, after = (response_logits(model, rollout).log_softmax(-1) for model in (old, policy))
            value, new_value = (exact_values(model, task, rollout) for model in (old, policy))
            taken = rollout.tokens[..., None]
            ratio = (after - before).gather(-1, taken).squeeze(-1).exp()
            advantages = token_advantages(task.reward(rollout), value, rollout.mask, lam=0.0)
            mask = rollout.mask
            yield metrics | dict(
                kl=kl(before, after)[mask].mean().item(),
                outside=((ratio - 1).abs() > BAND)[mask].float().mean().item(),
                promised=((ratio - 1) * advantages).masked_fill(~mask, 0.0).sum(-1).mean().item(),
                change=(new_value[:, 0] - value[:, 0]).mean().item(),
                J=new_value[:, 0].mean().item(),
            )
        old.load_state_dict(policy.state_dict())
