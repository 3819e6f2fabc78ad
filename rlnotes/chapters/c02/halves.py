"""Many updates on one rollout: what the half that chose them promises, what the other half, and the truth.

``python -m rlnotes.chapters.c02.halves --out 02_halves.json`` takes some five minutes on one thread.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.baselines import leave_one_out
from rlnotes.exact.divergences import tv
from rlnotes.lm.critic import answer_logp
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, response_logits, token_logp
from rlnotes.lm.tasks import ExactMatchTask, make_task
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

SEEDS = range(10)
GROUP = 8  # responses to a prompt
TASKS = {"misled": (64, 4e-4, 16), "sort": (64, 1e-4, 16), "ledger": (32, 4e-4, 8)}
"""prompts of a rollout, learning rate of Adam, and the most updates"""
STARTS = {"misled": 3, "sort": 1, "ledger": 3}
HELDOUT = 256  # prompts on which the truth is taken, others for each seed
LOOKS = (1, 2, 4, 8, 16)


def ratios(policy: Transformer, part: Rollout) -> Tensor:
    """Of the tokens (N, T) of a rollout, 1 outside its mask."""
    return (token_logp(policy, part) - part.logp_behavior).exp().where(part.mask, 1.0)


def promise(ratio: Tensor, A: Tensor) -> Tensor:
    """What responses with these ratios (N, T) and advantages (N, 1) promise of J: the surrogate, estimated."""
    return ((ratio - 1) * A).sum(1).mean()


def rows_of(name: str, seed: int, half: bool) -> Iterator[dict[str, Any]]:
    """Updates along the promise of half of a rollout's prompts, or of all; a row for each of ``LOOKS``."""
    prompts, rate, most = TASKS[name]
    task, start = make_task(name), seed % STARTS[name]
    assert isinstance(task, ExactMatchTask), "its truth is the chance of one right answer"
    old, draws = shipped_start(name, start=start), torch.Generator().manual_seed(seed)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    rollout = sampler.sample(old, task.sample(prompts, draws).prompts, GROUP, draws)
    A = leave_one_out(task.reward(rollout), GROUP).view(prompts, GROUP)
    own, other = torch.arange(prompts).view(2, -1)
    chosen = own if half else torch.cat((own, other))
    (chooser, a), (judge, b) = ((rollout.groups(rows), A[rows].view(-1, 1)) for rows in (chosen, other))
    asked = task.sample(HELDOUT, torch.Generator().manual_seed(seed), "heldout").prompts
    answers = Rollout.of_responses(asked, task.solve(asked), task.vocabulary.eos)
    with torch.no_grad():
        before, logits = answer_logp(old, task, answers), response_logits(old, judge).log_softmax(-1)
    new = deepcopy(old)
    optimizer = torch.optim.Adam(new.parameters(), rate)
    for update in range(1, most + 1):
        loss = -promise(ratios(new, chooser), a)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update in LOOKS:
            with torch.no_grad():
                after = answer_logp(new, task, answers)
                found = sides(before, after) | {"own": promise(ratios(new, chooser), a).item()}
                if half:
                    r = ratios(new, judge)
                    found |= {"judge": promise(r, b).item(), "largest": r.max().item()}
                distance = tv(response_logits(new, judge).log_softmax(-1), logits)[judge.mask].mean().item()
            run = {"task": name, "start": start, "seed": seed, "half": half, "updates": update}
            yield run | found | {"distance": distance}


def sides(before: Tensor, after: Tensor) -> dict[str, float]:
    """Of log-probabilities (B, T) of right answers: J before, the change, the surrogate, and xi, the largest |g|.

    Only where all tokens so far are right is anything to be gained, so everything is there: J is the product of the
    tokens' probabilities, and L is J(old) times the sum of the ratios less 1.
    """
    J, gained = before.sum(-1).exp(), after.exp() - before.exp()
    rest = (before.flip(-1).cumsum(-1).flip(-1) - before).exp()  # the chance to write what comes after, rightly
    L = J[:, None] * ((after - before).exp() - 1)
    change = after.sum(-1).exp() - J
    return {
        "J": J.mean().item(),
        "L": L.sum(-1).mean().item(),
        "change": change.mean().item(),
        "xi": (gained * rest).abs().max().item(),
    }


def rows() -> Iterator[dict[str, Any]]:
    """All tasks on all seeds, with half of the rollout, and on the two with short responses with all of it."""
    for name, seed, half in product(TASKS, SEEDS, (True, False)):
        if half or name != "ledger":
            yield from rows_of(name, seed, half)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c02.halves", str(__doc__), rows)
