"""Bulk job of a redrive: the open letters of its filter, oldest first.

Letters of failures after its start are not touched: an execution that fails again is not redriven for ever.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, true

from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrive import redrive_as_new_jobs
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.kernel.db import Database, chunked_scan
from app.kernel.db.paging import Part, Position
from app.queue.bulk.bulk_job_runner import AT_ONCE, FilteredRow
from app.queue.ending.dead_letter import DeadLetter
from app.queue.executions.execution_model import Treated
from app.queue.executions.manual_retry import redrive_executions
from app.queue.jobs.job_creation import Creator
from schema import tables

NEW_JOBS_AT_ONCE = 50  # inputs may be large

_D = tables.dead_letters.c


class RedriveJob:
    """Bulk job of a redrive."""

    bulk_jobs = REDRIVES

    def __init__(self, creator: Creator) -> None:
        self._creator = creator

    def filter_of(self, bulk_job: Redrive) -> LetterFilter:
        """Return its filter, bounded by its start."""
        given = dict(bulk_job.wanted)
        for name in ("failed_after", "failed_before"):
            if name in given:
                given[name] = datetime.fromisoformat(given[name])
        until = min(given.pop("failed_before", bulk_job.created_at), bulk_job.created_at)
        return LetterFilter(**given, failed_before=until)

    def next(
        self, database: Database, wanted: LetterFilter, after: Position, limit: int
    ) -> list[FilteredRow[DeadLetter]]:
        return next_letters(database, wanted, after, limit)

    def at_once(self, bulk_job: Redrive) -> int:
        return AT_ONCE if bulk_job.to_endpoint is None else NEW_JOBS_AT_ONCE

    def process(self, bulk_job: Redrive, items: Sequence[DeadLetter]) -> Treated:
        if bulk_job.to_endpoint is None:
            return self._creator.database.transact(
                lambda connection: redrive_executions(connection, items, actor=bulk_job.actor)
            )
        return redrive_as_new_jobs(self._creator, items, bulk_job.to_endpoint, actor=bulk_job.actor)


def next_letters(
    database: Database, wanted: LetterFilter, after: Position, limit: int
) -> list[FilteredRow[DeadLetter]]:
    """Read the next letters of the filter's index, oldest first, with None for letters that do not match."""
    is_wanted = and_(true(), *wanted.conditions()).label("is_wanted")
    part = wanted.part(None)
    query = wanted.index().read_up(Part(max(after, part.end), part.start), *_D, is_wanted).limit(limit)
    rows = chunked_scan.in_order(database, query)
    letters = [(DeadLetter.from_row(row), row.is_wanted) for row in rows]
    return [FilteredRow(letter.position, letter if is_wanted else None) for letter, is_wanted in letters]
