"""Quiz of chapter 09, GSPO."""

import math

from rlnotes.exact.gaussian_ratios import closed_share
from rlnotes.notebook.quiz import Choice, Question, Quiz

LONG = 2000  # tokens
FACTOR = LONG * math.log10(1.2)  # log10 of how much likelier a response is at the edge of 0.2
SIGMA, TOKENS, LOW, HIGH = 0.1, 5000, 3e-4, 4e-4
WRONG, RIGHT = (
    float(closed_share(-(SIGMA**2) / 2, SIGMA, TOKENS, "sequence_mean", epsilon, positive))
    for epsilon, positive in ((LOW, False), (HIGH, True))
)

QUIZ = Quiz(
    "Quiz of chapter 09",
    (
        Question(
            f"GSPO in TRL, epsilon 0.2, responses of {LONG} tokens, four updates to a rollout. The clip fraction is "
            "0.000 at every step. What does that say?",
            (
                Choice(
                    "The policy stays close to the sampler: the trust region holds.",
                    f"Nothing has held it. A gate closes when a response is 10^{FACTOR:.0f} times as likely as it was.",
                ),
                Choice(
                    f"No gate has acted: it waits until a response is 10^{FACTOR:.0f} times as likely as before.",
                    "A range for the mean of many tokens has to be counted in sigma / sqrt(T).",
                    right=True,
                ),
                Choice(
                    "The ratio is 1 at every update, as there is one update to a rollout.",
                    "Then it would read 0, too. But there are four.",
                ),
            ),
        ),
        Question(
            "GSPO with the paper's range, a wrong response of 1000 tokens. One token has become a fifth as likely as "
            "it was, nothing else has moved. Which tokens get no gradient?",
            (
                Choice(
                    "That one: a fifth is far beyond the range.",
                    "The gate is that of the response. A clip of tokens at 0.2 would stop that one alone.",
                ),
                Choice(
                    "All 1000.",
                    f"The mean log-ratio is -{math.log(5) / 1000:.4f}, below the edge: one gate for all tokens.",
                    right=True,
                ),
                Choice(
                    "None: one token does not move the mean of 1000.",
                    f"It moves it by {math.log(5) / 1000:.4f}, {math.log(5) / 0.3:.0f} times the lower range.",
                ),
            ),
        ),
        Question(
            f"The ratio is to the sampler's own log-probabilities. Before any update sigma is {SIGMA:g}, ratios have "
            f"the mean 1, and responses {TOKENS} tokens. The range is {LOW:g} and {HIGH:g}. Whose gates are closed?",
            (
                Choice(
                    "Hardly any: noise averages out over so many tokens.",
                    f"The scatter does, to {SIGMA / TOKENS**0.5:.4f}. The drift of {SIGMA**2 / 2:g} stays.",
                ),
                Choice(
                    "About half of each.",
                    "That is so where the scatter is large beside drift and range: in short responses.",
                ),
                Choice(
                    f"{WRONG:.0%} of the wrong ones, {RIGHT:.0%} of the right ones.",
                    f"The drift, minus {SIGMA**2 / 2:g}, is far below the lower edge and {TOKENS**0.5 * SIGMA / 2:.1f} "
                    "scatters from 0.",
                    right=True,
                ),
            ),
        ),
        Question(
            "Tokens are independent, and each has a reward of its own; that of a response is their sum. Which of these "
            "gives the change of the expected reward without bias?",
            (
                Choice(
                    "The token ratios, each with the centred reward of the response.",
                    "Each ratio corrects its own token, and the others do not feel it. It takes a reward that looks "
                    "at tokens together to go wrong.",
                    right=True,
                ),
                Choice(
                    "The length-normalised ratio: the reward belongs to the response.",
                    "Its mean is not 1. For this chapter's pair it was up to 32 % off, where token ratios were exact.",
                ),
                Choice(
                    "Only the product: it alone is an importance weight.",
                    "It is right, too, with a variance that grows exponentially. But not it alone.",
                ),
            ),
        ),
        Question(
            "verl 0.9.1, loss_mode=gspo, nothing else set. How hard is a whole response of 4000 tokens pushed, beside "
            "one of 1000 with the same advantage, at ratio 1?",
            (
                Choice(
                    "As hard: GSPO takes the mean per response.", "It did through 0.9.0. Now it obeys loss_agg_mode."
                ),
                Choice(
                    "4 times as hard",
                    "The default loss_agg_mode is token-mean. Set seq-mean-token-mean for the GSPO of the paper.",
                    right=True,
                ),
                Choice(
                    "1/4 as hard",
                    "That is one token of the long one, beside a token of the short, in the paper's GSPO.",
                ),
            ),
        ),
    ),
)
