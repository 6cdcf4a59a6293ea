"""Redrives: bulk jobs that run the open letters of a filter once more, oldest first.

Letters of failures after its start are not touched: an execution that fails again is not redriven for ever.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial

from app.features.dead_letters import trial
from app.features.dead_letters.letter_list import LetterFilter, count_letters, next_letters
from app.features.dead_letters.redrive import redrive_as_new_jobs
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.chunked_scan import RowCount
from app.kernel.db.paging import Position
from app.kernel.errors import RedriveNotFoundError
from app.queue.bulk.bulk_job import BulkJob, loaded_filter, stored_filter
from app.queue.bulk.bulk_job_kind import AT_ONCE, FilteredRow
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.queue.ending.letters import DeadLetter
from app.queue.executions.execution_model import OperationResult
from app.queue.executions.manual_retry import redrive_executions
from app.queue.jobs.job_creation import Creator
from schema import tables

NEW_JOBS_AT_ONCE = 50  # inputs may be large


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive(BulkJob):
    """A redrive: filter and progress."""

    redrive_id: str
    to_endpoint: str | None
    redriven: int
    trial: int | None
    least: int | None
    trial_executions: list[str] | None
    trial_result: str | None
    trial_passed_at: datetime | None


REDRIVES = BulkJobStore(
    tables.redrives,
    Redrive,
    key="redrive_id",
    done="redriven",
    noun="redrive",
    missing=RedriveNotFoundError,
)


def begin(
    database: Database,
    wanted: LetterFilter,
    *,
    to_endpoint: str | None,
    rate: int,
    actor: str | None,
    trial: int | None = None,
    least: int | None = None,
) -> Redrive:
    """Begin a redrive of the open letters of a filter, `rate` letters a second.

    After the first `trial` letters the rest follows once `least` of their executions have succeeded; None: no trial.
    """
    given = stored_filter(asdict(wanted) | {"state": None})
    values = {"wanted": given, "to_endpoint": to_endpoint, "rate": rate, "actor": actor, "trial": trial, "least": least}
    return REDRIVES.begin(database, ids.redrive_id(), **values)


class RedriveJob:
    """Kind of bulk job."""

    bulk_jobs = REDRIVES

    def __init__(self, creator: Creator) -> None:
        self._creator = creator

    def filter_of(self, bulk_job: Redrive) -> LetterFilter:
        given = loaded_filter(bulk_job.wanted)
        until = min(given.pop("failed_before", bulk_job.created_at), bulk_job.created_at)
        return LetterFilter(**given, failed_before=until)

    def next(
        self, database: Database, wanted: LetterFilter, after: Position, limit: int
    ) -> list[FilteredRow[DeadLetter]]:
        return next_letters(database, wanted, after, limit)

    def count(self, database: Database, wanted: LetterFilter, after: Position, limit: int) -> RowCount | None:
        return count_letters(database, wanted, after, limit)

    def at_once(self, bulk_job: Redrive) -> int:
        return AT_ONCE if bulk_job.to_endpoint is None else NEW_JOBS_AT_ONCE

    def allowance(self, bulk_job: Redrive) -> int | None:
        if bulk_job.trial is None or bulk_job.trial_passed_at is not None:
            return None
        return trial.allowance(self._creator.database, bulk_job.redrive_id)

    def process(self, bulk_job: Redrive, items: Sequence[DeadLetter]) -> OperationResult:
        done = self._redrive(bulk_job, items)
        if bulk_job.trial is not None and bulk_job.trial_passed_at is None:
            redriven = [each.letter_id for each in items if each.letter_id not in done.refused]
            self._creator.database.transact(partial(trial.note_tried, redrive_id=bulk_job.redrive_id, letters=redriven))
        return done

    def _redrive(self, bulk_job: Redrive, items: Sequence[DeadLetter]) -> OperationResult:
        if bulk_job.to_endpoint is None:
            return self._creator.database.transact(partial(redrive_executions, each=items, actor=bulk_job.actor))
        return redrive_as_new_jobs(self._creator, items, bulk_job.to_endpoint, actor=bulk_job.actor)
