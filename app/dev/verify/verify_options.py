"""Options of a run."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class FaultKind(StrEnum):
    """Kinds of faults, by the names of their options; their order is part of a seed's schedule."""

    HANG = "hang"
    KILL_SCHEDULER = "kill_scheduler"
    KILL_WORKER = "kill_workers"
    LOCK_ROWS = "lock_rows"
    PARTITION = "partition"
    READ_ONLY = "read_only"
    RESTART_DATABASE = "restart_database"
    OPEN_DELIVERIES = "open_deliveries"
    ROTATE_KEYS = "rotate_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `flask --app app verify`; durations in seconds."""

    duration: float
    rate: float
    seed: int
    faults: frozenset[FaultKind] = frozenset()
    skew: float = 0.0
    shards: int | None = None
    """None means the product's default."""
    open_deliveries: int = 0
    """Number of open deliveries at the fault FaultKind.OPEN_DELIVERIES."""
    pause_storm: bool = False
    database_url: str | None = None
    """None starts a PostgreSQL for the run."""
    json_file: Path | None = None
    junit_file: Path | None = None
