"""Job lists: a page reads a bounded number of rows for any filter and any length of history.

This module chooses the index. The planner would use statistics, which are wrong after a bulk load and after a drain,
and its plans for few jobs among very many are unbounded.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, false, func, not_, select

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import CHUNK_SIZE, ListIndex, next_size
from app.kernel.db.paging import Page, PageRequest, Part, Position
from app.queue.jobs import job_queries
from app.queue.jobs.job_model import Job
from app.queue.reading.execution_list import executions_in
from schema import tables
from schema.states import FINAL, ExecutionStatus, JobStatus, Trigger

_J, _E = tables.jobs.c, tables.executions.c

# Predicates of partial indexes.
REPEATS = _J.trigger_type.in_([trigger.value for trigger in Trigger if trigger.repeats])
HAS_NAME, HAS_LABELS, IS_PAUSED = _J.name.is_not(None), _J.labels.is_not(None), _J.paused_at.is_not(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Filters of the list of jobs; None applies no filter."""

    status: JobStatus | None = None
    job_id: str | None = None
    trigger: Trigger | None = None
    endpoint: str | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    queue: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def repeats(self) -> bool:
        return self.trigger is not None and self.trigger.repeats

    def conditions(self, beside: ListIndex | None = None) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions, without the time of creation and the leading column of an index."""
        wanted: list[tuple[ColumnElement[str], str | None]] = [
            (_J.status, self.status),
            (_J.job_id, self.job_id),
            (_J.trigger_type, self.trigger),
            (_J.endpoint, self.endpoint),
            (_J.name, self.name),
            (_J.queue, self.queue),
        ]
        leading = () if beside is None else beside.leading
        conditions = [column == value for column, value in wanted if value is not None and column not in leading]
        if self.labels is not None:
            # Hidden from the planner: the index of labels would be read for every job with these labels.
            conditions.append(func.coalesce(_J.labels.contains(self.labels), false()))
        return conditions

    def indexes(self) -> list[ListIndex]:
        """Return the indexes of `jobs` in which most entries match the filter."""
        repeats = (REPEATS,) if self.repeats else ()
        found = []
        if self.name is not None:
            found.append(_index(HAS_NAME, leading={_J.name: self.name}))
        if self.status is JobStatus.PAUSED:
            found.append(_index(IS_PAUSED))
        if self.endpoint is not None:
            found.append(_index(*repeats, leading={_J.endpoint: self.endpoint}))
        elif repeats:
            found.append(_index(*repeats))
        return found


def _index(*where: ColumnElement[bool], leading: Mapping[ColumnElement[str], str] | None = None) -> ListIndex:
    return ListIndex(_J.created_at, _J.job_id, where, leading or {})


ALL = _index()
REPEATING = _index(REPEATS)
# A one-shot job is open while its execution, created with the job, waits or runs.
OPEN_EXECUTIONS = [executions_in(status) for status in ExecutionStatus if status not in FINAL]


class ListBounds(NamedTuple):
    seconds: float = 0.02  # a page that takes longer is returned short
    stride: int = CHUNK_SIZE  # of the first read
    open: int = 500  # open executions of each status per read
    few: int = 500  # jobs with the labels, up to which all of them are read


BOUNDS = ListBounds()


class JobPage(NamedTuple):
    """Matching jobs of one range of the list, newest first, and the position of its end; None at the list's end."""

    found: Sequence[Row[Any]]
    reached: Position | None


class _Reader(NamedTuple):
    """Reader of one list, up to `limit` jobs at a time."""

    database: Database
    wanted: JobFilter
    limit: int
    bounds: ListBounds

    def read(self, part: Part) -> JobPage:
        """Read with the first strategy that fills the page or reaches the end, else with the farthest-reaching one."""
        tried: list[tuple[Position, JobPage]] = []
        for stretch in self._stretches(part):
            if stretch.reached is None or len(stretch.found) == self.limit:
                return stretch
            tried.append((stretch.reached, stretch))
        return min(tried, key=itemgetter(0))[1]

    def _stretches(self, part: Part) -> Iterator[JobPage]:
        """Read with one strategy after the other; the caller stops when it has enough."""
        wanted, indexes = self.wanted, self.wanted.indexes()
        yield from (self._through(index, part) for index in indexes)
        if wanted.status is JobStatus.ACTIVE and not wanted.repeats:
            yield self._open(part)
        elif not indexes:
            yield self._through(ALL, part)
        labelled = None if wanted.labels is None else self._labelled(part)
        if labelled is not None:
            yield labelled

    def _through(self, index: ListIndex, part: Part) -> JobPage:
        conditions = self.wanted.conditions(index)
        rows, reached = chunked_scan.pass_through(
            self.database,
            index,
            part,
            columns=[job_queries.SIZE],
            conditions=conditions,
            limit=self.limit,
            size=self.bounds.stride,
        )
        return JobPage(rows, reached)

    def _open(self, part: Part) -> JobPage:
        """Read active jobs: one-shot jobs by their open executions, and repeating jobs."""
        job_ids, seen = chunked_scan.newest(self.database, OPEN_EXECUTIONS, part, _E.job_id, self.bounds.open)
        once = self._among(job_ids, part, not_(REPEATS))
        repeating = self._through(REPEATING, part)
        reached = max((end for end in (seen, repeating.reached) if end is not None), default=None)
        found = sorted([*once, *repeating.found], key=_position, reverse=True)[: self.limit]
        return JobPage([row for row in found if reached is None or _position(row) >= reached], reached)

    def _labelled(self, part: Part) -> JobPage | None:
        """Read all jobs that have the labels; return None if there are more than `few`."""
        # The CTE has no LIMIT, so that the planner uses the index of labels; the outer LIMIT stops the read.
        labelled = select(_J.job_id).where(_J.labels.contains(self.wanted.labels), HAS_LABELS).cte("labelled")
        few = self.bounds.few
        found = self.database.fetch(select(labelled.prefix_with("MATERIALIZED").c.job_id).limit(few + 1))
        return JobPage(self._among({row.job_id for row in found}, part), None) if len(found) <= few else None

    def _among(self, job_ids: Collection[str], part: Part, *conditions: ColumnElement[bool]) -> Sequence[Row[Any]]:
        if not job_ids:
            return []
        query = ALL.read(part, job_queries.SIZE).where(_J.job_id.in_(job_ids), *self.wanted.conditions(), *conditions)
        return self.database.fetch(query.limit(self.limit))


def page_of_jobs(database: Database, wanted: JobFilter, request: PageRequest, bounds: ListBounds = BOUNDS) -> Page[Job]:
    """Read a page of jobs, newest first; it is short if inputs are large, or few jobs match among very many."""
    part = Part.between(wanted.created_after, wanted.created_before, request.after)
    found, until = list[Row[Any]](), time.monotonic() + bounds.seconds
    while True:
        stretch = _Reader(database, wanted, request.limit + 1 - len(found), bounds).read(part)
        found += stretch.found
        if stretch.reached is None or len(found) > request.limit or time.monotonic() >= until:
            break
        part, bounds = part._replace(start=stretch.reached), bounds._replace(stride=next_size(bounds.stride))
    shown = found[: job_queries.fitting([row.size for row in found[: request.limit]])]
    jobs = {job.job_id: job for job in job_queries.find_jobs(database, [row.key for row in shown], ())}
    after = _position(shown[-1]) if len(shown) < len(found) else stretch.reached
    # Jobs pruned since the read above are not in `jobs`.
    return Page([jobs[row.key] for row in shown if row.key in jobs], after)


def _position(row: Row[Any]) -> Position:
    return Position(row.at, row.key)
