"""The log of exercise 06.2: a run whose reference was lost when it was resumed.

``python -m rlnotes.chapters.c06.resumed_log --out 06_log.json`` takes half a minute on one thread.
"""

import argparse
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import torch

from rlnotes.chapters.c06.rounds import shipped_start
from rlnotes.lm.critic import Critic
from rlnotes.lm.sampler import Sampler, token_logp
from rlnotes.lm.token_ppo import TokenPPOConfig, token_ppo

RESUMED = 7  # the first step after it
STEPS = 12


def log() -> Iterator[dict[str, float]]:
    """Rows of the run. From step ``RESUMED`` on the reference is the policy as it was loaded there."""
    task, policy = shipped_start()
    reference, before, data = deepcopy(policy), deepcopy(policy), torch.Generator().manual_seed(9)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    for row in token_ppo(TokenPPOConfig(STEPS, 512, learning_rate=3e-4, lam=1.0), task, policy, Critic(policy)):
        if row["step"] == RESUMED:
            reference = before
        before = deepcopy(policy)
        rollout = sampler.sample(policy, task.sample(256, data).prompts, 1, data)
        with torch.no_grad():
            gap = (token_logp(policy, rollout) - token_logp(reference, rollout))[rollout.mask].mean().item()
        yield {
            "step": row["step"],
            "reward": row["reward"],
            "clip_fraction": row["clipped"],
            "kl_old": row["kl"],
            "kl_reference": gap,
            "value_loss": row["value_loss"],
            "largest_ratio": row["largest_ratio"],
        }


def main() -> None:
    """Write the log, with what made it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    lines = ",\n".join(json.dumps({key: float(f"{value:.3g}") for key, value in row.items()}) for row in log())
    made_by = json.dumps(dict(command=f"python -m rlnotes.chapters.c06.resumed_log --out {out.name}"))
    out.write_text(f'{made_by[:-1]}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
