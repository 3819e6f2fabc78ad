"""A language model's task as a Gymnasium environment: the prefix process of 002 section 5.1, made literal.

    import gymnasium
    import rlnotes.lm.token_env

    env = gymnasium.make("rlnotes/Reverse-v0", size=6)

``gymnasium.make("rlnotes.lm.token_env:rlnotes/Reverse-v0")`` imports this module by itself.
"""

from typing import Any, SupportsInt

import gymnasium
import numpy as np
import torch

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks import Split, Task, make_task


class TokenEnv(gymnasium.Env[np.ndarray, SupportsInt]):
    """One episode is one response to one prompt.

    - *State*: the prompt and the response so far, (P + T,) token ids. The places that are still empty hold one more
      id, ``len(task.vocabulary)``, which is no token: nothing that could be written is mistaken for it.
    - *Action*: the next token. *Transition*: it is appended, with certainty.
    - *Reward*: 0, and on the last step the task's own score of the whole response.
    - *End*: the token EOS, or the T-th token. Both are ``terminated``. The length limit belongs to the process itself,
      and the state shows how many places are left: nothing comes after it, and no value either, for a critic to
      put there. ``truncated`` would say that the process goes on and only the watching stopped. It is always False.

    ``task`` is a task or the name of one, of ``size``. Prompts are those of one ``split``. All randomness is the draw
    of a prompt in ``reset(seed=...)``; ``reset(options={"prompt": "abc="})`` sets one instead. ``info`` holds
    ``text``, the prompt and the response so far.
    """

    def __init__(self, task: Task | str, size: int | None = None, split: Split = "train"):
        self.task = make_task(task, size) if isinstance(task, str) else task
        self.split: Split = split
        vocabulary = self.task.vocabulary
        self.pad = len(vocabulary)
        width = self.task.prompt_length + self.task.max_response_length
        self.observation_space = gymnasium.spaces.MultiDiscrete(np.full(width, self.pad + 1))
        self.action_space = gymnasium.spaces.Discrete(len(vocabulary))
        self._state = np.full(width, self.pad)
        self._length: int | None = None  # of the response; None where no episode runs

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a prompt, or take the one in ``options``. Raises ``ValueError`` for a prompt of another length."""
        super().reset(seed=seed)
        p = self.task.prompt_length
        if options and "prompt" in options:
            prompt = self.task.vocabulary.encode(options["prompt"])
            if len(prompt) != p:
                raise ValueError(f"prompt {options['prompt']!r} has {len(prompt)} tokens; those of this task have {p}")
        else:
            generator = torch.Generator().manual_seed(int(self.np_random.integers(2**63 - 1)))
            prompt = self.task.sample(1, generator, self.split).prompts[0].numpy()
        self._state[:] = self.pad
        self._state[:p] = prompt
        self._length = 0
        return self._state.copy(), self._info()

    def step(self, action: SupportsInt) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Append a token. Raises ``ValueError`` for an action that is none, and where no episode runs."""
        token, limit = int(action), self.task.max_response_length
        if not 0 <= token < self.pad:
            raise ValueError(f"action is {token}; it must be a token, 0 to {self.pad - 1}")
        if self._length is None:
            raise ValueError("no episode runs: the last response has ended, or none was begun; call reset() first")
        self._state[self.task.prompt_length + self._length] = token
        self._length += 1
        info = self._info()
        terminated = token == self.task.vocabulary.eos or self._length == limit
        reward = self._score() if terminated else 0.0
        if terminated:
            self._length = None
        return self._state.copy(), reward, terminated, False, info

    def _score(self) -> float:
        """The task's reward of the response that stands there."""
        p, eos = self.task.prompt_length, self.task.vocabulary.eos
        tokens = torch.from_numpy(np.where(self._state == self.pad, eos, self._state))[None]
        return self.task.reward(Rollout.of_responses(tokens[:, :p], tokens[:, p:], eos)).item()

    def _info(self) -> dict[str, Any]:
        assert self._length is not None
        written = self._state[: self.task.prompt_length + self._length].tolist()
        return dict(text=self.task.vocabulary.decode(written))


TASKS = {
    "rlnotes/Reverse-v0": "reverse",
    "rlnotes/ShortReverse-v0": "short-reverse",
    "rlnotes/Sort-v0": "sort",
    "rlnotes/Add-v0": "add",
    "rlnotes/Ramble-v0": "ramble",
    "rlnotes/Misled-v0": "misled",
    "rlnotes/Ledger-v0": "ledger",
    "rlnotes/Needle-v0": "needle",
    "rlnotes/Renamed-v0": "renamed",
    "rlnotes/Countdown-v0": "countdown",
    "rlnotes/Token-v0": None,  # of any task: gymnasium.make("rlnotes/Token-v0", task="reasoning-gym/gcd")
}
for _id, _task in TASKS.items():
    if _id not in gymnasium.registry:  # a module that is loaded again must not warn
        gymnasium.register(_id, f"{__name__}:TokenEnv", kwargs={} if _task is None else dict(task=_task))
