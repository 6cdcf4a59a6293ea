"""Ids: prefixed, opaque, unique by 64 random bits, and made before the first try so that a repeat is recognised."""

import os
import time
import zlib
from functools import partial


class _Form:
    """What ids of this process begin with."""

    leads_with_time = True


def lead_with_time(wanted: bool) -> None:
    """Begin ids with the time at which they are made, or at random; opening a database chooses, for the whole process.

    What is written together then lies together in each index, however long the history beside it. CockroachDB splits
    tables by key instead: one range would take all writes.
    """
    _Form.leads_with_time = wanted


def _new(prefix: str) -> str:
    # In nanoseconds: pages that are filled in order stay full. The kernel's randomness differs in forked processes.
    start = f"{time.time_ns():016x}" if _Form.leads_with_time else os.urandom(8).hex()
    return f"{prefix}_{start}{os.urandom(8).hex()}"


job_id = partial(_new, "job")
execution_id = partial(_new, "exec")  # also its idempotency key at the receiver
attempt_id = partial(_new, "att")
log_id = partial(_new, "log")
event_id = partial(_new, "evt")
request_id = partial(_new, "req")
audit_id = partial(_new, "aud")
change_id = partial(_new, "chg")
redrive_id = partial(_new, "rdr")
part_id = partial(_new, "prt")  # of a group of events
group_id = partial(_new, "grp")
operation_id = partial(_new, "bop")
worker_id = partial(_new, "wrk")  # new at each boot
command_id = partial(_new, "cmd")  # to a worker
process_id = partial(_new, "prc")  # of any other process


def shard_of(execution: str, shards: int) -> int:
    """Return the shard of an execution."""
    return zlib.crc32(execution.encode()) % shards
