"""What a step reports: of its updates, of the tokens that get no gradient, and of how far the policies moved."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from rlnotes.estimators.divergences import entropy, tv_estimate
from rlnotes.estimators.importance import effective_sample_size, sequence_log_ratio
from rlnotes.lm.collection import Collection, Sampled
from rlnotes.lm.config import Metrics
from rlnotes.lm.learner import Learner
from rlnotes.lm.rollout import Rollout
from rlnotes.objectives import Batch
from rlnotes.objectives.diagnostics import no_gradient_fraction

BAD = 0.5
"""mu - pi of a bad update: 004 section 5.3"""

SIGNS = {"+": 0, "-": 1}  # of the advantage

TAIL = 0.999  # quantile of the largest log-ratios


def gradient_of(batch: Batch) -> Tensor:
    """d loss / d logp (N, T), after the backward pass."""
    assert batch.logp.grad is not None
    return batch.logp.grad


def bad_updates(batch: Batch) -> Tensor:
    """Number () of tokens with A < 0 and mu - pi >= 0.5, dropped by a mask or not: 004 section 5.3."""
    fallen = batch.masked("logp_behavior").exp() - batch.masked("logp").detach().exp()
    return ((batch.masked("token_advantages") < 0) & (fallen >= BAD)).sum()


def update_sums(batch: Batch, gradient: Tensor, loss: Tensor) -> Tensor:
    """(4,) float64: the loss; how many tokens have an advantage; those of them with no ``gradient``; bad updates."""
    active = (batch.mask & (batch.token_advantages != 0)).sum().double()
    silent = active * no_gradient_fraction(batch, gradient).double()
    return torch.stack([loss.double(), active, silent, bad_updates(batch).double()])


def update_metrics(sums: Sequence[float], size: float) -> Metrics:
    """What is reported of :func:`update_sums` of an update on ``size`` tokens."""
    loss, active, silent, bad = sums
    return dict(loss=loss, no_gradient=silent / max(active, 1), bad_updates=bad / size)


def of_updates(updates: Sequence[Metrics]) -> Metrics:
    """What a step reports of its ``updates``: the last, the first look, and means of what was counted in each."""
    metrics: Metrics = {}
    for seen in updates:
        metrics |= seen
    return metrics | {name: fmean(seen[name] for seen in updates) for name in ("no_gradient", "bad_updates")}


@torch.no_grad()
def first_look(batch: Batch, log_probs: Tensor, among: Tensor) -> Tensor:
    """(4,) float64 of the tokens ``among`` (N, T) bool: their number, sums of pi's entropy and of abs(pi - mu), and the
    largest abs(pi / mu - 1).
    """
    assert batch.logp_behavior is not None  # the sampler recorded it
    mu, pi = batch.logp_behavior, batch.logp
    of_tokens = torch.stack([entropy(log_probs), (pi.exp() - mu.exp()).abs(), torch.expm1(pi - mu).abs()]).double()
    width, distance, deviation = torch.where(among, of_tokens, 0.0)
    return torch.stack([among.sum().double(), width.sum(), distance.sum(), deviation.amax()])


def look_metrics(looked: Sequence[float]) -> Metrics:
    """What is reported of :func:`first_look`."""
    tokens, width, distance, deviation = looked
    return dict(entropy=width / tokens, ratio_deviation=deviation, mismatch=distance / tokens)


class Watch(Protocol):
    """Looks on, and reports at the end of a step."""

    def begin(self, sampled: Sampled) -> None:
        """Before the first update."""
        ...

    def look(self, part: Collection, batch: Batch, log_probs: Tensor) -> None:
        """At a part of an update, when its gradient is known."""
        ...

    def metrics(self) -> Metrics:
        """What was seen."""
        ...


@torch.no_grad()
def off_policy_metrics(rollout: Rollout, before: Tensor, after: Tensor, version: int) -> Metrics:
    """What ``rollout`` says about mu, pi_k and pi_{k+1}: of 000 section 5.3's triangle the staleness, for which the
    sampling system answers, and the update shift, for which the optimiser does. All responses count, used or not.

    ``before`` and ``after`` (N, T) are the log-probabilities of its tokens under pi_k and pi_{k+1}; ``version`` is the
    number of updates behind pi_k. With rho_k = pi_k / mu and rho_{k+1} = pi_{k+1} / mu of the n tokens, mu as recorded:

    | metric | sample form | in the limit of many responses |
    |---|---|---|
    | ``staleness`` | mean of abs(rho_k - 1) / 2 | S_k = E_d TV(pi_k, mu): with what mu really drew from, rounding and \
