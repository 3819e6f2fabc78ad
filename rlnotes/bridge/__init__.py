"""The objectives of this package in other people's trainers, on real models.

| module | what | needs |
|---|---|---|
| :mod:`rlnotes.bridge.trl` | TRL's GRPO trainer with any recipe as its loss | ``pip install 'rlnotes[bridge]'`` |
| :mod:`rlnotes.bridge.tasks` | this package's tasks for TRL: tokenizer, prompts, reward | the same |
| :mod:`rlnotes.bridge.models` | warm start and evaluation of a Hugging Face model on them | the same |
| :mod:`rlnotes.bridge.verl` | a recipe as a policy loss in verl's registry | verl |

This module imports none of them.
"""
