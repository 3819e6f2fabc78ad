"""A task whose answers differ in length, and rewards that go wrong as rewards do."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Examples, Reverse, Task


@dataclass(frozen=True)
class Words(Reverse):
    """``Reverse`` for 3 to ``size`` letters, blanks before them: ``  abc=`` to ``cba``.

    ``limit`` tokens are all that a response may have: the answer to a longer prompt is cut off, and not right.
    """

    limit: int | None = None

    @property
    def max_response_length(self) -> int:
        return self.limit or self.size + 1

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        prompts = super().draw(n, generator).prompts
        blanks = torch.randint(self.size - 2, (n, 1), generator=generator)
        prompts[:, :-1][torch.arange(self.size) < blanks] = self.vocabulary.encode(" ")[0]
        return Examples(prompts, self.solve(prompts))

    def solve(self, prompts: Tensor) -> Tensor:
        whole = super().solve(prompts)
        return whole.where(whole != self.vocabulary.encode(" ")[0], self.vocabulary.eos)[:, : self.max_response_length]

    def reward(self, rollout: Rollout) -> Tensor:
        return super().reward(rollout) * ~rollout.truncated(self.vocabulary.eos)


def right_and_long(task: Task, rollout: Rollout) -> Tensor:
    """A point for being right, and one for each token: a long response beats a right one."""
    return task.reward(rollout) + rollout.mask.sum(-1)
