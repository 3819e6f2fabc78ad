"""Small decision processes in which a plausible method goes wrong, in closed form."""

import numpy as np


def surrogate_trap(
    step: np.ndarray, damage: float, rare: float, careless: float = 0.001, gamma: float = 0.9
) -> tuple[np.ndarray, np.ndarray]:
    """What a local surrogate predicts and what the return does: 002 Example 4.1.1, for a step of any size.

    From the start a door leads to a room, and is taken with probability ``rare``. In the room one button pays 1, the
    other costs ``damage``; the old policy presses the bad one with probability ``careless``. The new policy mixes the
    old one with "always through the door, always the bad button", in proportion ``step`` in [0, 1]. Returns the
    predicted and the true change of the expected discounted return, arrays like ``step``.
    """
    value = 1 - careless * (1 + damage)  # of the room, under the old policy
    advantage_door, advantage_button = (1 - rare) * gamma * value, -(1 + damage) * (1 - careless)
    predicted = step * (advantage_door + rare * gamma * advantage_button)
    door, button = (1 - step) * rare + step, (1 - step) * careless + step
    return predicted, gamma * door * (1 - button * (1 + damage)) - gamma * rare * value
