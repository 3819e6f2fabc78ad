"""One update on responses that are written down, by as many processes as are started; the first saves the weights.

python -m torch.distributed.run --nproc_per_node 2 -m tests.bridge.with_trl.one_update FOLDER AGGREGATION
"""

# pyright: reportMissingImports=false, reportArgumentType=false

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rlnotes.objectives import METHOD_1, aggregations
from tests.bridge.with_trl import made

RESPONSES = 16  # of an update, in groups of 4


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Responses of 1 to 9 tokens that depend on the prompt and the place in the generation, and what mu thought."""
    first = trainer.accelerator.process_index * len(prompts)
    responses = [
        [1 + (ord(prompt[0]) + 3 * place + t * t) % 23 for t in range(1 + place * 5 % 9)]
        for place, prompt in enumerate(prompts, first)
    ]
    logprobs = [[-2.5 - 0.1 * (token % 7) for token in response] for response in responses]
    return dict(prompt_ids=made.TOKENIZER(prompts)["input_ids"], completion_ids=responses, logprobs=logprobs)


def one_update(folder: Path, aggregation: str, processes: int, parts: int) -> Any:
    """A trainer after its update; each process takes a share of every group."""
    recipe = replace(METHOD_1, aggregation=getattr(aggregations, aggregation))
    with warnings.catch_warnings(action="ignore"):
        trainer = made.trainer(
            folder,
            recipe,
            more=dict(rollout_func=rollout),
            per_device_train_batch_size=RESPONSES // processes // parts,
            gradient_accumulation_steps=parts,
            shuffle_dataset=False,
        )
        trainer.train()
    return trainer


if __name__ == "__main__":
    torch.set_num_threads(1)
    done = one_update(Path(sys.argv[1]), sys.argv[2], processes=2, parts=2)
    if done.accelerator.is_main_process:
        assert done.accelerator.num_processes == 2
        torch.save(made.weights(done), Path(sys.argv[1]) / "weights.pt")
