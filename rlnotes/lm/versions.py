"""Old weights that still write: which version of the policy samples each token, and where the versions are kept.

A version is the number of optimiser updates behind some weights. A behaviour made of several of them is the mixture of
000 sections 4 and 5: the index of the version at work is drawn at the start of a response and moves by a kernel.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from rlnotes.exact.checks import distribution
from rlnotes.exact.mixtures import step_kernel
from rlnotes.lm.checkpoint import part
from rlnotes.lm.config import TrainConfig
from rlnotes.lm.model import Transformer


@dataclass(frozen=True)
class VersionMixture:
    """Which of M versions writes. The twin of :class:`rlnotes.exact.mixtures.Mixture`.

    | field | meaning |
    |---|---|
    | ``lags`` (M,) | how many updates each version is behind the newest |
    | ``alpha`` (M,) | chances of the version that begins a response |
    | ``kernel`` (M, M) | row i: chances of the version of the next token after version i; None: it never changes |

    Without a kernel every response has one version, the trajectory level of 000 section 4.2. With one the version may
    change before each token after the first, the step level of 000 section 5.1, whatever the tokens are.
    Raises ``ValueError`` for a lag that is no whole number of updates and for rows that are no distributions.
    """

    lags: Sequence[int]
    alpha: Sequence[float]
    kernel: Sequence[Sequence[float]] | np.ndarray | None = None

    def __post_init__(self):
        if not self.lags:
            raise ValueError("lags is empty; name at least one version, (0,) is the newest")
        for i, lag in enumerate(self.lags):
            if not isinstance(lag, Integral) or lag < 0:
                raise ValueError(f"lags[{i}] is {lag}; a lag is a whole number of updates, 0 or more")
        m = len(self.lags)
        # plain numbers: a behaviour must compare and hash by its values
        object.__setattr__(self, "lags", tuple(int(lag) for lag in self.lags))
        object.__setattr__(self, "alpha", tuple(distribution("alpha", self.alpha, (m,)).tolist()))
        if self.kernel is not None:
            rows = distribution("kernel", self.kernel, (m, m)).tolist()
            object.__setattr__(self, "kernel", tuple(tuple(row) for row in rows))

    @property
    def size(self) -> int:
        """M."""
        return len(self.lags)

    def indices(self, n: int, length: int, generator: torch.Generator) -> Tensor:
        """Index (n, length) of the version that writes each token of ``n`` responses, on the generator's device.

        One uniform number a token is drawn, with a kernel or without; none if there is one version only.
        """
        device = generator.device
        if self.size == 1:
            return torch.zeros(n, length, dtype=torch.long, device=device)
        uniform = torch.rand(n, length, 1, generator=generator, device=device, dtype=torch.float64)
        current = _inverse(self.alpha, device).expand(n, -1).le(uniform[:, 0]).sum(-1)
        if self.kernel is None:
            return current[:, None].expand(n, length).contiguous()
        moves, drawn = _inverse(self.kernel, device), [current]
        for t in range(1, length):
            drawn.append(moves[drawn[-1]].le(uniform[:, t]).sum(-1))
        return torch.stack(drawn, 1)


def _inverse(rows: object, device: torch.device) -> Tensor:
    """Cumulated chances that end in exactly 1: a uniform number in [0, 1) then picks no index of chance 0."""
    sums = torch.tensor(rows, dtype=torch.float64, device=device).cumsum(-1)
    return sums / sums[..., -1:]


def mixture_of(config: TrainConfig) -> VersionMixture | None:
    """The mixture that a run is told to sample from: ``lags``, ``lag_weights``, ``switch``. None without lags."""
    if not config.lags:
        return None
    weights = config.lag_weights or (1.0,) * len(config.lags)
    alpha = [weight / sum(weights) for weight in weights]
    kernel = None
    if config.switch > 0:
        kernel = step_kernel(np.full(len(alpha), config.switch), np.tile(alpha, (len(alpha), 1)))
    return VersionMixture(config.lags, alpha, kernel)


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
        if not any(name.startswith("past.") for name in tensors):  # saved before the first step
            return
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
