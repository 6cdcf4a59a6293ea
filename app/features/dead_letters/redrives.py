"""Redrives: bulk jobs that run the dead letters of a filter once more (app.features.dead_letters.redrive_job)."""

import json
from dataclasses import dataclass

from app.features.dead_letters.letter_list import LetterFilter
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import RedriveNotFoundError
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from app.queue.bulk.bulk_job_store import BulkJob, BulkJobStore
from schema import tables

BEGIN = statement(
    "redrives.begin",
    """
    INSERT INTO redrives (redrive_id, status, wanted, to_endpoint, rate, actor)
    VALUES (:redrive_id, 'RUNNING', CAST(:wanted AS JSONB), :to_endpoint, :rate, :actor)
    ON CONFLICT (redrive_id) DO NOTHING
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive(BulkJob):
    """A redrive: filter and progress."""

    redrive_id: str
    to_endpoint: str | None
    redriven: int


REDRIVES = BulkJobStore(
    tables.redrives,
    Redrive,
    key="redrive_id",
    done="redriven",
    noun="redrive",
    missing=RedriveNotFoundError.of,
)


def begin(
    database: Database, wanted: LetterFilter, *, to_endpoint: str | None, rate: int, actor: str | None
) -> Redrive:
    """Begin a redrive of the open letters of a filter, `rate` letters a second."""
    redrive_id = ids.redrive_id()
    given = {"endpoint": wanted.endpoint, "error_type": wanted.error_type, "labels": wanted.labels}
    instants = {"failed_after": wanted.failed_after, "failed_before": wanted.failed_before}
    shown = given | {name: at and rfc3339(at) for name, at in instants.items()}
    params = {
        "redrive_id": redrive_id,
        "wanted": json.dumps({name: value for name, value in shown.items() if value is not None}),
        "to_endpoint": to_endpoint,
        "rate": rate,
        "actor": actor,
    }
    database.fetch(BEGIN, params)
    return REDRIVES.get(database, redrive_id)
