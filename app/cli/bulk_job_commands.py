"""Commands that redrives and bulk operations share: list, show, pause, resume and stop."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

import click
from marshmallow import Schema, ValidationError

from app.cli.commands import ServiceGroup, confirm, ready_database, yes_option
from app.cli.console import json_option, print_fields, print_json, print_result, progress, show_line, show_table
from app.cli.options import Value, gather, limit_option, show_list
from app.kernel.db import Database
from app.kernel.formats import marshmallow_faults, numbered, rfc3339
from app.kernel.function_types import AnyFunction, Title
from app.queue.bulk.bulk_job import BulkJob
from app.queue.bulk.bulk_job_kind import MAX_RATE
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.web.http.pagination import Shape
from app.web.http.request_fields import Instant
from schema.states import BulkJobStatus

W = TypeVar("W", bound=BulkJob)
POLL_SECONDS = 0.5

rate_option = click.option("--rate", type=click.IntRange(1, MAX_RATE), help="largest number in a second")
dry_run_option = click.option("--dry-run", is_flag=True, help="count the matches and show the first; change nothing")
wait_option = click.option("--wait", is_flag=True, help="wait until the end or a pause")
INSTANT = Value("time", Instant())


@dataclass(frozen=True, slots=True)
class BulkJobOutput(Generic[W]):
    """Output of bulk jobs of one kind; `shape` returns the fields of the API, `about` a short description."""

    bulk_jobs: BulkJobStore[W]
    shape: Shape[W]
    about: Title[W]

    def show(self, database: Database, bulk_job: W, *, wait: bool, as_json: bool) -> None:
        """Print a bulk job, with `wait` after its end or a pause."""
        found = self._over(database, bulk_job) if wait else bulk_job
        print_fields(self.shape(found), as_json=as_json)

    def row(self, bulk_job: W) -> tuple[object, ...]:
        done, key = getattr(bulk_job, self.bulk_jobs.done), getattr(bulk_job, self.bulk_jobs.key)
        about = (key, bulk_job.status, bulk_job.created_at, self.about(bulk_job))
        return (*about, done, bulk_job.refused, bulk_job.rate, bulk_job.actor)

    def _over(self, database: Database, bulk_job: W) -> W:
        key, before = getattr(bulk_job, self.bulk_jobs.key), getattr(bulk_job, self.bulk_jobs.done) + bulk_job.refused
        with progress(f"{self.bulk_jobs.noun} under way") as advance:
            while bulk_job.status is BulkJobStatus.RUNNING:
                time.sleep(POLL_SECONDS)
                bulk_job = self.bulk_jobs.get(database, key)
                seen = getattr(bulk_job, self.bulk_jobs.done) + bulk_job.refused
                advance(seen - before)
                before = seen
        return bulk_job


def counted(preview: Mapping[str, Any], noun: str) -> str:
    """Write the number of rows of a preview."""
    return numbered(preview["count"], noun, or_more=not preview["is_complete"])


def show_preview(preview: Mapping[str, Any], columns: Mapping[str, str], outcome: str, *, as_json: bool) -> None:
    """Print a dry run; `columns` are the fields of a row by their headers, `outcome` is a participle."""
    if as_json:
        print_json(preview)
    else:
        show_table(tuple(columns), [[row[name] for name in columns.values()] for row in preview["sample"]])
        show_line(f"{counted(preview, 'row')} would be {outcome} (dry run)")


def read_body(schema: Schema, filters: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """Return the body as the API would load it, with the filters under `wanted`; raises click's UsageError."""
    wanted = {name: _written(value) for name, value in filters.items() if value is not None}
    try:
        body: dict[str, Any] = schema.load(
            {"wanted": wanted} | {name: value for name, value in values.items() if value is not None}
        )
    except ValidationError as error:
        faults = marshmallow_faults(error.messages)
        raise click.UsageError("; ".join(f"{'.'.join(path)}: {message}" for path, message in faults)) from None
    return body


def _written(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value


def add_commands(group: ServiceGroup, shown: BulkJobOutput[W]) -> None:
    """Add the shared commands to a group."""
    _add_readers(group, shown)
    bulk_jobs = shown.bulk_jobs
    changes = (
        ("pause", BulkJobStatus.PAUSED, f"Pause a {bulk_jobs.noun} at its cursor."),
        ("resume", BulkJobStatus.RUNNING, f"Resume a paused {bulk_jobs.noun} at its cursor."),
        ("stop", BulkJobStatus.STOPPED, f"Stop a {bulk_jobs.noun} for good; finished changes stay."),
    )
    for verb, status, help_ in changes:
        group.command(verb, help=f"{help_}\n\nExits with 3 if it does not exist, with 4 if it has ended.")(
            _change(shown, verb, status)
        )


def _add_readers(group: ServiceGroup, shown: BulkJobOutput[W]) -> None:
    bulk_jobs = shown.bulk_jobs

    @group.command("list", help=f"List each {bulk_jobs.noun}, newest first.")
    @limit_option
    @json_option
    def list_(limit: int, as_json: bool) -> None:
        with ready_database() as database:
            found, is_more = gather(partial(bulk_jobs.page, database), limit)
        items = [shown.shape(each) for each in found]
        header = (bulk_jobs.noun.upper(), "STATUS", "CREATED", "WHAT", bulk_jobs.done.upper(), "REFUSED", "RATE", "BY")
        right = [bulk_jobs.done.upper(), "REFUSED", "RATE"]
        show_list(items, header, map(shown.row, found), is_more=is_more, as_json=as_json, right=right)

    @group.command("show", help=f"Show a {bulk_jobs.noun} and its progress. Exits with 3 if it does not exist.")
    @click.argument(bulk_jobs.key)
    @wait_option
    @json_option
    def show(wait: bool, as_json: bool, **key: str) -> None:
        with ready_database() as database:
            shown.show(database, bulk_jobs.get(database, key[bulk_jobs.key]), wait=wait, as_json=as_json)


def _change(shown: BulkJobOutput[W], verb: str, status: BulkJobStatus) -> AnyFunction:
    bulk_jobs = shown.bulk_jobs

    def change(as_json: bool, yes: bool = True, **key: str) -> None:
        bulk_job_id = key[bulk_jobs.key]
        with ready_database() as database:
            about = shown.about(bulk_jobs.get(database, bulk_job_id))
            confirm(f"{verb.capitalize()} the {bulk_jobs.noun} {bulk_job_id} ({about}) for good?", yes=yes)
            changed = bulk_jobs.change(database, bulk_job_id, status)
        line = f"{bulk_job_id} is {changed.status}: {getattr(changed, bulk_jobs.done)} {bulk_jobs.done}"
        print_result(shown.shape(changed), line, as_json=as_json)

    decorated = click.argument(bulk_jobs.key)(json_option(change))
    return yes_option(decorated) if status is BulkJobStatus.STOPPED else decorated
