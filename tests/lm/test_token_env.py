"""An episode is a response: its return is the task's score, and its transitions append tokens."""

# pyright: reportMissingImports=false

import itertools
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from rlnotes.exact.mdp import MDP
from rlnotes.exact.mdp import expected_return as mdp_return
from rlnotes.exact.tokens import TokenModel, force_eos
from rlnotes.exact.tokens import expected_reward as token_return
from rlnotes.lm.enumeration import every_response
from rlnotes.lm.sampler import Sampler
from rlnotes.lm.tasks import Add, Reverse, ShortReverse, Sort, Task
from rlnotes.lm.tasks.countdown import Countdown
from rlnotes.lm.tasks.ramble import Ramble
from rlnotes.lm.tasks.rare_tokens import Needle, Renamed
from rlnotes.lm.token_env import TASKS, TokenEnv
from rlnotes.lm.trainer import TrainConfig, Trainer

TINY = ShortReverse(size=1)  # V = 5, T = 2
PROMPTS = ["a=", "b=", "c="]
NAMES = [name for name, task in TASKS.items() if task]


def played(env: TokenEnv, prompt: str, tokens: list[int]) -> tuple[float, int, np.ndarray]:
    """Return, number of tokens taken, and last state of the response that begins with ``tokens``."""
    state, _ = env.reset(options=dict(prompt=prompt))
    total = 0.0
    for count, token in enumerate(tokens, 1):
        state, reward, terminated, truncated, _ = env.step(token)
        total += reward
        assert not truncated
        if terminated:
            return total, count, state
        assert reward == 0
    return total, len(tokens), state


@pytest.mark.parametrize("name", NAMES)
def test_the_checker_of_gymnasium_finds_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name)
        check_env(env.unwrapped)


def test_made_by_name_with_a_size_and_any_task_by_its_own():
    env = gymnasium.make("rlnotes/Reverse-v0", size=5).unwrapped
    assert isinstance(env, TokenEnv) and env.task == Reverse(5)
    env = gymnasium.make("rlnotes/Token-v0", task=Sort(4)).unwrapped
    assert isinstance(env, TokenEnv) and env.task == Sort(4)


def test_gymnasium_alone_is_enough():
    code = "import gymnasium; print(gymnasium.make('rlnotes.lm.token_env:rlnotes/Sort-v0').action_space)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert shown.stdout.strip() == "Discrete(24)", shown.stderr


@pytest.mark.parametrize(
    "task", [Reverse(4), Sort(4), Add(2), Countdown(), Ramble(2), Needle(2), Renamed(3), TINY], ids=repr
)
def test_the_return_is_the_score_of_the_response(task: Task):
    """Right answers, sampled responses, and right answers that never end."""
    examples = task.sample(12, torch.Generator().manual_seed(0))
    trainer = Trainer(TrainConfig(warm_start="none"), task=task)
    sampler = Sampler(task.max_response_length, task.vocabulary.eos)
    rollout = sampler.sample(trainer.model, examples.prompts, 2, torch.Generator().manual_seed(0))
    rows = torch.arange(0, 24, 2)
    rollout.tokens[rows] = examples.answers  # every second response is a right one
    rollout.tokens[4] = rollout.tokens[4].where(rollout.tokens[4] != 0, 2)
    rollout.mask[:] = (rollout.tokens == 0).cumsum(-1) - (rollout.tokens == 0).long() == 0
    expected = task.reward(rollout)
    assert 0 < expected.sum() < 24
    env = TokenEnv(task)
    for row in range(24):
        prompt = task.vocabulary.decode(examples.prompts[rollout.group[row]])
        total, count, _ = played(env, prompt, rollout.tokens[row].tolist())
        assert total == expected[row].item()
        assert count == rollout.mask[row].sum().item()


def test_the_transition_is_the_append_and_nothing_else():
    env = TokenEnv(TINY)
    state, info = env.reset(options=dict(prompt="b="))
    assert state.tolist() == [3, 1, 5, 5] and info["text"] == "b="
    state, reward, terminated, truncated, info = env.step(3)
    assert (state.tolist(), reward, terminated, truncated, info["text"]) == ([3, 1, 3, 5], 0.0, False, False, "b=b")
    assert env.step(0)[:4] == (pytest.approx([3, 1, 3, 0]), 1.0, True, False)


@pytest.mark.parametrize(("tokens", "count"), [([0, 3], 1), ([3, 4], 2)], ids=["eos", "limit"])
def test_both_ends_are_ends_of_the_process(tokens, count):
    env = TokenEnv(TINY)
    _, taken, state = played(env, "b=", tokens)
    assert taken == count and env.observation_space.contains(state)
    with pytest.raises(ValueError, match=r"call reset\(\) first"):
        env.step(2)


