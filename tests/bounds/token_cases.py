"""What the tests of token bounds share: random models with their worst rewards, golden cases, one check for all."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlnotes.bounds.result import Bound
from rlnotes.exact.random_tokens import REGIMES, TokenCase, random_case
from rlnotes.exact.token_surrogates import excess
from rlnotes.exact.tokens import single_prompt, single_prompt_policy
from tests.cases import cases
from tests.golden_audit import GOLDEN

BoundOf = Callable[..., Bound]  # of a model, the target and the behavior


def golden_case(name: str) -> TokenCase:
    """The model of G10 or G14."""
    inputs = GOLDEN[name]["inputs"]
    new, old = ("pi_theta", "pi_roll") if "pi_roll" in inputs else ("pi", "mu")
    model = single_prompt(inputs["R_lexicographic"], inputs["K"], inputs["T"])
    return TokenCase(model, single_prompt_policy(inputs[new]), single_prompt_policy(inputs[old]))


@cache
def random_cases(seed: int = 5) -> tuple[TokenCase, ...]:
    """Of every regime, and of near policies three times as many: else most bounds would have nothing to say."""
    rng = np.random.default_rng(seed)
    regimes = (*REGIMES, "near", "near")  # 9, so that every fourth model meets all of them
    return tuple(random_case(rng, regimes[i % len(regimes)]) for i in range(cases()))


@cache
def unsupported_cases() -> tuple[TokenCase, ...]:
    """The target gives tokens that the behavior never does."""
    rng = np.random.default_rng(6)
    drawn = [random_case(rng, "zeros") for _ in range(max(cases() // 4, 10))]
    return tuple(TokenCase(case.model, case.behavior, case.target) for case in drawn)


def with_rewards(case: TokenCase, reward: np.ndarray) -> TokenCase:
    return case._replace(model=replace(case.model, reward=reward))


def worst(case: TokenCase) -> TokenCase:
    """The case with the rewards in [0, 1] for which L overstates the improvement most: 1 where N < 0.

    With its own rewards at T = 1, where L is exact.
    """
    return with_rewards(case, (excess(*case).n < 0).astype(np.float64)) if case.model.horizon > 1 else case


def trials() -> Iterator[TokenCase]:
    """Every random model with its worst rewards, and every fourth with random ones: in [0, 1], or in [-1, 2]."""
    for i, case in enumerate(random_cases()):
        yield worst(case)
        if i % 4 == 0:
            yield case
        if i % 4 == 2:
            yield with_rewards(case, 3 * case.model.reward - 1)


class Verdict(NamedTuple):
    """Of a bound on many cases."""

    violations: list[int]
    informative: float  # the share of cases on which the bound says more than nothing
    tightness: np.ndarray  # where the penalty is above 1e-9, below which rounding speaks


def judge(bound_of: BoundOf, tried: Iterator[TokenCase] | list[TokenCase]) -> Verdict:
    bounds = [bound_of(*case) for case in tried]
    return Verdict(
        [i for i, bound in enumerate(bounds) if not bound.holds],
        float(np.mean([not bound.vacuous for bound in bounds])),
        np.array([bound.tightness for bound in bounds if bound.penalty > 1e-9]),
    )


def with_factor(bound_of: BoundOf, factor: float) -> BoundOf:
    """The same bound with another constant."""

    def mutated(*case: Any) -> Bound:
        bound = bound_of(*case)
        return replace(bound, penalties={name: factor * penalty for name, penalty in bound.penalties.items()})

    return mutated


def quantiles(tightness: np.ndarray) -> str:
    """Minimum, median, nine tenths, maximum."""
    return " ".join(f"{q:.4g}" for q in np.quantile(tightness, [0, 0.5, 0.9, 1]))


def nothing_breaks(name: str, bound_of: BoundOf) -> None:
    """Assert that ``bound_of`` holds on all :func:`trials`, and says something on a quarter of them."""
    verdict = judge(bound_of, trials())
    print(f"tightness of {name}: {quantiles(verdict.tightness)}; informative on {verdict.informative:.0%}")
    assert verdict.violations == []
    assert verdict.informative > 0.25


def tight_and_no_tighter(bound_of: BoundOf, case: TokenCase, tightness: float) -> None:
    """Assert that ``case`` uses up the share ``tightness`` of the penalty, and that a smaller constant is caught."""
    bound = bound_of(*case)
    assert bound.holds
    assert bound.tightness == pytest.approx(tightness, rel=1e-3)
    assert judge(with_factor(bound_of, 0.99 * tightness), [case]).violations == [0]
