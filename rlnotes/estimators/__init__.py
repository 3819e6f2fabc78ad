"""Estimators as array code: one function serves NumPy arrays and torch tensors, with gradients.

Arrays in float16 or bfloat16 are computed in float32, and what comes out of them is float32.
"""
