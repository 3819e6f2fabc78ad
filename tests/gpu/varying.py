"""Settings with which a step has shapes that vary, or reads numbers on its way; and what of each is named."""

from typing import Any

VARYING: list[tuple[dict[str, Any], str]] = [
    (dict(recipe="dapo"), "dynamic_sampling"),
    (dict(lags=(0, 2)), "lags"),
    (dict(preset="moe-top1"), "moe-top1"),
    (dict(lora_rank=4), "lora_rank"),
    (dict(rollout_blocks=2), "rollout_blocks"),
    (dict(micro_batches=2), "micro_batches"),
    (dict(count_clipped=True), "count_clipped"),
    (dict(measure_shift=True), "measure_shift"),
]
