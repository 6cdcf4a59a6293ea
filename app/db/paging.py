"""Reading long lists page by page, newest first.

A page starts after a position, not after a number of rows: rows that are inserted meanwhile move nothing, so none is
seen twice and none is missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, literal, tuple_

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Position:
    """The last row of a page: when it was made, and its key."""

    at: datetime
    key: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How many rows, and after which one; from the newest when `after` is None."""

    limit: int = 50
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and where the next page starts; None at the end."""

    items: Sequence[T]
    next: Position | None


def newest_first(
    query: Select[Any], at: ColumnElement[datetime], key: ColumnElement[str], wanted: PageRequest
) -> Select[Any]:
    """Order a query and cut it to one page and a row more, by which `page_of` knows whether there is another."""
    if wanted.after is not None:
        query = query.where(tuple_(at, key) < tuple_(literal(wanted.after.at), literal(wanted.after.key)))
    return query.order_by(at.desc(), key.desc()).limit(wanted.limit + 1)


def page_of(rows: Sequence[Row[Any]], at: str, key: str, wanted: PageRequest) -> Page[Row[Any]]:
    """Make a page of what such a query returned; `at` and `key` name the columns."""
    items = rows[: wanted.limit]
    last = items[-1] if len(rows) > wanted.limit else None
    position = Position(getattr(last, at), str(getattr(last, key))) if last is not None else None
    return Page(items, position)
