"""Event store: pages of events behind a position, up to the horizon before which no further event can appear.

A row carries the start of its transaction and becomes visible at its commit, so a late commit appears before events
that readers have seen already. Events are therefore read only up to the start of the oldest open transaction (the
horizon). Before the horizon, the order by instant is final.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.events.event import SOURCES, Event, EventKind, EventPosition
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.reading.attempt_rows import IS_SUCCESS, SUCCESS_ID

PAGE = 500
# Longer than a transaction of the service may last: three statements of 10 s, and the time until it is cut.
LONGEST_TRANSACTION_SECONDS = 40

# A transaction that calls te_enqueue may last longer; readers wait for it no longer than this.
LONGEST_CALLERS_SECONDS = 600

# A transaction gets its instant a moment before it is visible, hence the second. Transactions older than the bound are
# dumps or sessions of people, unless they write jobs by te_enqueue. The start of other users' transactions may be
# hidden, but not their existence: such a transaction counts as old as the bound.
HORIZON = statement(
    "events.horizon",
    """
    SELECT CASE WHEN count(*) FILTER (
                       WHERE query = '<insufficient privilege>'
                         AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'virtualxid')) > 0
                THEN now() - INTERVAL '{longest_transaction_seconds} seconds'
                ELSE LEAST(now(), min(LEAST(xact_start, query_start)) FILTER (
                       WHERE (xact_start IS NOT NULL OR state = 'active')
                         AND (LEAST(xact_start, query_start) > now() - INTERVAL '{longest_transaction_seconds} seconds'
                              OR xact_start > now() - INTERVAL '{longest_callers_seconds} seconds'
                                 AND pid IN (SELECT pid FROM pg_locks
                                              WHERE relation = to_regclass('jobs') AND mode = 'RowExclusiveLock'))))
                     - INTERVAL '1 second' END AS horizon, now() AS now
      FROM pg_stat_activity
     WHERE datname = current_database() AND usesysid IS NOT NULL
    """,
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
    longest_callers_seconds=LONGEST_CALLERS_SECONDS,
)
BEHIND_ALL = statement(
    "events.behind_all",
    "SELECT now() - INTERVAL '{longest_transaction_seconds} seconds' AS horizon, now() AS now",
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
)

# Without `led_to`, a failed attempt was the last one if its execution ended at the same instant. A later manual retry
# hides that.
_OF_ATTEMPT = """
    CASE WHEN p.status = 'SUCCESS' THEN 'execution.succeeded'
         ELSE CASE COALESCE(p.led_to, CASE WHEN e.completed_at = p.ended THEN e.status END)
              WHEN 'CANCELLED' THEN 'execution.cancelled' WHEN 'FAILED' THEN 'execution.failed'
              ELSE 'attempt.failed' END END"""
_OF_CHANGE = """
    CASE WHEN p.to_status = 'CANCELLED' THEN 'execution.cancelled' WHEN p.to_status = 'FAILED' THEN 'execution.failed'
         WHEN p.reason = 'RETRIED_BY_HAND' THEN 'execution.retried' ELSE 'execution.changed' END"""
_ENDED_AT = "CASE WHEN status = 'DEAD' THEN last_beat_at ELSE lease_expires_at END"
_NOTHING = "CAST(NULL AS TEXT)"


def _arm(
    source: str,
    rows: tuple[str, str, str],
    columns: str,
    shown: str,
    *,
    join: str = "",
    labels: str = "CAST(NULL AS JSONB)",
    condition: str = "",
) -> str:
    table, at, key = rows
    return f"""
      (SELECT p.at, '{source}' AS source, p.key, {shown}, {labels} AS labels
         FROM (SELECT {at} AS at, {key} AS key, {columns} FROM {table}
                WHERE CAST(:with_{source} AS BOOLEAN){condition} AND {at} < CAST(:until AS TIMESTAMPTZ)
                  AND ({at}, {key}) > (CAST(:at_{source} AS TIMESTAMPTZ), CAST(:key_{source} AS TEXT))
                ORDER BY {at}, {key} LIMIT :limit) AS p {join})"""  # noqa: S608 - constants of this module


_JOIN = "JOIN executions AS e ON e.execution_id = p.execution_id"
# Read only if a filter needs them.
_LABELS_OF = "CASE WHEN CAST(:labelled AS BOOLEAN) THEN (SELECT j.labels FROM jobs AS j WHERE j.job_id = {}.job_id) END"
_LABELS = _LABELS_OF.format("e")
_ARMS = (
    # Successes without a row in `attempts`, under the same source: their ids have the same form.
    _arm(
        "a",
        ("executions", "recorded_at", SUCCESS_ID),
        "execution_id, endpoint, job_id, attempt_count, worker_id, duration_ms",
        f"""'execution.succeeded' AS kind, p.endpoint, p.job_id, p.execution_id, {_NOTHING} AS subject,
         jsonb_build_object('attempt', p.attempt_count, 'worker_id', p.worker_id, 'duration_ms', p.duration_ms)
         AS details""",
        labels=_LABELS_OF.format("p"),
        condition=f" AND {IS_SUCCESS}",
    ),
    _arm(
        "a",
        ("attempts", "created_at", "attempt_id"),
        "execution_id, attempt_number, status, led_to, completed_at AS ended, worker_id, duration_ms, "
        "error->>'type' AS error",
        f"""{_OF_ATTEMPT}, e.endpoint, e.job_id, e.execution_id, {_NOTHING},
         jsonb_build_object('attempt', p.attempt_number, 'worker_id', p.worker_id, 'duration_ms', p.duration_ms,
                            'error', p.error)""",
        join=_JOIN,
        labels=_LABELS,
    ),
    _arm(
        "b",
        ("breaker_events", "occurred_at", "event_id"),
        "target, to_state, from_state, reason",
        f"""'breaker.' || p.to_state, {_NOTHING}, {_NOTHING}, {_NOTHING}, p.target,
         jsonb_build_object('from', p.from_state, 'reason', p.reason)""",
    ),
    _arm(
        "c",
        ("audit_log", "occurred_at", "audit_id"),
        "action, resource_type, resource",
        f"""'catalogue.changed', CASE WHEN p.resource_type = 'endpoint' THEN p.resource END, {_NOTHING}, {_NOTHING},
         p.resource, jsonb_build_object('action', p.action, 'resource_type', p.resource_type)""",
    ),
    _arm(
        "e",
        ("execution_events", "occurred_at", "event_id"),
        "execution_id, from_status, to_status, attempt_number, reason",
        f"""{_OF_CHANGE}, e.endpoint, e.job_id, e.execution_id, {_NOTHING},
         jsonb_build_object('attempt', p.attempt_number, 'from', p.from_status, 'to', p.to_status,
                            'reason', p.reason)""",
        join=_JOIN,
        labels=_LABELS,
    ),
    _arm(
        "j",
        ("jobs", "created_at", "job_id"),
        "endpoint, trigger_type, version, name, labels",
        f"""CASE WHEN p.version > 1 THEN 'job.updated' ELSE 'job.created' END, p.endpoint, p.key, {_NOTHING},
         {_NOTHING}, jsonb_build_object('trigger', p.trigger_type, 'version', p.version, 'name', p.name)""",
        labels="p.labels",
    ),
    # Repeating jobs only: a job that runs once ends with its execution.
    _arm(
        "r",
        ("jobs", "ended_at", "job_id"),
        "endpoint, trigger_type, version, name, end_reason, labels",
        f"""'job.ended', p.endpoint, p.key, {_NOTHING}, {_NOTHING},
         jsonb_build_object('trigger', p.trigger_type, 'version', p.version, 'name', p.name, 'reason', p.end_reason)""",
        labels="p.labels",
        condition=" AND ended_at IS NOT NULL",
    ),
    _arm(
        "s",
        ("workers", "started_at", "worker_id"),
        "host, pid",
        f"""'worker.started', {_NOTHING}, {_NOTHING}, {_NOTHING}, p.key,
         jsonb_build_object('host', p.host, 'pid', p.pid)""",
    ),
    _arm(
        "t",
        ("workers", _ENDED_AT, "worker_id"),
        "host, pid, status",
        f"""CASE WHEN p.status = 'DEAD' THEN 'worker.stopped' ELSE 'worker.lost' END, {_NOTHING}, {_NOTHING},
         {_NOTHING}, p.key, jsonb_build_object('host', p.host, 'pid', p.pid)""",
    ),
)
PAGE_OF_EVENTS = statement(
    "events.page",
    "SELECT * FROM ({arms}) AS found ORDER BY at, source, key LIMIT :limit",
    arms=" UNION ALL ".join(_ARMS),
)

_OF_GROUP = {"attempt": "a", "execution": "ae", "job": "jr", "worker": "st", "breaker": "b", "catalogue": "c"}
_HIDDEN = frozenset({"api_key"})  # API keys concern administrators only


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """Events in order, the position behind them, and whether the end was reached."""

    events: list[Event]
    up_to: EventPosition
    is_end: bool


def horizon(database: Database) -> datetime:
    """Return the instant before which no further event can appear."""
    return horizon_and_now(database)[0]


def horizon_and_now(database: Database) -> tuple[datetime, datetime]:
    """Return the horizon (see `horizon`) and the time of the database."""
    row = database.fetch(BEHIND_ALL if database.is_cockroach else HORIZON)[0]
    return row.horizon, row.now


def read(
    database: Database,
    after: EventPosition,
    until: datetime,
    groups: Collection[str],
    *,
    limit: int = PAGE,
    labelled: bool = False,
) -> ReadEvents:
    """Read a page of events of some groups behind a position and before an instant; with labels if `labelled`."""
    params = params_of(after, until, groups, limit=limit, labelled=labelled)
    rows = database.fetch(PAGE_OF_EVENTS, params)
    events = [_event(row) for row in rows if row.details.get("resource_type") not in _HIDDEN]
    if len(rows) == limit:
        return ReadEvents(events, EventPosition(rows[-1].at, rows[-1].source, rows[-1].key), is_end=False)
    return ReadEvents(events, max(after, EventPosition(until), key=lambda place: place.at), is_end=True)


def params_of(
    after: EventPosition, until: datetime, groups: Collection[str], *, limit: int, labelled: bool = False
) -> dict[str, Any]:
    """Return the parameters of PAGE_OF_EVENTS."""
    wanted = {source for group in groups for source in _OF_GROUP[group]}
    params: dict[str, Any] = {"until": until, "limit": limit, "labelled": labelled}
    for source in SOURCES:
        params[f"with_{source}"] = source in wanted
        params[f"at_{source}"], params[f"key_{source}"] = after.of_source(source)
    return params


def _event(row: Row[Any]) -> Event:
    return Event(
        place=EventPosition(row.at, row.source, row.key),
        kind=EventKind(row.kind),
        at=row.at,
        endpoint=row.endpoint,
        job_id=row.job_id,
        execution_id=row.execution_id,
        subject=row.subject,
        details={name: value for name, value in row.details.items() if value is not None},
        labels=row.labels if isinstance(row.labels, dict) else None,
    )
