"""Settings of a worker process."""

from typing import NamedTuple

from app.kernel.processes.process_heartbeat import HEARTBEAT_SECONDS


class WorkerSettings(NamedTuple):
    """Settings of a worker process; durations in seconds unless the name says milliseconds."""

    capacity: int
    poll_interval_ms: int
    shards: int
    lease_seconds: float
    stuck_seconds: float
    shutdown_timeout_seconds: float
    startup_timeout_seconds: float
    claim_ahead_ms: int = 50
    orphan_check_seconds: float = 10.0  # between two checks for executions whose claim was never answered
    connections_per_host: int | None = None  # None: no limit beside the number of deliveries
    left_out: frozenset[str] = frozenset()  # queues that this process serves only if its list of queues names them
    look_ahead_ms: int = 0  # within which a new job is queued at once
    beat_seconds: float = HEARTBEAT_SECONDS  # between two heartbeats of the process; its lease is renewed separately
