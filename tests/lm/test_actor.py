"""What an actor and a learner share and send each other, within one process."""

import multiprocessing
import threading
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from rlnotes.lm.actor import SharedWeights, UpToDate, packed, unpacked
from rlnotes.lm.asynchronous import AsyncTrainer
from rlnotes.lm.config import TrainConfig, preset_config
from rlnotes.lm.kv_cache import KVCache
from rlnotes.lm.model import Transformer
from rlnotes.lm.rollout import Rollout, SamplingTransform
from rlnotes.lm.sampler import Sampler, prefill, taken

SPAWN = multiprocessing.get_context("spawn")
SIZES = preset_config("tiny", 24, 18)


def filled(model: Transformer, value: float) -> Transformer:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def flat(model: Transformer) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def drawn(generator: torch.Generator) -> Transformer:
    """Weights at random, with distributions far from uniform."""
    model = Transformer(SIZES, generator)
    with torch.no_grad():
        model.head.weight.mul_(20)
    return model


def test_a_reader_never_gets_weights_of_two_versions():
    """One thread writes version after version, every weight the version's number; the other reads meanwhile."""
    sizes = preset_config("small", 24, 18)
    shared = SharedWeights(SPAWN, filled(Transformer(sizes), 0), 0)
    stop = threading.Event()

    def write() -> None:
        model, version = Transformer(sizes), 0
        while not stop.is_set():
            version += 1
            shared.write(filled(model, version), version)

    model, writer, seen = Transformer(sizes), threading.Thread(target=write, daemon=True), []
    writer.start()
    try:
        while len(set(seen)) < 50:
            seen.append(shared.read(model))
            weights = flat(model)
            assert weights.min() == weights.max() == seen[-1]
    finally:
        stop.set()
        writer.join()
    assert seen == sorted(seen)


def test_a_writer_gives_up_on_a_lock_that_a_dead_reader_keeps():
    shared = SharedWeights(SPAWN, filled(Transformer(SIZES), 1), 1)
    lock = shared._version.get_lock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    assert not shared.write(filled(Transformer(SIZES), 2), 2, timeout=0.05)
    assert set(shared._flat.tolist()) == {1.0} and shared._version.get_obj().value == 1


class Scripted:
    """Stands for shared weights: ``first`` up to the read before ``change``, then ``second``."""

    def __init__(self, first: Transformer, second: Transformer, change: int):
        self.models, self.change, self.reads = (first, second), change, 0

    def read(self, model: Transformer, known: int | None = None) -> int:
        version = int(self.reads >= self.change)
        model.load_state_dict(self.models[version].state_dict())
        self.reads += 1
        return 10 + version


@pytest.mark.parametrize("change", [0, 1, 4, 100])
def test_new_weights_in_the_middle_of_a_response_meet_the_old_ones_keys_and_values(change):
    """mu's recorded probabilities are those of the first weights up to the change, and then of the second, which
    attend to what the first have made."""
    generator = torch.Generator().manual_seed(0)
    first, second = drawn(generator), drawn(generator)
    model = UpToDate(SIZES, Scripted(first, second, change))  # type: ignore
    prompts = torch.randint(1, 24, (3, 5), generator=generator)
    with torch.no_grad():
        rollout = model.dated(Sampler(8, 0).sample(model, prompts, 2, generator, version=10))
        prefix, state = prefill(second if change == 0 else first, prompts, None)
        cache = KVCache(SIZES, 6, 13, prompts.device, torch.float32)
        cache.start(prefix, 2)
        state = state.repeat_interleave(2, 0)
        logits = []
        for t in range(8):
            logits.append((first if t < change else second).head(state))
            if t < 7:
                writer = first if t + 1 < change else second
                state = writer.hidden(rollout.tokens[:, t : t + 1], torch.tensor([5 + t]), None, cache)
    expected = taken(torch.cat(logits, 1).log_softmax(-1), rollout.tokens)
    assert (expected - rollout.logp_behavior)[rollout.mask].abs().max() < 1e-5
    versions = torch.where(torch.arange(8) < change, 10, 11).expand(6, 8)
    assert torch.equal(rollout.version[rollout.mask], versions[rollout.mask])


def test_a_rollout_arrives_as_it_left():
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(1, 24, (3, 5), generator=generator)
    prompt_mask = torch.arange(5) >= torch.tensor([[0], [2], [1]])
    sampler = Sampler(8, 0, SamplingTransform(0.7, top_k=5), top_logp=3)
    rollout = sampler.sample(drawn(generator), prompts, 2, generator, 7, prompt_mask)
    receive, send = SPAWN.Pipe(duplex=False)
    send.send(packed(rollout))
    arrived = unpacked(receive.recv(), torch.device("cpu"))
    send.close()
    receive.close()
    for own in fields(Rollout):
        sent, got = getattr(rollout, own.name), getattr(arrived, own.name)
        assert torch.equal(sent, got) and sent.dtype == got.dtype if isinstance(sent, Tensor) else sent == got, own.name
    arrived.tokens.zero_()  # memory of its own, which may be written


SMALL = TrainConfig(prompts=4, group_size=4)


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (SMALL, dict(queue=-1), "queue is -1"),
        (SMALL, dict(window=-1), "window is -1"),
        (replace(SMALL, lags=(4,)), {}, r"lags is \(4,\)"),
        (replace(SMALL, rollout_weights="int8"), dict(partial=True), "partial takes the newest weights as they are"),
    ],
)
def test_settings_that_make_no_sense_are_refused(config, settings, message):
    with pytest.raises(ValueError, match=message):
        AsyncTrainer(config, **settings)


def test_outside_its_block_the_trainer_says_how_to_enter_it():
    with pytest.raises(RuntimeError, match="with AsyncTrainer"):
        next(AsyncTrainer(SMALL).run())
