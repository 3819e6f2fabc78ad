"""Exercises of chapter 09, GSPO."""

import math
from typing import Any

import numpy as np

from rlnotes.exact.gaussian_ratios import closed_share
from rlnotes.notebook.exercise import Exercise

# --- 09.1: a sampler with noise of 1 on its logits, on responses of 41 tokens

NOISY = dict(spread=0.13, tokens=41, low=3e-4, high=4e-4)


def _which_gates_close() -> str:
    """By the closed form for a noise whose ratios have mean 1."""
    spread, tokens = NOISY["spread"], NOISY["tokens"]
    wrong, right = (
        float(closed_share(-(spread**2) / 2, spread, tokens, "sequence_mean", epsilon, positive))
        for epsilon, positive in ((NOISY["low"], False), (NOISY["high"], True))
    )
    return which(wrong, right)


def which(wrong: float, right: float) -> str:
    """The letter of exercise 09.1 for the shares of closed gates."""
    if max(wrong, right) < 0.05:
        return "a"
    return "b" if abs(wrong - right) < 0.1 else "c" if wrong > right else "d"


# --- 09.2: three logs


def _the_gate_that_could_and_did_not() -> tuple[str, float]:
    """By the rows as they are stored: a KL above 0 at the last update, and no closed gate."""
    from rlnotes.chapters.c09.readings import the_log  # only here: it reads a table

    (name,) = (run for run in "ABC" if _idle(the_log(run)))
    last = the_log(name)[-1]
    return name, last["σ"] / math.sqrt(last["length"])


def _idle(rows: list[dict[str, Any]]) -> bool:
    return all(row["clip fraction"] < 0.02 for row in rows) and rows[-1]["KL"] > 1e-5


def _from_the_log(name: str, what: str) -> float:
    from rlnotes.chapters.c09.readings import the_log  # only here: it reads a table

    KL, sigma, T = (the_log(name)[-1][column] for column in ("KL", "σ", "length"))
    return {"k3": math.sqrt(2 * KL / T), "no root of T": sigma, "by T": sigma / T}[what]


# --- 09.3: the loss of GSPO, with the mean over the width of the batch


def _loss(bar_r, A, epsilon):
    import torch

    return -torch.minimum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A).mean()


def _given(logp, logp_mu, mask, A, epsilon):
    return _loss(((logp - logp_mu) * mask).mean(1).exp(), A, epsilon)


def _unmasked(logp, logp_mu, mask, A, epsilon):
    return _loss(((logp - logp_mu).sum(1) / mask.sum(1)).exp(), A, epsilon)


def _unmasked_mean(logp, logp_mu, mask, A, epsilon):
    return _loss((logp - logp_mu).mean(1).exp(), A, epsilon)


def _product(logp, logp_mu, mask, A, epsilon):
    return _loss(((logp - logp_mu) * mask).sum(1).exp(), A, epsilon)


def _arithmetic(logp, logp_mu, mask, A, epsilon):
    return _loss(((logp - logp_mu).exp() * mask).sum(1) / mask.sum(1), A, epsilon)


def _upside_down(logp, logp_mu, mask, A, epsilon):
    return _loss((((logp_mu - logp) * mask).sum(1) / mask.sum(1)).exp(), A, epsilon)


def _tokens_of_batch(logp, logp_mu, mask, A, epsilon):
    return _loss((((logp - logp_mu) * mask).sum(1) / mask.sum() * len(mask)).exp(), A, epsilon)


def _all_tokens(logp, logp_mu, mask, A, epsilon):
    return _loss((((logp - logp_mu) * mask).sum(1) / mask.sum()).exp(), A, epsilon)


def _logarithm(logp, logp_mu, mask, A, epsilon):
    return _loss(((logp - logp_mu) * mask).sum(1) / mask.sum(1), A, epsilon)


def _bar(logp, logp_mu, mask):
    return (((logp - logp_mu) * mask).sum(1) / mask.sum(1)).exp()


def _unclipped(logp, logp_mu, mask, A, epsilon):
    return -(_bar(logp, logp_mu, mask) * A).mean()


def _without_minimum(logp, logp_mu, mask, A, epsilon):
    return -(_bar(logp, logp_mu, mask).clamp(1 - epsilon, 1 + epsilon) * A).mean()


def _gradient_kept(logp, logp_mu, mask, A, epsilon):
    import torch

    bar_r = _bar(logp, logp_mu, mask)
    least = torch.minimum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A)
    return -(bar_r * A + (least - bar_r * A).detach()).mean()


def _clamped_gradient_kept(logp, logp_mu, mask, A, epsilon):
    bar_r = _bar(logp, logp_mu, mask)
    return -((bar_r + (bar_r.clamp(1 - epsilon, 1 + epsilon) - bar_r).detach()) * A).mean()


