"""The core of a step that can be recorded: fixed shapes, and not a question to the device on the way.

It is :func:`rlnotes.lm.step.step` with other parts. What the host decides (prompts, minibatches, learning rates) is put
into buffers on the device before; what is reported is numbers on the device, read once when all is done. It differs in
what a graph cannot do: groups that teach nothing stay in and have gradient 0, and a gradient that is not finite is
found out about after the step, whose remaining updates then change nothing. A trainer's own step stays beside a batch
of one run, because through stacked layers it takes 1.2 to 1.6 times as long on an H200.
"""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from rlnotes.lm.collection import Collection, Sampled, reported
from rlnotes.lm.config import PRESETS, Metrics, TrainConfig
from rlnotes.lm.learner import Learner, not_finite
from rlnotes.lm.parts import Parts, teaching
from rlnotes.lm.report import look_metrics, of_updates, update_metrics
from rlnotes.lm.step import step
from rlnotes.objectives import Choices
from rlnotes.objectives.aggregations import Totals

MEANS = ("reward", "wasted_groups", "length", "truncated", "length_wrong")  # of Sampled.means


class RecordedParts(Parts):
    """The parts of a step for ``runs`` runs side by side, like ``learner``'s, which :meth:`work` does unrecorded."""

    def __init__(self, learner: Learner, runs: int):
        super().__init__(learner)
        config, device = learner.config, learner.device
        self.n_updates = config.epochs * config.minibatches
        size = (runs * config.prompts, learner.task.prompt_length)
        self.prompts_buffer = torch.zeros(size, dtype=torch.long, device=device)
        rows = (self.n_updates, runs * config.prompts // config.minibatches)
        self.rows = torch.zeros(rows, dtype=torch.long, device=device)
        self.rates = torch.zeros(self.n_updates, runs, device=device)
        self.rehearsing = torch.zeros((), dtype=torch.bool, device=device)  # nothing changes anything
        self.numbers: list[Tensor] = []
        self.doing = ""  # which part of the work is being done
        self.run = self.work

    def work(self) -> Tensor:
        """The step. Returns its numbers (..., n), float64, for :func:`counted`."""
        self.numbers = []
        step(self)
        return torch.cat(self.numbers, -1)

    def prompts(self) -> Tensor:
        """Those in the buffer."""
        self.doing = "the sampler"
        return self.prompts_buffer

    def rewards(self, rollout: object) -> Tensor:
        """See :meth:`Parts.rewards`."""
        self.doing = f"the reward of {type(self.learner.task).__name__}"
        return super().rewards(rollout)  # type: ignore[arg-type]

    def minibatches(self) -> Iterator[Tensor]:
        """Those in the buffer."""
        self.doing = "the loss, or the optimiser,"
        for number, rows in enumerate(self.rows):
            self.update_number = number
            yield rows

    def metrics(self) -> Metrics:
        """Nothing yet: see :func:`counted`."""
        return {}


def of_sampled(sampled: Sampled, eos: int) -> Tensor:
    """(6,) float64: the ``MEANS`` of what was sampled, and its tokens."""
    means = sampled.means(eos)
    return torch.stack([one.double() for one in (*(means[name] for name in MEANS), sampled.rollout.mask.sum())])


def sizes(mask: Tensor) -> Totals:
    """Of a whole batch, its tokens unread."""
    return Totals(mask.shape[0], mask.sum(), mask.shape[1])


def of_teaching(choices: Choices, part: Collection) -> Tensor:
    """The mask (N, T) without the groups that :func:`teaching` leaves out."""
    g = part.rollout.group_size
    return part.rollout.mask & teaching(choices, part.advantages.view(-1, g)).repeat_interleave(g)[:, None]


def counted(learner: Learner, numbers: list[float]) -> Metrics:
    """What is reported of a step, from the ``numbers`` (n,) of its work; ``learner`` counts it.

    They are: :func:`of_sampled` (6), the first look (4), and for each update 7: :func:`update_sums`, the tokens, the
    norm of the gradient, and 1 if the weights were changed. Raises ``ValueError`` if the gradient of one is not finite.
    """
    rest = iter(numbers)
    means = {name: next(rest) for name in MEANS}
    tokens, looked = int(next(rest)), list(islice(rest, 4))
    metrics: Metrics = dict(phase=1, step=learner.step + 1) | reported(1, means)
    seen: list[Metrics] = []
    while update := list(islice(rest, 7)):
        *sums, size, norm, done = update
        if not done:
            raise not_finite(norm)
        look = {} if seen else look_metrics(looked)
        seen.append(update_metrics(sums, size) | look | dict(gradient_norm=norm))
        learner.updates += 1
    learner.step += 1
    learner.tokens += tokens
    return metrics | of_updates(seen) | dict(tokens=learner.tokens)


def varying(config: TrainConfig, choices: Choices) -> dict[str, bool]:
    """Reasons why a step has shapes that vary, or reads numbers on its way, and whether each holds."""
    return {
        "the objective samples until groups have advantages (dynamic_sampling)": choices.dynamic_sampling,
        "the objective divides by what it keeps, or by its mean weight": choices.needs_whole_batch,
        f"preset {config.preset!r} sends each expert another number of tokens": "experts" in PRESETS[config.preset],
        f"lora_rank is {config.lora_rank}, and adapters are merged for each rollout": config.lora_rank > 0,
        f"micro_batches is {config.micro_batches}, and a static step has one part": config.micro_batches > 1,
        "count_clipped counts on the CPU": config.count_clipped,
        "measure_shift reads numbers in the middle of a step": config.measure_shift,
    }
