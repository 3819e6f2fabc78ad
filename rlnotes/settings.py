"""What a setting may be: asked in ``__post_init__``, before anything is made of it."""

from functools import cache
from math import inf
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def within(settings: Any, least: float, *names: str, most: float = inf) -> None:
    """Raise ``ValueError`` for the first of the ``names`` of ``settings`` that is not in [least, most], or not finite.

    Examples:
        >>> from rlnotes.lm.config import TrainConfig
        >>> TrainConfig(switch=1.5)
        Traceback (most recent call last):
        ValueError: switch is 1.5; it must be in [0, 1]
    """
    for name in names:
        value = getattr(settings, name)
        if not least <= value <= most or value == inf:
            wanted = f"at least {least} and finite" if most == inf else f"in [{least}, {most}]"
            raise ValueError(f"{name} is {value}; it must be {wanted}")


def positive(settings: Any, *names: str, most: float = inf) -> None:
    """Raise ``ValueError`` for the first of the ``names`` of ``settings`` that is not in (0, most], or not finite."""
    for name in names:
        value = getattr(settings, name)
        if not 0 < value <= most or value == inf:
            raise ValueError(
                f"{name} is {value}; it must be positive and {f'at most {most}' if most < inf else 'finite'}"
            )


def of_their_kinds(settings: Any) -> None:
    """Raise ``ValueError`` for the first field of the dataclass ``settings`` that is not of its declared type, as one
    from a file may be: text for a number, or a word that is no choice.

    Examples:
        >>> from rlnotes.lm.config import TrainConfig
        >>> TrainConfig(prompts=2.5)
        Traceback (most recent call last):
        ValueError: prompts is 2.5; it must be a whole number
    """
    for name, hint in _hints(type(settings)).items():
        if not _is_of(value := getattr(settings, name), hint):
            raise ValueError(f"{name} is {value!r}; it must be {_said(hint)}")


_hints = cache(get_type_hints)  # of a class
_PLAIN: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
    str: (str, "a text"),
    NoneType: (NoneType, "None"),
}


def _is_of(value: Any, hint: Any) -> bool:
    options = get_args(hint)
    if get_origin(hint) is Literal:
        return value in options
    if get_origin(hint) in (Union, UnionType):
        return any(_is_of(value, option) for option in options)
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(_is_of(one, options[0]) for one in value)
    return isinstance(value, _PLAIN[hint][0]) and (hint is bool or not isinstance(value, bool))


def _said(hint: Any) -> str:
    options = get_args(hint)
    if get_origin(hint) is Literal:
        return f"one of {', '.join(options)}"
    if get_origin(hint) is tuple:
        return f"several, each {_said(options[0])}"
    return " or ".join(map(_said, options)) if options else _PLAIN[hint][1]
