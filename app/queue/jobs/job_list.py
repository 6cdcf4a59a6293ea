"""Lists of jobs: a page reads a bounded number of rows, whatever its filter and however long the history.

How a list is read is decided here. The planner would decide by statistics, which are wrong after a bulk load and after
a drain, and its plans for few jobs among very many are not bounded.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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

PAGE_SECONDS = 0.02  # after which a page is handed out as it is
OPEN = 500  # executions of each status whose jobs are looked up at once
FEW = 500  # jobs with certain labels, which are all looked at where the newest jobs hardly have them

_J, _E = tables.jobs.c, tables.executions.c


@dataclass(frozen=True, slots=True)
class Stretch:
    """Jobs that were found in a stretch of a list, newest first, and where it ended; None when nothing follows."""

    found: Sequence[Row[Any]]
    reached: Position | None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads stretches of one list, and up to `limit` jobs of each."""

    database: Database
    wanted: JobFilter
    limit: int

    def read(self, part: Part) -> Stretch:
        """Read in the way that comes farthest, or in the first that finds as many as wanted, or the end."""
        tried: list[tuple[Position, Stretch]] = []
        for way in self._ways():
            stretch = way(part)
            if stretch is None:
                continue
            if stretch.reached is None or len(stretch.found) == self.limit:
                return stretch
            tried.append((stretch.reached, stretch))
        return min(tried, key=lambda found: found[0])[1]

    def _ways(self) -> Iterator[Callable[[Part], Stretch | None]]:
        wanted, indexes = self.wanted, self.wanted.indexes()
        yield from (partial(self._through, index) for index in indexes)
        if wanted.status is JobStatus.ACTIVE and not wanted.repeats:
            yield self._open
        elif not indexes:
            yield partial(self._through, ALL)
        if wanted.labels is not None:
            yield self._labelled

    def _through(self, index: ListIndex, part: Part) -> Stretch:
        """Pass over the jobs of an index."""
        conditions = self.wanted.conditions(index)

        def narrow(seen: Part) -> Select[Any]:
            return index.read(seen, job_queries.SIZE).where(*conditions).limit(self.limit)

        return Stretch(*chunked_scan.pass_through(self.database, index, part, narrow))

    def _open(self, part: Part) -> Stretch:
        """Read the jobs that wait or run: by their executions, and those that repeat."""
        job_ids, seen = chunked_scan.newest(self.database, OPEN_EXECUTIONS, part, _E.job_id, OPEN)
        once = self._among(job_ids, part, not_(REPEATS))
        repeating = self._through(REPEATING, part)
        reached = max((end for end in (seen, repeating.reached) if end is not None), default=None)
        found = sorted([*once, *repeating.found], key=_position, reverse=True)[: self.limit]
        return Stretch([row for row in found if reached is None or _position(row) >= reached], reached)

    def _labelled(self, part: Part) -> Stretch | None:
        """Look at all jobs that have the labels, unless they are many."""
        # Without a limit of its own it is read by the index of labels, and only as far as it is asked for.
        labelled = select(_J.job_id).where(_J.labels.contains(self.wanted.labels), HAS_LABELS).cte("labelled")
        found = self.database.fetch(select(labelled.prefix_with("MATERIALIZED").c.job_id).limit(FEW + 1))
        return Stretch(self._among({row.job_id for row in found}, part), None) if len(found) <= FEW else None

    def _among(self, job_ids: Collection[str], part: Part, *conditions: ColumnElement[bool]) -> Sequence[Row[Any]]:
        if not job_ids:
            return []
        query = ALL.read(part, job_queries.SIZE).where(_J.job_id.in_(job_ids), *self.wanted.conditions(), *conditions)
        return self.database.fetch(query.limit(self.limit))


def page_of_jobs(database: Database, wanted: JobFilter, request: PageRequest) -> Page[Job]:
    """Read a page of jobs, newest first.

    It has fewer than asked for where their inputs are large, and where very many others lie between them.
    """
    part, found, until = wanted.part(request.after), list[Row[Any]](), time.monotonic() + PAGE_SECONDS
    while True:
        stretch = Reader(database, wanted, request.limit + 1 - len(found)).read(part)
        found += stretch.found
        if stretch.reached is None or len(found) > request.limit or time.monotonic() >= until:
            break
        part = replace(part, start=stretch.reached)
    shown = found[: job_queries.fitting([row.size for row in found[: request.limit]])]
    jobs = {job.job_id: job for job in job_queries.find_jobs(database, [row.key for row in shown], ())}
    after = _position(shown[-1]) if len(shown) < len(found) else stretch.reached
    # What was pruned meanwhile is not in `jobs`.
    return Page([jobs[row.key] for row in shown if row.key in jobs], after)


def _position(row: Row[Any]) -> Position:
    return Position(row.at, row.key)
