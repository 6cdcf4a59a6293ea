"""Shell completion with names and ids from the database; empty if the database is unreachable."""

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem
from flask.cli import ScriptInfo

from app.cli.console import plain
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.sql import statement
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.web.services import services

MAX_OFFERED = 100

ENDPOINTS = statement(
    "cli.endpoint_names",
    "SELECT name FROM endpoints WHERE name >= :start AND deleted_at IS NULL ORDER BY name LIMIT {max_offered}",
    max_offered=MAX_OFFERED,
)

Found = Iterable[tuple[str, str]]  # names and descriptions


def offered(read: Callable[[Database, str], Found]) -> dict[str, Any]:
    """Return the keyword argument of a click parameter for completion with names and descriptions."""

    def complete(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
        try:
            with context.ensure_object(ScriptInfo).load_app().app_context():
                found = list(read(services().database, start))
        except Exception:  # noqa: BLE001 - an error of settings or the database must not disturb the command line
            return []
        return [CompletionItem(name, help=plain(about)) for name, about in found if name.startswith(start)]

    return {"shell_complete": complete}


def _endpoints(database: Database, start: str) -> Found:
    return [(row.name, "") for row in database.fetch(ENDPOINTS, {"start": start})]


def _jobs(database: Database, _start: str) -> Found:
    found = page_of_jobs(database, JobFilter(), PageRequest(MAX_OFFERED)).items
    return [(job.job_id, f"{job.status} {job.trigger} {job.endpoint} {job.name or ''}") for job in found]


def _executions(database: Database, _start: str) -> Found:
    found = page_of_executions(database, ExecutionFilter(), PageRequest(MAX_OFFERED)).items
    return [(each.execution_id, f"{each.status} {each.endpoint}") for each in found]


OF_ENDPOINTS, OF_JOBS, OF_EXECUTIONS = offered(_endpoints), offered(_jobs), offered(_executions)
