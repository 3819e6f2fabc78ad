"""What waits comes out in order, inside the window; what does not is counted."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlnotes.lm.queue import RolloutQueue
from rlnotes.lm.rollout import Rollout
from tests.cases import cases


def rollout(oldest: int, newest: int, length: int = 3) -> Rollout:
    """Two responses, of ``length`` tokens and of one, written by versions from ``oldest`` to ``newest``."""
    tokens = torch.ones(2, 4, dtype=torch.long)
    tokens[0, length:] = 0
    tokens[0, length - 1] = 0
    tokens[1] = 0
    plain = Rollout.of_responses(torch.zeros(1, 2, dtype=torch.long), tokens, eos=0)
    version = torch.full_like(tokens, newest)
    version[0, 0] = oldest
    version[1, 1:] = -100  # outside the mask: nobody asks
    return replace(plain, version=version)


@given(
    window=st.integers(0, 6),
    capacity=st.none() | st.integers(1, 4),
    events=st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 4), st.integers(2, 4)), max_size=40),
)
@settings(derandomize=True, deadline=None, max_examples=cases())
def test_a_queue_is_a_list_that_forgets_what_is_too_old(window, capacity, events):
    """Against a plain list. An event is a put or a get, after ``passed`` more updates."""
    queue, plain = RolloutQueue(window, capacity), []
    version = wasted = tokens = put = given_out = 0
    for puts, passed, spread, length in events:
        version += passed
        if puts:
            made = rollout(max(0, version - spread), version, length)
            queue.put(made)
            plain.append(made)
            put += 1
            dropped = plain[:-capacity] if capacity else []
            plain = plain[len(dropped) :]
        else:
            inside = [i for i, made in enumerate(plain) if version - int(made.version[0, 0]) <= window]
            first = inside[0] if inside else len(plain)
            dropped = plain[:first]
            found = queue.get(version)
            assert found is (plain[first] if inside else None)
            given_out += found is not None
            plain = plain[first + 1 :]
        wasted += 2 * len(dropped)
        tokens += sum(int(made.mask.sum()) for made in dropped)
        assert (queue.wasted, queue.wasted_tokens, len(queue)) == (wasted, tokens, len(plain))
        assert 2 * put == 2 * given_out + queue.wasted + 2 * len(queue)


def test_the_oldest_token_decides():
    queue = RolloutQueue(window=4)
    queue.put(rollout(oldest=1, newest=5, length=4))
    queue.put(rollout(oldest=2, newest=2))
    found = queue.get(6)
    assert found is not None and int(found.version[0, 0]) == 2
    assert (queue.wasted, queue.wasted_tokens) == (2, 5)
    assert queue.get(6) is None


def test_a_window_of_zero_is_on_policy():
    queue = RolloutQueue(window=0)
    queue.put(rollout(3, 3))
    assert queue.get(3) is not None
    queue.put(rollout(3, 3))
    assert queue.get(4) is None and queue.wasted == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RolloutQueue(-1), "window is -1; it is a number of updates"),
        (lambda: RolloutQueue(4, 0), "capacity is 0; it must be at least 1, or None"),
    ],
)
def test_impossible_queues_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_rollout_from_the_future_is_refused():
    queue = RolloutQueue(4)
    queue.put(rollout(3, 7))
    with pytest.raises(ValueError, match="version is 5, and a token was written by 7"):
        queue.get(5)