def _clipped_logarithm(logp, logp_mu, mask, A, epsilon):
    import torch

    log_r = ((logp - logp_mu) * mask).sum(1) / mask.sum(1)
    return -torch.minimum(log_r.exp() * A, log_r.clamp(-epsilon, epsilon).exp() * A).mean()


def _by_tokens(logp, logp_mu, mask, A, epsilon):
    import torch

    r = ((logp - logp_mu) * mask).exp()
    terms = torch.minimum(r * A[:, None], r.clamp(1 - epsilon, 1 + epsilon) * A[:, None])
    return -((terms * mask).sum(1) / mask.sum(1)).mean()


def _least(logp, logp_mu, mask, A, epsilon):
    import torch

    bar_r = _bar(logp, logp_mu, mask)
    return torch.minimum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A)


def _by_length(logp, logp_mu, mask, A, epsilon):
    T = mask.sum(1)
    return -(_least(logp, logp_mu, mask, A, epsilon) * T).sum() / T.sum()


def _maximum(logp, logp_mu, mask, A, epsilon):
    import torch

    bar_r = _bar(logp, logp_mu, mask)
    return -torch.maximum(bar_r * A, bar_r.clamp(1 - epsilon, 1 + epsilon) * A).mean()


def _sum(logp, logp_mu, mask, A, epsilon):
    return -_least(logp, logp_mu, mask, A, epsilon).sum()


def _turned(logp, logp_mu, mask, A, epsilon):
    return _least(logp, logp_mu, mask, A, epsilon).mean()


def _sum_over_active(logp, logp_mu, mask, A, epsilon):
    return -_least(logp, logp_mu, mask, A, epsilon).sum() / (A != 0).sum()


def _dual_clip(logp, logp_mu, mask, A, epsilon):
    import torch

    least = _least(logp, logp_mu, mask, A, epsilon)
    return -torch.where(A < 0, torch.maximum(least, 3 * A), least).mean()


def _no_lower_edge(logp, logp_mu, mask, A, epsilon):
    import torch

    bar_r = _bar(logp, logp_mu, mask)
    return -torch.minimum(bar_r * A, bar_r.clamp(max=1 + epsilon) * A).mean()


def _no_upper_edge(logp, logp_mu, mask, A, epsilon):
    import torch

    bar_r = _bar(logp, logp_mu, mask)
    return -torch.minimum(bar_r * A, bar_r.clamp(min=1 - epsilon) * A).mean()


Case = tuple[list[list[float]], list[int], list[float], float]  # log-ratios, lengths, advantages, range


def _value_and_gradient(loss, log_ratios: list[list[float]], lengths: list[int], advantages: list[float], epsilon):
    """The loss, and its gradient by the new log-probability of each token."""
    import torch  # only here: the other exercises work without it

    log_ratio = torch.tensor(log_ratios, dtype=torch.float64)
    mask = (torch.arange(log_ratio.shape[1]) < torch.tensor(lengths)[:, None]).double()
    old = -1 - torch.arange(log_ratio.numel(), dtype=torch.float64).view(log_ratio.shape) / 10
    logp = (old + log_ratio).requires_grad_()
    value = loss(logp, old, mask, torch.tensor(advantages, dtype=torch.float64), epsilon)
    (slope,) = torch.autograd.grad(value, logp)
    return np.concatenate([[value.item()], slope.flatten().numpy()])


def _by_walking(log_ratios: list[list[float]], lengths: list[int], advantages: list[float], epsilon) -> np.ndarray:
    """The same, response by response and by hand."""
    total, slopes = 0.0, []
    for row, length, A in zip(log_ratios, lengths, advantages, strict=True):
        bar_r = math.prod(math.exp(x) for x in row[:length]) ** (1 / length)
        closed = bar_r > 1 + epsilon if A > 0 else bar_r < 1 - epsilon
        edge = 1 + epsilon if A > 0 else 1 - epsilon
        total -= (edge if closed else bar_r) * A / len(lengths)
        slope = 0.0 if closed else -bar_r * A / length / len(lengths)
        slopes += [slope] * length + [0.0] * (len(row) - length)
    return np.array([total, *slopes])


