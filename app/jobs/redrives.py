"""Redrives: dead letters that run once more by a filter; a scheduler walks (app.jobs.redrive_walk)."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Row, select

from app import ids
from app.db import Database
from app.db.paging import Page, PageRequest, newest_first, page_of
from app.errors import ConflictError, RedriveNotFoundError
from app.executions.model import columns_of
from app.executions.reading.dead_letters import LetterFilter
from app.formats import rfc3339
from app.sql import statement
from schema import tables
from schema.states import RedriveStatus

_R = tables.redrives.c

BEGIN = statement(
    "redrives.begin",
    """
    INSERT INTO redrives (redrive_id, status, wanted, to_endpoint, rate, actor)
    VALUES (:redrive_id, 'RUNNING', CAST(:wanted AS JSONB), :to_endpoint, :rate, :actor)
    ON CONFLICT (redrive_id) DO NOTHING
    """,
)
CHANGE = statement(
    "redrives.change",
    """
    UPDATE redrives
       SET status = :status, held_until = NULL,
           ended_at = CASE WHEN CAST(:status AS TEXT) IN ('STOPPED', 'DONE') THEN now() END
     WHERE redrive_id = :redrive_id AND status IN ('RUNNING', 'PAUSED')
    RETURNING redrive_id
    """,
)
PRUNE = statement(
    "redrives.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT redrive_id FROM redrives
       WHERE ended_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY created_at, redrive_id LIMIT :limit)
    DELETE FROM redrives WHERE redrive_id IN (SELECT redrive_id FROM page) RETURNING redrive_id
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A redrive: what it wants, and how far it came."""

    redrive_id: str
    status: RedriveStatus
    wanted: dict[str, Any]
    to_endpoint: str | None
    rate: int
    actor: str | None
    redriven: int
    refused: int
    last_refusal: str | None
    reached_at: datetime | None
    reached_id: str
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Take the fields out of a row that has a column for each."""
        return cls(**columns_of(cls, row) | {"status": RedriveStatus(row.status)})


def begin(
    database: Database, wanted: LetterFilter, *, to_endpoint: str | None, rate: int, actor: str | None
) -> Redrive:
    """Begin a redrive of the open letters of a filter, `rate` in a second."""
    redrive_id = ids.redrive_id()
    given = {"endpoint": wanted.endpoint, "error_type": wanted.error_type, "labels": wanted.labels}
    instants = {"failed_after": wanted.failed_after, "failed_before": wanted.failed_before}
    shown = given | {name: at and rfc3339(at) for name, at in instants.items()}
    params = {
        "redrive_id": redrive_id,
        "wanted": json.dumps({name: value for name, value in shown.items() if value is not None}),
        "to_endpoint": to_endpoint,
        "rate": rate,
        "actor": actor,
    }
    database.fetch(BEGIN, params)
    return get(database, redrive_id)


def get(database: Database, redrive_id: str) -> Redrive:
    """Read a redrive; raises RedriveNotFoundError."""
    rows = database.fetch(select(*_R).where(_R.redrive_id == redrive_id))
    if not rows:
        raise RedriveNotFoundError.of(redrive_id)
    return Redrive.from_row(rows[0])


def page(database: Database, wanted: PageRequest) -> Page[Redrive]:
    """Read a page of redrives, newest first."""
    rows = database.fetch(newest_first(select(*_R), _R.created_at, _R.redrive_id, wanted))
    return page_of(rows, "created_at", "redrive_id", wanted, Redrive.from_row)


def change(database: Database, redrive_id: str, status: RedriveStatus) -> Redrive:
    """Pause, resume or stop a redrive; raises RedriveNotFoundError, or ConflictError for one that is over."""
    changed = database.fetch(CHANGE, {"redrive_id": redrive_id, "status": status.value})
    found = get(database, redrive_id)
    if not changed and found.status is not status:
        raise ConflictError(f"The redrive {redrive_id!r} is {found.status}; begin another one.")
    return found


def prune(database: Database, *, retention_ms: int, limit: int) -> int:
    """Delete redrives that ended before the retention; returns how many."""
    return len(database.fetch(PRUNE, {"retention_ms": retention_ms, "limit": limit}))
