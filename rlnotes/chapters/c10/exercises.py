"""Exercises of chapter 10, SAPO."""

import math

import numpy as np
from scipy.integrate import quad

from rlnotes.notebook.exercise import Exercise


def _sech2(x: float) -> float:
    return 1 / math.cosh(x) ** 2


def _hardest() -> float:
    """By listing the four pushes, each as a difference quotient of the term over the log-ratio."""
    ratios = (0.1, 1.0, 2.0, 4.0)

    def push(r: float) -> float:
        h = 1e-5
        return (_term(r * math.exp(h), 1.0, 1.0, 1.0) - _term(r * math.exp(-h), 1.0, 1.0, 1.0)) / (2 * h)

    return max(ratios, key=push)


def _term(ratio: float, advantage: float, tau_pos: float, tau_neg: float) -> float:
    """The gate added up from ratio 0 on, by quadrature; at ratio 0 the term is (4 / tau) sigmoid(-tau) A."""
    tau = tau_pos if advantage > 0 else tau_neg
    area, _ = quad(lambda r: _sech2(tau / 2 * (r - 1)), 0, ratio, epsabs=1e-12)
    return (4 / tau / (1 + math.exp(tau)) + area) * advantage


def _push(ratio: float, advantage: float, tau_pos: float, tau_neg: float) -> float:
    """The slope of the term over the log-ratio, by a central difference of higher order."""
    h = 1e-2
    at = [_term(ratio * math.exp(k * h), advantage, tau_pos, tau_neg) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)


def _on_policy(advantages: np.ndarray, tau_pos: float, tau_neg: float) -> float:
    """Response by response, each term at ratio 1."""
    return sum(_term(1.0, float(a), tau_pos, tau_neg) for a in advantages) / len(advantages)


def _half_width(width: float) -> float:
    """The temperature at which the gate is a half at 1 + width: its interval is halved again and again."""
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _sech2(middle / 2 * width) > 0.5 else (low, middle)
    return low


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _tau(advantage: float, tau_pos: float, tau_neg: float) -> float:
    return tau_pos if advantage > 0 else tau_neg


_PLACES = tuple((r, a, 1.0, 3.0) for r in (0.3, 1.0, 1.7, 2.5) for a in (1.5, -2.0))