PROBES: dict[str, Case] = {
    "equal lengths, inside the range": ([[0.05, -0.02], [0.01, 0.03]], [2, 2], [1.0, -0.5], 0.1),
    "a short response in a wide batch": ([[0.05, 0.0, 0.0, 0.0], [0.01, 0.03, -0.02, 0.04]], [1, 4], [1.0, -1.0], 0.2),
    "numbers in the padding": ([[0.05, 2.0, 2.0], [0.01, 0.03, -0.02]], [1, 3], [1.0, -1.0], 0.2),
    "right, beyond the range": ([[0.3, 0.1, 0.0], [0.0, 0.1, 0.0]], [2, 3], [1.0, 0.5], 0.1),
    "wrong, beyond the range": ([[-0.3, -0.1, 0.0], [0.0, 0.1, 0.0]], [2, 3], [-1.0, 0.5], 0.1),
    "right, and it has become less likely": ([[-0.4, -0.2, 0.0], [0.0, 0.1, 0.0]], [2, 3], [1.0, 0.5], 0.1),
    "wrong, and it has become more likely": ([[0.4, 0.2, 0.0], [0.0, 0.1, 0.0]], [2, 3], [-1.0, 0.5], 0.1),
    "wrong and 20 times as likely a token, beside one without an advantage": (
        [[3.1, 2.9, 0.0], [0.0, 0.1, 0.0], [0.05, 0.0, 0.0]],
        [2, 3, 1],
        [-1.0, 0.5, 0.0],
        0.1,
    ),
    "one wild token": ([[1.6, -0.5, -0.5, -0.5], [0.0, 0.02, 0.0, 0.0]], [4, 4], [1.0, -1.0], 0.05),
}

# --- 09.4, on paper

LOWER = 3e-4


def _widest_noise() -> float:
    """By halving: the noise at which half of very long wrong responses are closed."""
    low, high = 1e-6, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        share = closed_share(-(middle**2) / 2, middle, 1e12, "sequence_mean", LOWER, positive=False)
        low, high = (middle, high) if share < 0.5 else (low, middle)
    return low


# --- 09.5: a range from a run


def _range_by_walking(log_r: np.ndarray, mask: np.ndarray) -> float:
    """Token by token."""
    own = [float(x) for row, inside in zip(log_r, mask, strict=True) for x, i in zip(row, inside, strict=True) if i]
    mean = math.fsum(own) / len(own)
    variance = math.fsum((x - mean) ** 2 for x in own) / len(own)
    return math.sqrt(variance / (len(own) / len(mask)))


def _with_ddof(log_r: np.ndarray, mask: np.ndarray) -> float:
    count = int(mask.sum())
    return _range_by_walking(log_r, mask) * math.sqrt(count / (count - 1))


_LOG_R = np.array([[0.3, -0.2, 0.1, 0.0], [0.05, 0.0, 0.0, 0.0], [-0.4, 0.2, 0.1, -0.1]])
_OWN = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
_PADDED = np.where(_OWN, _LOG_R, 7.0)

