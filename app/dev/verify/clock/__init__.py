"""Processes whose clock is wrong: put this directory on PYTHONPATH, and Python imports its `sitecustomize` first."""

from pathlib import Path

VARIABLE = "VERIFY_CLOCK_AHEAD_SECONDS"


def environment(seconds: float) -> dict[str, str]:
    """Make what a process needs to believe that it is `seconds` later than it is (negative: earlier)."""
    return {VARIABLE: str(seconds), "PYTHONPATH": str(Path(__file__).parent)}
