"""The exercises, one module a chapter."""
