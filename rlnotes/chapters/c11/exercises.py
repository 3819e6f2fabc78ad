"""Exercises of chapter 11, why off-policy breaks RL."""

import math
from typing import Any

import numpy as np

from rlnotes.chapters.c11.model import pair, response
from rlnotes.logs.stored_logs import stored_log
from rlnotes.notebook.exercise import Exercise

ROUNDED, OLD = "629c", "1317"  # logs of exercise 11.2: a sampler of four bits, one that is 32 updates behind


def direction_of_the_best_cap() -> str:
    """Whether the best cap of the chapter's model grows with the batch, falls, or stays."""
    from rlnotes.chapters.c11.model import kept

    one, caps = pair(), np.geomspace(0.1, 100, 61)
    best = [max(caps, key=lambda cap, n=n: kept(one, response(one, cap), n).share) for n in (10, 1000, 10_000)]
    return "a" if best[0] < best[1] < best[2] else "b" if best[0] > best[1] > best[2] else "c"


def _rounded_and_used_up() -> tuple[str, int]:
    """The log whose sampler is not the learner before any update, and where the weights of the other are used up."""
    (rounded,) = (key for key in (ROUNDED, OLD) if stored_log(key).rows()[0]["staleness"] > 0.01)
    return rounded, stored_log(OLD).first("ess_sequence", below=0.1)


# --- 11.3: the loss of a truncated weight, judged by its gradient

_H = [[0.2, 0.3, -0.1], [1.0, 0.9, 0.0], [-0.7, 1.5, -0.9], [0.4, 0.0, 0.0], [0.9, 0.5, 0.8]]
_MASK = [[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]]
_JUNK = [[0, 0, 0], [0, 0, 2.0], [0, 0, 0], [0, -1.5, 0.7], [0, 0, 0]]  # what stands outside the mask


def _case(*rows: int, cap: float = 2.0) -> tuple[Any, ...]:
    h, mask, junk = (np.array(one, dtype=float)[list(rows)] for one in (_H, _MASK, _JUNK))
    signs = np.array([1.0, -1.0, 1.0, -0.5, 0.5])[list(rows)]
    return h + junk, signs, mask, cap


_PROBES = {
    "a weight below the cap": _case(0),
    "a weight above the cap, A < 0": _case(1),
    "a weight above the cap, A > 0": _case(4),
    "a token above the cap in a response below it": _case(2),
    "a padded response": _case(3),
    "a batch of all": _case(0, 1, 2, 3, 4),
    "another cap": _case(0, 1, 2, 3, 4, cap=1.2),
}


def _slope(loss, h: np.ndarray, A: np.ndarray, mask: np.ndarray, cap: float) -> np.ndarray:
    """The gradient of a loss by the log-probabilities of the tokens, where log pi - log mu is ``h``."""
    import torch  # only here: the other exercises work without it

    logp = torch.tensor(h - 1.5).requires_grad_()
    behavior = torch.full(h.shape, -1.5, dtype=torch.float64)
    found = loss(logp, behavior, torch.tensor(A), torch.tensor(mask) > 0, cap)
    if not isinstance(found, torch.Tensor) or found.ndim:
        raise TypeError("the loss must give back one number, a tensor of no dimension")
    return torch.autograd.grad(found, logp, allow_unused=True, materialize_grads=True)[0].numpy()


def _by_hand(h: np.ndarray, A: np.ndarray, mask: np.ndarray, cap: float) -> np.ndarray:
    """Response by response: minus min(w, C) A / N on each of its tokens."""
    pushes = np.zeros(h.shape)
    for i, (own, kept) in enumerate(zip(h, mask, strict=True)):
        weight = math.prod(math.exp(x) for x, one in zip(own, kept, strict=True) if one)
        pushes[i] = -min(weight, cap) * A[i] / len(h) * kept
    return pushes


def _weights(logp, behavior, mask):
    return ((logp - behavior) * mask).sum(1).exp()


def _given(logp, behavior, A, mask, cap):
    return -(_weights(logp, behavior, mask).clamp(max=cap) * A).mean()


def _pushed(weight, logp, A, mask):
    return -(weight[:, None] * A[:, None] * logp * mask).sum() / len(logp)


