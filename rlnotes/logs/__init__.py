"""A run's log, read by the course: what is wrong, by which number, and what to check first."""

from rlnotes.logs.report import Report, read

__all__ = ["Report", "read"]
