"""The settings that the classic loops have in common."""

from dataclasses import dataclass

from rlnotes.settings import within


@dataclass(frozen=True)
class LoopConfig:
    """Settings of every loop. Raises ``ValueError`` for a number that means nothing."""

    env: str = "CartPole-v1"
    seed: int = 0
    updates: int = 100
    """each on one rollout"""
    gamma: float = 0.99
    normalize: bool = True
    """advantages minus their mean, over their standard deviation in the rollout"""
    learning_rate: float = 3e-3

    def __post_init__(self):
        within(self, 0, "seed", "learning_rate")
        within(self, 1, "updates")
        within(self, 0, "gamma", most=1)


@dataclass(frozen=True)
class ActorCriticConfig(LoopConfig):
    """Settings of the loops whose critic judges rollouts of fixed length."""

    envs: int = 8
    """environments side by side, N"""
    steps: int = 64
    """steps of each environment per rollout, T"""
    lam: float = 0.95
    """of the advantages: 0 is the TD error, 1 the return minus V"""

    def __post_init__(self):
        super().__post_init__()
        within(self, 1, "envs", "steps")
        within(self, 0, "lam", most=1)
