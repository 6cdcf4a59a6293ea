"""Costs of a job that a busy machine does not change: round trips, rows, index entries, bytes of WAL, calls."""

import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from sqlalchemy import Connection, text

from app.kernel import log
from app.kernel.db import Database
from tests.pg_proxy import Fault, PgProxy

# A poll follows each claim, whether or not other jobs are due; an idle connection gets a ping.
IDLE_QUERIES = re.compile(r"\) AS clock |^SELECT 1$")
IDLE_THREADS = {"te-heartbeat", "te-watchdog", "te-stalled", "te-flow", "te-health"}
_VALUES = re.compile(r"'[^']*'|\b[0-9]+\b")

# One record is one row version, row lock or index entry. Other records, such as the pruning of a page, depend on the
# rows that were there before.
WAL = text(
    """
    SELECT owner.relname AS table_name, wal.resource_manager AS kind, wal.record_type AS type,
           count(DISTINCT wal.start_lsn) AS records,
           CAST(sum(CASE WHEN wal.block_id = 0 THEN wal.record_length ELSE 0 END - wal.block_fpi_length) AS BIGINT)
             AS bytes
      FROM pg_get_wal_block_info(CAST(:since AS pg_lsn), CAST(:until AS pg_lsn), false) AS wal
      JOIN pg_class AS c ON c.relfilenode = wal.relfilenode
      LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
      JOIN pg_class AS owner ON owner.oid = COALESCE(i.indrelid, c.oid)
     WHERE wal.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND wal.resource_manager IN ('Heap', 'Btree', 'Gin')
     GROUP BY 1, 2, 3
    """
)
# The commit waits for its WAL, so the reader finds all records up to it.
MARK = text("SELECT CAST(pg_current_wal_insert_lsn() AS TEXT) AS lsn, pg_logical_emit_message(true, 'mark', '')")
# A row per process, written at any time.
PROCESS_TABLES = {"workers", "region_heartbeats"}


class Cost(NamedTuple):
    """Cost of one job; `request_calls` are calls of Python functions in its request, `worker_calls` in the worker."""

    round_trips: int
    rows: int
    entries: int
    wal_bytes: int
    request_calls: int
    worker_calls: int

    def exceeds(self, bound: "Cost") -> bool:
        return any(measured > most for measured, most in zip(self, bound, strict=True))

    def least(self, other: "Cost") -> "Cost":
        return Cost(*map(min, self, other))


class RecordingProxy(PgProxy):
    """Proxy that counts the queries of all connections by their texts, with `?` for each value."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.sent: Counter[str] = Counter()

    def take(self, query: str) -> Fault | None:
        """Count a query; each BEGIN has a COMMIT, which is not passed to this method."""
        normal = _VALUES.sub("?", " ".join(query.split()))
        if not IDLE_QUERIES.search(normal):
            self.sent[normal] += 2 if normal == "BEGIN" else 1
        return None


def mark(database: Database) -> str:
    """Return the current position in the WAL, after all earlier records are readable."""

    def body(connection: Connection) -> str:
        connection.execute(text("SET LOCAL synchronous_commit = on"))
        return str(connection.execute(MARK).one().lsn)

    return database.transact(body)


def written(database: Database, since: str) -> tuple[int, int, int]:
    """Return the row versions and locks, index entries, and bytes of WAL since a mark."""
    records = [
        each
        for each in database.fetch(WAL, {"since": since, "until": mark(database)})
        if each.table_name not in PROCESS_TABLES and "PRUNE" not in each.type
    ]
    rows = sum(each.records for each in records if each.kind == "Heap")
    return rows, sum(each.records for each in records) - rows, sum(each.bytes for each in records)


class Calls:
    """Counts calls of Python functions, of the product and its libraries, in threads that use `note`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.is_counting = False

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; a profile function for `setprofile`."""
        if self.is_counting and event == "call" and threading.current_thread().name not in IDLE_THREADS:
            self.counts[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    def during(self, work: Callable[[], object]) -> Counter[str]:
        """Return the calls of the current thread during `work`."""
        own = Calls()
        own.is_counting = True
        sys.setprofile(own.note)
        try:
            work()
        finally:
            sys.setprofile(None)
        return own.counts


@contextmanager
def calls_of_this_thread() -> Iterator[Counter[str]]:
    """Count the calls of the current thread, also while other tasks of its event loop run."""
    own = Calls()
    own.is_counting = True
    sys.setprofile(own.note)
    try:
        yield own.counts
    finally:
        sys.setprofile(None)


@contextmanager
def own_log() -> Iterator[None]:
    """Let the product's handler format each line, without the test runner's handlers."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    with Path(os.devnull).open("w") as stream:
        root.handlers = [logging.StreamHandler(stream)]
        log.restyle("INFO", "text")
        try:
            yield
        finally:
            root.handlers = handlers
            root.setLevel(level)


def calls_per_job(counts: Counter[str], jobs: int) -> int:
    """Return the calls that each of many concurrent jobs makes; a call per batch or per poll is left out."""
    return sum(each // jobs for each in counts.values())


def common(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Return the counts that all have; a heartbeat or another job's poll is not in all."""
    return reduce(and_, counts)
