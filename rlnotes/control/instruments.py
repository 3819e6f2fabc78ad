"""What the updates of a classic loop did, read on episodes that they have not seen: the instrument panel's numbers."""

from collections.abc import Iterable, Iterator
from copy import deepcopy

import gymnasium
import torch
from torch import Tensor

from rlnotes.control.collector import Collector, Steps
from rlnotes.control.networks import ActorCritic
from rlnotes.control.samples import make_samples
from rlnotes.control.settings import ActorCriticConfig
from rlnotes.estimators.divergences import kl
from rlnotes.estimators.returns import reward_to_go

BAND = 0.2
SEED = 10**6  # of the episodes; no run has it
Metrics = dict[str, float]


def instruments(
    run: Iterable[Metrics], network: ActorCritic, config: ActorCriticConfig, every: int = 1, episodes: int = 128
) -> Iterator[Metrics]:
    """Pass on the metrics of a ``run`` that trains ``network`` in place, with readings of what each ``every`` updates
    did together.

    They are taken on ``episodes`` whole episodes of the policy before these updates, *old*. Starts and dice are the
    same at each reading, and no update sees them.

    | reading | meaning |
    |---|---|
    | ``kl`` | KL(old, new) of a step, exact in the actions, in nats |
    | ``outside`` | share of steps whose ratio is outside [0.8, 1.2] |
    | ``promised`` | the surrogate: mean over episodes of the sum of (r - 1) A, A by GAE from the *old* critic |
    | ``by_returns`` | the same, A the undiscounted return from there less its mean over the episodes at that time |
    | ``change`` | change of ``J``, the mean undiscounted return; ``J`` is where it ends |

    ``promised`` is what the loop itself goes by, so it discounts inside A. ``by_returns`` needs no critic: it is the
    surrogate of ``J``, and has more noise. Raises ``ValueError`` if ``every`` or ``episodes`` is below 1.
    """
    for name, value in dict(every=every, episodes=episodes).items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    envs, old = gymnasium.make_vec(config.env, episodes), deepcopy(network)

    def played() -> Steps:
        return Collector(envs, torch.Generator().manual_seed(SEED), SEED).collect_episodes(network)

    before = played()
    for metrics in run:
        if metrics["update"] % every == 0:
            samples = make_samples(old, before, config.gamma, config.lam, normalize=False)
            with torch.no_grad():
                log_probs = network.log_probs(samples.obs)
                ratio = samples.log_ratio(log_probs).exp()
            after = played()
            J, new_J = (sum(steps.finished) / episodes for steps in (before, after))
            metrics = metrics | dict(
                kl=kl(samples.old_log_probs, log_probs).mean().item(),
                outside=((ratio - 1).abs() > BAND).float().mean().item(),
                promised=((ratio - 1) * samples.advantages).sum().item() / episodes,
                by_returns=((ratio - 1) * centred_returns(before)).sum().item() / episodes,
                change=new_J - J,
                J=new_J,
            )
            before = after
            old.load_state_dict(network.state_dict())
        yield metrics


def centred_returns(steps: Steps) -> Tensor:
    """Of each step (m,) of whole episodes the undiscounted return from there, less the mean of the episodes that are
    still on at that time.
    """
    to_go = reward_to_go(steps.rewards, 1.0, steps.ended) * steps.valid
    return (to_go - to_go.sum(1, keepdim=True) / steps.valid.sum(1, keepdim=True))[steps.valid]
