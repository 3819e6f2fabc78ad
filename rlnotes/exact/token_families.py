"""Token models on which bounds are attained, and the smallest on which claims fail. In all, answers are few.

A function returns the model, the target (001's theta) and the behavior (001's roll), with the defaults of the course.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rlnotes.exact.checks import distribution
from rlnotes.exact.random_tokens import TokenCase
from rlnotes.exact.token_surrogates import excess
from rlnotes.exact.tokens import Policy, TokenModel, sequences, single_prompt, single_prompt_policy

Row = Sequence[float]


def one_step(target: Row, behavior: Row, reward: Row) -> TokenCase:
    """One token, one context: a bandit. Three rows of V numbers.

    >>> from rlnotes.exact.tokens import improvement
    >>> round(improvement(*one_step([0.75, 0.25], [0.5, 0.5], reward=[1, 0])), 3)
    0.25
    """
    rows = [distribution(name, row, (len(reward),)) for name, row in (("target", target), ("behavior", behavior))]
    new, old = (single_prompt_policy([row[None]]) for row in rows)
    return TokenCase(single_prompt(reward, len(reward), 1), new, old)


def two_steps(target: Sequence[Row], behavior: Sequence[Row], reward: Row) -> TokenCase:
    """Two tokens of a vocabulary of two. The rows of a policy: first token, second token after 0, and after 1.

    >>> from rlnotes.exact.tokens import sequence_probs
    >>> model, target, behavior = two_steps([(0, 1)] * 3, [(0.5, 0.5)] * 3, [0, 0, 0, 1])
    >>> print(sequence_probs(model, target), sequence_probs(model, behavior))
    [[0. 0. 0. 1.]] [[0.25 0.25 0.25 0.25]]
    """
    new, old = (single_prompt_policy([rows[:1], rows[1:]]) for rows in (target, behavior))
    return TokenCase(single_prompt(reward, 2, 2), new, old)


def _bits(horizon: int, of_one: Callable[[int, np.ndarray], np.ndarray | float]) -> list[np.ndarray]:
    """The policy that gives token 1 with probability ``of_one(t, prefixes)``, prefixes (2**t, t) as tokens."""
    rows = []
    for t in range(horizon):
        prefixes = sequences(2, t) if t else np.zeros((1, 0), dtype=int)
        one = np.broadcast_to(np.asarray(of_one(t, prefixes), dtype=np.float64), (2**t,))
        rows.append(np.stack([1 - one, one], axis=-1))
    return single_prompt_policy(rows)


# --- Where bounds are attained


def parity(horizon: int, old: float, shift: float) -> TokenCase:
    """Reward 1 for an odd number of ones. The behavior gives a one with probability ``old``, the target with more.

    As ``old`` goes to 0, |Error| goes to T D - (1 - (1 - 2D)^T) / 2, about T (T - 1) D^2 for a small ``shift`` D. At
    T = 2 it is 2 D^2 for any ``old``, and from 1/2 also chi2 / 2.

    >>> from rlnotes.exact.token_surrogates import error, surrogate
    >>> case = parity(horizon=2, old=0.25, shift=0.25)
    >>> print(f"L is {surrogate(*case):.3f} and Error {error(*case):.3f}")  # -2 D^2
    L is 0.250 and Error -0.125
    """
    reward = sequences(2, horizon).sum(1) % 2
    return TokenCase(
        single_prompt(reward, 2, horizon),
        _bits(horizon, lambda t, prefixes: old + shift),
        _bits(horizon, lambda t, prefixes: old),
    )


def parity_limit(horizon: int, shift: float) -> float:
    """|Error| of :func:`parity` as ``old`` goes to 0.

    >>> round(parity_limit(horizon=2, shift=0.25), 3)  # 2 D^2
    0.125
    """
    return horizon * shift - (1 - (1 - 2 * shift) ** horizon) / 2


def boost_and_spoil(boosted: float, rare: float, slip: float) -> TokenCase:
    """L pays for a token that the target then wastes: |Error| comes near KL of whole answers, and near the sum of TVs.

    The behavior begins with token 1 with probability ``rare`` and then earns 1 unless it slips; the target begins with
    it with probability ``boosted`` and then earns 1 only if it slips. After token 0 they agree. Take slip << 1 and
    rare << boosted.

    >>> from rlnotes.exact.token_surrogates import error, surrogate
    >>> case = boost_and_spoil(boosted=0.01, rare=0.0001, slip=0.0001)
    >>> print(f"L is {surrogate(*case):.4f} and Error {error(*case):.4f}")
    L is 0.0098 and Error -0.0099
    """
    return two_steps(
        [(1 - boosted, boosted), (1, 0), (slip, 1 - slip)], [(1 - rare, rare), (1, 0), (1 - slip, slip)], [0, 0, 1, 0]
    )


def sure_token(horizon: int, old: float) -> TokenCase:
    """The target gives token 1 always, the behavior with probability ``old``: as that goes to 0, |Error| nears T.

    So does the sum of TVs, T (1 - old); KL is infinite. Rewards are those for which L overstates most. The TV between
    contexts of position t is 1 - old^(t - 1), the most that the largest TV allows.

    >>> from rlnotes.exact.token_surrogates import error
    >>> round(error(*sure_token(horizon=3, old=0.001)), 2)
    -2.99
    """
    return _worst_rewards(horizon, _bits(horizon, lambda t, prefixes: 1.0), _bits(horizon, lambda t, prefixes: old))


def _worst_rewards(horizon: int, target: Policy, behavior: Policy) -> TokenCase:
    """Policies over two tokens, with the rewards, 0 or 1, of the most negative Error."""
    n = excess(single_prompt(np.zeros(2**horizon), 2, horizon), target, behavior).n
    return TokenCase(single_prompt((n < 0)[0], 2, horizon), list(target), list(behavior))


def dropped_branch(horizon: int = 3, chance: float = 0.1, rare: float = 0.01) -> TokenCase:
    """|Error| exceeds KL(target, behavior) of whole answers: the other direction, and averaged over the target.

    The behavior begins with token 0 with probability ``chance`` and goes on with zeros, each a 1 with probability
    ``rare``. The target never begins with 0, and would go on with 1. Elsewhere they agree. Rewards are those for which
    L overstates most.

    >>> from rlnotes.exact.token_surrogates import error, surrogate
    >>> case = dropped_branch()
    >>> print(f"L is {surrogate(*case):.3f} and Error {error(*case):.3f}")
    L is 0.194 and Error -0.196
    """

    def of_one(first: float, later: float) -> Callable[[int, np.ndarray], np.ndarray | float]:
        return lambda t, prefixes: np.where(prefixes[:, 0] == 0, later, 0.5) if t else first

    target, behavior = of_one(1.0, 1.0), of_one(1 - chance, rare)
    return _worst_rewards(horizon, _bits(horizon, target), _bits(horizon, behavior))


# --- Masks over answers: 001 sections 3.4 and 4


def masked_branch(
    branch: float = 0.0068, shift: float = 0.0011, gain: float = 0.007, wrong: float = 0.001
) -> TokenCase:
    """Every answer that a mask keeps is close, and J still falls though 001's certificate is positive.

    Answers that begin with 1, with probability ``branch``, are ruined by the target and masked; the target also makes
    them more likely by ``shift``. After 0 it improves by ``gain``. KL is below 1e-4 at the contexts of kept answers.

    >>> from rlnotes.exact.tokens import improvement
    >>> case = masked_branch()
    >>> print(f"{improvement(*case):.5f}; kept {begins_with_zero(case.model)[0]}")
    -0.00039; kept [ True  True False False]
    """
    return two_steps(
        [(1 - branch - shift, branch + shift), (0.5 + gain, 0.5 - gain), (wrong, 1 - wrong)],
        [(1 - branch, branch), (0.5, 0.5), (1 - wrong, wrong)],
        [1, 0, 1, 0],
    )


def hidden_branch() -> TokenCase:
    """As :func:`masked_branch`, with kept answers on which the policies agree: no threshold helps. J falls by 0.4.

    >>> from rlnotes.exact.tokens import improvement
    >>> case = hidden_branch()
    >>> print(f"{improvement(*case):.3f}; kept {begins_with_zero(case.model)[0]}")
    -0.400; kept [ True  True False False]
    """
    return two_steps([(0.5, 0.5), (0.5, 0.5), (0.1, 0.9)], [(0.5, 0.5), (0.5, 0.5), (0.9, 0.1)], [1, 1, 1, 0])


def begins_with_zero(model: TokenModel) -> np.ndarray:
    """(B, V**T) bool, the answers that the mask keeps in :func:`masked_branch` and :func:`hidden_branch`.

    >>> from rlnotes.exact.tokens import single_prompt
    >>> print(begins_with_zero(single_prompt([0, 0, 1, 1], vocab_size=2, horizon=2)))
    [[ True  True False False]]
    """
    first = sequences(model.vocab_size, model.horizon)[:, 0]
    return np.broadcast_to(first == 0, model.reward.shape)


def masked_bandit() -> TokenCase:
    """A mask of |log rho| <= 0.5 keeps token 0 alone, and turns the gradient against the true one.

    >>> from rlnotes.exact.tokens import token_ratios
    >>> print(token_ratios(*masked_bandit()).ravel().round(3))  # kept: 0.61 to 1.65
    [1.   1.96 0.04]
    """
    return one_step([0.5, 0.49, 0.01], [0.5, 0.25, 0.25], [0.6, 1, 0])


def unsampled_tokens() -> TokenCase:
    """Token 0 has ratio 1 and is all that a sample is likely to show, half the time; KL is 4.257.

    >>> from rlnotes.bounds.tokens import kl_max
    >>> round(kl_max(*unsampled_tokens()), 3)
    4.257
    """
    return one_step([0.5, 0.0001, 0.4999], [0.5, 0.4999, 0.0001], [1, 0, 0])


# --- Lengths, support, direction


def two_lengths() -> TokenCase:
    """Token 1 ends the answer: at once with probability 1/2 and reward 0, else as second token and with reward 1.

    Both policies are the same. With baseline 1/2 = J, E[(R - b) sum_t rho_t] is 1/4, not 0.

    >>> from rlnotes.exact.tokens import sequence_probs
    >>> model, policy, _ = two_lengths()
    >>> print(sequence_probs(model, policy)[0], model.reward[0])  # 11 is 1 alone
    [0.  0.5 0.  0.5] [0. 1. 0. 0.]
    """
    policy = single_prompt_policy([[(0.5, 0.5)], [(0, 1), (0, 1)]])
    return TokenCase(single_prompt([0, 1, 0, 0], 2, 2, eos=1), policy, policy)


def top_p_rollout() -> TokenCase:
    """The behavior cuts off a token to which the target gives half: KL is log 2, the mean of k3 is log 2 - 1/2.

    >>> from rlnotes.bounds.tokens import kl_max
    >>> round(kl_max(*top_p_rollout()), 3)  # log 2
    0.693
    """
    return one_step([0.25, 0.25, 0.5], [0.5, 0.5, 0], [0, 0, 1])


def no_common_token(reward_of_new: float) -> TokenCase:
    """The behavior gives token 0, the target token 1, which earns ``reward_of_new``: ratios see nothing of it.

    >>> from rlnotes.exact.token_surrogates import sampled_surrogate
    >>> from rlnotes.exact.tokens import improvement
    >>> case = no_common_token(reward_of_new=-1)
    >>> sampled_surrogate(*case), improvement(*case)
    (0.0, -1.0)
    """
    return one_step([0, 1], [1, 0], [0, reward_of_new])


def unlike_directions() -> TokenCase:
    """KL(behavior, target) is 0.0197, KL(target, behavior) 0.0010: 001 2.6.5 and 2.5.0 are not interchangeable.

    >>> from rlnotes.bounds.tokens import kl_max
    >>> model, target, behavior = unlike_directions()
    >>> round(kl_max(model, target, behavior), 4), round(kl_max(model, behavior, target), 4)
    (0.0197, 0.001)
    """
    return one_step([1 - 1e-12, 1e-12], [0.999, 0.001], [0, 1])


def first_step_bias() -> TokenCase:
    """The contexts of the first token cannot differ, and its token-level gradient is .20, the true one .05: 003 5.2.

    What differs are the advantages: the behavior's second token depends on the first more than the target's.

    >>> from rlnotes.exact.token_gradients import reward_gradient, surrogate_gradient
    >>> model, target, behavior = first_step_bias()
    >>> print(reward_gradient(model, target)[0].round(3))  # of the first token
    [[[-0.05  0.05]]]
    >>> print(surrogate_gradient(model, target, behavior)[0].round(3))
    [[[-0.2  0.2]]]
    """
    return two_steps([(0.5, 0.5), (0.6, 0.4), (0.4, 0.6)], [(0.5, 0.5), (0.9, 0.1), (0.1, 0.9)], [0, 1, 0, 1])


def leaving(horizon: int, shift: float) -> TokenCase:
    """The bias of token-level importance sampling grows like T^1.5 D: 003 5.2 says T^2 D.

    The target tosses fair coins, tokens 0 and 1, and earns 1 for more ones than zeros (1/2 for a tie). The behavior
    does the same, and before each token leaves with probability ``shift``: token 2 for ever, and reward 1/2.

    >>> model, target, behavior = leaving(horizon=2, shift=0.1)
    >>> print(behavior[1][0])  # the second token after 0, 1 and 2
    [[0.45 0.45 0.1 ]
     [0.45 0.45 0.1 ]
     [0.   0.   1.  ]]
    """

    def rows(leave: float) -> list[np.ndarray]:
        found = []
        for t in range(horizon):
            left = (sequences(3, t) == 2).any(1) if t else np.zeros(1, dtype=bool)
            found.append(np.where(left[:, None], [0.0, 0.0, 1.0], [(1 - leave) / 2, (1 - leave) / 2, leave]))
        return single_prompt_policy(found)

    answers = sequences(3, horizon)
    ahead = (answers == 1).sum(1) - (answers == 0).sum(1)
    reward = np.where((answers == 2).any(1), 0.5, (1 + np.sign(ahead)) / 2)
    return TokenCase(single_prompt(reward, 3, horizon), rows(0.0), rows(shift))


# --- DPPO's cheap divergences: 004 section 4


def rare_and_frequent_token() -> TokenCase:
    """004 4.2: token 0 from 1e-4 to .01 (ratio 100), token 1 from .99 to .80 (.808), token 2 takes the rest. TV .19.

    >>> from rlnotes.exact.tokens import token_ratios
    >>> print(token_ratios(*rare_and_frequent_token()).ravel().round(3))
    [100.      0.808  19.192]
    """
    return one_step([0.01, 0.80, 0.19], [1e-4, 0.99, 0.0099], [0, 1, 0])


def unmoved_token(least: float = 1e-6) -> TokenCase:
    """Token 0 stays at .2 and its binary divergences are 0, while tokens 1 and 2 change places: TV is .8.

    >>> from rlnotes.bounds.tokens import tv_max
    >>> round(tv_max(*unmoved_token()), 3)
    0.8
    """
    return one_step([0.2, least, 0.8 - least], [0.2, 0.8 - least, least], [0, 1, 0])
