"""Completion: names and ids that the shell offers, read from the database; silence where that cannot be reached."""

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem
from flask.cli import ScriptInfo

from app.cli.console import plain
from app.features.control import queue_statistics, worker_list
from app.features.control.worker_list import WorkerState
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.sql import statement
from app.queue.jobs.job_filter import JobFilter
from app.queue.jobs.job_list import page_of_jobs
from app.queue.reading.execution_list import ExecutionFilter, page_of_executions
from app.web.services import services

MOST = 100  # that are offered; ids are those of the newest

ENDPOINTS = statement(
    "cli.endpoint_names",
    f"SELECT name FROM endpoints WHERE name >= :start AND deleted_at IS NULL ORDER BY name LIMIT {MOST}",  # noqa: S608 - a constant
)

Found = Iterable[tuple[str, str]]  # with what is said of each


def _offered(read: Callable[[Database, str], Found]) -> dict[str, Any]:
    """Return the keyword of click's parameters."""

    def complete(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
        try:
            with context.ensure_object(ScriptInfo).load_app().app_context():
                found = list(read(services().database, start))
        except Exception:  # noqa: BLE001 - of settings or the database; nobody wants it in the middle of a command line
            return []
        return [CompletionItem(name, help=plain(about)) for name, about in found if name.startswith(start)]

    return {"shell_complete": complete}


def _endpoints(database: Database, start: str) -> Found:
    return [(row.name, "") for row in database.fetch(ENDPOINTS, {"start": start})]


def _jobs(database: Database, _start: str) -> Found:
    found = page_of_jobs(database, JobFilter(), PageRequest(MOST)).items
    return [(job.job_id, f"{job.status} {job.trigger} {job.endpoint} {job.name or ''}") for job in found]


def _executions(database: Database, _start: str) -> Found:
    found = page_of_executions(database, ExecutionFilter(), PageRequest(MOST)).items
    return [(each.execution_id, f"{each.status} {each.endpoint}") for each in found]


def _queues(database: Database, _start: str) -> Found:
    return [(queue, "") for queue in queue_statistics.known(database, MOST)]


def _workers(database: Database, _start: str) -> Found:
    found = worker_list.page(database, WorkerState.ALIVE, PageRequest(MOST)).items
    return [(each.worker_id, f"{each.host} (pid {each.pid})") for each in found]


OF_ENDPOINTS, OF_JOBS, OF_EXECUTIONS = _offered(_endpoints), _offered(_jobs), _offered(_executions)
OF_QUEUES, OF_WORKERS = _offered(_queues), _offered(_workers)
