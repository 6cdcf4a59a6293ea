"""Redrives in tests: what begins one, and who bulk_jobs."""

from collections.abc import Callable

from sqlalchemy import text

from app.features.dead_letters import redrives
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrives import Redrive, RedriveJob
from app.kernel.db import Database
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.queue.jobs.job_creation import Creator
from tests import rows

EVERYTHING = LetterFilter()
EVENTS = text("SELECT execution_id FROM execution_events WHERE reason = 'RETRIED_BY_HAND' ORDER BY event_id")


def runner(
    database: Database,
    who: str = "one",
    hint: Callable[[str], object] = lambda _queue: None,
    *,
    kind: RedriveJob | None = None,
    **bounds: int,
) -> BulkJobRunner:
    """Make a runner of redrives."""
    return BulkJobRunner(
        database=database, kind=kind or of(database), who=who, hint=hint, stopping=lambda: False, **bounds
    )


def creator(database: Database) -> Creator:
    """Make what new jobs are created by."""
    return Creator(database, shards=1, look_ahead_ms=0)


def of(database: Database) -> RedriveJob:
    """Return how redrives are walked."""
    return RedriveJob(creator(database))


def begun(database: Database, wanted: LetterFilter = EVERYTHING, *, rate: int = 4, to: str | None = None) -> Redrive:
    """Begin a redrive."""
    return redrives.begin(database, wanted, to_endpoint=to, rate=rate, actor="me")


def add_letters(database: Database, count: int, **values: object) -> list[str]:
    """Let so many executions fail, one after the other; returns their ids."""
    executions = rows.add_executions(database, count)
    for execution_id in executions:
        rows.add_letter(database, execution_id, **values)
    return executions
