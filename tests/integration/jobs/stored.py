"""Rows of a job, as the database has them."""

from typing import Any

from sqlalchemy import text

from app.db import Database


def stored(database: Database, job: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Read a job's row and those of its executions."""
    params = {"id": job["job_id"]}
    (row,) = database.fetch(text("SELECT * FROM jobs WHERE job_id = :id"), params)
    return row, list(database.fetch(text("SELECT * FROM executions WHERE job_id = :id"), params))
