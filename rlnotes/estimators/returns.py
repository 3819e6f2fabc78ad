"""Returns and advantages along time, from rewards and a critic.

Time is the first axis: (T,), or (T, N) for N environments side by side. ``next_values`` is V of the observation that
*followed* each step. Where an episode ended that is its final observation, not the next row, which begins another.

Two endings do different things. ``terminated``: the world is over, so nothing is worth having afterwards.
``truncated``: only the recording stopped, so the final observation keeps its value. Neither lets anything of the next
episode through. A rollout cut in the middle of an episode is neither: its last row has ``next_values`` as any other.

All functions raise ``ValueError`` for unequal shapes, numbers that are not finite, flags that are not bool, and
discounts outside [0, 1].
"""

from array_api_compat import array_namespace

from rlnotes.estimators.checks import Array, boolean, finite, same_shape
from rlnotes.exact.checks import discount
from rlnotes.exact.precision import at_least_float32


def _steps(name: str, values: Array) -> None:
    """Raise ``ValueError`` unless ``values`` are finite floats (T,) or (T, N) with at least one step."""
    if values.ndim not in (1, 2) or values.shape[0] == 0:
        raise ValueError(f"{name} has shape {tuple(values.shape)}; (T,) or (T, N) with at least one step is needed")
    finite(name, values)


def _backwards(terms: Array, factors: Array) -> Array:
    """y_t = terms_t + factors_t * y_{t+1}, with 0 after the last step."""
    xp = array_namespace(terms)
    carry = xp.zeros_like(terms[0, ...])
    found = []
    for t in reversed(range(terms.shape[0])):
        carry = terms[t, ...] + factors[t, ...] * carry
        found.append(carry)
    return xp.stack(found[::-1])


# --- Returns


@at_least_float32
def discounted_return(rewards: Array, gamma: float) -> Array:
    """G_0 = r_0 + gamma r_1 + ..., () or (N,), of one episode per column: 002 eq. (17) before the mean, Example 1.4.

    >>> import numpy as np
    >>> print(discounted_return(np.array([1.0, 0.0, 4.0]), gamma=0.5))
    2.0
    """
    discount(gamma)
    _steps("rewards", rewards)
    return _backwards(rewards, gamma * array_namespace(rewards).ones_like(rewards))[0, ...]


@at_least_float32
def reward_to_go(rewards: Array, gamma: float, ended: Array) -> Array:
    """G_t = r_t + gamma r_{t+1} + ... up to the end of the episode: 002 eqs. (16), (38).

    ``ended`` bool, of the shape of ``rewards``: True on an episode's last step. Nothing is added for what a truncated
    episode or rollout left out; for that, add ``values`` to :func:`gae` with ``lam=1``.

    As the weight of log pi this is what 002 eqs. (35), (39) print and what practice uses. It is the gradient of J only
    for gamma = 1: the gradient has :func:`discounted_reward_to_go`.

    >>> import numpy as np
    >>> ended = np.array([False, True, True])
    >>> print(reward_to_go(np.array([1.0, 4.0, 2.0]), gamma=0.5, ended=ended))
    [3. 4. 2.]
    """
    discount(gamma)
    _steps("rewards", rewards)
    same_shape(rewards=rewards, ended=ended)
    boolean("ended", ended)
    return _backwards(rewards, gamma * array_namespace(rewards).astype(~ended, rewards.dtype))


@at_least_float32
def discounted_reward_to_go(rewards: Array, gamma: float, ended: Array) -> Array:
    """gamma^t G_t, with t counted from the start of each episode: the weight of log pi in the gradient of J.

    Right form of 002 eq. (35): the occupancy of 002 eq. (36) holds the gamma^t. The first step of an episode has the
    episode's discounted return G_0. Arguments as in :func:`reward_to_go`.

    >>> import numpy as np
    >>> ended = np.array([False, False, True])
    >>> print(discounted_reward_to_go(np.array([1.0, 4.0, 8.0]), gamma=0.5, ended=ended))
    [5. 4. 2.]
    """
    xp = array_namespace(rewards)
    returns = reward_to_go(rewards, gamma, ended)
    power = xp.ones_like(rewards[0, ...])
    powers = []
    for t in range(rewards.shape[0]):
        powers.append(power)
        power = xp.where(ended[t, ...], xp.ones_like(power), gamma * power)
    return xp.stack(powers) * returns


# --- With a critic


@at_least_float32
def td_target(rewards: Array, next_values: Array, terminated: Array, gamma: float) -> Array:
    """TD(0) target r + gamma V(s'), without the second term where the episode terminated: 002 eq. (9).

    ``next_values`` may be anything finite there: it is not used. Truncated steps keep it.

    >>> import numpy as np
    >>> rewards, next_values = np.array([1.0, 1.0]), np.array([4.0, 4.0])
    >>> print(td_target(rewards, next_values, np.array([False, True]), gamma=0.5))
    [3. 1.]
    """
    discount(gamma)
    _steps("rewards", rewards)
    finite("next_values", next_values)
    same_shape(rewards=rewards, next_values=next_values, terminated=terminated)
    boolean("terminated", terminated)
    xp = array_namespace(rewards, next_values)
    return rewards + gamma * xp.where(terminated, xp.zeros_like(next_values), next_values)


@at_least_float32
def td_error(rewards: Array, values: Array, next_values: Array, terminated: Array, gamma: float) -> Array:
    """TD error: the :func:`td_target` minus V(s), 002 eqs. (9), (44).

    >>> import numpy as np
    >>> ended = np.array([False, True])
    >>> print(td_error(np.ones(2), 2 * np.ones(2), 4 * np.ones(2), ended, gamma=0.5))
    [ 1. -1.]
    """
    finite("values", values)
    same_shape(rewards=rewards, values=values)
    return td_target(rewards, next_values, terminated, gamma) - values


@at_least_float32
def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    lam: float,
) -> Array:
    """Generalised advantage estimates: the sum over k of (gamma lam)^k TD errors, up to the end of the episode.

    ``lam=0`` gives the TD error. ``lam=1`` gives the return minus V(s), where the return of an episode that did not
    terminate counts V of its last observation. 002 names it (section 1.5) without writing it out.
    ``lam`` must lie in [0, 1].

    >>> import numpy as np
    >>> rewards, values = np.array([0.0, 1.0]), np.array([0.5, 0.5])  # TD errors 0 and 0.5
    >>> ends = dict(terminated=np.array([False, True]), truncated=np.array([False, False]))
    >>> print(gae(rewards, values, np.array([0.5, 0.0]), **ends, gamma=1.0, lam=0.5))
    [0.25 0.5 ]
    """
    if not 0 <= lam <= 1:
        raise ValueError(f"lam is {lam}; it must lie in [0, 1]")
    errors = td_error(rewards, values, next_values, terminated, gamma)
    same_shape(rewards=rewards, truncated=truncated)
    boolean("truncated", truncated)
    xp = array_namespace(errors)
    return _backwards(errors, gamma * lam * xp.astype(~(terminated | truncated), errors.dtype))
