"""Ids: prefixed, opaque, unique by 64 random bits. Made before the first try, so a repetition is recognised."""

import os
import struct
import time
import zlib
from datetime import UTC, datetime
from functools import partial

_READ_AT_ONCE = 256


class _Form:
    leads_with_time = True


def lead_with_time(wanted: bool) -> None:
    """Begin ids with their creation time, or at random; opening a database chooses for the whole process.

    With the time, rows that are written together share index pages, however long the history. CockroachDB splits tables
    by key: one range would take all writes.
    """
    _Form.leads_with_time = wanted


# Random bits of the kernel in hex, read for many ids at once: each read releases the interpreter, and the event loop of
# a busy worker would wait up to 5 ms to get it back.
_unused: list[str] = []
os.register_at_fork(after_in_child=_unused.clear)


def _new(prefix: str) -> str:
    try:
        # In nanoseconds: pages that are filled in order stay full.
        start = f"{time.time_ns():016x}" if _Form.leads_with_time else _unused.pop()
        return f"{prefix}_{start}{_unused.pop()}"
    except IndexError:  # also if other threads have taken what this one read
        _unused.extend([f"{bits:016x}" for (bits,) in struct.iter_unpack("Q", os.urandom(8 * _READ_AT_ONCE))])
        return _new(prefix)


def time_of(id_: str) -> datetime | None:
    """Return the creation time with which an id begins; None if ids begin at random, or the text is no id."""
    start = id_.partition("_")[2][:16]
    try:
        nanoseconds = int(start, 16) if _Form.leads_with_time and len(start) == 16 else 0
        return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC) if nanoseconds else None
    except (ValueError, OverflowError):
        return None


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
workflow_id = partial(_new, "wf")
worker_id = partial(_new, "wrk")  # new at each boot
command_id = partial(_new, "cmd")  # to a worker
process_id = partial(_new, "prc")  # of any other process


def shard_of(execution: str, shards: int) -> int:
    return zlib.crc32(execution.encode()) % shards
