"""What an update did, read on responses that it has not seen: the numbers of the instrument panel."""

from collections.abc import Iterable, Iterator
from copy import deepcopy

import torch

from rlnotes.estimators.divergences import kl
from rlnotes.lm.config import Metrics
from rlnotes.lm.critic import answer_logp, exact_values, token_advantages
from rlnotes.lm.model import Transformer
from rlnotes.lm.sampler import Sampler, response_logits
from rlnotes.lm.tasks import ExactMatchTask

BAND = 0.2


def instruments(
    run: Iterable[Metrics], task: ExactMatchTask, policy: Transformer, prompts: int = 256, seed: int = 0
) -> Iterator[Metrics]:
    """Pass on the metrics of a ``run`` that trains ``policy`` in place, with readings of what each round did.

    They are taken on ``prompts`` held-out prompts, to which the *old* policy writes one response each:

    | reading | meaning |
    |---|---|
    | ``kl`` | KL(old, new) of a token, all tokens of the vocabulary summed, in nats; mean over the responses |
    | ``outside`` | share of the responses' tokens whose ratio is outside [0.8, 1.2] |
    | ``promised`` | the surrogate of J, exact on these prompts |
    | ``estimated`` | the same from the responses: mean of the sum over tokens of (r - 1) A, with exact advantages |
    | ``change`` | the true change of J, exact on these prompts; ``J`` is where it ends |

    An estimate is blind to tokens that the old policy has not written. ``promised`` sums over all of them. That is easy
    where one answer is right: the surrogate is J times the sum of r - 1 over the tokens of that answer, as the new J is
    the old one times the product of r.
    """
    generator = torch.Generator().manual_seed(seed)
    sampler, old = Sampler(task.max_response_length, task.vocabulary.eos), deepcopy(policy)
    for metrics in run:
        asked = task.sample(prompts, generator, "heldout").prompts.to(policy.device)
        rollout = sampler.sample(old, asked, 1, generator)
        with torch.no_grad():
            before, after = (response_logits(model, rollout).log_softmax(-1) for model in (old, policy))
            ratio = (after - before).gather(-1, rollout.tokens[..., None]).squeeze(-1).exp()
            value, mask = exact_values(old, task, rollout), rollout.mask
            advantages = token_advantages(task.reward(rollout), value, mask, lam=0.0)
            answer, new_answer = (answer_logp(model, task, rollout) for model in (old, policy))
            J, new_J = answer.sum(-1).exp(), new_answer.sum(-1).exp()
            yield metrics | dict(
                kl=kl(before, after)[mask].mean().item(),
                outside=((ratio - 1).abs() > BAND)[mask].float().mean().item(),
                promised=(J * (new_answer - answer).expm1().sum(-1)).mean().item(),
                estimated=((ratio - 1) * advantages).masked_fill(~mask, 0.0).sum(-1).mean().item(),
                change=(new_J - J).mean().item(),
                J=new_J.mean().item(),
            )
        old.load_state_dict(policy.state_dict())
