"""One RL step of a language model, from prompts to metrics. All else in this room serves one of its lines."""

from rlnotes.lm.config import Metrics
from rlnotes.lm.parts import Parts


def step(parts: Parts) -> Metrics:
    """One rollout, and the updates on it. What is done otherwise in some runs is done by other ``parts``."""
    prompts = parts.prompts()  # (B, P)
    rollout = parts.rollout(prompts)  # G responses to each, by mu
    rewards = parts.rewards(rollout)  # (N,), N = B * G
    sampled = parts.filled(rollout, rewards)  # the same; dynamic sampling adds to it
    learned = parts.advantages(sampled)
    for groups in parts.minibatches():
        for part in parts.micro_batches(learned, groups):
            log_probs = parts.log_probs(part)  # (n, T, V), with gradients
            batch = parts.batch(part, log_probs)
            loss = parts.loss(batch)
            loss.backward()
            parts.look(part, batch, log_probs, loss)
        parts.update()
    return parts.metrics()
