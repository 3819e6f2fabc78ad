"""Estimators as array code: one function serves NumPy arrays and torch tensors, with gradients."""
