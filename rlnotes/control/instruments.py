"""What an update of a classic loop did, read on episodes that it has not seen: the numbers of the instrument panel."""

from collections.abc import Iterable, Iterator
from copy import deepcopy

import torch

from rlnotes.control.collector import Collector, make_envs
from rlnotes.control.networks import ActorCritic
from rlnotes.control.samples import make_samples
from rlnotes.control.settings import ActorCriticConfig
from rlnotes.estimators.divergences import kl

BAND = 0.2
Metrics = dict[str, float]


def instruments(
    run: Iterable[Metrics], network: ActorCritic, config: ActorCriticConfig, every: int = 1, episodes: int = 32
) -> Iterator[Metrics]:
    """Pass on the metrics of a ``run`` that trains ``network`` in place, with four readings of each ``every``-th
    update.

    They are taken on ``episodes`` whole episodes of the *old* policy, from starts that no update sees:

    | reading | meaning |
    |---|---|
    | ``kl`` | KL(old, new) of a step, exact in the actions, in nats |
    | ``outside`` | share of steps whose ratio is outside [0.8, 1.2] |
    | ``promised`` | the surrogate: mean over episodes of the sum of (r - 1) A, A by GAE from the *old* critic |
    | ``change`` | change of ``J``, the mean undiscounted return, from the same starts; ``J`` is where it ends |

    ``promised`` is what the loop itself goes by, so it discounts inside A; ``change`` is what is wanted, and has the
    noise of its episodes. Raises ``ValueError`` if ``every`` or ``episodes`` is below 1.
    """
    if every < 1:
        raise ValueError(f"every is {every}; it must be at least 1")
    envs, old = make_envs(config.env, episodes, seed=0), deepcopy(network)
    for metrics in run:
        if metrics["update"] % every == 0:
            seed = 10**6 + int(metrics["update"])
            before, after = (
                Collector(envs, torch.Generator().manual_seed(seed), seed).collect_episodes(policy)
                for policy in (old, network)
            )
            samples = make_samples(old, before, config.gamma, config.lam, normalize=False)
            with torch.no_grad():
                log_probs = network.log_probs(samples.obs)
                ratio = samples.log_ratio(log_probs).exp()
            J, new_J = (sum(steps.finished) / episodes for steps in (before, after))
            metrics = metrics | dict(
                kl=kl(samples.old_log_probs, log_probs).mean().item(),
                outside=((ratio - 1).abs() > BAND).float().mean().item(),
                promised=((ratio - 1) * samples.advantages).sum().item() / episodes,
                change=new_J - J,
                J=new_J,
            )
        yield metrics
        old.load_state_dict(network.state_dict())
