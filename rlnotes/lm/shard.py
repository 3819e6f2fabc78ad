"""The shard of a step that one process does, where several work on one batch, and how the parts come together.

Sums are over the whole batch before anything is divided, and random numbers are drawn for the whole batch before each
process takes its own rows: how many processes there are changes the order of sums, and nothing else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn import Parameter

from rlnotes.lm.rollout import Rollout

Scorer = Callable[[Rollout], Tensor]  # numbers (N,) or (N, T) of a rollout's responses


@dataclass(frozen=True)
class Shard:
    """Part ``rank`` of ``size`` equal parts of the work. ``Shard()`` is all of it: one process, which asks nobody."""

    rank: int = 0
    size: int = 1

    # what one process can do by itself

    def of(self, whole: Tensor) -> Tensor:
        """This process's rows of ``whole`` (n, ...): one block of them, in order; by one row more or less alike."""
        return whole.tensor_split(self.size)[self.rank]

    def noise(self, like: Tensor, fill: Callable[..., Tensor], generator: torch.Generator) -> Tensor:
        """Random numbers of the shape of ``like`` (n, ...), which are this process's rows of n * ``size``.

        ``fill`` draws those of all rows from ``generator``, so that a row's numbers do not depend on who works on it.
        This work does not become less with more processes: little beside a model, unless that is tiny and the
        vocabulary large.
        """
        return self.of(fill(like.new_empty(self.size * len(like), *like.shape[1:]), generator=generator))

    # what all must call at the same time

    def parts(self, own: Tensor) -> list[Tensor]:
        """``own`` of every process, in the order of their ranks; the shapes must be the same."""
        return [own]

    def total(self, own: Tensor) -> Tensor:
        """The sum of ``own`` over all processes."""
        return own

    def first(self, own: float) -> float:
        """``own`` of rank 0, for a decision that all must take alike."""
        return self.parts(torch.tensor([own], dtype=torch.float64))[0].item()

    def any(self, own: bool) -> bool:
        """True if it is true for some process."""
        return bool(self.total(torch.tensor([own], dtype=torch.float64)) > 0)

    def by_groups(self, score: Scorer) -> Scorer:
        """``score``, which gives each response (n,) or (n, T) numbers, with each process at work on its own groups."""
        if self.size == 1:
            return score

        def shared(rollout: Rollout) -> Tensor:
            own = self.of(torch.arange(len(rollout.prompts), device=rollout.tokens.device))
            return torch.cat(self.parts(score(rollout.groups(own))))

        return shared

    def whole(self, own: Rollout) -> Rollout:
        """The rollouts of all processes, one below the other."""
        return own

    def add_up(self, parameters: Iterable[Parameter]) -> None:
        """Put the sum of all processes' gradients in the place of each one's own. Who had nothing to do adds 0."""
        if self.size == 1:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        own = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        whole = self.total(torch.cat([gradient.flatten() for gradient in own]))  # one message, not one a parameter
        for parameter, gradient in zip(trained, whole.split([one.numel() for one in trained]), strict=True):
            parameter.grad = gradient.view_as(parameter)


ALONE = Shard()


@dataclass(frozen=True, kw_only=True)
class ProcessShard(Shard):
    """The shard of a process that ``torch.distributed`` knows.

    ``device`` is where messages must lie: the CPU for gloo, this process's GPU for nccl.
    """

    device: torch.device

    def parts(self, own: Tensor) -> list[Tensor]:
        """See :meth:`Shard.parts`."""
        sent = own.to(self.device).contiguous()
        received = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(received, sent)
        return [part.to(own.device) for part in received]

    def total(self, own: Tensor) -> Tensor:
        """See :meth:`Shard.total`. All processes get the same bits, so that what they compute from it cannot part."""
        summed = own.to(self.device, copy=True)
        dist.all_reduce(summed)
        return summed.to(own.device)

    def whole(self, own: Rollout) -> Rollout:
        """See :meth:`Shard.whole`."""
        parts = {
            one.name: self.parts(value) for one in fields(own) if isinstance(value := getattr(own, one.name), Tensor)
        }
        return Rollout.joined(
            [replace(own, **{name: values[rank] for name, values in parts.items()}) for rank in range(self.size)]
        )
