"""What the adapters of all libraries share: a case of the manifest, its batch, and the gradient of its loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.golden import group_size, inputs, variant_of
from tests.golden.make.source import Repository

Made = dict[str, Any]
"""The outputs of a case by their names in the manifest, and ``metrics``, a dictionary."""


@dataclass(frozen=True)
class Case:
    """A case of the manifest and the repository that its function is taken from."""

    repository: Repository
    entry: dict[str, Any]
    file: str = ""
    """Where the function is, if not in the manifest's file."""

    @property
    def variant(self) -> str:
        """The id without library and batch: "adv_grpo"."""
        return variant_of(self.entry["id"]).split("/")[1]

    @property
    def settings(self) -> dict[str, Any]:
        return self.entry["hyperparameters"]

    def code(self) -> Any:
        return self.repository.code(self.file or self.entry["file"])

    def __getitem__(self, key: str) -> Tensor:
        return inputs(self.entry["batch"], key)

    @property
    def mask(self) -> Tensor:
        return self["mask"].double()

    @property
    def advantages(self) -> Tensor:
        """(N, T), the same for every token of a response."""
        return self["adv"].unsqueeze(-1).expand(self.mask.shape)

    @property
    def group_size(self) -> int:
        return group_size(self.entry["batch"])

    def leaf(self) -> Tensor:
        """``logp`` as what a loss is differentiated by."""
        return self["logp"].requires_grad_()


Adapter = Callable[[Case], Made]


class Settings(dict[str, Any]):
    """A library's configuration: its fields are attributes and keys."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def gradient(value: Tensor, logp: Tensor) -> Tensor:
    return torch.autograd.grad(value, logp)[0]


def loss_outputs(loss: Tensor, logp: Tensor, per_token: Tensor | None = None, **others: Any) -> Made:
    made = {"loss": loss, "grad_logp": gradient(loss, logp), **others}
    return made if per_token is None else made | {"per_token": per_token}
