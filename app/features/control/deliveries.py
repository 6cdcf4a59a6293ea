"""Delivery statistics: number, lateness and duration of recently ended executions, and running executions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, TextClause

from app.kernel.db import Database, chunked_scan
from app.kernel.sql import statement
from schema.states import FINAL

NEWEST = 10_000  # executions that a report reads
MIN_OF_SHARD = 1_000
NEWEST_OF_ENDPOINT = 1_000  # of each final status
MAX_ENDPOINTS = 100

_WITHIN = "completed_at > now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'"
_COLUMNS = "endpoint, status, run_at, started_at, completed_at, duration_ms"
_PERCENTILES = ",\n           ".join(
    f"percentile_disc({share}) WITHIN GROUP (ORDER BY {of}_ms) AS {of}_p{round(share * 100)}"
    for of in ("late", "took")
    for share in (0.5, 0.95, 0.99)
)
_FIGURES = f"""count(*) AS ended, count(CASE WHEN status = 'SUCCESS' THEN 1 END) AS succeeded,
           count(CASE WHEN status = 'FAILED' THEN 1 END) AS failed,
           {_PERCENTILES}"""


# Each part is read by an index in its order, however many executions have ended. If a part holds more rows than are
# read, all parts start at the instant from which every part is complete. Executions that were never
# delivered, and executions that expired or were cancelled before a retry, do not count as late.
def _figures(newest: str, most: int, also: str = "") -> str:
    return f"""
    WITH newest AS MATERIALIZED (
      {newest}),
    reached AS (
      SELECT max(first) AS first
        FROM (SELECT min(completed_at) AS first FROM newest GROUP BY part HAVING count(*) >= {most}) AS cut),
    ended AS MATERIALIZED (
      SELECT n.endpoint, n.status, n.duration_ms AS took_ms,
             CASE WHEN n.started_at >= n.run_at OR (n.status = 'SUCCESS' AND n.started_at IS NOT NULL)
                  THEN GREATEST(0, CAST(EXTRACT(EPOCH FROM (n.started_at - n.run_at)) * 1000 AS BIGINT)) END AS late_ms
        FROM newest AS n CROSS JOIN reached AS r
       WHERE n.{_WITHIN} AND (r.first IS NULL OR n.completed_at >= r.first))
    SELECT (SELECT CAST(EXTRACT(EPOCH FROM (now() - first)) * 1000 AS BIGINT) FROM reached) AS covered_ms,
           CAST(NULL AS TEXT) AS endpoint, {_FIGURES}
      FROM ended{also}
    """  # noqa: S608 - constants of this module


def _parts(conditions: Sequence[str], most: int) -> str:
    return "\n      UNION ALL ".join(
        f"(SELECT {number} AS part, {_COLUMNS} FROM executions WHERE {condition} LIMIT {most})"  # noqa: S608
        for number, condition in enumerate(conditions)
    )


def _newest_of_shard(shard: str) -> str:
    order = "ORDER BY completed_at DESC, execution_id DESC"
    return f"shard = {shard} AND completed_at IS NOT NULL AND {_WITHIN} {order}"


def _of_shards(newest: str, most: int) -> str:
    of_each = f"""
     UNION ALL
    (SELECT NULL, endpoint, {_FIGURES}
       FROM ended GROUP BY endpoint ORDER BY ended DESC, endpoint LIMIT {MAX_ENDPOINTS})"""  # noqa: S608 - as above
    return _figures(newest, most, of_each)


# Statements by number of shards, rounded up: the remaining parts are empty. The statement for more shards has no
# part per shard; CockroachDB may then read all executions that ended within the time.
ENDED = {
    shards: statement(
        f"stats.ended_{shards}",
        _of_shards(_parts([_newest_of_shard(str(shard)) for shard in range(shards)], most), most),
    )
    for shards, most in ((1, NEWEST), (16, MIN_OF_SHARD))
}
ENDED_OF_MANY = statement(
    "stats.ended_of_many",
    _of_shards(
        f"""SELECT s.shard AS part, e.* FROM unnest(CAST(:shards AS BIGINT[])) AS s (shard)
       CROSS JOIN LATERAL (SELECT {_COLUMNS} FROM executions WHERE {_newest_of_shard("s.shard")}
                           LIMIT {MIN_OF_SHARD}) AS e""",  # noqa: S608 - as above
        MIN_OF_SHARD,
    ),
)


# A row comparison instead of `=`: then only the wanted index has this order.
def _newest_of(status: str) -> str:
    return (
        f"(endpoint, status) >= (CAST(:endpoint AS TEXT), '{status}') "
        f"AND (endpoint, status) <= (CAST(:endpoint AS TEXT), '{status}') AND completed_at IS NOT NULL "
        "ORDER BY endpoint DESC, status DESC, created_at DESC, execution_id DESC"
    )


ENDED_OF_ENDPOINT = statement(
    "stats.ended_of_endpoint",
    _figures(_parts([_newest_of(status) for status in sorted(FINAL)], NEWEST_OF_ENDPOINT), NEWEST_OF_ENDPOINT),
)
# Bounded by the slots of all workers.
RUNNING = statement(
    "stats.running",
    """
    SELECT endpoint, count(*) AS running FROM executions
     WHERE status = 'RUNNING' AND (CAST(:endpoint AS TEXT) IS NULL OR endpoint = :endpoint) GROUP BY endpoint
    """,
)


class Percentiles(NamedTuple):
    """Percentiles in milliseconds; None without values."""

    p50: int | None
    p95: int | None
    p99: int | None


class DeliveryStatistics(NamedTuple):
    """Ended and running executions of one endpoint, or of all.

    `lateness_ms` is the time from the due instant of the last attempt to its start.
    """

    endpoint: str | None
    ended: int
    succeeded: int
    failed: int
    per_second: float
    lateness_ms: Percentiles
    duration_ms: Percentiles
    in_flight: int


class DeliveryReport(NamedTuple):
    """Statistics overall and of the MAX_ENDPOINTS busiest endpoints.

    They cover the last `covered_seconds`: less than requested if more executions ended than a report reads.
    """

    covered_seconds: float
    overall: DeliveryStatistics
    endpoints: Sequence[DeliveryStatistics]


def report(database: Database, seconds: int, shards: int) -> DeliveryReport:
    """Report on the executions that ended within the last `seconds`, NEWEST at most."""
    ended = next((ENDED[parts] for parts in sorted(ENDED) if parts >= shards), ENDED_OF_MANY)
    return _report(database, ended, {"shards": list(range(shards)), "endpoint": None}, seconds)


def report_of(database: Database, endpoint: str, seconds: int) -> DeliveryReport:
    """Report on one endpoint, from its NEWEST_OF_ENDPOINT newest executions of each final status."""
    return _report(database, ENDED_OF_ENDPOINT, {"endpoint": endpoint}, seconds)


def _report(database: Database, ended: TextClause, params: Mapping[str, Any], seconds: int) -> DeliveryReport:
    rows = chunked_scan.in_order(database, ended, {**params, "seconds": seconds})
    total = next(row for row in rows if row.endpoint is None)  # UNION ALL promises no order
    each = sorted((row for row in rows if row.endpoint is not None), key=lambda row: (-row.ended, row.endpoint))
    running = {row.endpoint: row.running for row in database.fetch(RUNNING, {"endpoint": params["endpoint"]})}
    covered = seconds if total.covered_ms is None else min(seconds, max(1, total.covered_ms) / 1000)
    overall = _deliveries(total, covered, sum(running.values()))
    return DeliveryReport(covered, overall, [_deliveries(row, covered, running.get(row.endpoint, 0)) for row in each])


def _deliveries(row: Row[Any], covered_seconds: float, in_flight: int) -> DeliveryStatistics:
    per_second = round(row.ended / covered_seconds, 3)
    late = Percentiles(row.late_p50, row.late_p95, row.late_p99)
    took = Percentiles(row.took_p50, row.took_p95, row.took_p99)
    return DeliveryStatistics(row.endpoint, row.ended, row.succeeded, row.failed, per_second, late, took, in_flight)
