"""A critic for a language model: what reward is to come, at every position of a response."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from rlnotes.estimators.checks import same_shape
from rlnotes.estimators.returns import gae
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import response_logits, token_logp
from rlnotes.lm.tasks import ExactMatchTask


class Critic(Transformer):
    """A transformer of its own, started from the policy's weights, with one number per position in place of logits.

    It starts at 0 everywhere, and shares nothing with the policy. With a value head on the policy's own states, of four
    runs on ``reverse`` (learning rate 1e-3, 15 rollouts) three lost what they had learned, two of them without a
    gradient of the critic in the policy; of four with a critic of its own, none.
    """

    def __init__(self, policy: Transformer):
        super().__init__(policy.config)
        self.load_state_dict(policy.state_dict())
        self.head = nn.Linear(policy.config.d_model, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.to(policy.device)

    def values(self, rollout: Rollout) -> Tensor:
        """V (N, T) of prompt and tokens so far, *before* each token of a response; 0 outside the mask."""
        return torch.where(rollout.mask, response_logits(self, rollout)[..., 0], 0.0)


def token_advantages(rewards: Tensor, values: Tensor, mask: Tensor, lam: float) -> Tensor:
    """GAE along each response (N, T), gamma = 1: 002 eq. (80). 0 outside the ``mask``.

    ``rewards`` (N,) come with the last token. There the episode is over and nothing is worth having afterwards; also
    where the length limit cut the response: the limit is part of the task, and the reward has been given. ``values``
    (N, T) are 0 outside the mask. Raises ``ValueError`` for shapes that disagree.
    """
    same_shape(**{"rewards": rewards, "values[:, 0]": values[:, 0]})
    following = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    next_values = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    paid = torch.where(mask & ~following, rewards[:, None], 0.0)
    over, never = ~following, torch.zeros_like(mask)
    return gae(paid.T, values.T, next_values.T, over.T, never.T, gamma=1.0, lam=lam).T


@torch.no_grad()
def answer_logp(model: Transformer, task: ExactMatchTask, rollout: Rollout) -> Tensor:
    """The log-probability (B, T) that ``model`` gives each token of the right answer to each of a rollout's prompts,
    for a task with one right answer; 0 after its end.
    """
    written = Rollout.of_responses(rollout.prompts, task.solve(rollout.prompts), task.vocabulary.eos)
    written = replace(written, transform=rollout.transform, prompt_mask=rollout.prompt_mask)
    return torch.where(written.mask, token_logp(model, written), 0.0)


@torch.no_grad()
def exact_values(model: Transformer, task: ExactMatchTask, rollout: Rollout) -> Tensor:
    """The true V (N, T) of ``model`` before each token of a rollout, for a task with one right answer.

    As long as the tokens so far are those of the answer: the probability of writing the rest of it. After the first
    wrong token: 0. And 0 outside the mask.
    """
    rest = answer_logp(model, task, rollout).flip(-1).cumsum(-1).flip(-1).exp()[rollout.group]
    wrong = (rollout.tokens != task.solve(rollout.prompts)[rollout.group]).long()
    still_right = wrong.cumsum(-1) - wrong == 0
    return torch.where(rollout.mask & still_right, rest, 0.0)
