"""Bulk job: background work over all rows of a filter, at a rate; its row holds the progress."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.kernel.db.paging import Position
from app.kernel.db.rows import RowValue
from app.kernel.formats import EPOCH, rfc3339
from schema.states import BulkJobStatus

BEGINNING = Position.behind(EPOCH)

_IDS = {"execution_ids": "execution_id", "letter_ids": "letter_id"}
"""Filters by several ids, and the names of requests for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob(RowValue):
    """Row of a bulk job, with the columns that every kind has. A subclass adds its key and its count of processed rows.

    Attributes:
        status: RUNNING, PAUSED, STOPPED or DONE.
        waits_for_turn: Whether the bulk job is RUNNING but no scheduler holds it.
        wanted: Filter as stored; see `stored_filter` and `loaded_filter`.
        rate: Largest number of rows to process in a second.
        actor: Requester, such as the name of an API key; None if unknown.
        refused: Number of rows that could not be processed.
        last_refusal: Message of the last refused row; None without refused rows.
        reached_at: Time column of the last processed row; None before the first row.
        reached_id: Key of the last processed row; empty before the first row.
        created_at: Start; later rows are not touched.
        ended_at: Instant of STOPPED or DONE; None before.

    Example:
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Redrive(BulkJob):
            redrive_id: str
            to_endpoint: str | None
            redriven: int
    """

    status: BulkJobStatus
    waits_for_turn: bool
    wanted: dict[str, Any]
    rate: int
    actor: str | None
    refused: int
    last_refusal: str | None
    reached_at: datetime | None
    reached_id: str
    created_at: datetime
    ended_at: datetime | None

    @property
    def reached(self) -> Position:
        """Return the cursor: the position of the last processed row."""
        return BEGINNING if self.reached_at is None else Position(self.reached_at, self.reached_id)


class BatchResult(NamedTuple):
    """Result of one batch.

    Attributes:
        reached: New cursor, the position of the last row of the batch.
        done: Number of processed rows.
        refused: Number of refused rows.
        refusal: Message of the last refused row; None without refused rows.
        is_last: Whether no row is left, so that the bulk job is DONE.
    """

    reached: Position
    done: int
    refused: int = 0
    refusal: str | None = None
    is_last: bool = False


def stored_filter(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter without its None values, ready for JSON.

    Args:
        values: Filter by name; instants are `datetime`.

    Returns:
        Values with RFC 3339 texts for instants, and texts of ids as requests have them.

    Example:
        stored_filter({"endpoint": "mail", "labels": None})  # {"endpoint": "mail"}
    """
    given = with_joined_ids({name: value for name, value in values.items() if value is not None})
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in given.items()}


def loaded_filter(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a stored filter.

    Args:
        stored: Result of `stored_filter`.

    Returns:
        Values, with `datetime` for names that end with `_after` or `_before`, and tuples of ids.
    """
    values: dict[str, Any] = {
        name: datetime.fromisoformat(value) if name.endswith(("_after", "_before")) else value
        for name, value in stored.items()
    }
    for name, requested in _IDS.items():
        if requested in values:
            values[name] = tuple(values.pop(requested).split(","))
    return values


def with_joined_ids(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter with its ids as requests have them: one text, under the singular name."""
    return {_IDS.get(name, name): ",".join(value) if name in _IDS else value for name, value in values.items()}
