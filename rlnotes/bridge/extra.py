"""What to say where an optional package is missing."""


def missing(error: ModuleNotFoundError) -> ImportError:
    """The error to raise in the place of ``error``, with the command that mends it."""
    return ImportError(
        f"{error.name} is not installed; the bridge to TRL needs it: pip install 'rlnotes[bridge]'", name=error.name
    )
