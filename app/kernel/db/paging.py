"""Pages of long lists, newest first.

A page starts after a position, not after a number of rows. Concurrent inserts therefore move no row: no row appears
twice, and none is missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Row, Select, literal, tuple_

from app.kernel.formats import EPOCH, MICROSECOND
from app.kernel.unreadable import readable

T = TypeVar("T")
_LATEST = datetime.max.replace(tzinfo=UTC)


class Position(NamedTuple):
    """Position of a row in a list: its creation time and its key."""

    at: datetime
    key: str

    @classmethod
    def in_front_of(cls, instant: datetime) -> "Position":
        """Return the position before all rows of an instant, and after all later rows."""
        return cls(min(instant, _LATEST - MICROSECOND) + MICROSECOND, "")

    @classmethod
    def behind(cls, instant: datetime) -> "Position":
        """Return the position after all rows of an instant."""
        return cls(instant, "")


class Part(NamedTuple):
    """The rows of a list after `start`, down to `end`."""

    start: Position
    end: Position

    @classmethod
    def between(cls, created_after: datetime | None, created_before: datetime | None, after: Position | None) -> "Part":
        """Return the rows created between two instants that follow a position; None sets no limit."""
        start = Position.behind(_LATEST if created_before is None else created_before)
        end = Position.behind(EPOCH) if created_after is None else Position.in_front_of(created_after)
        return cls(start if after is None else min(start, after), end)


class PageRequest(NamedTuple):
    """Number of rows, and the row that they follow; None: the newest rows."""

    limit: int = 50
    after: Position | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        """The parameters of a hand-written list: `at`, `key`, and `limit` with one row more for `page_of`."""
        at, key = (None, None) if self.after is None else (self.after.at, self.after.key)
        return {"at": at, "key": key, "limit": self.limit + 1}


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items of a page, and the position after which the next page starts; None on the last page."""

    items: Sequence[T]
    next: Position | None


def newest_first(
    query: Select[Any], at: ColumnElement[datetime], key: ColumnElement[str], wanted: PageRequest
) -> Select[Any]:
    """Order a query and limit it to a page and one row more, which shows `page_of` that another page follows."""
    if wanted.after is not None:
        query = query.where(tuple_(at, key) < tuple_(literal(wanted.after.at), literal(wanted.after.key)))
    return query.order_by(at.desc(), key.desc()).limit(wanted.limit + 1)


ReadPage = Callable[[PageRequest], Page[T]]


def page_of(rows: Sequence[Row[Any]], at: str, key: str, wanted: PageRequest, make: Callable[[Row[Any]], T]) -> Page[T]:
    """Return a page of values that `make` builds from a query's rows; `at` and `key` are names of columns."""
    shown = rows[: wanted.limit]
    last = shown[-1] if len(rows) > wanted.limit else None
    position = Position(getattr(last, at), str(getattr(last, key))) if last is not None else None
    return Page(readable(make, shown, lambda row: f"{key} {getattr(row, key)}"), position)
