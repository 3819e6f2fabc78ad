"""A real language model, trained by RL on questions whose answers can be checked: what ``rlnotes real`` does.

| module | what |
|---|---|
| :mod:`rlnotes.bridge.real.config` | the settings of a run |
| :mod:`rlnotes.bridge.real.questions` | tasks: questions as text, and what a response earns |
| :mod:`rlnotes.bridge.real.models` | a model and its tokenizer from a folder or a GGUF file; weights on a grid |
| :mod:`rlnotes.bridge.real.passes` | prompts read once, responses behind them |
| :mod:`rlnotes.bridge.real.sampler` | the sampler's copy of the model; a token at a time, on a GPU recorded |
| :mod:`rlnotes.bridge.real.trainer` | the run: its step is that of :mod:`rlnotes.lm.step` |
| :mod:`rlnotes.bridge.real.for_trl` | the tasks for TRL's trainer, with the extra ``bridge`` |

Needs ``pip install 'rlnotes[real]'``. Nothing is downloaded: who runs it brings the model.
"""
