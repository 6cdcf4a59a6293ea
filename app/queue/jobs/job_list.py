"""Job lists: a page reads a bounded number of rows for any filter and any length of history.

This module chooses the index. The planner would use statistics, which are wrong after a bulk load and after a drain,
and its plans for few jobs among very many are unbounded.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, not_, select

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Page, PageRequest, Part, Position
from app.queue.jobs import job_queries
from app.queue.jobs.job_filter import ALL, HAS_LABELS, OPEN_EXECUTIONS, REPEATING, REPEATS, JobFilter
from app.queue.jobs.job_model import Job
from schema import tables
from schema.states import JobStatus

_J, _E = tables.jobs.c, tables.executions.c


@dataclass(frozen=True, slots=True)
class ListBounds:
    """Bounds of the reads for one page."""

    seconds: float = 0.02
    """A page that takes longer is returned short."""
    stride: int | None = None
    open: int = 500
    """Open executions of each status per read."""
    few: int = 500
    """Jobs with the labels, up to which all of them are read."""


BOUNDS = ListBounds()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Matching jobs of one range of the list, newest first, and the position of its end; None at the list's end."""

    found: Sequence[Row[Any]]
    reached: Position | None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of one list, up to `limit` jobs at a time."""

    database: Database
    wanted: JobFilter
    limit: int
    bounds: ListBounds

    def read(self, part: Part) -> JobPage:
        """Read with the first strategy that fills the page or reaches the end, else with the farthest-reaching one."""
        tried: list[tuple[Position, JobPage]] = []
        for way in self._ways():
            stretch = way(part)
            if stretch is None:
                continue
            if stretch.reached is None or len(stretch.found) == self.limit:
                return stretch
            tried.append((stretch.reached, stretch))
        return min(tried, key=itemgetter(0))[1]

    def _ways(self) -> Iterator[Callable[[Part], JobPage | None]]:
        wanted, indexes = self.wanted, self.wanted.indexes()
        yield from (partial(self._through, index) for index in indexes)
        if wanted.status is JobStatus.ACTIVE and not wanted.repeats:
            yield self._open
        elif not indexes:
            yield partial(self._through, ALL)
        if wanted.labels is not None:
            yield self._labelled

    def _through(self, index: ListIndex, part: Part) -> JobPage:
        conditions = self.wanted.conditions(index)

        def narrow(seen: Part) -> Select[Any]:
            return index.read(seen, job_queries.SIZE).where(*conditions).limit(self.limit)

        return JobPage(*chunked_scan.pass_through(self.database, index, part, narrow, self.bounds.stride))

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
    """Read a page of jobs, newest first.

    The page is short if its inputs are large, or if matching jobs are few among very many.
    """
    part, found, until = wanted.part(request.after), list[Row[Any]](), time.monotonic() + bounds.seconds
    while True:
        stretch = Reader(database, wanted, request.limit + 1 - len(found), bounds).read(part)
        found += stretch.found
        if stretch.reached is None or len(found) > request.limit or time.monotonic() >= until:
            break
        part = replace(part, start=stretch.reached)
    shown = found[: job_queries.fitting([row.size for row in found[: request.limit]])]
    jobs = {job.job_id: job for job in job_queries.find_jobs(database, [row.key for row in shown], ())}
    after = _position(shown[-1]) if len(shown) < len(found) else stretch.reached
    # Jobs pruned since the read above are not in `jobs`.
    return Page([jobs[row.key] for row in shown if row.key in jobs], after)


def _position(row: Row[Any]) -> Position:
    return Position(row.at, row.key)
