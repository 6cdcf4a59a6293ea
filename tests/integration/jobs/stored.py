"""Rows of jobs and executions in the database."""

from typing import Any

from sqlalchemy import text

from app.kernel.db import Database
from tests import rows


def stored(database: Database, job: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return a job's row and the rows of its executions."""
    params = {"id": job["job_id"]}
    (row,) = database.fetch(text("SELECT * FROM jobs WHERE job_id = :id"), params)
    return row, list(database.fetch(text("SELECT * FROM executions WHERE job_id = :id"), params))


def status_of(database: Database, execution_id: str) -> tuple[str, bool]:
    """Return an execution's status, and whether it is on hold."""
    row = rows.execution(database, execution_id)
    return row.status, row.on_hold
