"""Random tokens that both policies may well have drawn, and the gradient of 004 eq. (23) by hand."""

import numpy as np
import torch

from rlnotes.objectives import Choices
from tests.objectives.batches import Tensors, loss_and_gradient, tensors


def likely(seed: int = 0, responses: int = 40, spread: float = 0.6) -> Tensors:
    """Tokens of probability 0.05 to 0.98 by mu, whose log odds pi_k and pi have moved: all are log-probabilities."""
    rng = np.random.default_rng(seed)
    made = tensors(seed, responses)
    odds = torch.from_numpy(rng.uniform(-3, 4, size=made["mask"].shape))
    for name in ("logp_behavior", "logp_proximal", "logp"):
        made[name] = torch.where(made["mask"], torch.nn.functional.logsigmoid(odds), torch.nan)
        odds = odds + spread * torch.from_numpy(rng.normal(size=odds.shape))
    made["divergence"] = 1.3 * (made["logp"].exp() - made["logp_behavior"].exp()).abs()
    return made


def numbers(made: Tensors) -> dict[str, np.ndarray]:
    """Probabilities, 1 outside the mask, and advantages (N, 1)."""
    mask = made["mask"].numpy()
    found = {name: np.exp(np.where(mask, made[f"logp{name}"], 0.0)) for name in ("", "_behavior", "_proximal")}
    return dict(pi=found[""], mu=found["_behavior"], pi_k=found["_proximal"], mask=mask) | dict(
        a=made["advantages"].numpy()[:, None]
    )


def binary_tv(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return abs(p - q)


def binary_kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


def away(x: dict[str, np.ndarray], anchor: str = "mu") -> np.ndarray:
    return ((x["a"] > 0) & (x["pi"] > x[anchor])) | ((x["a"] < 0) & (x["pi"] < x[anchor]))


def assert_gradient(choices: Choices, made: Tensors, kept: np.ndarray, cap: float = np.inf) -> None:
    """004 eq. (23), by hand: M min(pi / mu, C) A over N. And M is no trivial one."""
    x = numbers(made)
    expected = -np.where(kept & x["mask"], np.minimum(x["pi"] / x["mu"], cap) * x["a"], 0.0) / len(x["a"])
    np.testing.assert_allclose(loss_and_gradient(choices, made)[1], expected, rtol=1e-9, atol=1e-15)
    assert 0.05 < kept[x["mask"]].mean() < 0.995
