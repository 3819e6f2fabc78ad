"""Exact values by enumeration, in float64, without sampling: what the estimators are judged by."""
