"""A small countdown game: reach a target with three numbers. Many responses can be right."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlnotes.lm.rollout import Rollout
from rlnotes.lm.tasks.task import Examples, Task

OPERATIONS = "+-*"


def evaluate(expression: str) -> tuple[int, list[int]] | None:
    """Value of ``expression`` read strictly from left to right, and the digits it used.

    ``5+3*2`` is (5 + 3) * 2 = 16. Returns None if the text is not digit, operation, digit, and so on.
    """
    digits, operations = expression[::2], expression[1::2]
    if len(expression) % 2 == 0 or not digits.isdecimal() or any(o not in OPERATIONS for o in operations):
        return None
    value = int(digits[0])
    for operation, digit in zip(operations, digits[1:], strict=True):
        if operation == "+":
            value += int(digit)
        elif operation == "-":
            value -= int(digit)
        else:
            value *= int(digit)
    return value, [int(digit) for digit in digits]


@dataclass(frozen=True)
class Countdown(Task):
    """Use each of three digits once, with + - *, from left to right: `` 16=532`` to ``5+3*2``.

    The target has three places, blanks in front. Targets run from 0 to 999.
    """

    @property
    def prompt_length(self) -> int:
        """Target, equals, three digits."""
        return 7

    @property
    def max_response_length(self) -> int:
        """Five characters and EOS."""
        return 6

    def draw(self, n: int, generator: torch.Generator) -> Examples:
        """Draw expressions, keep those whose value is not negative, and show the digits in a random order."""
        prompts, answers = [], []
        while len(prompts) < n:
            digits = torch.randint(1, 10, (3,), generator=generator).tolist()
            a, b = (OPERATIONS[i] for i in torch.randint(len(OPERATIONS), (2,), generator=generator).tolist())
            expression = f"{digits[0]}{a}{digits[1]}{b}{digits[2]}"
            result = evaluate(expression)
            if result is None or result[0] < 0:
                continue
            shown = [digits[i] for i in torch.randperm(3, generator=generator).tolist()]
            prompts.append(self.vocabulary.encode(f"{result[0]:3d}=" + "".join(map(str, shown))))
            answers.append([*self.vocabulary.encode(expression), self.vocabulary.eos])
        return Examples(torch.tensor(prompts), torch.tensor(answers))

    def reward(self, rollout: Rollout) -> Tensor:
        """1 where the response uses exactly the three digits and its value is the target."""
        rewards = []
        ended = ~rollout.truncated(self.vocabulary.eos)
        for row, complete in enumerate(ended.tolist()):
            prompt, response = self.text(rollout, row)
            target, digits = prompt.split("=")
            value, used = evaluate(response) or (None, [])
            right = value == int(target) and sorted(used) == sorted(map(int, digits))
            rewards.append(float(complete and right))
        return torch.tensor(rewards, device=rollout.tokens.device)
