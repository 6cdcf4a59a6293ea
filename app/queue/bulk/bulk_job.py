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

    `waits_for_turn` is true while the bulk job is RUNNING but no scheduler holds it. `rate` is the largest number of
    rows per second. `refused` counts the rows that could not be processed. `reached_at` and `reached_id` are time and
    key of the last processed row: None and empty before the first. Rows later than `created_at` are not touched.
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
    """Result of one batch: the new cursor, numbers of rows, and the message of the last refused row.

    With `is_last` no row is left, so that the bulk job is DONE.
    """

    reached: Position
    done: int
    refused: int = 0
    refusal: str | None = None
    is_last: bool = False


def stored_filter(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter without its None values, ready for JSON: with RFC 3339 texts, and ids as requests have them."""
    given = with_joined_ids({name: value for name, value in values.items() if value is not None})
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in given.items()}


def loaded_filter(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a stored filter: instants for names ending in `_after` or `_before`, and tuples of ids."""
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
