"""Version of the installed package."""

import importlib.metadata


def version() -> str:
    """Return the version; "0" in a source tree that was not installed."""
    try:
        return importlib.metadata.version("task-executor")
    except importlib.metadata.PackageNotFoundError:
        return "0"
