"""A language model small enough to train in seconds, and everything one RL step needs.

The data of a step flows one way, and each stage has one home:

    Task.prompts -> Sampler -> Rollout -> Task.reward -> advantages -> policy_loss -> optimiser -> metrics
"""
