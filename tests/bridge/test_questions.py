"""Questions for a real model: what is right, what is paid, and that no question is in both parts."""

import pytest
import torch

from rlnotes.bridge.real.questions import TASKS, part, questions, reward

OWN = [name for name in TASKS if "/" not in name]
GYM = [name for name in TASKS if "/" in name]


@pytest.mark.parametrize("name", [*OWN, *(pytest.param(name, marks=pytest.mark.extras) for name in GYM)])
def test_the_answer_is_right_and_another_is_not(name: str):
    task, generator = questions(name), torch.Generator().manual_seed(0)
    asked = [task.ask(generator) for _ in range(300)]
    assert 0.05 < sum(part(one) == "heldout" for one in asked) / 300 < 0.2 or name == "times"
    for one in asked[:50]:
        assert [reward(task, one, one.answer, paid) for paid in ("right", "score", "format")] == [1, 1, 1]
        assert not task.right(one, "") and not task.right(one, f"{one.answer}1")
        assert reward(task, one, "no", "format") == 0.5
        assert reward(task, one, f"It is {one.answer}.", "format") == 0.5
        assert reward(task, one, "a b", "format") == 0


def test_arithmetic_is_what_it_says():
    generator = torch.Generator().manual_seed(1)
    found = {name: questions(name).ask(generator) for name in OWN}
    for name, sign in (("add", "+"), ("times", "*"), ("times-3", "*")):
        words = found[name].text.removeprefix("What is ").partition("?")[0].replace("x", sign)
        assert str(eval(words)) == found[name].answer
    numbers = [int(word.strip(",?")) for word in found["largest"].text.split() if word.strip(",?").isdigit()]
    assert len(numbers) == 4 and str(max(numbers)) == found["largest"].answer


@pytest.mark.extras
def test_a_verifier_may_pay_for_what_is_wrong():
    """Half of the letters at their places: paid by score, not by right."""
    task = questions("reasoning-gym/spell_backward")
    asked = task.ask(torch.Generator().manual_seed(0))
    half = asked.answer[:2] + "0" * (len(asked.answer) - 2)
    assert 0 < reward(task, asked, half, "score") < 1 and reward(task, asked, half, "right") == 0


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="unknown task 'sums'; choose one of add, times"):
        questions("sums")
