"""Ids: prefixed, opaque, random, and made before the first try so that a repeated write is recognised."""

import uuid
import zlib
from functools import partial


def _new(prefix: str) -> str:
    # Version 4, not 7: CockroachDB splits tables by key, and with time-ordered keys one range takes all writes.
    return f"{prefix}_{uuid.uuid4().hex}"


job_id = partial(_new, "job")
execution_id = partial(_new, "exec")  # also its idempotency key at the receiver
attempt_id = partial(_new, "att")
log_id = partial(_new, "log")
event_id = partial(_new, "evt")
request_id = partial(_new, "req")
audit_id = partial(_new, "aud")
change_id = partial(_new, "chg")
worker_id = partial(_new, "wrk")  # new at each boot


def shard_of(execution: str, shards: int) -> int:
    """Return the shard of an execution."""
    return zlib.crc32(execution.encode()) % shards
