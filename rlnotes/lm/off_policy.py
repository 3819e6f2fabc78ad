"""How far apart the policies of a step are, from its own samples: mu that wrote them, pi_k before the updates, pi_{k+1}
after them.

The two sides of 000 section 5.3's triangle: staleness, which the sampling system answers for, and the update shift,
which the optimiser does.
"""

import torch
from torch import Tensor

from rlnotes.estimators.divergences import tv_estimate
from rlnotes.estimators.importance import effective_sample_size, sequence_log_ratio
from rlnotes.lm.config import Metrics
from rlnotes.lm.rollout import Rollout

TAIL = 0.999


@torch.no_grad()
def off_policy_metrics(rollout: Rollout, before: Tensor, after: Tensor, version: int) -> Metrics:
    """What ``rollout`` says about mu, pi_k and pi_{k+1}. All its responses count, used by the updates or not.

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
