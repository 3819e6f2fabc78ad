"""A task in which responses may grow for nothing: what a loss does to their length is then the loss's own doing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks.task import Examples, Reverse, check_size, with_column

GO_ON = 0.8  # chance of one more filler in an example
WRONG = 0.5  # share of examples with a wrong letter
MOST_FILLERS = 14


@dataclass(frozen=True)
class Ramble(Reverse):
    """Write the last of ``size`` letters, and then whatever you like: ``ab=`` to ``b``, ``b---`` or ``b**``.

    Only the first token counts. What comes after it changes no reward, so the exact gradient of the expected reward has
    nothing to say about it: neither to stop nor to go on.

    The examples that a warm start imitates make a policy that *knows when it was wrong*. Half of them are right and go
    on with dashes, half have a wrong letter and go on with stars, all of random length. That is the point of the task:
    a loss can only make wrong responses longer, and right ones shorter, if the policy can tell them apart.
    """

    size: int = 2

    def __post_init__(self):
        check_size("size", self.size, 2, 64)

    @property
    def max_response_length(self) -> int:
        """A letter, fillers, EOS."""
        return 1 + MOST_FILLERS + 1

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Letters, uniformly. Of the answers half are wrong: see the class."""
        prompts = super().draw(n, generator).prompts
        first, count = self.vocabulary.encode(self.letters[0])[0], len(self.letters)
        wrong = torch.rand(n, generator=generator) < WRONG
        shift = torch.randint(1, count, (n,), generator=generator) * wrong
        letter = (prompts[:, -2] - first + shift) % count + first
        dash, star = self.vocabulary.encode("-*")
        going = (torch.rand(n, MOST_FILLERS, generator=generator) < GO_ON).long().cumprod(-1).bool()
        fillers = torch.where(wrong, star, dash)[:, None].where(going, self.vocabulary.eos)
        return Examples(prompts, with_column(torch.cat([letter[:, None], fillers], 1), self.vocabulary.eos))

    def solve(self, prompts: Tensor) -> Tensor:
        """The shortest right answer (B, T): the last letter, and EOS."""
        answer = torch.full((len(prompts), self.max_response_length), self.vocabulary.eos, device=prompts.device)
        answer[:, 0] = prompts[:, -2]
        return answer

    def reward(self, rollout: Rollout) -> Tensor:
        """1 where the first token is right, whatever follows, EOS or not."""
        return (rollout.tokens[:, 0] == rollout.prompts[rollout.group, -2]).float()