def test_the_court_agrees_on_every_policy():
    """J by the exact token model and by the exact MDP, both built from what the environment did, and by hand."""
    env, size, horizon = TokenEnv(TINY), 5, 2
    # every action sequence, played
    reward = np.zeros((3, size**horizon))
    index: dict[tuple[int, ...], int] = {}
    moves: dict[tuple[int, int], tuple[int, float]] = {}
    ends: set[int] = set()
    starts = []
    for b, prompt in enumerate(PROMPTS):
        for number, tokens in enumerate(itertools.product(range(size), repeat=horizon)):
            state, _ = env.reset(options=dict(prompt=prompt))
            here = index.setdefault(tuple(state), len(index))
            if number == 0:
                starts.append(here)
            for token in tokens:
                state, r, terminated, _, _ = env.step(token)
                there = index.setdefault(tuple(state), len(index))
                assert moves.setdefault((here, token), (there, r)) == (there, r)  # the same move, the same outcome
                reward[b, number] += r
                here = there
                if terminated:
                    ends.add(here)
                    break
    S = len(index)
    assert S == 3 * (1 + 5 + 4 * 5) and len(moves) == 3 * (5 + 4 * 5)
    P, r_table, start = np.zeros((S, size, S)), np.zeros((S, size)), np.zeros(S)
    for (state, token), (following, r) in moves.items():
        P[state, token, following], r_table[state, token] = 1, r
    for end in ends:
        P[end, :, end] = 1
    start[starts] = 1 / 3
    rng = np.random.default_rng(0)
    for _ in range(20):
        model = TokenModel(reward, size, horizon, np.full(3, 1 / 3), eos=0)
        policy = force_eos(model, [rng.dirichlet(np.ones(size), (3, size**t)) for t in range(horizon)])
        pi = np.full((S, size), 1 / size)
        for state, row in index.items():
            b, written = "abc".index(TINY.vocabulary.decode(list(state[:1]))), [t for t in state[2:] if t != 5]
            if row not in ends:
                pi[row] = policy[len(written)][b, written[0] if written else 0]
        exact = token_return(model, policy)
        by_hand = sum(
            policy[0][b, 0, x] * policy[1][b, x, y] * played(env, prompt, [x, y])[0] / 3
            for b, prompt in enumerate(PROMPTS)
            for x, y in itertools.product(range(size), repeat=2)
        )
        assert exact == pytest.approx(by_hand, abs=1e-12) and exact > 0
        assert mdp_return(MDP(P, r_table, start, gamma=1.0), pi) == pytest.approx(exact, abs=1e-12)


def test_what_can_be_written_is_what_is_enumerated():
    """The environment's responses are those of the language model's own list, with its scores."""
    prompts = torch.tensor([TINY.vocabulary.encode(p) for p in PROMPTS])
    responses = every_response(TINY, prompts)
    env = TokenEnv(TINY)
    for row, score in enumerate(TINY.reward(responses).tolist()):
        total, count, _ = played(env, PROMPTS[int(responses.group[row])], responses.tokens[row].tolist())
        assert total == score and count == responses.mask[row].sum().item()


def test_what_is_scored_has_the_form_of_a_rollout():
    """EOS to the end, and a mask on the response's own tokens."""
    scored = []

    class Watched(ShortReverse):
        def reward(self, rollout):
            scored.append((rollout.prompts.tolist(), rollout.tokens.tolist(), rollout.mask.tolist()))
            return super().reward(rollout)

    played(TokenEnv(Watched(2)), "ab=", [4, 0])
    assert scored == [([[2, 3, 1]], [[4, 0, 0]], [[True, True, False]])]


def test_only_the_seed_of_reset_decides_the_prompt():
    env, other = TokenEnv("reverse"), TokenEnv("reverse")
    first = [env.reset(seed=5)[1]["text"], *(env.reset()[1]["text"] for _ in range(4))]
    torch.randn(3)
    again = [other.reset(seed=5)[1]["text"], *(other.reset()[1]["text"] for _ in range(4))]
    assert first == again and len(set(first)) == 5
    assert first[0] != env.reset(seed=6)[1]["text"]


def test_prompts_of_a_split_stay_in_it():
    from rlnotes.lm.tasks.task import in_split

    env = TokenEnv("reverse", 4, split="heldout")
    states = np.stack([env.reset(seed=seed)[0][:5] for seed in range(20)])
    assert in_split(torch.from_numpy(states), "heldout").all()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda env: env.step(1), "no episode runs"),
        (lambda env: (env.reset(), env.step(5)), "action is 5; it must be a token, 0 to 4"),
        (lambda env: env.reset(options=dict(prompt="ab=")), "prompt 'ab=' has 3 tokens; those of this task have 2"),
        (lambda env: env.reset(options=dict(prompt="z=")), "'z' is not in the vocabulary"),
    ],
)
def test_what_makes_no_sense_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act(TokenEnv(TINY))


@pytest.mark.extras
def test_datasets_of_reasoning_gym_are_environments_too():
    pytest.importorskip("reasoning_gym")
    env = gymnasium.make("rlnotes/Token-v0", task="reasoning-gym/gcd").unwrapped
    assert isinstance(env, TokenEnv)
    check_env(env)
    examples = env.task.sample(4, torch.Generator().manual_seed(0))
    for prompt, answer in zip(examples.prompts, examples.answers, strict=True):
        assert played(env, env.task.vocabulary.decode(prompt), answer.tolist())[0] == 1


@pytest.mark.extras
def test_stable_baselines_takes_it_and_trains_on_it():
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env as check

    states = torch.get_rng_state(), np.random.get_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            check(TokenEnv(TINY))
        model = sb3.PPO("MlpPolicy", TokenEnv(TINY), n_steps=64, batch_size=64, seed=0, device="cpu")
        model.learn(128)
        assert model.num_timesteps == 128
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
