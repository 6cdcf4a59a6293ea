"""Deliveries: how many executions have ended of late, how late they began, how long they took, and how many run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from app.kernel.config import MOST_SHARDS
from app.kernel.db import Database, chunked_scan
from app.kernel.sql import statement
from schema.states import FINAL

NEWEST = 10_000  # executions that are looked at
LEAST_OF_SHARD = 1_000
NEWEST_OF_ENDPOINT = 1_000  # of each final status
MOST_ENDPOINTS = 100

_WITHIN = "completed_at > now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'"
_COLUMNS = "endpoint, status, run_at, started_at, completed_at, duration_ms"
# What was never delivered, and what expired or was cancelled while it waited for another attempt, was not late.
_LATE_MS = """CASE WHEN n.started_at >= n.run_at OR (n.status = 'SUCCESS' AND n.started_at IS NOT NULL)
                  THEN GREATEST(0, CAST(EXTRACT(EPOCH FROM (n.started_at - n.run_at)) * 1000 AS BIGINT)) END"""
_PERCENTILES = ",\n           ".join(
    f"percentile_disc({share}) WITHIN GROUP (ORDER BY {of}_ms) AS {of}_p{round(share * 100)}"
    for of in ("late", "took")
    for share in (0.5, 0.95, 0.99)
)
_FIGURES = f"""count(*) AS ended, count(CASE WHEN status = 'SUCCESS' THEN 1 END) AS succeeded,
           count(CASE WHEN status = 'FAILED' THEN 1 END) AS failed,
           {_PERCENTILES}"""


# Each part is read by an index in its order, however much has ended. Where one holds more than is looked at, all begin
# with the instant from which on each is complete.
def _figures(parts: Sequence[str], most: str, also: str = "") -> str:
    newest = "\n      UNION ALL ".join(
        f"(SELECT {number} AS part, {_COLUMNS} FROM executions WHERE {part} LIMIT {most})"  # noqa: S608 - see below
        for number, part in enumerate(parts)
    )
    return f"""
    WITH newest AS MATERIALIZED (
      {newest}),
    reached AS (
      SELECT max(first) AS first
        FROM (SELECT min(completed_at) AS first FROM newest GROUP BY part HAVING count(*) >= {most}) AS cut),
    ended AS MATERIALIZED (
      SELECT n.endpoint, n.status, n.duration_ms AS took_ms, {_LATE_MS} AS late_ms
        FROM newest AS n CROSS JOIN reached AS r
       WHERE n.{_WITHIN} AND (r.first IS NULL OR n.completed_at >= r.first))
    SELECT (SELECT CAST(EXTRACT(EPOCH FROM (now() - first)) * 1000 AS BIGINT) FROM reached) AS covered_ms,
           CAST(NULL AS TEXT) AS endpoint, {_FIGURES}
      FROM ended{also}
    """  # noqa: S608 - constants of this module


def _of_shards(shards: int) -> str:
    parts = [
        f"shard = {number} AND completed_at IS NOT NULL AND {_WITHIN} ORDER BY completed_at DESC, execution_id DESC"
        for number in range(shards)
    ]
    of_each = f"""
     UNION ALL
    (SELECT NULL, endpoint, {_FIGURES}
       FROM ended GROUP BY endpoint ORDER BY ended DESC, endpoint LIMIT {MOST_ENDPOINTS})"""  # noqa: S608 - as above
    return _figures(parts, str(max(LEAST_OF_SHARD, NEWEST // shards)), of_each)


# By the number of shards. Those of which there are few have parts that are empty.
ENDED = {shards: statement(f"stats.ended_{shards}", _of_shards(shards)) for shards in (1, 16, MOST_SHARDS)}


# Compared as a row and not by `=`: then no other index is in this order, which might hold very many of others.
def _newest_of(status: str) -> str:
    return (
        f"(endpoint, status) >= (CAST(:endpoint AS TEXT), '{status}') "
        f"AND (endpoint, status) <= (CAST(:endpoint AS TEXT), '{status}') AND completed_at IS NOT NULL "
        "ORDER BY endpoint DESC, status DESC, created_at DESC, execution_id DESC"
    )


ENDED_OF_ENDPOINT = statement(
    "stats.ended_of_endpoint", _figures([_newest_of(status) for status in sorted(FINAL)], str(NEWEST_OF_ENDPOINT))
)
# No more than all workers together may hold.
RUNNING = statement(
    "stats.running",
    """
    SELECT endpoint, count(*) AS running FROM executions
     WHERE status = 'RUNNING' AND (CAST(:endpoint AS TEXT) IS NULL OR endpoint = :endpoint) GROUP BY endpoint
    """,
)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds that half of them, 95 and 99 in 100 do not exceed; None without any."""

    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What has ended of an endpoint, or of all of them, and what runs now.

    `lateness_ms` is from the instant at which the last attempt was due to its beginning.
    """

    endpoint: str | None
    ended: int
    succeeded: int
    failed: int
    per_second: float
    lateness_ms: Percentiles
    duration_ms: Percentiles
    in_flight: int


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of all that is looked at, and of each of its MOST_ENDPOINTS busiest endpoints.

    They are about the last `covered_seconds`: less than was asked for where more has ended than is looked at.
    """

    covered_seconds: float
    overall: Deliveries
    endpoints: Sequence[Deliveries]


def report(database: Database, seconds: int, shards: int) -> Report:
    """Report on what has ended within so many seconds, about NEWEST executions at most."""
    arms = min(arms for arms in ENDED if arms >= shards)
    rows = chunked_scan.in_order(database, ENDED[arms], {"seconds": seconds})
    running = _running(database, None)
    covered = _covered(rows[0], seconds)
    overall = _deliveries(rows[0], covered, sum(running.values()))
    return Report(covered, overall, [_deliveries(row, covered, running.get(row.endpoint, 0)) for row in rows[1:]])


def report_of(database: Database, endpoint: str, seconds: int) -> Report:
    """Report on an endpoint; looks at the NEWEST_OF_ENDPOINT that were created last of each final status."""
    (row,) = chunked_scan.in_order(database, ENDED_OF_ENDPOINT, {"endpoint": endpoint, "seconds": seconds})
    covered = _covered(row, seconds)
    return Report(covered, _deliveries(row, covered, _running(database, endpoint).get(endpoint, 0)), [])


def _running(database: Database, endpoint: str | None) -> dict[str, int]:
    return {row.endpoint: row.running for row in database.fetch(RUNNING, {"endpoint": endpoint})}


def _covered(row: Row[Any], seconds: int) -> float:
    return seconds if row.covered_ms is None else min(seconds, max(1, row.covered_ms) / 1000)


def _deliveries(row: Row[Any], covered_seconds: float, in_flight: int) -> Deliveries:
    return Deliveries(
        row.endpoint,
        row.ended,
        row.succeeded,
        row.failed,
        round(row.ended / covered_seconds, 3),
        Percentiles(row.late_p50, row.late_p95, row.late_p99),
        Percentiles(row.took_p50, row.took_p95, row.took_p99),
        in_flight,
    )
