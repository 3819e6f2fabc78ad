import numpy as np
import pytest

from rlnotes.exact.random_tokens import REGIMES, random_case
from rlnotes.exact.token_divergences import context_kl, context_tv, largest
from rlnotes.exact.tokens import check_policy, context_ratios, require_support
from tests.cases import cases


def drawn(regime):
    rng = np.random.default_rng(5)
    return [random_case(rng, regime) for _ in range(max(cases() // len(REGIMES), 20))]


def pooled_log_ratios(found):
    ratios = [rows for case in found for rows in context_ratios(case.model, case.target, case.behavior)]
    return np.log(np.concatenate([rows.reshape(-1) for rows in ratios]))


@pytest.mark.parametrize("regime", REGIMES)
def test_every_case_is_sound_and_supported(regime):
    found = drawn(regime)
    for model, target, behavior in found:
        check_policy(model, target)
        check_policy(model, behavior)
        require_support(model, target, behavior)
        assert model.reward.size <= 2 * 1024 and model.reward.min() >= 0 and model.reward.max() <= 1
    assert {case.model.eos is None for case in found} == {True, False}
    assert {case.model.prompts for case in found} == {1, 2}
    assert len({(case.model.vocab_size, case.model.horizon) for case in found}) > 5


def test_one_seed_gives_one_case():
    first, second = (random_case(np.random.default_rng(3), "boosted") for _ in range(2))
    np.testing.assert_array_equal(first.model.reward, second.model.reward)
    for ours, theirs in zip(first.target, second.target, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_regimes_are_what_they_are_called():
    moves = {
        regime: [
            largest(c.model, context_tv(c.model, c.target, c.behavior), *c[1:], contexts="all") for c in drawn(regime)
        ]
        for regime in ("near", "far")
    }
    assert np.median(moves["near"]) < 0.1 < 0.3 < np.median(moves["far"])
    tops = np.concatenate([rows.max(-1).reshape(-1) for case in drawn("near-deterministic") for rows in case.behavior])
    assert np.median(tops) > 0.99
    heavy = np.abs(pooled_log_ratios(drawn("heavy-tailed")))
    near = np.abs(pooled_log_ratios(drawn("near")))
    assert heavy.max() > 8 > near.max()
    unmoved = [tv.reshape(-1) == 0 for c in drawn("sparse") for tv in context_tv(c.model, c.target, c.behavior)]
    assert 0.6 < np.concatenate(unmoved).mean() < 1
    assert pooled_log_ratios(drawn("boosted")).max() > np.log(1e4)
    infinite = [
        largest(c.model, context_kl(c.model, c.behavior, c.target), *c[1:], contexts="all") for c in drawn("zeros")
    ]
    assert np.isinf(infinite).mean() > 0.5


def test_an_unknown_regime_is_refused():
    with pytest.raises(ValueError, match="regime is 'wild'; choose one of near, far"):
        random_case(np.random.default_rng(0), "wild")  # pyright: ignore[reportArgumentType]
