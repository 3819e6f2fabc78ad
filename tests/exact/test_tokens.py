import itertools

import numpy as np
import pytest

from rlnotes.exact import tokens
from rlnotes.exact.checks import SupportError
from rlnotes.exact.token_divergences import context_chi2, context_kl, context_tv, largest, second_moment
from rlnotes.exact.token_surrogates import (
    delta,
    error,
    improvement_by_position,
    sampled_surrogate,
    surrogate,
    surrogate_by_position,
    worst_error,
    worst_surrogate,
)
from rlnotes.exact.tokens import (
    TokenModel,
    check_policy,
    improvement,
    own_tokens,
    require_support,
    sequences,
    single_prompt,
    single_prompt_policy,
)


def test_target_tokens_that_the_behavior_never_gives_are_named():
    model = single_prompt([0, 0, 0, 1], 2, 2)
    target = single_prompt_policy([[[0.5, 0.5]], [[0.5, 0.5], [0.25, 0.75]]])
    behavior = single_prompt_policy([[[0.5, 0.5]], [[0.5, 0.5], [1, 0]]])
    for function in (surrogate, error, delta, worst_error, worst_surrogate, second_moment):
        with pytest.raises(SupportError, match=r"token 1 after prefix \[1\] of prompt 0, .* probability 0.75"):
            function(model, target, behavior)
    assert improvement(model, target, behavior) == improvement_by_position(model, target, behavior).sum() == 0.375
    assert surrogate_by_position(model, target, behavior).sum() == 0.375
    assert sampled_surrogate(model, target, behavior) == 0
    assert context_kl(model, target, behavior)[1][0, 1] == np.inf == context_chi2(model, target, behavior)[1][0, 1]


def test_contexts_that_no_policy_reaches_count_only_if_all_are_asked_for():
    model = single_prompt([0, 0, 0, 0], 2, 2)
    behavior = single_prompt_policy([[[1, 0]], [[0.5, 0.5], [1, 0]]])
    target = single_prompt_policy([[[1, 0]], [[0.4, 0.6], [0, 1]]])
    require_support(model, target, behavior)  # the behavior cannot reach the context where it lacks token 1
    tv = context_tv(model, target, behavior)
    assert largest(model, tv, target, behavior, contexts="either") == pytest.approx(0.1)
    assert largest(model, tv, target, behavior, contexts="all") == 1
    stray = single_prompt_policy([[[0.5, 0.5]], [[0.4, 0.6], [0, 1]]])
    tv = context_tv(model, stray, behavior)
    assert largest(model, tv, stray, behavior, contexts="behavior") == 0.5
    assert largest(model, tv, stray, behavior, contexts="either") == 1
    with pytest.raises(ValueError, match="contexts is 'some'; choose behavior, either or all"):
        largest(model, tv, stray, behavior, contexts="some")  # pyright: ignore[reportArgumentType]


def test_answers_are_in_lexicographic_order_and_end_at_eos():
    assert [tuple(row) for row in sequences(3, 2).tolist()] == list(itertools.product(range(3), repeat=2))
    model = single_prompt(np.zeros(9), 3, 2, eos=2)
    assert own_tokens(model).sum(-1).tolist() == [2, 2, 2, 2, 2, 2, 1, 1, 1]


def test_what_will_not_fit_is_refused_before_it_is_made(monkeypatch):
    with pytest.raises(MemoryError, match=r"1 prompts with 2\^40 answers each need about .* GiB .* limit is 2 GiB"):
        sequences(2, 40)
    with pytest.raises(MemoryError, match=r"10\^4096 answers"):
        single_prompt(np.zeros(2), 10, 4096)
    monkeypatch.setattr(tokens, "MEMORY_LIMIT", 8 * 8 * (4 * 3 + 8) - 1)
    with pytest.raises(MemoryError):
        sequences(2, 3)
    monkeypatch.setattr(tokens, "MEMORY_LIMIT", 8 * 8 * (4 * 3 + 8) + 1)
    assert sequences(2, 3).shape == (8, 3)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([[[0.5, 0.5]]], "policy has 1 steps; the model's horizon is 2"),
        ([[[0.5, 0.5]], [[0.5, 0.5]]], r"policy\[1\] has shape \(1, 1, 2\); shape \(1, 2, 2\) is needed"),
        ([[[0.5, 0.6]], [[1, 0], [0, 1]]], r"policy\[0\]\[0, 0\] sums to 1.1"),
        ([[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]], r"policy\[1\]\[0, 0\] goes on after eos \(prefix \[0\]\)"),
    ],
)
def test_policies_that_are_none_are_refused(broken, message):
    with pytest.raises(ValueError, match=message):
        check_policy(single_prompt(np.zeros(4), 2, 2, eos=0), single_prompt_policy(broken))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((1, 3)), 2, 2, [1.0]), r"reward has shape \(1, 3\); shape \(1, 4\)"),
        ((np.zeros((2, 4)), 2, 2, [0.5, 0.6]), "prompt_weights sums to 1.1"),
        ((np.zeros((1, 4)), 2, 2, [1.0], 2), "eos is 2; it must be a token, 0 to 1"),
        ((np.zeros((1, 1)), 1, 2, [1.0]), "vocab_size is 1"),
        ((np.zeros((1, 1)), 2, 0, [1.0]), "horizon is 0"),
        ((np.full((1, 4), np.nan), 2, 2, [1.0]), r"reward\[0, 0\] is nan"),
    ],
)
def test_models_that_are_none_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenModel(*arguments)
