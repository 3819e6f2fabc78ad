"""Console logs that OpenRLHF's and slime's own code wrote: ``written/README.md`` says by which functions."""

from pathlib import Path

import pytest

from rlnotes.logs import read
from rlnotes.logs.table import table

WRITTEN = Path(__file__).parent / "written"
NAMES = {
    "openrlhf": {"rollout/reward_mean", "eval_words_pass1", "rollout/truncated_rate", "rollout/response_length_mean"}
    | {"policy_loss", "ppo_kl", "kl", "entropy_loss", "ppo_clip_ratio", "vllm_kl", "is_filter_ratio"}
    | {"group_reward_std", "actor_grad_norm", "actor_lr"},
    "slime": {"rollout/raw_reward", "eval/words", "rollout/truncated_ratio", "rollout/response_len/mean"}
    | {"train/pg_loss", "train/ppo_kl", "train/kl_loss", "train/entropy_loss", "train/pg_clipfrac"}
    | {"train/train_rollout_logprob_abs_diff", "train/grad_norm", "train/lr-pg_0"},
}
STEPS = {  # of the reward, of the held-out one, of the learning rate: slime counts rollouts and updates
    "openrlhf": (range(1, 13), range(2, 13, 2), range(1, 13)),
    "slime": (range(8), (0, 1, 3, 5, 7), range(16)),
}
ALARMS = {"openrlhf": "truncation", "slime": "truncation"}


@pytest.mark.parametrize("library", NAMES)
def test_a_console_log_of_the_librarys_own_code_is_read_and_its_fault_found(library: str):
    report = read(WRITTEN / f"{library}.log")
    log = report.log
    assert (log.library, log.counted, log.source.skipped) == (library, False, 0)
    assert {*log.names.values()} == NAMES[library]
    read_steps = [[point.first for point in log.series[one].points] for one in ("reward", "heldout", "learning_rate")]
    assert read_steps == [[*steps] for steps in STEPS[library]]
    assert ALARMS[library] in {one.rule.name for one in report.findings if one.level == "alarm"}
    assert f"{table().libraries[library].title}, steps" in report.text()


def test_a_number_of_a_written_line_is_read_to_its_last_digit():
    """The first evaluation, which says its step in words of its own."""
    (first, *_) = read(WRITTEN / "openrlhf.log").log.series["heldout"].points
    assert (first.first, first.mean) == (2, 0.3046875)
