"""What a number of a setting may be: asked in ``__post_init__``, before anything is made of it."""

from math import inf
from typing import Any


def within(settings: Any, least: float, *names: str, most: float = inf) -> None:
    """Raise ``ValueError`` for the first of the ``names`` of ``settings`` that is not in [least, most], or not finite.

    Examples:
        >>> from rlnotes.control.ppo import PPOConfig
        >>> PPOConfig(gamma=1.5)
        Traceback (most recent call last):
        ValueError: gamma is 1.5; it must be in [0, 1]
    """
    for name in names:
        value = getattr(settings, name)
        if not least <= value <= most or value == inf:
            wanted = f"at least {least} and finite" if most == inf else f"in [{least}, {most}]"
            raise ValueError(f"{name} is {value}; it must be {wanted}")


def positive(settings: Any, *names: str) -> None:
    """Raise ``ValueError`` for the first of the ``names`` of ``settings`` that is not above 0, or not finite."""
    for name in names:
        value = getattr(settings, name)
        if not 0 < value < inf:
            raise ValueError(f"{name} is {value}; it must be positive and finite")
