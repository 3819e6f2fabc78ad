"""A language model small enough to list everything it can write: its exact return and divergences, with gradients.

The court for what a training run estimates. Exact means exact for the model's own float32 probabilities.
"""

import torch
from torch import Tensor

from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.sampler import token_logp
from rlnotes.lm.tasks import Split, Task

MOST_RESPONSES = 1_000_000  # about 200 MB for a tiny model, gradients included


def every_prompt(task: Task, split: Split = "train", draws: int = 4096) -> Tensor:
    """The distinct prompts (B, P) of one split: those among ``draws`` draws, so the task must have far fewer."""
    prompts = task.sample(draws, torch.Generator().manual_seed(0), split).prompts
    return torch.unique(prompts, dim=0)


def every_response(task: Task, prompts: Tensor) -> Rollout:
    """All responses to each prompt (B, P): a group holds every sequence up to EOS or the length limit, once.

    ``logp_behavior`` is 0, for nobody sampled these. Raises ``ValueError`` if there would be more than a million.
    """
    size, eos = len(task.vocabulary), task.vocabulary.eos
    count = sum((size - 1) ** t for t in range(task.max_response_length)) + (size - 1) ** task.max_response_length
    if count * len(prompts) > MOST_RESPONSES:
        raise ValueError(
            f"{len(prompts)} prompts with {count:,} responses each are more than {MOST_RESPONSES:,}; "
            "take fewer prompts, or a task with shorter responses or a smaller vocabulary"
        )
    rows = torch.cartesian_prod(*[torch.arange(size)] * task.max_response_length).view(-1, task.max_response_length)
    mask = response_mask(rows, eos)
    responses = rows[((rows == eos) | mask).all(-1)].repeat(len(prompts), 1).to(prompts.device)
    return Rollout.of_responses(prompts, responses, eos)


def response_logp(model: Transformer, rollout: Rollout) -> Tensor:
    """log pi(y | x) (B, G) of whole responses, with gradients."""
    return (token_logp(model, rollout) * rollout.mask).sum(-1).view(-1, rollout.group_size)


def expected_reward(model: Transformer, task: Task, responses: Rollout) -> Tensor:
    """J, mean over prompts, with its gradient. ``responses`` come from :func:`every_response`."""
    rewards = task.reward(responses).view(-1, responses.group_size)
    return (response_logp(model, responses).exp() * rewards).sum(-1).mean()


def response_kl(model: Transformer, reference: Transformer, responses: Rollout) -> Tensor:
    """KL(pi || reference) of whole responses in nats, mean over prompts. ``responses`` as above."""
    logp, logq = response_logp(model, responses), response_logp(reference, responses)
    return (logp.exp() * (logp - logq)).sum(-1).mean()
