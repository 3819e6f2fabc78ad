"""Tasks by text: the same tokens, the same rewards, and any tokenizer."""

# pyright: reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rlnotes.bridge.models import UNSCORED, evaluate, examples, sample, up_to
from rlnotes.bridge.tasks import make_tokenizer, prompt_dataset, task_reward
from rlnotes.lm.rollout import Rollout, response_mask
from rlnotes.lm.tasks import Add, Reverse, Task
from rlnotes.lm.tasks.countdown import Countdown
from rlnotes.lm.tasks.rare_tokens import Needle
from rlnotes.lm.tasks.task import in_split
from tests.bridge.with_trl import made

pytestmark = [pytest.mark.extras, *map(pytest.mark.filterwarnings, made.WARNINGS)]
TASKS = [Reverse(4), Add(2), Countdown(), Needle()]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)


def pieces() -> PreTrainedTokenizerFast:
    """A byte-pair tokenizer, whose tokens are pieces of text, with a token to begin with and another end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    prompts = prompt_dataset(TASKS[0], 500, torch.Generator().manual_seed(0))["prompt"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(list(prompts), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@each_task
def test_a_character_is_a_token_with_the_tasks_own_id(task: Task):
    tokenizer = make_tokenizer(task.vocabulary)
    prompts = task.sample(50, generator()).prompts
    texts = prompt_dataset(task, 50, generator())["prompt"]
    assert tokenizer(list(texts))["input_ids"] == prompts.tolist()
    assert tokenizer.batch_decode(prompts) == list(texts)
    assert (tokenizer.eos_token_id, len(tokenizer)) == (task.vocabulary.eos, len(task.vocabulary))


def test_a_character_without_a_token_is_an_error():
    with pytest.raises(Exception, match=r"(?i)unk"):
        made.TOKENIZER("xyz=")


def test_prompts_are_of_the_split():
    task = TASKS[1]
    texts = prompt_dataset(task, 40, generator(), "heldout")["prompt"]
    assert bool(in_split(torch.tensor([task.vocabulary.encode(text) for text in texts]), "heldout").all())


@each_task
def test_a_reward_is_the_tasks_own_score(task: Task):
    """Of right answers, of answers with a wrong end, and of what was drawn at random."""
    drawn = task.sample(60, generator())
    tokens = drawn.answers.clone()
    tokens[20:40] = tokens[20:40].roll(1, -1)
    length = tokens.shape[1]
    tokens[40:] = torch.randint(1, len(task.vocabulary), (20, length), generator=generator())
    tokens[~response_mask(tokens, task.vocabulary.eos)] = task.vocabulary.eos
    rollout = Rollout.of_responses(drawn.prompts, tokens, task.vocabulary.eos)
    ids = [row[own].tolist() for row, own in zip(tokens, rollout.mask, strict=True)]
    tokenizer = make_tokenizer(task.vocabulary)
    rewards = task_reward(task, tokenizer)(
        prompts=tokenizer.batch_decode(drawn.prompts),
        completions=tokenizer.batch_decode(ids, skip_special_tokens=True),
        completion_ids=ids,
        trainer_state=None,
    )
    assert rewards == task.reward(rollout).tolist()
    assert 1.0 in rewards
    assert 0.0 in rewards


@pytest.mark.parametrize(
    ("text", "ended", "reward"),
    [
        ("dcba", True, 1),
        ("dcba", False, 0),
        ("dcb", True, 0),
        ("dcba!", True, 0),
        ("dcba\n", True, 0),
        ("dcba\n", False, 0),
        ("", True, 0),
        ("dcbadcbadcba", True, 0),
        ("dcbaa", False, 0),
    ],
)
@pytest.mark.parametrize("make", [lambda: made.TOKENIZER, pieces], ids=["characters", "pieces"])
def test_only_the_whole_answer_and_its_end_are_right(text: str, ended: bool, reward: float, make: Any):
    tokenizer = make()
    end = [tokenizer.eos_token_id] if ended else [5]
    given = dict(prompts=["abcd="], completions=[text], completion_ids=[[4, *end]])
    assert task_reward(TASKS[0], tokenizer)(**given) == [reward]


def test_a_conversation_is_no_prompt_of_a_task():
    reward = task_reward(TASKS[0], made.TOKENIZER)
    with pytest.raises(ValueError, match="take its prompt_dataset"):
        reward(prompts=[[dict(role="user", content="abcd=")]], completions=[[]], completion_ids=[[0]])


@pytest.mark.parametrize("make", [lambda: made.TOKENIZER, pieces], ids=["characters", "pieces"])
def test_examples_score_the_answer_and_its_end_only(make: Any):
    tokenizer, task = make(), TASKS[0]
    tokens, labels = examples(task, tokenizer, 20, generator())
    drawn = task.sample(20, generator())
    assert bool(((labels == tokens) | (labels == UNSCORED)).all())
    for row, own in enumerate(labels != UNSCORED):
        assert tokenizer.decode(tokens[row][own][:-1]) == task.vocabulary.decode(drawn.answers[row])
        assert tokens[row][own][-1] == tokenizer.eos_token_id
        first = int(own.int().argmax())
        assert tokens[row, :first].tolist() == tokenizer(task.vocabulary.decode(drawn.prompts[row]))["input_ids"]


def test_evaluation_repeats_itself_and_disturbs_nothing():
    model = made.model()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = (evaluate(model.train(), made.TOKENIZER, TASKS[0], 64) for _ in range(2))
    assert first == second
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.training


def test_samples_are_those_of_transformers_where_nothing_is_left_to_chance():
    """With prompts of several lengths, pads on the left, and EOS on the way."""
    model = made.model("gpt2", sharp=1e4).eval()  # it knows places as such, and not by their distance
    asked = made.TOKENIZER(["ab=", "abcdefgh=", "c="], return_tensors="pt", padding=True)
    written = sample(model, asked["input_ids"], asked["attention_mask"], 12, generator()).tolist()
    expected = model.generate(**asked, max_new_tokens=12, do_sample=False)[:, asked["input_ids"].shape[1] :].tolist()
    assert [up_to(row, 0) for row in written] == [up_to(row, 0) for row in expected]
    assert len(set(map(tuple, written))) == 3
