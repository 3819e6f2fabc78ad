"""How often at least one of k responses is right, from n that were sampled."""

from math import comb


def pass_at_k(right: int, samples: int, k: int) -> float:
    """The chance that one of ``k`` responses, drawn without putting back from ``samples``, is among the ``right`` ones:
    1 - C(n - c, k) / C(n, k), c right ones of n. Its mean over samples is that of k fresh responses.

    Raises ``ValueError`` for a ``k`` that is not in [1, n], or a c that is not in [0, n].

    >>> pass_at_k(1, 4, 1), pass_at_k(1, 4, 2), pass_at_k(3, 4, 2)
    (0.25, 0.5, 1.0)
    """
    if not 1 <= k <= samples:
        raise ValueError(f"k is {k}; it must be in [1, {samples}], the number of samples")
    if not 0 <= right <= samples:
        raise ValueError(f"right is {right}; it must be in [0, {samples}], the number of samples")
    return 1 - comb(samples - right, k) / comb(samples, k)
