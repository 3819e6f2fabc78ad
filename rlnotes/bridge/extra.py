"""What to say where an optional package is missing."""


def missing(error: ModuleNotFoundError, what: str = "the bridge to TRL", extra: str = "bridge") -> ImportError:
    """The error to raise in the place of ``error``, with the command that mends it."""
    return ImportError(
        f"{error.name} is not installed; {what} needs it: pip install 'rlnotes[{extra}]'", name=error.name
    )