noise included, the effective staleness of 000 section 8.1 |
    | ``update_shift`` | mean of abs(rho_{k+1} - rho_k) / 2 | U_k = E_d TV(pi_{k+1}, pi_k): 000 Lemma 7.1 |
    | ``lag`` | mean of ``version`` - version that wrote the token | |
    | ``ess`` | (sum rho_k)^2 / (n sum rho_k^2) of tokens | 1 / (1 + chi2) of the token weights |
    | ``ess_sequence`` | the same of the products over whole responses | 1 / (1 + chi2) of the response weights |
    | ``ratio_tail`` | 99.9 % quantile of abs(log rho_k) | |

    d is the law of prefixes under the mixture that sampled, every token of every response counting once. The limits
    hold under Lemma 7.1's support condition: mu gives positive probability to all that pi_k or pi_{k+1} may do. Else
    (top-k, top-p) the sample forms miss the mass on tokens that mu never writes, and can be 0 where TV is large.
    """
    mask = rollout.mask
    mu, old, new = (logp.double() for logp in (rollout.logp_behavior, before, after))
    stale, shifted = (old - mu)[mask], (new - mu)[mask]
    whole = sequence_log_ratio(mu, old, mask)
    return dict(
        staleness=tv_estimate(stale).mean().item(),
        update_shift=tv_estimate(shifted, stale).mean().item(),
        lag=(version - rollout.version[mask]).double().mean().item(),
        ess=effective_sample_size(stale).item() / len(stale),
        ess_sequence=effective_sample_size(whole).item() / len(whole),
        ratio_tail=stale.abs().quantile(TAIL).item(),
    )


class WatchShift:
    """How far mu, pi before and pi after the updates are apart: :func:`off_policy_metrics`. Two more passes."""

    def __init__(self, learner: Learner):
        self.learner = learner

    def begin(self, sampled: Sampled) -> None:
        """Score what was sampled by pi as it stands."""
        self.version, self.rollout, self.before = (
            self.learner.updates,
            sampled.rollout,
            self.learner.logp(sampled.rollout),
        )

    def look(self, part: Collection, batch: Batch, log_probs: Tensor) -> None:
        """Nothing to do on the way."""

    def metrics(self) -> Metrics:
        """Score it again."""
        return off_policy_metrics(self.rollout, self.before, self.learner.logp(self.rollout), self.version)


class Sums(NamedTuple):
    """What is added up for a token of the vocabulary and a sign of the advantage, uses in several updates apart."""

    shown: float
    """times it had an advantage of this sign"""
    clipped: float
    """times it then got no gradient"""
    probability: float
    """mu of those, added up"""
    entropy: float
    """of pi's next token where those stand, in nats, added up"""


class ClippedTokens:
    """Counts over updates. A token is *clipped* where it has an advantage and its gradient is 0.

    ``sums`` (4, 2, V) float64: the fields of :class:`Sums`, for A > 0 and A < 0, for each token of the vocabulary.
    """

    def __init__(self, vocabulary: int):
        self.sums = torch.zeros(len(Sums._fields), len(SIGNS), vocabulary, dtype=torch.float64)

    @torch.no_grad()
    def add(self, tokens: Tensor, batch: Batch, gradient: Tensor, log_probs: Tensor) -> None:
        """Count one update. ``tokens`` and ``gradient`` = d loss / d logp (N, T), ``log_probs`` of pi (N, T, V)."""
        width = entropy(log_probs)
        advantages, mu = batch.masked("token_advantages"), batch.masked("logp_behavior").exp()
        for sign, signed in ((0, advantages > 0), (1, advantages < 0)):
            clipped = signed & (gradient == 0)
            for which, chosen, weight in (
                (0, signed, torch.ones_like(mu)),
                (1, clipped, torch.ones_like(mu)),
                (2, clipped, mu),
                (3, clipped, width),
            ):
                own = (tokens[chosen].cpu(), weight[chosen].double().cpu())
                self.sums[which, sign].index_add_(0, *own)

    def __iadd__(self, other: Self) -> Self:
        self.sums += other.sums
        return self

    def metrics(self) -> Metrics:
        """``clipped_probability`` and ``clipped_entropy``, means over the clipped; nothing where there are none."""
        _, clipped, probability, width = self.sums.sum((1, 2)).tolist()
        return dict(clipped_probability=probability / clipped, clipped_entropy=width / clipped) if clipped else {}

    def rows(self, names: Sequence[str], most: int = 6) -> list[dict[str, Any]]:
        """For each sign the ``most`` often clipped tokens: ``sign``, ``token``, ``shown``, ``clipped``, and means over
        the clipped, ``probability`` and ``entropy``. ``names`` (V,) are the tokens' texts.
        """
        found = []
        for sign, i in SIGNS.items():
            for token in self.sums[1, i].argsort(descending=True, stable=True)[:most].tolist():
                one = Sums(*self.sums[:, i, token].tolist())
                if one.clipped:
                    means = dict(probability=one.probability / one.clipped, entropy=one.entropy / one.clipped)
                    counts = dict(shown=int(one.shown), clipped=int(one.clipped))
                    found.append(dict(sign=sign, token=names[token]) | counts | means)
        return found


class WatchClipped:
    """Counts the tokens that get no gradient: ``tokens``, of the last step."""

    def __init__(self, learner: Learner):
        self.learner = learner
        self.tokens: ClippedTokens | None = None

    def begin(self, sampled: Sampled) -> None:
        """Count from 0."""
        self.counting = ClippedTokens(len(self.learner.task.vocabulary))

    def look(self, part: Collection, batch: Batch, log_probs: Tensor) -> None:
        """Count one part."""
        self.counting.add(part.rollout.tokens, batch, gradient_of(batch), log_probs)

    def metrics(self) -> Metrics:
        """Means over what all processes counted."""
        self.tokens = self.counting
        self.tokens.sums = self.learner.shard.total(self.tokens.sums)
        return self.tokens.metrics()
