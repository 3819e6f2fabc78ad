"""Exercises of chapter 16, the stability laboratory."""

import itertools
import math
from collections.abc import Callable

import numpy as np

from rlnotes.notebook.exercise import Exercise

LOW, HIGH, CAP = 0.2, 0.28, 3.0


def _weight(
    logp: np.ndarray,
    logp_mu: np.ndarray,
    logp_k: np.ndarray,
    advantages: np.ndarray,
    cap: float = CAP,
    ends: tuple[float, float] = (LOW, HIGH),
) -> np.ndarray:
    """Token by token, in the words of 004 appendix D.1."""
    found = []
    for now, sampler, recomputed, advantage in zip(logp, logp_mu, logp_k, advantages, strict=True):
        since = math.exp(now) / math.exp(recomputed)
        dropped = (advantage > 0 and since > 1 + ends[1]) or (advantage < 0 and since < 1 - ends[0])
        found.append(0.0 if dropped else min(math.exp(now) / math.exp(sampler), cap))
    return np.array(found)


def _both_ways(logp: np.ndarray, logp_mu: np.ndarray, logp_k: np.ndarray, advantages: np.ndarray) -> np.ndarray:
    since = np.exp(logp - logp_k)
    return np.where((since > 1 + HIGH) | (since < 1 - LOW), 0.0, np.minimum(np.exp(logp - logp_mu), CAP))


def _keeps(logp: np.ndarray, logp_mu: np.ndarray, advantages: np.ndarray, delta: float) -> np.ndarray:
    pairs = zip(logp, logp_mu, advantages, strict=True)
    return np.array([not (advantage < 0 and math.exp(mu) - math.exp(pi) >= delta) for pi, mu, advantage in pairs])


def _softmax(logits: np.ndarray) -> np.ndarray:
    grown = np.exp(logits - logits.max())
    return grown / grown.sum()


def _pull(logits: np.ndarray, nu: np.ndarray, delta: float) -> np.ndarray:
    """By finite differences of what Theorem 16.5 says is descended."""

    def penalty(x: np.ndarray) -> float:
        return float(np.maximum(np.abs(_softmax(x) - nu) - delta, 0).sum()) / 2

    h = 1e-6
    return np.array([(penalty(logits - h * unit) - penalty(logits + h * unit)) / (2 * h) for unit in np.eye(len(nu))])


def _pushed(logits: np.ndarray, nu: np.ndarray, delta: float, factor: float = 0.5) -> np.ndarray:
    """A gradient on the far tokens that leaves out that the others share the logits."""
    pi = _softmax(logits)
    return -factor * pi * np.sign(pi - nu) * (np.abs(pi - nu) > delta)


def _steps(goal: float, start: float, delta: float) -> float:
    return (goal - start) / delta


def _counted(rounded: Callable[[float], float]) -> Callable[[float, float, float, int, bool], float]:
    """The closed form, with another rounding of the number of steps."""

    def rollouts(goal: float, start: float, delta: float, lag: int, recomputed: bool) -> float:
        steps = rounded(_steps(goal, start, delta))
        return steps if recomputed else (steps - 1) * (lag + 1) + 1

    return rollouts


def _rollouts(goal: float, start: float, delta: float, lag: int, recomputed: bool) -> int:
    """Rollout by rollout."""
    p = [start]
    while p[-1] < goal:
        mu = p[max(len(p) - 1 - lag, 0)]
        p.append((p[-1] if recomputed else mu) + delta)
    return len(p) - 1


