"""Explorer of chapter 08: what a token weighs under three denominators."""

import numpy as np

from rlnotes.estimators.baselines import group_mean
from rlnotes.notebook.explorer import Axes, Control, ExplorerModel, Panel

SIZE, LIMIT = 8, 40  # responses in the group, and T_max


class DenominatorExplorer(ExplorerModel):
    """Right responses of one length and wrong ones of another: pushes on tokens, and the loss."""

    script = "denominator.js"
    title = "One group of eight, three denominators"
    controls = (
        Control("right", "right responses, of 8", 1, 7, 1, 3),
        Control("short", "length of the right ones", 1, LIMIT, 1, 6),
        Control("long", "length of the wrong ones", 1, LIMIT, 1, 24),
    )
    panels = (
        Axes("push on one token of a wrong response", "length of the wrong responses", "8 × weight × A", (1, LIMIT)),
        Axes("what the loss reads, at ratio 1", "length of the wrong responses", "loss", (1, LIMIT)),
    )

    def curves(self, **values: float) -> list[Panel]:
        """By the aggregations and the policy loss of :mod:`rlnotes.objectives`, for every length of the wrong ones."""
        import torch  # only here: the other explorers work without it

        from rlnotes.objectives import Batch, Choices, policy_loss
        from rlnotes.objectives.aggregations import Totals, constant, response_mean, token_mean

        right, lengths = int(values["right"]), np.arange(1, LIMIT + 1)
        advantages = torch.from_numpy(group_mean((np.arange(SIZE) < right).astype(np.float64), SIZE))
        logp = torch.zeros(SIZE, LIMIT, dtype=torch.float64)
        pushes, losses = [], []
        for aggregation in (response_mean, constant, token_mean):
            push, loss = [], []
            for length in lengths:
                own = torch.arange(LIMIT) < torch.tensor([values["short"]] * right + [length] * (SIZE - right))[:, None]
                weights = aggregation(own.double(), Totals.of(own))
                push.append(SIZE * weights[-1, 0].item() * advantages[-1].item())
                choices = Choices(aggregation=aggregation)
                loss.append(policy_loss(choices, Batch(logp, own, advantages, logp_behavior=logp)).item())
            pushes.append(np.array(push))
            losses.append(np.array(loss))
        labels = ("mean per response", "constant", "token mean")
        return [
            [(label, lengths, y) for label, y in zip(labels, panel, strict=True)] for panel in (pushes, losses)
        ]  # fmt: skip

    def marks(self, **values: float) -> list[float]:
        """At the length of the wrong responses."""
        return [values["long"]] * 2


EXPLORERS: dict[str, ExplorerModel] = {"denominator": DenominatorExplorer()}
