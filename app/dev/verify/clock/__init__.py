"""Clock errors of processes: with this directory on PYTHONPATH, Python imports its `sitecustomize` first."""

from pathlib import Path

VARIABLE = "VERIFY_CLOCK_AHEAD_SECONDS"


def environment(seconds: float) -> dict[str, str]:
    """Return the environment of a process with a clock that is `seconds` ahead (negative: behind)."""
    return {VARIABLE: str(seconds), "PYTHONPATH": str(Path(__file__).parent)}
