"""Settings of a worker process, as its consumers need them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of a worker process; durations in seconds unless the name says milliseconds."""

    capacity: int
    poll_interval_ms: int
    shards: int
    lease_seconds: float
    stuck_seconds: float
    shutdown_timeout_seconds: float
    startup_timeout_seconds: float
    claim_ahead_ms: int = 50
    connections_per_host: int | None = None  # None: as many as there are deliveries
