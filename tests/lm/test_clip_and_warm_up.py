"""What the optimiser sees of a run: gradients no longer than the clip, learning rates that rise to the full one."""

from dataclasses import replace

import pytest
import torch

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.trainer import Trainer

ONCE = TrainConfig(prompts=4, group_size=4, steps=8)  # one update a step, whose norm the metrics report
WARM = replace(ONCE, steps=3, warm_start="train", warm_batch=8, warm_limit=6, warm_learning_rate=3e-3)


def watch(trainer: Trainer) -> list[tuple[float, float]]:
    """Gradient norm and learning rate at each call of the optimiser, which are appended as the run goes on."""
    seen: list[tuple[float, float]] = []

    def look(optimizer: torch.optim.Optimizer, *_) -> None:
        gradients = [weight.grad.flatten() for weight in trainer.model.parameters() if weight.grad is not None]
        (rate,) = {group["lr"] for group in optimizer.param_groups}
        seen.append((torch.cat(gradients).norm().item(), rate))

    trainer.optimizer.register_step_pre_hook(look)
    return seen


def norms(config: TrainConfig) -> list[tuple[float, float]]:
    """Gradient norm as the metrics report it, and as the optimiser sees it, of each update."""
    trainer = Trainer(config)
    seen = watch(trainer)
    reported = [row["gradient_norm"] for row in trainer.run()]
    return list(zip(reported, [norm for norm, _ in seen], strict=True))


def test_a_gradient_longer_than_the_clip_is_shortened_to_it_and_a_shorter_one_left_alone():
    before = sorted(reported for reported, _ in norms(replace(ONCE, gradient_clip=1e9)) if reported > 0)
    limit = before[len(before) // 2]  # in the middle of what comes up, so that both cases do
    pairs = norms(replace(ONCE, gradient_clip=limit))
    assert {reported > limit for reported, _ in pairs if reported > 0} == {True, False}
    for reported, seen in pairs:
        assert seen == pytest.approx(min(reported, limit), rel=1e-4)


def test_the_clip_is_of_the_whole_gradient_and_keeps_its_direction():
    """One update from the same weights: every entry is shortened by the same factor."""
    gradients: list[torch.Tensor] = []
    norm = 0.0
    for limit in (1e9, 1e-2):
        trainer = Trainer(replace(ONCE, gradient_clip=limit))

        def keep(*_, trainer: Trainer = trainer) -> None:
            whole = [weight.grad.flatten() for weight in trainer.model.parameters() if weight.grad is not None]
            gradients.append(torch.cat(whole))

        trainer.optimizer.register_step_pre_hook(keep)
        norm = next(trainer.run(1))["gradient_norm"]
    whole, clipped = gradients
    assert norm > 1e-2
    torch.testing.assert_close(clipped, whole * (1e-2 / norm), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [
        (4, [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]),
        (10, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        (1, [1] * 8),
        (0, [1] * 8),
    ],
)
def test_the_learning_rate_rises_evenly_and_stays(warmup: int, expected: list[float]):
    config = replace(ONCE, learning_rate=2e-3, warmup_updates=warmup)
    trainer = Trainer(config)
    seen = watch(trainer)
    list(trainer.run())
    assert [rate for _, rate in seen] == pytest.approx([2e-3 * share for share in expected], rel=1e-12)
    assert [config.warmed_up(2e-3, before) for before in range(8)] == pytest.approx([2e-3 * s for s in expected])


def test_it_is_updates_that_are_counted_and_not_steps():
    trainer = Trainer(replace(ONCE, steps=2, epochs=2, minibatches=2, warmup_updates=6, learning_rate=6e-4))
    seen = watch(trainer)
    list(trainer.run())
    assert [rate for _, rate in seen] == pytest.approx([1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4, 6e-4, 6e-4])


def test_the_warm_start_rises_too_and_rl_rises_anew():
    trainer = Trainer(replace(WARM, warmup_updates=3, learning_rate=3e-4))
    supervised, reinforced = watch(trainer), []
    for row in trainer.run():
        if row["phase"] == 0 and trainer.warm:  # the warm start just ended, and RL begins with a fresh optimiser
            reinforced = watch(trainer)
    assert [rate for _, rate in supervised] == pytest.approx([1e-3, 2e-3, 3e-3, 3e-3, 3e-3, 3e-3])
    assert [rate for _, rate in reinforced] == pytest.approx([1e-4, 2e-4, 3e-4])


def test_the_first_update_moves_weights_by_the_risen_share_of_the_rate():
    """Adam's first step is a sign step: wherever there is a gradient, a weight moves by the learning rate."""
    trainer = Trainer(replace(ONCE, learning_rate=1e-3, warmup_updates=8))
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    list(trainer.run(1))
    moved = max((value - before[name]).abs().max().item() for name, value in trainer.model.state_dict().items())
    assert moved == pytest.approx(1e-3 / 8, rel=1e-2)