def _verdict(ours: np.ndarray, theirs: np.ndarray) -> int:
    """From all resamples of the five differences: does the middle 95 % of their medians lie on one side of 0?"""
    gaps = (ours - theirs).tolist()
    medians = [sorted(drawn)[len(gaps) // 2] for drawn in itertools.product(gaps, repeat=len(gaps))]
    low, high = np.quantile(medians, (0.025, 0.975), method="inverted_cdf")
    return int(low > 0) - int(high < 0)


def _by_median(ours: np.ndarray, theirs: np.ndarray) -> int:
    return int(np.sign(np.median(ours) - np.median(theirs)))


def _by_ranges(ours: np.ndarray, theirs: np.ndarray) -> int:
    return int(ours.min() > theirs.max()) - int(ours.max() < theirs.min())


def _by_errors(ours: np.ndarray, theirs: np.ndarray) -> int:
    """The mean, give or take 1.96 standard errors."""
    gaps = ours - theirs
    reach = 1.96 * gaps.std(ddof=1) / math.sqrt(len(gaps))
    return int(gaps.mean() > reach) - int(gaps.mean() < -reach)


def _by_quantiles(ours: np.ndarray, theirs: np.ndarray) -> int:
    low, high = np.quantile(ours - theirs, (0.025, 0.975))
    return int(low > 0) - int(high < 0)


_TOKENS = tuple(
    (*(np.log(np.array(policy)) for policy in policies), np.array(advantages))
    for policies, advantages in (
        (([0.4, 0.1, 0.6, 0.01], [0.1, 0.3, 0.5, 0.2], [0.38, 0.2, 0.3, 0.012]), [1.0, -1.0, 1.0, -1.0]),
        (([0.5, 0.5, 0.2, 0.9], [0.1, 0.45, 0.9, 0.9], [0.2, 0.7, 0.19, 0.88]), [-0.5, 2.0, 1.0, 0.0]),
        # between the two upper ends and beyond them, between the two lower ends and above them
        (([0.62, 0.66, 0.38, 0.41], [0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]), [1.0, 1.0, -1.0, -1.0]),
        (([0.7, 0.1, 0.3, 0.6], [0.2, 0.3, 0.11, 0.1], [0.3, 0.6, 0.3, 0.6]), [0.0, 0.0, 1.0, -1.0]),
    )
)
_MASKED = tuple(
    (np.log(np.array(now)), np.log(np.array(old)), np.array(advantages), delta)
    for now, old, advantages, delta in (
        ([0.30, 0.30, 0.90, 0.05], [0.90, 0.90, 0.20, 0.50], [-1.0, 1.0, -1.0, -1.0], 0.5),
        ([0.02, 0.10, 0.95, 0.40], [0.95, 0.70, 0.05, 0.99], [-0.5, -1.0, 1.0, -2.0], 0.8),
        ([0.50, 0.25, 0.10, 0.05], [1.00, 0.50, 0.90, 0.60], [-1.0, -1.0, 0.0, -1.0], 0.5),  # at the edge, and A = 0
    )
)
_PULLS = (
    (np.array([1.0, 0.0, -1.0]), np.array([0.2, 0.3, 0.5]), 0.15),
    (np.array([2.0, 0.0, 0.5, -1.0]), np.array([0.25, 0.25, 0.25, 0.25]), 0.05),
    (np.array([0.0, 0.0]), np.array([0.45, 0.55]), 0.15),
)
_LAGS = tuple(
    (goal, start, delta, lag, recomputed)
    for goal, start, delta in (
        (0.9, 0.02, 0.15),
        (0.9, 0.02, 0.05),
        (0.75, 0.25, 0.25),  # two steps exactly
        (0.75, 0.125, 0.125),  # five
        (0.65, 0.1, 0.25),  # two and a fifth: three
        (0.2, 0.1, 0.15),  # within the first
    )
    for lag, recomputed in itertools.product((0, 3, 8), (True, False))
)
_RUNS = tuple(
    (np.array(ours), np.array(theirs))
    for ours, theirs in (
        ([0.50, 0.61, 0.72, 0.55, 0.80], [0.45, 0.58, 0.70, 0.50, 0.71]),  # ranges overlap, all agree
        ([0.80, 0.75, 0.78, 0.40, 0.79], [0.60, 0.61, 0.58, 0.62, 0.63]),  # one seed of five does not
        ([0.10, 0.20, 0.15, 0.12, 0.18], [0.40, 0.30, 0.35, 0.38, 0.31]),
        ([0.90, 0.10, 0.12, 0.11, 0.13], [0.20, 0.15, 0.14, 0.10, 0.16]),  # one seed carries the mean
        ([0.51, 0.62, 0.73, 0.56, 0.95], [0.50, 0.61, 0.72, 0.55, 0.05]),  # all agree, and one by far
        ([0.50, 0.75, 0.625, 0.75, 0.875], [0.50, 0.625, 0.5, 0.5, 0.75]),  # one seed is a tie
        ([0.50, 0.50, 0.25, 0.375, 0.5], [0.50, 0.625, 0.5, 0.5, 0.75]),
        ([0.499, 0.75, 0.72, 0.71, 0.83], [0.50, 0.60, 0.58, 0.55, 0.70]),  # one is behind by a hair
        ([0.70, 0.71, 0.72, 0.73, 0.59], [0.60, 0.60, 0.60, 0.60, 0.60]),
    )
)

EXERCISES: dict[str, Exercise] = {
    "16.0": Exercise(
        cases=((),),
        oracle=lambda: 2,
        misconceptions={
            "TV at μ: |π - μ| is 0.149, just inside of 0.15; it keeps the token": lambda: 3,
            "look at KL at μ as well: its limit is 0.05": lambda: 1,
            "those anchored at π_k see no move at all, for π is π_k: they keep it": lambda: 6,
            "the clip at μ and a mask at μ have no way to know that nothing has been learned": lambda: 0,
        },
        hints=(
            "Put π on π_k, and read the sentence: which weights are 'dropped'?",
            "Only those anchored at μ can be; there are four of them.",
        ),
    ),
    "16.1": Exercise(
        cases=_TOKENS,
        oracle=_weight,
        misconceptions={
            "this is MiniRL: the weight has to be cut off at 3": lambda *given: _weight(*given, cap=math.inf),
            "the mask looks at pi / pi_k; this one looks at pi / mu": lambda logp, mu, k, a: _weight(logp, mu, mu, a),
            "the weight is pi / mu; this one is pi / pi_k": lambda logp, mu, k, a: _weight(logp, k, k, a),
            "the upper end is 1.28 here (clip-higher), not 1.2": lambda *given: _weight(*given, ends=(LOW, LOW)),
            "the lower end is 0.8, the wider one is above: 1.28": lambda *given: _weight(*given, ends=(HIGH, LOW)),
            "the mask has one side: a good token is dropped above only, a bad one below only": _both_ways,
            "this is the mask M alone; times min(r, 3)": lambda *given: (_weight(*given) > 0) * 1.0,
            "this is PG-TIS: the mask is missing": lambda logp, mu, k, a: np.minimum(np.exp(logp - mu), CAP),
        },
        hints=(
            "Two ratios: pi / pi_k decides whether a token is dropped, pi / mu is its weight.",
            "A good token is dropped if pi / pi_k is above 1.28, a bad one if it is below 0.8.",
            "since = np.exp(logp - logp_k); dropped = ((advantages > 0) & (since > 1.28)) | ((advantages < 0) & "
            "(since < 0.8)); np.where(dropped, 0.0, np.minimum(np.exp(logp - logp_mu), 3.0))",
        ),
    ),
    "16.2": Exercise(
        cases=_MASKED,
        oracle=_keeps,
        misconceptions={
            "these are the dropped ones": lambda *given: ~_keeps(*given),
            "good tokens are never dropped by this mask": lambda logp, mu, a, delta: np.exp(mu) - np.exp(logp) < delta,
            "a bad token that grows is on its way up, not away: only a fall of delta is dropped": (
                lambda logp, mu, a, delta: ~((a < 0) & (np.abs(np.exp(mu) - np.exp(logp)) >= delta))
            ),
            "the limit is on the difference of probabilities, not on the ratio": (
                lambda logp, mu, a, delta: ~((a < 0) & (np.exp(logp - mu) <= 1 - delta))
            ),
            "a fall of exactly delta is dropped, too": (
                lambda logp, mu, a, delta: ~((a < 0) & (np.exp(mu) - np.exp(logp) > delta))
            ),
            "a token with advantage 0 is not bad: it is kept": (
                lambda logp, mu, a, delta: ~((a <= 0) & (np.exp(mu) - np.exp(logp) >= delta))
            ),
            "the fall is measured in probabilities; these are logs": (
                lambda logp, mu, a, delta: ~((a < 0) & (mu - logp >= delta))
            ),
            "the limit is the argument delta, not always 0.5": (
                lambda logp, mu, a, delta: ~((a < 0) & (np.exp(mu) - np.exp(logp) >= 0.5))
            ),
        },
        hints=(
            "How far has the probability fallen, from mu to pi? Which signs of the advantage, and which falls, go?",
            "~((advantages < 0) & (np.exp(logp_mu) - np.exp(logp) >= delta))",
        ),
    ),
    "16.3": Exercise(
        cases=_PULLS,
        oracle=_pull,
        misconceptions={
            "a half is missing: the coin shows each side half of the time": lambda *given: 2 * _pull(*given),
            "the sign is wrong: it pulls towards nu": lambda *given: -_pull(*given),
            "the logits are shared: grad pi(a) with respect to them is pi(a) (e_a - pi), not pi(a) e_a": _pushed,
            "only the far tokens count, those with |pi - nu| > delta": lambda x, nu, delta: _pull(x, nu, 0.0),
        },
        hints=(
            "far = np.abs(pi - nu) > delta, s = np.sign(pi - nu) * far: grad P is the sum of s grad pi.",
            "sum over a of s(a) grad pi(a) = pi * (s - pi @ s), entry by entry.",
            "-0.5 * pi * (s - pi @ s)",
        ),
        tolerance=1e-5,
    ),
    "16.4": Exercise(
        cases=_LAGS,
        oracle=_rollouts,
        misconceptions={
            "with the anchor at mu the token waits until mu has seen it move": lambda g, s, d, lag, k: _rollouts(
                g, s, d, lag, True
            ),
            "with the anchor at pi_k the lag does not matter": lambda g, s, d, lag, k: _rollouts(g, s, d, lag, False),
            "the first step needs no waiting: (steps - 1) (lag + 1) + 1": lambda g, s, d, lag, k: (
                _rollouts(g, s, d, 0, True) * (1 if k else lag + 1)
            ),
            "a rest of a step takes a whole rollout: round up": _counted(math.floor),
            "a rest of a step takes a whole rollout: round up, not to the nearest": _counted(round),
            "where the steps come out even, none is added: the goal is reached, and at least the goal is asked": (
                _counted(lambda steps: math.floor(steps) + 1)
            ),
            "between two steps lie lag + 1 rollouts: mu is the policy of lag rollouts ago, and one moves it": (
                lambda g, s, d, lag, k: (
                    _rollouts(g, s, d, 0, True) if k else (_rollouts(g, s, d, 0, True) - 1) * max(lag, 1) + 1
                )
            ),
        },
        hints=(
            "How many steps of delta are there from start to goal? Round up.",
            "At mu, a second step is possible once mu is the policy after the first: that is lag rollouts after it.",
            "steps = math.ceil((goal - start) / delta); steps if recomputed else (steps - 1) * (lag + 1) + 1",
        ),
    ),
    "16.5": Exercise(
        cases=_RUNS,
        oracle=_verdict,
        misconceptions={
            "that is the sign of a difference of medians: look at the seeds one by one": _by_median,
            "runs of one seed share prompts: compare seed by seed, not range with range": _by_ranges,
            "mean and standard error let one large gap hide that all seeds agree; take their range": _by_errors,
            "1 is for ours ahead": lambda ours, theirs: -_verdict(ours, theirs),
            "an interval that ends at 0 holds 0: one seed is a tie there": (
                lambda ours, theirs: (
                    int((ours - theirs).min() >= 0 and any(ours > theirs))
                    - int((ours - theirs).max() <= 0 and any(ours < theirs))
                )
            ),
            "these are quantiles of the five differences; asked are those of the medians of resamples": _by_quantiles,
            "four of five is not enough: the median of a resample can be the fifth, with chance 6 %": (
                lambda ours, theirs: int((ours > theirs).sum() >= 4) - int((ours < theirs).sum() >= 4)
            ),
            "by the mean one bad seed is outweighed; the interval of the median still holds 0": (
                lambda ours, theirs: int(np.sign((ours - theirs).mean()))
            ),
        },
        hints=(
            "gaps = ours - theirs, one for each seed. With five, the interval of the median is their range.",
            "1 if gaps.min() > 0, -1 if gaps.max() < 0, else 0",
        ),
    ),
    "16.6": Exercise(
        cases=((),),
        oracle=lambda: "abef",
        misconceptions={
            "(c): pi is not mu before the update, and the clip at mu drops tokens for that": lambda: "abcef",
            "(d): that is a promise on the distance to pi_k; mu is up to four rollouts farther": lambda: "abdef",
            "(g): it pulls towards its anchor, Theorem 16.5": lambda: "abefg",
            "(b) is true: then pi is pi_k, and MiniRL's ratio is 1": lambda: "aef",
            "(f) is true: a fall of 0.5 leaves at most half": lambda: "abe",
            "(e) is true: nothing is cut off": lambda: "abf",
        },
        hints=("Four are true.", "For (f): mu - pi >= 0.5 means pi / mu <= 1 - 0.5 / mu."),
    ),
}
