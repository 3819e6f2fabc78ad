"""Explorer of chapter 08: how hard wrong responses are pushed beside right ones, under three denominators."""

import numpy as np

from rlnotes.estimators.baselines import group_mean
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

SIZE, SHORTEST, LIMIT = 8, 6, 40  # responses in the group, lengths of the wrong ones
LABELS = ("response mean", "constant", "token mean")


class DenominatorExplorer(ExplorerModel):
    """Right responses of one length and wrong ones of another: the push of a token, and of a whole response."""

    script = "denominator.js"
    title = "One group of eight, three denominators"
    controls = (
        Control("right", "right responses, of 8", 1, 7, 1, 3),
        Control("short", "length of the right ones", 2, 12, 1, 6),
        Control("long", "length of the wrong ones", SHORTEST, LIMIT, 1, LIMIT),
    )
    panels = (
        Axes(
            "one token: wrong beside right", "length of the wrong responses", "push, wrong / right", (SHORTEST, LIMIT)
        ),
        Axes(
            "a whole response: wrong beside right",
            "length of the wrong responses",
            "push, wrong / right",
            (SHORTEST, LIMIT),
        ),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By the aggregations of :mod:`rlnotes.objectives`, for every length of the wrong responses."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives.aggregations import Totals, constant, response_mean, token_mean

        right, lengths = int(values["right"]), np.arange(SHORTEST, LIMIT + 1)
        advantages = group_mean((np.arange(SIZE) < right).astype(np.float64), SIZE)
        tokens, wholes = [], []
        for label, aggregation in zip(LABELS, (response_mean, constant, token_mean), strict=True):
            of_token, of_whole = [], []
            for length in lengths:
                each = torch.tensor([values["short"]] * right + [length] * (SIZE - right))
                own = (torch.arange(LIMIT) < each[:, None]).double()
                shares = aggregation(own, Totals.of(own)).numpy()
                pushes = abs(shares * advantages[:, None])
                of_token.append(pushes[-1, 0] / pushes[0, 0])
                of_whole.append(pushes[-1].sum() / pushes[0].sum())
            tokens.append((label, lengths, np.array(of_token)))
            wholes.append((label, lengths, np.array(of_whole)))
        return [tokens, wholes]

    def marks(self, **values: float) -> list[float]:
        """At the length of the wrong responses."""
        return [values["long"]] * 2

    def alt(self, values: dict[str, float]) -> str:
        """With the ends of each curve."""
        ends = [f"{label} from {y[0]:.2f} to {y[-1]:.2f}" for panel in self.curves(**values) for label, _, y in panel]
        of = len(LABELS)
        return (
            f"{super().alt(values)}. Push of a wrong token beside a right one, wrong ones of {SHORTEST} to {LIMIT} "
            f"tokens: {', '.join(ends[:of])}. Of a whole response: {', '.join(ends[of:])}."
        )


EXPLORERS: dict[str, ExplorerModel] = {"denominator": DenominatorExplorer()}