EXERCISES: dict[str, Exercise] = {
    "09.1": Exercise(
        cases=((),),
        oracle=_which_gates_close,
        misconceptions={
            "that would be so if mu were pi. Here the two differ before anything is learned, and 4e-4 is a narrow "
            "range": lambda: "a",
            "that would be so if the noise left the mean log-ratio at 0. But tokens that mu drew are, in the mean, "
            "likelier under mu than under pi": lambda: "b",
            "the other way round: tokens that mu drew are, in the mean, likelier under mu than under pi, so that the "
            "mean log-ratio is below 0": lambda: "d",
        },
        hints=("Before any update the log-ratio of a token is log pi - log mu. What is its mean over what mu drew?",),
    ),
    "09.2": Exercise(
        cases=((),),
        oracle=_the_gate_that_could_and_did_not,
        misconceptions={
            "in A the KL at the last update is 0: it is the only update, every ratio is 1, and no range could act": (
                "A",
                ...,
            ),
            "in B the gate does act: two thirds of the gates are closed": ("B", ...),
            "the run is right. That takes sigma from the KL, which is that of one minibatch, before the last step: too "
            "little here. The log has sigma itself": lambda: ("C", _from_the_log("C", "k3")),
            "the run is right. That is the spread of a token; a response's is smaller by the root of its length": (
                lambda: ("C", _from_the_log("C", "no root of T"))
            ),
            "the run is right. The scatter falls with the root of the length, not with the length": (
                lambda: ("C", _from_the_log("C", "by T"))
            ),
            "the run is right; its range is another: sigma over the root of the length, by the last row": ("C", ...),
            "the run in quotes first, then the number": (..., "ABC"),
        },
        hints=("The log has the spread of a token's log-ratio. What makes it that of a response?",),
        tolerance=4e-4,  # the printed columns are rounded
    ),
    "09.3": Exercise(
        cases=tuple(PROBES.values()),
        probes=tuple(PROBES),
        oracle=_by_walking,
        measure=_value_and_gradient,
        given=_given,
        misconceptions={
            "each response is now divided by its own length, but padding is counted: keep the mask in the sum": (
                _unmasked
            ),
            "the mask is gone from the sum, and the width of the batch still divides": _unmasked_mean,
            "this is the product, the importance weight: its log is the sum, and here the mean is asked for": _product,
            "this is the mean of the ratios. The ratio of GSPO is the exponential of the mean log-ratio": _arithmetic,
            "the ratio is upside down: new over old": _upside_down,
            "each response is divided by the mean length of the batch; divide it by its own": _tokens_of_batch,
            "each response is divided by all tokens of the batch; divide it by its own": _all_tokens,
            "this is the mean log-ratio; its exponential is asked for": _logarithm,
            "nothing is clipped": _unclipped,
            "without the minimum a response that has moved the wrong way gets no gradient back": _without_minimum,
            "the value is clipped, and the gradient still flows: a closed gate gives none": _gradient_kept,
            "the ratio is clipped, and the gradient still flows: a closed gate gives none, and one that moved the "
            "wrong way is open": _clamped_gradient_kept,
            "the logarithm is clipped to [-epsilon, epsilon]; the edges are those of the ratio, 1 - epsilon and "
            "1 + epsilon": _clipped_logarithm,
            "these are GRPO's terms: a ratio and a gate for each token": _by_tokens,
            "the ratios are right, and long responses weigh more: take the plain mean over responses": _by_length,
            "the minimum was right: the maximum keeps the gradient of a response beyond the range": _maximum,
            "the ratios are right; the loss is the mean over responses, not their sum": _sum,
            "the sign is turned: the loss is minus the objective": _turned,
            "the ratios are right; the mean is over all responses, those without an advantage, too": _sum_over_active,
            "this is a dual clip: it lets go of a wrong response that is 3 times as likely a token. Here it pushes "
            "on": _dual_clip,
            "the lower edge of the clip is gone; it was right as given": _no_lower_edge,
            "the upper edge of the clip is gone; it was right as given": _no_upper_edge,
        },
        hints=(
            "Two responses of one batch, one short. By which number is the sum of its log-ratios divided? The other "
            "lines are right as they were given.",
        ),
    ),
    "09.4": Exercise(
        cases=((),),
        oracle=_widest_noise,
        misconceptions={
            "that is the drift that is allowed; the drift is half the square of the spread": lambda: (
                -math.log1p(-LOWER)
            ),
            "the drift is half of the spread squared, so that a 2 is missing": lambda: math.sqrt(-math.log1p(-LOWER)),
            "twice the drift is the square of the spread: take the root": lambda: -2 * math.log1p(-LOWER),
        },
        hints=("In a very long response the mean log-ratio is its drift. How large may that be?",),
        tolerance=1.2e-4,
    ),
    "09.5": Exercise(
        cases=((_LOG_R, _OWN), (_PADDED, _OWN), (_LOG_R[:, :3], np.ones((3, 3), bool)), (_LOG_R[::2] + 0.2, _OWN[::2])),
        oracle=_range_by_walking,
        also=_with_ddof,
        misconceptions={
            "padding is counted in the spread: take the tokens of the mask": (
                lambda x, m: x.std() / math.sqrt(m.sum(1).mean())
            ),
            "padding is counted as zeros in the spread: take the tokens of the mask": (
                lambda x, m: (x * m).std() / math.sqrt(m.sum(1).mean())
            ),
            "the length is that of the responses, not the width of the batch": (
                lambda x, m: x[m].std() / math.sqrt(m.shape[1])
            ),
            "the scatter falls with the root of the length": lambda x, m: x[m].std() / m.sum(1).mean(),
            "that is the root of all tokens of the batch: take those of one response": (
                lambda x, m: x[m].std() / math.sqrt(m.sum())
            ),
            "the root of the mean length, not the mean of the roots": (
                lambda x, m: x[m].std() / np.sqrt(m.sum(1)).mean()
            ),
            "the root is of each length here; take that of the mean length": (
                lambda x, m: x[m].std() * (1 / np.sqrt(m.sum(1))).mean()
            ),
            "the mean length is asked for, not the median": lambda x, m: x[m].std() / math.sqrt(np.median(m.sum(1))),
            "that is the mean of the spreads within each response; take one spread of all tokens": (
                lambda x, m: (
                    np.mean([row[own].std() for row, own in zip(x, m, strict=True)]) / math.sqrt(m.sum(1).mean())
                )
            ),
            "that is the spread of a token alone": lambda x, m: x[m].std(),
            "that is the root mean square: a spread is taken from the mean": (
                lambda x, m: math.sqrt((x[m] ** 2).mean() / m.sum(1).mean())
            ),
            "that is the scatter itself, measured on these responses. It is a good range, too; here sigma / sqrt(T) "
            "is asked for": lambda x, m: ((x * m).sum(1) / m.sum(1)).std(),
        },
        hints=("Two numbers: the spread of all tokens that the mask has, and the mean length.",),
        tolerance=1e-6,
    ),
}
