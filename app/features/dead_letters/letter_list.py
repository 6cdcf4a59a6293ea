"""Lists of dead letters, newest first: chunked scans of the indexes of open and of resolved letters."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, false, func, select, true

from app.features.dead_letters.message_form import group_id
from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import QUICK, ChunkedRead, ListIndex, RowCount
from app.kernel.db.paging import Page, PageRequest, Part, Position
from app.kernel.errors import DeadLetterNotFoundError
from app.kernel.unreadable import readable
from app.queue.bulk.bulk_job_kind import FilteredRow
from app.queue.ending.letters import DeadLetter
from schema import tables

MAX_OF_EXECUTION = 10

_D = tables.dead_letters.c
# Of a row of all columns and `is_wanted`, by their places: a name costs a microsecond, for each of 10,000 rows.
_SEEN = itemgetter(*map([*_D.keys()].index, ("failed_at", "letter_id", "endpoint", "error_type", "message")), -1)


class LetterState(StrEnum):
    """State of a dead letter."""

    OPEN = "open"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Filter of dead letters; None applies no filter."""

    state: LetterState = LetterState.OPEN
    endpoint: str | None = None
    error_type: str | None = None
    labels: Mapping[str, str] | None = None
    group: str | None = None
    letter_ids: Collection[str] | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None

    def part(self, after: Position | None) -> Part:
        """Return the part of the list behind a position."""
        return Part.between(self.failed_after, self.failed_before, after)

    def index(self) -> ListIndex:
        """Return the index with the fewest letters that do not match."""
        is_open = self.state is LetterState.OPEN
        state = (_D.resolved_at.is_(None) if is_open else _D.resolved_at.is_not(None),)
        if self.endpoint is not None:
            return ListIndex(_D.failed_at, _D.letter_id, state, {_D.endpoint: self.endpoint})
        if self.error_type is not None:
            return ListIndex(_D.failed_at, _D.letter_id, state, {_D.error_type: self.error_type})
        return ListIndex(_D.failed_at, _D.letter_id, state)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions that the index does not cover."""
        conditions: list[ColumnElement[bool]] = []
        if self.endpoint is not None and self.error_type is not None:
            conditions.append(_D.error_type == self.error_type)
        if self.labels:
            conditions.append(func.coalesce(_D.labels.contains(self.labels), false()))
        return conditions

    def has(self, row: Row[Any]) -> bool:
        """Return whether a letter is in the wanted group, which no column has."""
        return self.is_of_group(row.endpoint, row.error_type, row.message)

    def is_of_group(self, endpoint: str, error_type: str, message: str | None) -> bool:
        """Return whether a letter with these values is in the wanted group."""
        return self.group is None or group_id(endpoint, error_type, message) == self.group


def page_of_letters(
    database: Database, wanted: LetterFilter, request: PageRequest, read: ChunkedRead = QUICK
) -> Page[DeadLetter]:
    """Read a page of letters, newest first; may be short before the last page if few of very many match."""
    page = rows_of_letters(database, wanted, request, read, [*_D])
    return Page(_readable(page.items), page.next)


def rows_of_letters(
    database: Database,
    wanted: LetterFilter,
    request: PageRequest,
    read: ChunkedRead,
    columns: Sequence[ColumnElement[Any]],
) -> Page[Row[Any]]:
    """Read columns of a page of letters; a filter by group needs endpoint, error type and message."""
    if wanted.letter_ids is not None:
        older = [each for each in _chosen(database, wanted) if request.after is None or _place(each) < request.after]
        shown = older[::-1][: request.limit]
        return Page(shown, _place(shown[-1]) if len(shown) < len(older) else None)
    rows, after = read.page(
        database,
        wanted.index(),
        wanted.part(request.after),
        columns=columns,
        conditions=wanted.conditions(),
        limit=request.limit,
        matches=None if wanted.group is None else wanted.has,
    )
    return Page(rows, after)


def next_letters(
    database: Database, wanted: LetterFilter, after: Position, limit: int
) -> list[FilteredRow[DeadLetter]]:
    """Read the next letters of the filter's index, oldest first, with None for letters that do not match."""
    if wanted.letter_ids is not None:
        chosen = _readable([each for each in _chosen(database, wanted) if after < _place(each)])
        return [FilteredRow(each.position, each) for each in chosen[:limit]]
    query = _next(wanted, after, *_D).limit(limit)
    found = list[FilteredRow[DeadLetter]]()
    for row in chunked_scan.in_order(database, query):
        failed_at, letter_id, *fault, is_wanted = _SEEN(row)
        item = DeadLetter.from_row(row) if is_wanted and wanted.is_of_group(*fault) else None
        found.append(FilteredRow(Position(failed_at, letter_id), item))
    return found


def count_letters(database: Database, wanted: LetterFilter, after: Position, limit: int) -> RowCount | None:
    """Count the next letters of the filter's index; None for a group, which no column has, and for ids."""
    is_counted = wanted.group is None and wanted.letter_ids is None
    return None if not is_counted else chunked_scan.count_rows(database, _next(wanted, after).limit(limit))


def _chosen(database: Database, wanted: LetterFilter) -> list[Row[Any]]:
    """Read the letters chosen by their ids that match the rest of the filter, oldest first: few, so by key."""
    given = [_D.letter_id.in_(wanted.letter_ids or ()), *wanted.index().where, *wanted.conditions()]
    given += [column == value for column, value in wanted.index().leading.items()]
    part = wanted.part(None)
    rows = [row for row in database.fetch(select(*_D).where(*given)) if wanted.has(row)]
    return sorted((row for row in rows if part.end <= _place(row) < part.start), key=_place)


def _place(row: Row[Any]) -> Position:
    return Position(row.failed_at, row.letter_id)


def _readable(rows: Sequence[Row[Any]]) -> list[DeadLetter]:
    return readable(DeadLetter.from_row, rows, "dead letter {.letter_id}".format)


def _next(wanted: LetterFilter, after: Position, *columns: ColumnElement[Any]) -> Select[Any]:
    """Select columns of the next letters of the filter's index, and `is_wanted`."""
    is_wanted = and_(true(), *wanted.conditions()).label("is_wanted")
    part = wanted.part(None)
    return wanted.index().read_up(Part(max(after, part.end), part.start), *columns, is_wanted)


def letters_of(database: Database, execution_id: str) -> list[DeadLetter]:
    """Read the latest letters of an execution, the latest first."""
    query = select(*_D).where(_D.execution_id == execution_id).order_by(_D.failed_at.desc(), _D.letter_id.desc())
    return _readable(database.fetch(query.limit(MAX_OF_EXECUTION)))


def get_letter(database: Database, letter_id: str) -> DeadLetter:
    """Read a letter; raises DeadLetterNotFoundError."""
    rows = database.fetch(select(*_D).where(_D.letter_id == letter_id))
    if not rows:
        raise DeadLetterNotFoundError.of(letter_id)
    return DeadLetter.from_row(rows[0])
