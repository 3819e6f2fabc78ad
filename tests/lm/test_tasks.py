import pytest
import torch

from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.tasks import Add, Examples, Reverse, Sort, Task, Vocabulary, make_task
from rlnotes.lm.tasks.countdown import Countdown, evaluate
from rlnotes.lm.tasks.rare_tokens import Renamed
from rlnotes.lm.tasks.task import in_split

TASKS: list[Task] = [Reverse(8), Sort(6), Sort(8), Add(2), Add(3), Countdown(), Renamed(6)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def answered(task: Task, examples: Examples, tokens: torch.Tensor) -> Rollout:
    return Rollout(
        prompts=examples.prompts,
        group=torch.arange(len(tokens)),
        tokens=tokens,
        mask=response_mask(tokens, task.vocabulary.eos),
        logp_behavior=torch.zeros(tokens.shape),
        version=torch.zeros_like(tokens),
        transform=SamplingTransform(),
    )


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_answers_are_right_and_other_responses_are_not(task):
    examples = task.sample(200, generator())
    assert examples.prompts.shape == (200, task.prompt_length)
    assert examples.answers.shape == (200, task.max_response_length)
    assert task.reward(answered(task, examples, examples.answers)).tolist() == [1.0] * 200
    never_ends = examples.answers.clone()
    never_ends[never_ends == task.vocabulary.eos] = task.vocabulary.encode("=")[0]
    assert task.reward(answered(task, examples, never_ends)).sum() == 0
    first_wrong = examples.answers.clone()
    first_wrong[:, 0] = task.vocabulary.encode("0" if isinstance(task, Renamed) else " ")[0]
    assert task.reward(answered(task, examples, first_wrong)).sum() == 0
    at_once = torch.full_like(examples.answers, task.vocabulary.eos)
    assert task.reward(answered(task, examples, at_once)).sum() == 0


@pytest.mark.parametrize(
    ("task", "prompt", "answer"),
    [
        (Reverse(8), "abcdefgh=", "hgfedcba"),
        (Sort(6), "dbcaah=", "aabcdh"),
        (Add(2), "12+34=", "046"),
        (Add(2), "99+99=", "198"),
        (Add(3), "905+095=", "1000"),
    ],
)
def test_answers_as_text(task, prompt, answer):
    solved = task.solve(torch.tensor([task.vocabulary.encode(prompt)]))
    assert task.vocabulary.decode(solved[0]) == answer
    assert solved[0, -1] == task.vocabulary.eos


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_splits_never_overlap(task):
    train = {tuple(row) for row in task.sample(4000, generator(1), "train").prompts.tolist()}
    heldout = {tuple(row) for row in task.sample(2000, generator(2), "heldout").prompts.tolist()}
    assert not train & heldout
    assert in_split(torch.tensor(sorted(heldout)), "heldout").all()


def test_one_prompt_in_eight_is_held_out_and_position_matters():
    every = torch.cartesian_prod(*[torch.arange(8)] * 4)
    assert in_split(every, "heldout").float().mean().item() == pytest.approx(1 / 8, abs=0.02)
    assert (in_split(every, "heldout") ^ in_split(every, "train")).all()
    assert (in_split(every, "train") != in_split(every.flip(-1), "train")).any()


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_prompts_come_from_the_generator(task):
    first, same, other = (task.sample(16, generator(seed)).prompts for seed in (3, 3, 4))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5+3*2", (16, [5, 3, 2])), ("2-9*3", (-21, [2, 9, 3])), ("7", (7, [7])), ("", None), ("5+", None),
     ("+5", None), ("55", None), ("5/3", None), ("5+a", None), ("5+3*", None), ("²+1", None)],
)  # fmt: skip
def test_countdown_reads_from_left_to_right(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("response", "reward"), [("5+3*2", 1), ("3+5*2", 1), ("2*5+3", 0), ("8*2", 0), ("5+3+8", 0), ("9*2-2", 0)]
)
def test_countdown_accepts_any_expression_that_uses_the_digits_once(response, reward):
    task = Countdown()
    prompt = torch.tensor([task.vocabulary.encode(" 16=532")])
    tokens = task.vocabulary.encode(response)
    padded = torch.tensor([tokens + [task.vocabulary.eos] * (task.max_response_length - len(tokens))])
    assert task.reward(answered(task, Examples(prompt, padded), padded)).tolist() == [reward]


def test_vocabulary():
    vocabulary = Vocabulary("\nab")
    assert vocabulary.encode("ba") == [2, 1]
    assert vocabulary.decode([2, 1, 0, 1]) == "ba"
    assert vocabulary.decode(torch.tensor([1, 2])) == "ab"
    with pytest.raises(ValueError, match="character 'c' is not in the vocabulary"):
        vocabulary.encode("abc")
    with pytest.raises(ValueError, match="names one twice"):
        Vocabulary("aa")


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("spell", None, "unknown task 'spell'; choose one of add, "),
        ("reverse", 3, "size is 3; it must be between 4 and 64"),
        ("add", 12, "size is 12"),
        ("countdown", 4, "countdown has one size"),
    ],
)
def test_unknown_tasks_and_sizes_are_refused(name, size, message):
    with pytest.raises(ValueError, match=message):
        make_task(name, size)


def test_a_split_that_is_too_small_is_an_error_and_not_a_hang():
    class Two(Reverse):
        def draw(self, n, generator):
            letters = torch.tensor([[7, 7, 7, 7]]).expand(n, 4)
            return Examples(letters, letters)

    split = "heldout" if in_split(torch.tensor([[7, 7, 7, 7]]), "train")[0] else "train"
    with pytest.raises(ValueError, match=f"too few prompts in its {split} split"):
        Two(4).sample(4, generator(), split)