def _by_token(logp, behavior, A, mask, cap):
    ratio = (logp - behavior).exp().detach().clamp(max=cap)
    return -(ratio * A[:, None] * logp * mask).sum() / len(logp)


def _capped_tokens(logp, behavior, A, mask, cap):
    limited = (logp - behavior).clamp(max=math.log(cap))
    return _pushed((limited * mask).sum(1).exp().detach(), logp, A, mask)


def _no_mask(logp, behavior, A, mask, cap):
    return _pushed((logp - behavior).sum(1).exp().detach().clamp(max=cap), logp, A, mask)


def _pushes_padding(logp, behavior, A, mask, cap):
    return -(_weights(logp, behavior, mask).detach().clamp(max=cap)[:, None] * A[:, None] * logp).sum() / len(logp)


def _uncapped(logp, behavior, A, mask, cap):
    return _pushed(_weights(logp, behavior, mask).detach(), logp, A, mask)


def _both(logp, behavior, A, mask, cap):
    return _pushed(_weights(logp, behavior, mask).clamp(max=cap), logp, A, mask)


def _token_mean(logp, behavior, A, mask, cap):
    weight = _weights(logp, behavior, mask).detach().clamp(max=cap)
    return -(weight[:, None] * A[:, None] * logp * mask).sum() / mask.sum()


def _length_mean(logp, behavior, A, mask, cap):
    weight = _weights(logp, behavior, mask).detach().clamp(max=cap)
    return -(weight * A * (logp * mask).sum(1) / mask.sum(1)).mean()


def _turned(logp, behavior, A, mask, cap):
    return -_pushed(_weights(logp, behavior, mask).detach().clamp(max=cap), logp, A, mask)


# --- 11.4 and 11.5

NORMS = {32: (1.0, 1.0, 3.0, 3.0), 512: (0.8,)}  # gradient norms by the responses of a batch


def _split(small: float, large: float) -> tuple[float, float]:
    """Noise of one response and signal, from what stands for the mean squared norms of 32 and of 512 responses."""
    noise = (small - large) / (1 / 32 - 1 / 512)
    return noise, small - noise / 32


(_NOISE, _SIGNAL), _AVERAGED, _PLAIN = _split(5, 0.64), _split(2**2, 0.64), _split(2, 0.8)
_FORGOTTEN = (5 - 0.64) * 32  # the noise, if that with 512 is left out of the difference


def _noise_number() -> float:
    """By solving two equations in signal^2 and noise^2."""
    sizes, norms = zip(*NORMS.items(), strict=True)
    signal, noise = np.linalg.solve([[1, 1 / n] for n in sizes], [np.mean(np.square(own)) for own in norms])
    return float(noise / signal)


def _balanced(weights: np.ndarray) -> float:
    """By bisection: what is cut off all of them falls with the cap."""
    low, high = 0.0, float(np.sum(weights))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(weights - middle, 0).sum() > middle else (low, middle)
    return high


def _sorted(w):
    return np.sort(w)[::-1].cumsum()


def _mean_excess(w):
    return _solve(w, 1 / len(w))


def _solve(w, scale):
    low, high = 0.0, float(np.sum(w))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if scale * np.maximum(w - middle, 0).sum() > middle else (low, middle)
    return high


