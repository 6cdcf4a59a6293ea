"""Reading of the rows that the ends of executions left."""

from collections.abc import Sequence

from sqlalchemy import func, select

from app.dev.verify.ending.ending_rows import CallbackRow, LetterRow, MessageRow, RedriveRow
from app.kernel.db import Database
from schema.states import BulkJobStatus, CallbackEvent
from schema.tables import (
    dead_letters,
    execution_ends,
    jobs,
    notification_groups,
    notification_parts,
    redrives,
)

_UNFINISHED = (
    select(func.count()).select_from(execution_ends),
    select(func.count()).select_from(notification_parts),
    select(func.count()).select_from(notification_groups).where(notification_groups.c.closed_at.is_(None)),
    select(func.count()).select_from(redrives).where(redrives.c.ended_at.is_(None)),
)


def is_all_handled(database: Database) -> bool:
    """Return whether no completion event, event batch, open group or unfinished redrive is left."""
    return not any(database.fetch(query)[0][0] for query in _UNFINISHED)


def open_letters(database: Database, endpoint: str) -> frozenset[str]:
    """Read the ids of the open letters of an endpoint."""
    is_open = (dead_letters.c.endpoint == endpoint) & dead_letters.c.resolved_at.is_(None)
    return frozenset(row.letter_id for row in database.fetch(select(dead_letters.c.letter_id).where(is_open)))


def callback_rows(database: Database, endpoints: Sequence[str]) -> tuple[CallbackRow, ...]:
    query = select(jobs.c.callback_of, jobs.c.endpoint, jobs.c.input).where(
        jobs.c.callback_of.is_not(None), jobs.c.endpoint.in_(endpoints)
    )
    return tuple(
        CallbackRow(row.callback_of, CallbackEvent(row.input["event"]), row.input["attempt"], row.endpoint)
        for row in database.fetch(query)
    )


def letter_rows(database: Database, endpoints: Sequence[str]) -> tuple[LetterRow, ...]:
    query = select(dead_letters).where(dead_letters.c.endpoint.in_(endpoints))
    return tuple(map(LetterRow.from_row, database.fetch(query)))


def redrive_rows(database: Database, endpoints: Sequence[str]) -> tuple[RedriveRow, ...]:
    return tuple(
        RedriveRow(
            row.redrive_id,
            row.wanted["endpoint"],
            row.to_endpoint,
            BulkJobStatus(row.status) is BulkJobStatus.DONE,
            row.redriven,
            row.refused,
            row.last_refusal,
        )
        for row in database.fetch(select(redrives))
        if row.wanted.get("endpoint") in endpoints
    )


def message_rows(database: Database, rules: Sequence[str]) -> tuple[MessageRow, ...]:
    return tuple(
        MessageRow(
            row.group_id,
            row.rule,
            row.events,
            None if row.messages is None else {each["channel"]: each["job_id"] for each in row.messages},
        )
        for row in database.fetch(select(notification_groups).where(notification_groups.c.rule.in_(rules)))
    )
