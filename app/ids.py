"""Ids: prefixed, opaque, random, and made before the first try so that a repeated write is recognised."""

import uuid
import zlib


def _new(prefix: str) -> str:
    # Version 4, not 7: CockroachDB splits tables by key, and with time-ordered keys one range takes all writes.
    return f"{prefix}_{uuid.uuid4().hex}"


def job_id() -> str:
    """Make the id of a job."""
    return _new("job")


def execution_id() -> str:
    """Make the id of an execution, which is also its idempotency key at the receiver."""
    return _new("exec")


def attempt_id() -> str:
    """Make the id of an attempt."""
    return _new("att")


def log_id() -> str:
    """Make the id of a log line."""
    return _new("log")


def event_id() -> str:
    """Make the id of an event in an execution's history."""
    return _new("evt")


def request_id() -> str:
    """Make the id of an API request."""
    return _new("req")


def audit_id() -> str:
    """Make the id of an entry in the audit log."""
    return _new("aud")


def worker_id() -> str:
    """Make the id of a worker process, new at each boot."""
    return _new("wrk")


def shard_of(execution: str, shards: int) -> int:
    """Return the shard of an execution."""
    return zlib.crc32(execution.encode()) % shards