EXERCISES: dict[str, Exercise] = {
    "11.1": Exercise(
        cases=((),),
        oracle=direction_of_the_best_cap,
        misconceptions={
            "a batch averages noise away, and leaves the bias of the cap: which of the two is worth paying for, "
            "then": "b",
            "noise shrinks with the batch, and the bias of a cap does not: so the balance moves": "c",
        },
        hints=("Which of bias and noise does a larger batch make smaller? Which of them does a cap?",),
    ),
    "11.2": Exercise(
        cases=((),),
        oracle=_rounded_and_used_up,
        misconceptions={
            "the name of a log is a text, in quotation marks": (629, ...),
            "at step 1 nobody has updated anything. In which log do sampler and learner disagree there": (OLD, ...),
            "the log is right. This is where the distance before the updates passes 0.1; the share of responses that "
            "count is `ess_sequence`": (ROUNDED, stored_log(OLD).first("staleness", above=0.1)),
            "the log is right. This is where the reward falls; the share of responses that count is `ess_sequence`": (
                ROUNDED,
                20,
            ),
            "the log is right. Below one tenth, not below one third": (
                ROUNDED,
                stored_log(OLD).first("ess_sequence", below=1 / 3),
            ),
            "the other order: first the log, then the step": (..., ROUNDED),
            "the log is right. Go through `ess_sequence` of the other log from the top, to the first below 0.1": (
                ROUNDED,
                ...,
            ),
        },
        hints=("Staleness is the distance before the updates of a round. What should it be in the first round?",),
    ),
    "11.3": Exercise(
        cases=tuple(_PROBES.values()),
        probes=tuple(_PROBES),
        oracle=_by_hand,
        measure=_slope,
        given=_given,
        misconceptions={
            "this caps the ratio of each token by itself: that is token TIS. The cap belongs on the product": _by_token,
            "this caps the tokens before they are multiplied: the cap belongs on the product": _capped_tokens,
            "the mask is missing in the weight: what stands after the end of a response goes into the product": (
                _no_mask
            ),
            "the mask is missing in the push: what stands after the end of a response is pushed": _pushes_padding,
            "the cap is gone: a response above it pushes with its whole weight": _uncapped,
            "the gradient still runs through the weight, beside that of log pi: below the cap this counts the score "
            "more than once. Detach the weight": _both,
            "this divides by tokens; the given loss divides by responses": _token_mean,
            "this divides each response by its length; the given loss adds its tokens up": _length_mean,
            "the sign is turned round: a loss is minimised": _turned,
        },
        hints=("What is the slope of min(w, C) above C? A response above the cap shall push with weight C.",),
    ),
    "11.4": Exercise(
        cases=((),),
        oracle=_noise_number,
        misconceptions={
            "this squares the mean of the norms; it is their squares that are to be averaged": _AVERAGED[0]
            / _AVERAGED[1],
            "the norms are to be squared first: noise and signal add up in squares": _PLAIN[0] / _PLAIN[1],
            "this takes the norm with 512 for the signal; a sixteenth of the noise is still in it": (5 - 0.64)
            * 32
            / 0.64,
            "this takes all of the squared norm with 32 for noise; the signal is in it, too": 5 * 32 / _SIGNAL,
            "this is the noise of one response, squared; how many responses bring it down to the signal": _NOISE,
            "this is the signal, squared": _SIGNAL,
            "this is the noise by the squared norm with 512, not by the signal": _NOISE / 0.64,
            "the sizes differ by noise (1/32 - 1/512); this leaves out the second part": _FORGOTTEN
            / (0.64 - _FORGOTTEN / 512),
            "this is the root: noise number is variance by squared length, with no root at the end": _noise_number()
            ** 0.5,
            "this takes the variance of the four norms for noise: a gradient also turns, which its norm does not see": (
                1 * 32 / 0.64
            ),
        },
        hints=("Two unknowns and two equations: each mean squared norm is signal squared plus noise squared by n.",),
        tolerance=0.0025,  # of 425.95: a response either way
    ),
    "11.5": Exercise(
        cases=(
            (np.array([0.5, 1.0, 6.0]),),
            (np.array([1.0, 1.0, 1.0, 1.0]),),
            (np.array([0.1, 0.2, 0.4, 3.0, 9.0, 2.5]),),
            (np.array([2.0]),),
            (np.exp(np.random.default_rng(0).normal(size=64)),),
        ),
        oracle=_balanced,
        misconceptions={
            "this takes the mean of what is cut off; it is the sum over the batch": _mean_excess,
            "the sum of the k largest is divided by k + 1, not by k": lambda w: (
                _sorted(w) / np.arange(1, len(w) + 1)
            ).max(),
            "this is half of the largest weight: right only where nothing else is above the cap": lambda w: w.max() / 2,
            "this is the root of n, which does not look at the weights": lambda w: len(w) ** 0.5,
            "sort the largest first, and take the largest quotient": lambda w: (
                np.sort(w).cumsum() / np.arange(2, len(w) + 2)
            ).max(),
            "the weights must be sorted first": lambda w: (w.cumsum() / np.arange(2, len(w) + 2)).max(),
        },
        hints=("The sum of what is cut off falls as the cap rises. So there is one place where the two are equal.",),
        tolerance=1e-3,
    ),
}
