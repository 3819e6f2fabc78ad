"""A language model small enough to train in seconds, and everything one RL step needs.

:mod:`rlnotes.lm.step` is that step. Its data flows one way, and each stage has one home:

    Task.prompts -> Sampler -> Rollout -> Task.reward -> advantages -> policy_loss -> optimiser -> metrics
"""
