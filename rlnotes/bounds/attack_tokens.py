"""Claims about token models, with points from which to attack them.

Most bounds do not depend on the rewards but for their range, so a point is judged by its worst rewards; then only the
policies move.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from rlnotes.bounds import derived, gradient_ascent, tokens
from rlnotes.bounds import tokens_as_printed as printed
from rlnotes.bounds.attack import Arrays, Claim, Point
from rlnotes.bounds.attack_mdps import DERIVED
from rlnotes.bounds.result import Bound, Inequality
from rlnotes.exact import token_divergences as divergences
from rlnotes.exact import token_gradients
from rlnotes.exact.random_tokens import REGIMES, TokenCase, random_case
from rlnotes.exact.token_families import (
    begins_with_zero,
    boost_and_spoil,
    dropped_branch,
    hidden_branch,
    masked_branch,
    no_common_token,
    one_step,
    parity,
    sure_token,
    two_steps,
)
from rlnotes.exact.token_progress import smoothness_bound
from rlnotes.exact.token_surrogates import excess
from rlnotes.exact.tokens import Policy, TokenModel, sequence_probs, single_prompt

SIZES = ((2, 2), (2, 3), (3, 2))  # vocabulary and horizon where the optimiser starts at random

Judge = Callable[[TokenModel, Policy, Policy], Bound | Inequality]


def token_point(case: TokenCase, free_rewards: bool) -> Point:
    """Two policies, and rewards in [-1, 1] if those are to move."""
    model, horizon = case.model, case.model.horizon

    def build(rows: Arrays, numbers: Arrays) -> tuple:
        return replace(model, reward=numbers[0]) if free_rewards else model, rows[:horizon], rows[horizon:]

    return Point([*case.target, *case.behavior], [model.reward] if free_rewards else [], build)


def draw(rng: np.random.Generator, free_rewards: bool) -> Point:
    """A random model of any regime, half of them with near policies."""
    regime = "near" if rng.random() < 0.5 else REGIMES[rng.integers(len(REGIMES))]
    return token_point(random_case(rng, regime), free_rewards)


def start(rng: np.random.Generator, free_rewards: bool) -> Point:
    """A small model, policies with probabilities of any size."""
    size, horizon = SIZES[rng.integers(len(SIZES))]
    new, old = ([rng.dirichlet(np.full(size, 0.5), size=(1, size**t)) for t in range(horizon)] for _ in range(2))
    return token_point(
        TokenCase(single_prompt(rng.uniform(-1, 1, size**horizon), size, horizon), new, old), free_rewards
    )


# --- Rewards on which most of a penalty is used up


def _lost(*case) -> np.ndarray:
    """1 where N < 0: the largest L - (J' - J) of all rewards in [0, 1]. Where all N are 0, the rewards say nothing."""
    return (excess(*case).n < 0).astype(np.float64)


def _signed(*case) -> np.ndarray:
    """The same in [-1, 1]."""
    return 2 * _lost(*case) - 1


def _promised(*case) -> np.ndarray:
    """1 where X > 0: the largest L."""
    return (excess(*case).x > 0).astype(np.float64)


def _likelier(model: TokenModel, target: Policy, behavior: Policy) -> np.ndarray:
    """1 where the target gives more: the largest J' - J."""
    return (sequence_probs(model, target) > sequence_probs(model, behavior)).astype(np.float64)


def _with(rewards: Callable[..., np.ndarray], bound: Judge) -> Judge:
    def judge(model: TokenModel, target: Policy, behavior: Policy) -> Bound | Inequality:
        return bound(replace(model, reward=rewards(model, target, behavior)), target, behavior)

    return judge


# --- Judges that need more than a model and two policies


def _halved(bound: Callable[..., Bound]) -> Judge:
    return lambda *case: derived.halved(bound(*case))


def _masked(bound: Callable[..., Bound]) -> Judge:
    """With the answers that begin with token 0 kept, and the smallest delta for which 001's premise holds."""

    def judge(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
        kept, kl = begins_with_zero(model), divergences.context_kl(model, behavior, target)
        delta = divergences.largest(model, kl, target, behavior, contexts="behavior", kept=kept)
        return bound(model, target, behavior, kept, delta)

    return judge


def _half_step(model: TokenModel, target: Policy, behavior: Policy) -> Bound:
    """Of token ratios and a step of 1/2, with the bound on L that is proved."""
    weights = token_gradients.token_weights(model, target, behavior)
    logits = [np.log(np.maximum(rows, 1e-300)) for rows in target]
    return gradient_ascent.token_step(model, logits, behavior, weights, 0.5, smoothness_bound(model))


COINS, NEAR_COINS, PARITY = parity(2, 0.5, 0.25), parity(2, 0.5, 0.01), parity(3, 0.01, 0.05)
SPOILED, SURE = boost_and_spoil(1e-3, 1e-8, 1e-4), sure_token(3, 1e-3)
ONE_COIN = one_step([0.505, 0.495], [0.5, 0.5], [1, 0])
SWAPPED = two_steps([(0, 1)] * 3, [(1 - 1e-3, 1e-3)] * 3, [-1, 1, 1, -1])  # D is nearly 1


def _claim(
    name: str,
    source: str,
    judge: Judge,
    *families: TokenCase,
    rewards: Callable[..., np.ndarray] | None = _lost,
    free: bool = False,
    taught: bool = True,
    attained: bool = False,
) -> Claim:
    """``rewards`` replace those of a point; with None its own are taken, and they move if ``free``."""
    points = [token_point(family, free) for family in families]
    draws = partial(draw, free_rewards=free), partial(start, free_rewards=free)
    return Claim(name, source, _with(rewards, judge) if rewards else judge, *draws, points, taught, attained)


_own = partial(_claim, rewards=None)  # rewards do not count
_free = partial(_claim, rewards=None, free=True)
_tight = partial(_claim, attained=True)

OF_SOURCES = (
    _own("tokens.simulation_lemma", "001 2.5.1", tokens.simulation_lemma, COINS, attained=True),
    _claim("tokens.tv_chain", "001 2.5.1", tokens.tv_chain, COINS, PARITY),
    _claim("tokens.kl_chain", "001 2.5.1", tokens.kl_chain, NEAR_COINS),
    _claim("tokens.pinsker_marginal", "001 2.5.4", tokens.pinsker_marginal, NEAR_COINS),
    _claim("tokens.mixed", "001 2.5.5", tokens.mixed, NEAR_COINS),
    _claim("tokens.minoriser", "001 2.6.1", tokens.minoriser, NEAR_COINS),
    _free("tokens.linear_tv_chain", "003 section 5.3", tokens.linear_tv_chain, SWAPPED, attained=True),
    _own("tokens.second_moment", "003 section 7", tokens.second_moment, COINS, attained=True),
    _free("tokens.identity", "004 Theorem 3.1", tokens.identity, PARITY, attained=True),
    _own("tokens.sequence_tv", "004 Lemma B.1", tokens.sequence_tv, SPOILED, attained=True),
    _tight("tokens.quadratic", "004 Theorem 3.2", tokens.quadratic, COINS, rewards=_signed),
    _claim("tokens.linear", "004 eq. (20)", tokens.linear, SPOILED, SURE, rewards=_signed),
    _tight("tokens.composite", "004 B.3", tokens.composite, COINS, rewards=_signed),
    _free("gradient_ascent.token_step", "003 section 2", _half_step, COINS),
)

DERIVED_HERE = (
    *(
        _free(f"derived.certificate, {kind}", DERIVED, partial(derived.certificate, kind=kind), SPOILED, attained=True)
        for kind in ("kl", "tv", "both")
    ),
    _tight("derived.sequence_kl", DERIVED, derived.sequence_kl, SPOILED),
    _tight("derived.mean_tv", DERIVED, derived.mean_tv, SPOILED, SURE),
    _tight("derived.both", DERIVED, derived.both, SPOILED),
    _claim("derived.pinsker_sum", DERIVED, derived.pinsker_sum, parity(4, 0.01, 0.69)),
    _claim("derived.uniform_kl", DERIVED, derived.uniform_kl, parity(4, 0.01, 0.49)),
    _tight("derived.chi2_chain", DERIVED, derived.chi2_chain, COINS),
    _tight("derived.halved, tv_chain", DERIVED, _halved(tokens.tv_chain), COINS),
    _tight("derived.halved, kl_chain", DERIVED, _halved(tokens.kl_chain), NEAR_COINS),
    _claim("derived.halved, pinsker_marginal", DERIVED, _halved(tokens.pinsker_marginal), NEAR_COINS),
    _claim("derived.halved, mixed", DERIVED, _halved(tokens.mixed), NEAR_COINS),
    _tight("derived.coupling_chain", DERIVED, derived.coupling_chain, COINS),
    _tight("derived.position_minimum", DERIVED, derived.position_minimum, COINS),
    _own("derived.coupling", DERIVED, derived.coupling, SURE, attained=True),
    _free("derived.context_gains", DERIVED, derived.context_gains, PARITY, attained=True),
    _free("derived.gradient_bias", "003 section 5.2", derived.gradient_bias, PARITY, COINS),
    _free("derived.gradient_bias_martingale", "003 section 5.2", derived.gradient_bias_martingale, PARITY, COINS),
    _tight("derived.improvement_limit", DERIVED, derived.improvement_limit, ONE_COIN, rewards=_likelier),
    _tight("derived.surrogate_limit", DERIVED, derived.surrogate_limit, ONE_COIN, rewards=_promised),
)


def _printed(
    function: Callable[..., Bound], source: str, family: TokenCase, judge: Judge | None = None, **options
) -> Claim:
    options = {"rewards": None, "free": True, "taught": False, **options}
    return _claim(f"tokens_as_printed.{function.__name__}", source, judge or function, family, **options)


AS_PRINTED = (
    _printed(printed.trm_as_printed, "001 4.5.2", masked_branch(), _masked(printed.trm_as_printed)),
    _printed(printed.masked_trm_as_printed, "001 4.1.2", hidden_branch(), _masked(printed.masked_trm_as_printed)),
    _printed(
        printed.any_baseline_as_printed,
        "001 2.2.4",
        NEAR_COINS,
        partial(printed.any_baseline_as_printed, baseline=0.0),
    ),
    _printed(printed.reversed_sequence_kl_as_printed, "001 4.4.1", dropped_branch(), rewards=_lost, free=False),
    _printed(printed.identity_as_printed, "004 Theorem 3.1", no_common_token(-1.0)),
    _printed(printed.quadratic_as_printed, "004 Theorem 3.2", no_common_token(-1.0)),
)

CLAIMS = (*OF_SOURCES, *DERIVED_HERE, *AS_PRINTED)
