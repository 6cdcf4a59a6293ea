"""Options of a run."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class FaultKind(StrEnum):
    """A kind of fault that may be done to the product while it works."""

    KILL_WORKER = "kill a worker"
    KILL_SCHEDULER = "kill a scheduler"
    RESTART_DATABASE = "restart the database"
    PARTITION = "partition"
    READ_ONLY = "read-only database"
    LOCK_ROWS = "lock a row"
    HANG = "a receiver hangs"
    OPEN_DELIVERIES = "restart the database under open deliveries"
    ROTATE_KEYS = "rotate the encryption key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `flask --app app verify`; durations in seconds."""

    duration: float
    rate: float
    seed: int
    faults: frozenset[FaultKind] = frozenset()
    skew: float = 0.0
    shards: int | None = None
    """None leaves the choice to the product."""
    open_deliveries: int = 0
    """How many deliveries are open when FaultKind.OPEN_DELIVERIES strikes."""
    pause_storm: bool = False
    database_url: str | None = None
    """None starts a PostgreSQL of the run's own."""
    json_file: Path | None = None
    junit_file: Path | None = None


def seconds(text: str) -> float:
    """Read a duration such as 500ms, 30s, 10m or 1h; raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a number and its unit, for example 500ms, 30s or 10m")
    return float(match[1]) * _SECONDS[match[2]]
