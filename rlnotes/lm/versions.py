"""Old weights that still write: where versions of the policy are kept, and who writes each token.

A version is the number of optimiser updates behind some weights.
"""

from copy import deepcopy

import torch
from torch import Tensor

from rlnotes.lm.behavior import VersionMixture
from rlnotes.lm.checkpoint import part
from rlnotes.lm.model import Transformer


class Snapshots:
    """The weights of past versions: copies that nobody trains, as many as a lag of ``longest`` updates can reach.

    Each costs the memory of one model, here and in a checkpoint.
    """

    def __init__(self, longest: int):
        if longest < 0:
            raise ValueError(f"longest is {longest}; a lag is 0 or more updates")
        self.longest = longest
        self.models: dict[int, Transformer] = {}  # by version, oldest first

    def remember(self, version: int, model: Transformer) -> None:
        """Keep a copy of ``model`` as ``version``, and drop what no later call can ask for.

        Raises ``ValueError`` for a version older than one that is kept: time goes forward.
        """
        if self.models and version < max(self.models):
            raise ValueError(f"version {version} comes after version {max(self.models)}; remember versions in order")
        self.models[version] = deepcopy(model).requires_grad_(False)
        oldest = self.version_of(version - self.longest)
        self.models = {kept: model for kept, model in self.models.items() if kept >= oldest}

    def version_of(self, version: int) -> int:
        """The newest version that is kept and is not newer than asked; before all of them, the oldest: the start's.

        Raises ``ValueError`` if nothing is kept.
        """
        if not self.models:
            raise ValueError("no version is kept; call remember with the start's weights first")
        return max((kept for kept in self.models if kept <= version), default=min(self.models))

    def model_of(self, version: int) -> Transformer:
        """The model of :meth:`version_of`."""
        return self.models[self.version_of(version)]

    def tensors(self) -> dict[str, Tensor]:
        """All weights, for a checkpoint, named ``past.VERSION.NAME``."""
        return {
            f"past.{version}.{name}": value
            for version, model in self.models.items()
            for name, value in model.state_dict().items()
        }

    def restore(self, tensors: dict[str, Tensor], model: Transformer) -> None:
        """Take back what :meth:`tensors` gave, as copies of ``model`` with other weights."""
        self.models = {}
        found: dict[int, dict[str, Tensor]] = {}
        for key, value in part(tensors, "past").items():
            version, name = key.split(".", 1)
            found.setdefault(int(version), {})[name] = value
        for version in sorted(found):
            copy = deepcopy(model).requires_grad_(False)
            copy.load_state_dict(found[version])
            self.models[version] = copy


def writing(
    mixture: VersionMixture | None,
    model: Transformer,
    version: int,
    past: Snapshots | None,
    shape: tuple[int, int],
    generator: torch.Generator,
) -> tuple[Tensor, dict[int, Transformer]]:
    """Who writes ``shape`` (N, T) tokens: the version of each (N, T), and the model of each version in use.

    ``model`` is the newest, ``version``; the older ones come from ``past``. Several lags may reach one version.
    Raises ``ValueError`` if there is a lag and no past.
    """
    if mixture is None:
        return torch.full(shape, version, device=generator.device), {version: model}
    if past is None and any(mixture.lags):
        raise ValueError(f"the behaviour has lags {mixture.lags} and no past weights; pass past=Snapshots(...)")
    reached = [past.version_of(version - lag) if past is not None and lag else version for lag in mixture.lags]
    versions = torch.tensor(reached, device=generator.device)[mixture.indices(*shape, generator)]
    models = {
        used: model if used == version or past is None else past.model_of(used) for used in versions.unique().tolist()
    }
    return versions, models
