"""Versions of the installed packages."""

import importlib.metadata
from functools import cache


def version() -> str:
    """Return the version; "0" in a source tree that was not installed."""
    try:
        return importlib.metadata.version("task-executor")
    except importlib.metadata.PackageNotFoundError:
        return "0"


@cache  # an upgrade of the distribution changes no rules that this process has loaded
def tzdata_version() -> str:
    """Return the version of the distribution with the time zone rules that this process uses, such as "2026.6"."""
    return importlib.metadata.version("tzdata")
