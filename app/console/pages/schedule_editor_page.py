"""Editor of a schedule: a form, the next runs of the typed rule, and the changes before they are made."""

from datetime import timedelta
from typing import Any

from flask import Response, request

from app.console.http import closed_contents
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.page_rendering import now, to
from app.console.pages import job_form
from app.console.pages.schedule_preview import preview_of
from app.console.views.day_strip import STRIP_HEIGHT, hours_of, path_of, strip_of
from app.console.views.json_changes import changes_of
from app.console.views.schedule_words import rule_of
from app.console.views.schema_form import Schema
from app.kernel.errors import JobNotUpdatableError, TaskExecutorError
from app.kernel.formats import rfc3339, show_duration
from app.queue.jobs.job_model import Job, NewJob
from app.queue.jobs.job_queries import get_job
from app.queue.jobs.job_update import scheduled_version, update_job
from app.queue.jobs.open_executions import open_executions
from app.schedule.day import Day, starts_on
from app.schedule.timetable import Timetable
from app.schedule.zones import time_zone
from app.web.http.conditions import actor
from app.web.http.request_log import note_ids, trace_of_new_jobs
from app.web.jobs.request_schemas import ChangedJobSchema, changed_fields
from app.web.services import services
from schema.states import CatchUp, JobStatus

REMOVABLE = ("name", "queue", "priority", "ends_at", "max_catch_up")

page = ConsolePage(
    "schedule_editor", "/jobs/<job_id>/edit", "Edit a schedule", reads="PUT /jobs/<job_id>", under="schedules"
)


@page.show
def show(job_id: str) -> Values:
    """Return the form with the values of the job."""
    job = _editable(job_id)
    closed_contents.note_opening("job", job_id)
    schema = job_form.schema_of(job.endpoint)
    return _values(job, _typed(job, texts_of(job, schema), schema))


@page.region("runs", reads="POST /cron/preview")
def runs(job_id: str) -> Values:  # noqa: ARG001 - the part of the path
    """Preview the schedule that is being typed."""
    return preview_of(query())


@action("PUT /jobs/<job_id>")
def save(job_id: str) -> Done | Response:
    """Show the changes, or make the next version of the job."""
    job = _editable(job_id)
    closed_contents.note_opening("job", job_id)  # its changes are shown
    typed = _typed(job, job_form.texts_in(request.form), job_form.schema_of(job.endpoint))
    loaded = job_form.load(ChangedJobSchema(), typed, typed.body)
    job_form.input_faults(job.endpoint, typed)
    path = {"job_id": job_id}
    if loaded is None or typed.faults:
        return page.answer(path, _values(job, typed), 422)
    try:
        changes = changed_fields(loaded)
        wanted = scheduled_version(job, changes, now(), None)
        if form().text("do") != "save":
            return page.answer(path, _values(job, typed, wanted))
        changed = update_job(services().creator, job_id, changes, actor().name, trace_of_new_jobs())
    except JobNotUpdatableError:
        raise
    except TaskExecutorError as error:
        typed.add_faults(error)
        return page.answer(path, _values(job, typed), 422)
    note_ids(new_job_id=changed.job_id)
    return Done(f"Version {changed.version} is in effect.", to("job", job_id=changed.job_id))


def _editable(job_id: str) -> Job:
    """Return a job that can be edited; raises JobNotFoundError or JobNotUpdatableError."""
    job = get_job(services().database, job_id)
    if job.timetable is None:
        raise JobNotUpdatableError("Only jobs by cron or at an interval can be edited. Create another job.")
    if job.status is JobStatus.RETIRED:
        raise JobNotUpdatableError("This version is no longer in effect. Open the newest version of the job.")
    return job


def texts_of(job: Job, schema: Schema | None) -> dict[str, str]:
    """Return the texts that show a job in the form."""
    table = job.timetable
    assert table is not None  # noqa: S101 - `_editable`
    values: dict[str, Any] = {
        "name": job.name,
        "labels": job_form.pairs_text(job.labels),
        "queue": job.queue,
        "priority": job.priority,
        "cron": table.cron,
        "timezone": table.timezone,
        "every": None if table.every_ms is None else show_duration(table.every_ms),
        "fixed_delay": "on" if table.fixed_delay else None,
        "ends_at": None if table.ends_at is None else rfc3339(table.ends_at),
        "catch_up": table.catch_up,
        "max_catch_up": table.max_catch_up,
        "overlap": table.overlap,
    }
    texts = {name: str(value) for name, value in values.items() if value is not None}
    return texts | job_form.texts_of_input(schema, job.input)


def _typed(job: Job, texts: dict[str, str], schema: Schema | None) -> job_form.TypedJob:
    typed = job_form.typed_job(texts, schema, trigger=job.trigger.value)
    # Emptied fields are removed; fields outside of the form are kept.
    typed.body = dict.fromkeys(REMOVABLE) | {"labels": {}} | typed.body
    typed.body.pop("starts_at", None)
    typed.body.pop("idempotency_key", None)
    if job.timetable is not None and job.timetable.every_ms is not None:
        typed.body["fixed_delay"] = bool(texts.get("fixed_delay"))
    if typed.body.get("catch_up") not in (None, CatchUp.ALL.value):
        typed.body["max_catch_up"] = None
    return typed


def _values(job: Job, typed: job_form.TypedJob, wanted: NewJob | None = None) -> Values:
    shown = job_form.shown_form(typed) | {"title": f"Edit {job.name or job.job_id}", "job": job, "changes": None}
    if wanted is None or wanted.timetable is None or job.timetable is None:
        return shown
    return shown | {
        "changes": changes_of(_fields(job), _fields(wanted)),
        "first": wanted.first_tick,
        "open": open_executions(services().database, [job.job_id])[job.job_id],
        "strips": _strips(job.timetable, wanted.timetable),
    }


def _fields(job: Job | NewJob) -> dict[str, Any]:
    table = job.timetable
    assert table is not None  # noqa: S101 - `_editable`
    return {
        "name": job.name,
        "labels": dict(job.labels),
        "queue": job.queue,
        "priority": job.priority,
        "rule": rule_of(table),
        "timezone": table.timezone,
        "ends_at": None if table.ends_at is None else rfc3339(table.ends_at),
        "catch_up": table.catch_up.value,
        "max_catch_up": table.max_catch_up,
        "overlap": table.overlap.value,
        "input": job.input,
    }


def _strips(before: Timetable, after: Timetable) -> Values:
    """Draw the starts of tomorrow, by the present and by the new rule."""
    zone = after.timezone or "UTC"
    day = Day.of((now().astimezone(time_zone(zone)) + timedelta(days=1)).date(), zone)
    pictures = [(label, starts_on(day, table)) for label, table in (("now", before), ("then", after))]
    return {
        "day": day,
        "hours": path_of(hours_of(day), STRIP_HEIGHT),
        "rows": [(label, strip_of(found.minutes), found.starts) for label, found in pictures],
    }
