"""Pages of long lists, newest first.

A page starts after a position, not after a number of rows. Rows inserted in the meantime therefore move nothing: no row
is seen twice, and none is missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, literal, tuple_

from app.kernel.formats import EPOCH, MICROSECOND

T = TypeVar("T")
_LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A row's place in a list, such as that of the last row of a page: when it was created, and its key."""

    at: datetime
    key: str

    @classmethod
    def in_front_of(cls, instant: datetime) -> "Position":
        """Return the place in front of what was created at an instant, and behind what was created later."""
        return cls(min(instant, _LATEST - MICROSECOND) + MICROSECOND, "")

    @classmethod
    def behind(cls, instant: datetime) -> "Position":
        """Return the place behind what was created at an instant."""
        return cls(instant, "")


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a list behind `start` and down to `end`."""

    start: Position
    end: Position

    @classmethod
    def between(cls, created_after: datetime | None, created_before: datetime | None, after: Position | None) -> "Part":
        """Return what was created between two instants and follows a position; None sets no limit."""
        start = Position.behind(_LATEST if created_before is None else created_before)
        end = Position.behind(EPOCH) if created_after is None else Position.in_front_of(created_after)
        return cls(start if after is None else min(start, after), end)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Number of rows wanted, and the row they follow; the newest rows when `after` is None."""

    limit: int = 50
    after: Position | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        """Return them as parameters of a hand-written list: `at` and `key`, and a row more than wanted as `limit`."""
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
    """Order a query and limit it to a page and one row more, which tells `page_of` that another page follows."""
    if wanted.after is not None:
        query = query.where(tuple_(at, key) < tuple_(literal(wanted.after.at), literal(wanted.after.key)))
    return query.order_by(at.desc(), key.desc()).limit(wanted.limit + 1)


def page_of(rows: Sequence[Row[Any]], at: str, key: str, wanted: PageRequest, make: Callable[[Row[Any]], T]) -> Page[T]:
    """Return a page of the values that `make` builds from a query's rows; `at` and `key` name the columns."""
    shown = rows[: wanted.limit]
    last = shown[-1] if len(rows) > wanted.limit else None
    position = Position(getattr(last, at), str(getattr(last, key))) if last is not None else None
    return Page([make(row) for row in shown], position)
