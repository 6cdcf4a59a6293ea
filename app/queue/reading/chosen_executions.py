"""Executions chosen by their ids: few, so they are read by key and sorted here, whatever a plan makes of a list."""

from itertools import compress

from sqlalchemy import ColumnElement, select

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Part, Position
from app.queue.executions.execution_records import Execution
from app.queue.reading.execution_filter import ExecutionFilter, matching
from app.queue.reading.execution_queries import find_executions
from schema import tables

_E = tables.executions.c


def chosen_positions(database: Database, wanted: ExecutionFilter) -> list[Position]:
    """Return the positions of the chosen executions that match the rest of the filter, oldest first."""
    given: list[ColumnElement[bool]] = [_E.execution_id.in_(wanted.execution_ids or ())]
    if wanted.statuses:
        given.append(_E.status.in_([status.value for status in wanted.statuses]))
    if wanted.endpoint is not None:
        given.append(_E.endpoint == wanted.endpoint)
    rows = database.fetch(select(_E.execution_id, _E.created_at, _E.job_id, wanted.matches()).where(*given))
    part = Part.between(wanted.created_after, wanted.created_before, None)
    found = [Position(row.created_at, row.execution_id) for row in compress(rows, matching(database, wanted, rows))]
    return sorted(each for each in found if part.end <= each < part.start)


def page_of_chosen(database: Database, wanted: ExecutionFilter, request: PageRequest) -> Page[Execution]:
    """Read a page of the chosen executions, newest first."""
    older = [each for each in chosen_positions(database, wanted) if request.after is None or each < request.after]
    shown = older[::-1][: request.limit]
    items = find_executions(database, [each.key for each in shown])
    return Page(items, shown[-1] if len(shown) < len(older) else None)