EXERCISES: dict[str, Exercise] = {
    "10.0": Exercise(
        cases=((),),
        oracle=_hardest,
        misconceptions={
            "there the gate is largest, 1; but the push is the gate times r, and r = 2 makes up for more": lambda: 1,
            "r is large there, but the gate is 0.18, and 4 times 0.18 is 0.72: at 2 it is more": lambda: 4,
            "the gate is about 0.8 there, and r is 0.1": lambda: 0.1,
            "that is where the curve peaks; asked is which of the four": lambda: 2.06,
        },
        hints=("The push is the right panel.", "Put the sign on +1 and τ on 1, and read SAPO's number at each ratio."),
    ),
    "10.1": Exercise(
        cases=_PLACES,
        oracle=_term,
        misconceptions={
            "the factor 4 / tau is missing: the slope at ratio 1 would not be 1": lambda r, a, p, n: (
                _sigmoid(_tau(a, p, n) * (r - 1)) * a
            ),
            "the temperatures have changed places: tau_pos is for A > 0": lambda r, a, p, n: (
                4 / _tau(-a, p, n) * _sigmoid(_tau(-a, p, n) * (r - 1)) * a
            ),
            "this is tau_pos for both signs; a token with A <= 0 has tau_neg": lambda r, a, p, n: (
                4 / p * _sigmoid(p * (r - 1)) * a
            ),
            "the advantage is missing: bad tokens would be pushed up too": lambda r, a, p, n: (
                4 / _tau(a, p, n) * _sigmoid(_tau(a, p, n) * (r - 1))
            ),
            "the sigmoid is of tau (r - 1), so that the gate is open at r = 1": lambda r, a, p, n: (
                4 / _tau(a, p, n) * _sigmoid(_tau(a, p, n) * r) * a
            ),
            "this is the loss; the term is to be maximised": lambda r, a, p, n: (
                -4 / _tau(a, p, n) * _sigmoid(_tau(a, p, n) * (r - 1)) * a
            ),
        },
        hints=(
            "First choose tau by the sign of the advantage.",
            "4 / tau times the sigmoid of tau (r - 1), times the advantage.",
            "4 / tau / (1 + np.exp(-tau * (ratio - 1))) * advantage",
        ),
    ),
    "10.2": Exercise(
        cases=_PLACES,
        oracle=_push,
        tolerance=1e-5,
        misconceptions={
            "this is the derivative by r; one by log pi has a factor r more": lambda r, a, p, n: (
                _sech2(_tau(a, p, n) / 2 * (r - 1)) * a
            ),
            "this is equation (120) as printed; the sech^2 has got lost in it": lambda r, a, p, n: (
                2 * (_tau(a, p, n) / 2 * (r - 1)) * r * a
            ),
            "this is tau_pos for both signs; a token with A <= 0 has tau_neg": lambda r, a, p, n: (
                r * a * _sech2(p / 2 * (r - 1))
            ),
            "the sech is not squared": lambda r, a, p, n: r * a / math.cosh(_tau(a, p, n) / 2 * (r - 1)),
            "inside the sech stands tau / 2, not tau": lambda r, a, p, n: r * a * _sech2(_tau(a, p, n) * (r - 1)),
            "this is the gate alone; it multiplies r A": lambda r, a, p, n: _sech2(_tau(a, p, n) / 2 * (r - 1)),
            "4 sigma (1 - sigma) is 1 at r = 1; without the 4 it is a quarter": lambda r, a, p, n: (
                r * a * _sech2(_tau(a, p, n) / 2 * (r - 1)) / 4
            ),
            "there is no gate in it": lambda r, a, p, n: r * a,
        },
        hints=(
            "Equation (121): gate times ratio times advantage.",
            "The gate is 4 s (1 - s), s the sigmoid of tau (r - 1), with tau chosen by the sign of A.",
            "4 * s * (1 - s) * ratio * advantage",
        ),
    ),
    "10.3": Exercise(
        cases=(
            (np.array([1.0, -1.0]), 1.0, 1.05),
            (np.array([1.0, -1.0]), 2.0, 5.0),
            (np.array([3.0, -1.0, -1.0, -1.0]), 1.0, 1.5),
            (np.array([2.0, -0.5, 0.5]), 1.0, 1.5),
        ),
        oracle=_on_policy,
        misconceptions={
            "it would be 0 with one temperature only; here the two signs have different ones": lambda a, p, n: 0.0,
            "the sigmoid of 0 is one half": lambda a, p, n: np.mean(4 / np.where(a > 0, p, n) * a),
            "this is the sum over the responses; (119) divides by their number": lambda a, p, n: np.sum(
                2 / np.where(a > 0, p, n) * a
            ),
            "the temperatures have changed places": lambda a, p, n: np.mean(2 / np.where(a > 0, n, p) * a),
            "this is the loss, minus the objective": lambda a, p, n: -np.mean(2 / np.where(a > 0, p, n) * a),
        },
        hints=(
            "What is f at r = 1? The sigmoid of 0 is 1/2.",
            "So each response has 2 / tau times its advantage, with the tau of its sign.",
            "np.mean(2 / np.where(advantages > 0, tau_pos, tau_neg) * advantages)",
        ),
    ),
    "10.4": Exercise(
        cases=((0.2,), (1.0,), (0.05,)),
        oracle=_half_width,
        tolerance=2e-4,  # Fact 10.7 prints 1.763
        misconceptions={
            "this makes sech a half; the gate is its square": lambda w: 2 * math.acosh(2) / w,
            "inside the sech stands tau / 2: a factor 2 is missing": lambda w: math.acosh(math.sqrt(2)) / w,
            "this is a temperature of the right order; solve sech^2(tau / 2 * width) = 1/2 for it": lambda w: 1 / w,
            "this is the place where the gate of temperature `width` is a half; the roles are the other way round": (
                lambda w: 2 * math.acosh(math.sqrt(2)) * w
            ),
        },
        hints=(
            "sech^2(x) = 1/2 means cosh(x) = sqrt(2).",
            "x = tau / 2 * width, so tau = 2 x / width, and np.arccosh gives x.",
            "2 * np.arccosh(np.sqrt(2)) / width",
        ),
    ),
    "10.5": Exercise(
        cases=((),),
        oracle=lambda: "bdf",
        misconceptions={
            "(a) is (116) as printed: the derivative is the advantage times that": lambda: "abdf",
            "(c): at ratio 1 its value is the mean of 2 / tau times A; with two temperatures that is not 0": lambda: (
                "bcdf"
            ),
            "(e): its gate is never 0, so nothing stops the ratio, only slows it": lambda: "bdef",
            "(f) is true too: it closes on both sides, also where a token has to come back": lambda: "bd",
            "(b) is true too: inside the band 1 - gate is at most tau^2 epsilon^2 / 4, one per cent": lambda: "df",
        },
        hints=(
            "Three are true.",
            "Try ratio 3 with a negative advantage: which method pulls it back?",
        ),
    ),
}
