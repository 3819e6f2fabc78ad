"""The classic loops on Gymnasium: policy gradient, actor-critic, and what follows from them.

Each algorithm is a generator, ``algorithm(config) -> Iterator[dict]``, that yields the metrics of one update.
"""
