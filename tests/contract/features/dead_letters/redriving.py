"""Redrives in tests: dead letters, new redrives, and the runner that processes them."""

from collections.abc import Callable

from sqlalchemy import text

from app.features.dead_letters import redrives
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrives import Redrive, RedriveJob
from app.kernel.db import Database
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.queue.jobs.job_creation import Creator
from tests import rows

ALL_LETTERS = LetterFilter()
EVENTS = text(
    "SELECT execution_id FROM execution_events JOIN executions USING (execution_id) "
    "WHERE reason = 'RETRIED_BY_HAND' ORDER BY run_at"
)


def runner(
    database: Database,
    scheduler: str = "first",
    hint: Callable[[str], object] = lambda _queue: None,
    *,
    kind: RedriveJob | None = None,
    **bounds: int,
) -> BulkJobRunner:
    """Make the redrive runner of a scheduler."""
    return BulkJobRunner(
        database=database,
        kind=kind or redrive_job(database),
        scheduler_id=scheduler,
        hint=hint,
        stopping=lambda: False,
        **bounds,
    )


def creator(database: Database) -> Creator:
    """Make the creator of new jobs."""
    return Creator(database, shards=1, look_ahead_ms=0)


def redrive_job(database: Database) -> RedriveJob:
    """Make the kind of bulk job that redrives dead letters."""
    return RedriveJob(creator(database))


def begin(database: Database, wanted: LetterFilter = ALL_LETTERS, *, rate: int = 4, to: str | None = None) -> Redrive:
    """Begin a redrive."""
    return redrives.begin(database, wanted, to_endpoint=to, rate=rate, actor="me")


def add_letters(database: Database, count: int, **values: object) -> list[str]:
    """Create failed executions with a dead letter each, in this order; returns the ids of the executions."""
    executions = rows.add_executions(database, count)
    for execution_id in executions:
        rows.add_letter(database, execution_id, **values)
    return executions
