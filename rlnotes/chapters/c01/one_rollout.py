"""Many updates on one rollout: what it says of the policy trained on it, what a held-out one says, and the truth.

``python -m rlnotes.chapters.c01.one_rollout --out 01_one_rollout.json`` takes some four minutes on one thread.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rlnotes.estimators.baselines import leave_one_out
from rlnotes.estimators.importance import effective_sample_size, sequence_log_ratio
from rlnotes.lm.config import warmed_up
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.tasks import Misled, Sort
from rlnotes.lm.tasks.task import ExactMatchTask
from rlnotes.lm.warm_start import shipped_start
from rlnotes.studies.store import store_rows

PROMPTS, GROUP, NEW = 32, 8, 512  # of a rollout, responses to each, and prompts on which J is exact
TASKS: dict[str, ExactMatchTask] = {"misled": Misled(size=5), "sort": Sort(size=8)}
SIZES = {"misled": 5, "sort": 8}
STARTS = {"misled": 3, "sort": 1}  # that are shipped
RATES = {"misled": (4e-4, 1.6e-3), "sort": (3e-4, 1.2e-3)}  # of Adam, after ten updates in which it rises
ARMS = ("weights", "clip")
BOTH = "both"  # weights, and the held-out rollout is trained on, too: the same samples, and nobody to judge
UPDATES, EVERY, WARM = 60, 4, 10
ROLLOUTS = range(6)


@dataclass(frozen=True)
class OneRollout:
    """A policy, two rollouts that it wrote, to other prompts each, and prompts that are in neither."""

    task: ExactMatchTask
    policy: Transformer
    rollout: Rollout
    held_out: Rollout
    new_prompts: Tensor

    def R(self, rollout: Rollout) -> Tensor:
        """The reward (N,) of each response: 1 or 0."""
        return self.task.reward(rollout)

    @torch.no_grad()
    def J(self, policy: Transformer, prompts: Tensor) -> float:
        """The exact chance that ``policy`` answers ``prompts`` (B, P) right: one answer to each is."""
        answers = Rollout.of_responses(prompts, self.task.solve(prompts), self.task.vocabulary.eos)
        logp = token_logp(policy, answers)
        return torch.where(answers.mask, logp, 0).sum(1).double().exp().mean().item()


def one_rollout(task: str, seed: int) -> OneRollout:
    """What ``seed`` draws with a policy that comes with the package."""
    made, policy = TASKS[task], shipped_start(task, SIZES[task], start=seed % STARTS[task])
    sampler = Sampler(made.max_response_length, made.vocabulary.eos)
    draws = torch.Generator().manual_seed(seed)
    own, held_out = (sampler.sample(policy, made.sample(PROMPTS, draws).prompts, GROUP, draws) for _ in range(2))
    new = made.sample(NEW, torch.Generator().manual_seed(10_000)).prompts
    return OneRollout(made, policy, own, held_out, new)


def log_weights(policy: Transformer, rollout: Rollout) -> Tensor:
    """The logarithm (N,) of each response's weight."""
    return sequence_log_ratio(rollout.logp_behavior, token_logp(policy, rollout), rollout.mask)


@torch.no_grad()
def says(policy: Transformer, rollout: Rollout, R: Tensor) -> dict[str, float]:
    """What a rollout says of ``policy``: the weighted mean reward, the standard error over prompts of it and of its
    gain, the share of effective responses, and the mean weight.
    """
    log_w = log_weights(policy, rollout)
    w = log_w.exp()
    by_prompt, gains = ((x * R).view(-1, GROUP).mean(1) for x in (w, w - 1))
    return {
        "estimate": by_prompt.mean().item(),
        "error": by_prompt.std().item() / len(by_prompt) ** 0.5,
        "gain_error": gains.std().item() / len(gains) ** 0.5,
        "normalised": ((w * R).sum() / w.sum()).item(),
        "quarter": by_prompt[: PROMPTS // 4].mean().item(),
        "ess": effective_sample_size(log_w).item() / len(log_w),
        "weight": w.mean().item(),
    }


def objective(name: str, rollout: Rollout, logp: Tensor, A: Tensor) -> Tensor:
    """What an arm maximises: weights of whole responses, or ratios of tokens behind PPO's clip (chapter 06)."""
    if name != "clip":
        return (sequence_log_ratio(rollout.logp_behavior, logp, rollout.mask).exp() * A).mean()
    ratio, A = torch.where(rollout.mask, logp - rollout.logp_behavior, 0).exp(), A[:, None]
    return (torch.minimum(ratio * A, ratio.clamp(0.8, 1.2) * A) * rollout.mask).sum(1).mean()


def run(task: str, arm: str, rate: float, seed: int, updates: int = UPDATES) -> dict[str, Any]:
    """One run, a list for each column, with a number at every fourth update."""
    made = one_rollout(task, seed)
    policy, trained = deepcopy(made.policy), (made.rollout, made.held_out)[: 2 if arm == BOTH else 1]
    optimizer = torch.optim.Adam(policy.parameters(), rate)
    advantages = [leave_one_out(made.R(rollout), GROUP) for rollout in trained]
    rows: list[dict[str, float]] = []
    for update in range(updates + 1):
        optimizer.param_groups[0]["lr"] = warmed_up(rate, update, WARM)
        if update % EVERY == 0:
            row = {"update": update, "J": made.J(policy, made.new_prompts)}
            row["J_own"] = made.J(policy, made.rollout.prompts)
            for name, rollout in (("own", made.rollout), ("held", made.held_out)):
                found = says(policy, rollout, made.R(rollout))
                row |= {f"{name}_{column}": x for column, x in found.items()}
            rows.append(row)
        optimizer.zero_grad()
        for rollout, A in zip(trained, advantages, strict=True):
            (-objective(arm, rollout, token_logp(policy, rollout), A) / len(trained)).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    about = {"task": task, "arm": arm, "rate": rate, "seed": seed}
    return about | {column: [row[column] for row in rows] for column in rows[0]}


def rows() -> Iterator[dict[str, Any]]:
    """All arms at both rates, on all rollouts; both rollouts at the small one."""
    for task, arm, seed in product(RATES, ARMS, ROLLOUTS):
        for rate in RATES[task]:
            yield run(task, arm, rate, seed)
    for task, seed in product(RATES, ROLLOUTS):
        yield run(task, BOTH, RATES[task][0], seed)


if __name__ == "__main__":
    store_rows("rlnotes.chapters.c01.one_rollout", str(__doc__), rows)
