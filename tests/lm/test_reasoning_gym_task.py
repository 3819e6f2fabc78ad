import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from rlnotes.lm.config import TrainConfig
from rlnotes.lm.rollout import Rollout, SamplingTransform, response_mask
from rlnotes.lm.tasks import Examples, make_task
from rlnotes.lm.tasks.reasoning_gym import EOS, SIZES, ReasoningGym, without_shared_words
from rlnotes.lm.tasks.task import in_split
from rlnotes.lm.trainer import Trainer

# wrong for every question of the table; the package's own verifier takes the nan for right
WRONG = {
    "chain_sum": ["", "999"],
    "number_sorting": ["", "[]", "['nan', 'nan']", "['9.0']"],
    "spell_backward": ["", "aa"],
    "gcd": ["", "0"],
}
extras = pytest.mark.extras  # needs reasoning-gym
COUNT = 4000  # fewer than usual, for speed


def test_the_four_datasets_are_tested():
    assert set(WRONG) == set(SIZES)


@pytest.fixture(scope="module", params=list(WRONG))
def task(request: pytest.FixtureRequest) -> ReasoningGym:
    return ReasoningGym(request.param, count=COUNT)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rollout_of(prompts: Tensor, tokens: Tensor) -> Rollout:
    zeros = torch.zeros_like(tokens)
    group = torch.arange(len(prompts)).repeat_interleave(len(tokens) // len(prompts))
    return Rollout(prompts, group, tokens, response_mask(tokens, 0), zeros.float(), zeros, SamplingTransform())


def table(task: ReasoningGym) -> Examples:
    return Examples(task._table.prompts, task._table.answers)


@extras
def test_every_prompt_is_in_one_split_and_comes_once(task: ReasoningGym):
    prompts = table(task).prompts
    heldout = in_split(prompts, "heldout")
    assert torch.equal(heldout, ~in_split(prompts, "train"))
    assert 0.05 < heldout.float().mean() < 0.25
    assert len({tuple(prompt) for prompt in prompts.tolist()}) == len(prompts)


@extras
def test_sampled_splits_do_not_overlap(task: ReasoningGym):
    train, heldout = (
        {tuple(prompt) for prompt in task.sample(4096, generator(), split).prompts.tolist()}
        for split in ("train", "heldout")
    )
    assert train and heldout and not train & heldout


@extras
def test_every_right_answer_scores_1(task: ReasoningGym):
    examples = table(task)
    assert task.reward(rollout_of(examples.prompts, examples.answers)).tolist() == [1.0] * len(examples.prompts)


@extras
def test_rewards_belong_to_the_prompt_of_their_group(task: ReasoningGym):
    examples = task.sample(8, generator())
    right = examples.answers.repeat_interleave(2, 0)
    right[1::2] = 0  # every second response is empty
    assert task.reward(rollout_of(examples.prompts, right)).tolist() == [1.0, 0.0] * 8


@extras
def test_wrong_answers_score_0(task: ReasoningGym):
    prompts = task.sample(200, generator(), "heldout").prompts
    for text in WRONG[task.dataset]:
        response = task.vocabulary.encode(text.ljust(task.max_response_length, EOS))
        tokens = torch.tensor([response] * len(prompts))
        assert not task.reward(rollout_of(prompts, tokens)).any(), text


@extras
def test_part_of_a_right_answer_scores_0(task: ReasoningGym):
    examples = table(task)
    long = examples.answers[:, 1] != task.vocabulary.eos
    prompts, answers = examples.prompts[long][:500], examples.answers[long][:500].clone()
    answers[:, 1:] = task.vocabulary.eos
    assert len(prompts) > 0
    assert not task.reward(rollout_of(prompts, answers)).any()


@extras
def test_an_answer_without_eos_scores_0(task: ReasoningGym):
    examples = table(task)
    longest = examples.answers[:, -2] != task.vocabulary.eos
    rollout = rollout_of(examples.prompts[longest], examples.answers[longest, :-1])
    assert len(rollout.tokens) > 0
    assert not task.reward(rollout).any()


@extras
def test_widths_are_fixed_and_blanks_stand_on_the_left(task: ReasoningGym):
    for split in ("train", "heldout"):
        examples = task.sample(64, generator(), split)
        assert examples.prompts.shape == (64, task.prompt_length)
        assert examples.answers.shape == (64, task.max_response_length)
        assert (examples.answers[:, -1] == task.vocabulary.eos).all()
        assert not (examples.prompts == task.vocabulary.eos).any()
        assert not (examples.prompts[:, -1] == task.vocabulary.encode(" ")[0]).any()


@extras
def test_vocabulary_is_eos_and_then_the_characters_that_occur(task: ReasoningGym):
    characters = task.vocabulary.characters
    assert characters[0] == EOS and list(characters[1:]) == sorted(characters[1:])
    occurring = torch.cat([table(task).prompts.flatten(), table(task).answers.flatten()]).unique()
    assert occurring.tolist() == list(range(len(characters)))


@extras
def test_same_seeds_same_prompts(task: ReasoningGym):
    again = ReasoningGym(task.dataset, count=COUNT)
    assert again == task and again.vocabulary == task.vocabulary
    assert torch.equal(again.sample(64, generator(3)).prompts, task.sample(64, generator(3)).prompts)
    assert not torch.equal(task.sample(64, generator(4)).prompts, task.sample(64, generator(3)).prompts)


@extras
def test_a_prompt_from_elsewhere_is_refused(task: ReasoningGym):
    prompts = torch.zeros(1, task.prompt_length, dtype=torch.long)
    with pytest.raises(ValueError, match="is not one of ReasoningGym"):
        task.reward(rollout_of(prompts, torch.zeros(1, task.max_response_length, dtype=torch.long)))


@extras
def test_global_random_state_is_left_alone():
    python, numpy = random.getstate(), np.random.get_state()[1].copy()  # pyright: ignore
    ReasoningGym("gcd", count=100)
    assert random.getstate() == python and (np.random.get_state()[1] == numpy).all()  # pyright: ignore


@extras
def test_registry_makes_the_task():
    task, small = make_task("reasoning-gym/gcd"), make_task("reasoning-gym/gcd", 1)
    assert isinstance(task, ReasoningGym) and task.dataset == "gcd" and task.prompt_length == len("98, 58.")
    assert isinstance(small, ReasoningGym) and small.size == 1 and small.prompt_length == len("9, 6.")


@extras
def test_options_come_before_size():
    task = ReasoningGym("gcd", options=dict(min_value=10, max_value=19))
    assert {task.vocabulary.decode(p)[0] for p in task.sample(64, generator()).prompts} == {"1"}


@extras
def test_other_datasets_of_the_package():
    task = ReasoningGym("lcm", count=500)
    examples = task.sample(32, generator())
    assert task.reward(rollout_of(examples.prompts, examples.answers)).all()


@extras
def test_a_verifier_that_raises_has_not_accepted():
    task = ReasoningGym("prime_factorization", count=500)  # its verifier calls int() on every part
    prompts = task.sample(1, generator()).prompts
    tokens = torch.tensor([task.vocabulary.encode("××".ljust(task.max_response_length, EOS))])
    assert task.reward(rollout_of(prompts, tokens)).tolist() == [0.0]


@extras
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(dataset="chain_summ"), "no dataset 'chain_summ'; did you mean .*chain_sum"),
        (dict(dataset="gcd", size=0), "size is 0; for gcd it must be between 1 and 6"),
        (dict(dataset="lcm", size=2), "size has a meaning for .* only; leave it out for lcm"),
        (dict(dataset="gcd", options=dict(max_value=0)), "gcd does not take the options"),
        (dict(dataset="gcd", options=dict(colour="red")), "gcd does not take the options .*colour"),
        (dict(dataset="syllogism"), "syllogism: prompts have up to 1.. tokens and the limit is 96; make them shorter"),
        (dict(dataset="number_sorting", options=dict(max_numbers=9)), "responses have up to .* and the limit is 48"),
        (dict(dataset="propositional_logic"), "none of 200 entries has a text as an answer"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        ReasoningGym(**arguments)


@extras
def test_too_few_held_out_prompts():
    with pytest.raises(ValueError, match="too few prompts in its heldout split"):
        ReasoningGym("gcd", count=1).sample(4, generator(), "heldout")


def test_a_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ImportError, match=r"pip install 'rlnotes\[tasks\]'"):
        make_task("reasoning-gym/gcd")


def test_the_registry_does_not_import_the_package():
    code = "import sys, rlnotes.lm.tasks; sys.exit('reasoning_gym' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_whole_shared_words_are_cut_off():
    questions = ["Sort: 10.0, 2.0\nNow.", "Sort: 15.0, 7.0\nNow."]
    assert without_shared_words(questions) == ["10.0, 2.0", "15.0, 7.0"]
    assert without_shared_words(["What is 1 + 2 ?", "What is 2 ?"]) == ["1 + 2", "2"]
    assert without_shared_words(["abc", "abd"]) == ["abc", "abd"]


@extras
def test_a_trainer_runs_on_it():
    config = TrainConfig(warm_start="train", warm_limit=2, steps=2, prompts=4, group_size=4)
    metrics = list(Trainer(config, ReasoningGym("gcd", count=COUNT)).run())
    assert [m["phase"] for m in metrics] == [0, 0, 1, 1]
