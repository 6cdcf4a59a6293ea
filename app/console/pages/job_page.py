"""One job: its state and next runs, executions, versions with their changes, and its input."""

from datetime import timedelta
from typing import Any

from app.console.http import closed_contents
from app.console.http.console_page import ConsolePage, Values
from app.console.http.page_rendering import now
from app.console.views.json_changes import changes_of, is_of, without_values
from app.console.views.json_text import indented
from app.console.views.reach import reach_of_job
from app.console.views.schedule_words import CATCH_UP, OVERLAP, overdue_by, rule_of, words_of
from app.kernel.db.paging import PageRequest
from app.kernel.formats import Unreadable
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_queries import get_job, versions_of
from app.queue.jobs.job_status import next_runs, status_of
from app.queue.jobs.open_executions import open_executions
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.web.jobs.answer_schemas import JobSchema
from app.web.services import services

EXECUTIONS, RUNS, VERSIONS = 20, 5, 20
CHANGEABLE = (
    *("name", "labels", "queue", "priority", "callbacks", "cron", "timezone", "every", "fixed_delay", "starts_at"),
    *("ends_at", "catch_up", "max_catch_up", "overlap", "input", "endpoint_version"),
)

page = ConsolePage("job", "/jobs/<job_id>", "Job", reads="GET /jobs/<job_id>", under="jobs")


@page.show
def show(job_id: str) -> Values:
    """Read the job, for the frame."""
    job = get_job(services().database, job_id)
    table = job.timetable
    is_open = closed_contents.opened("job", job_id)
    return {
        "title": job.name or job.job_id,
        "is_open": is_open,
        "job": job,
        "rule": "" if table is None else rule_of(table),
        "words": "" if table is None else words_of(table),
        "catch_up": "" if table is None else CATCH_UP[table.catch_up],
        "overlap": "" if table is None or table.fixed_delay else OVERLAP[table.overlap],
        "input": _input(job) if is_open else "",
        "is_schedule": table is not None,
        "reach": reach_of_job(open_executions(services().database, [job_id])[job_id]),
    }


@page.region("now", live="jobs executions", reads="GET /jobs/<job_id>/status")
def now_(job_id: str) -> Values:
    """Read the state, the last 24 hours and the next runs."""
    database = services().database
    report = status_of(database, job_id)
    runs = next_runs(report.job, RUNS) if report.job.timetable is not None else []
    return {"report": report, "job": report.job, "runs": runs, "late": _is_late(report.job)}


@page.region("executions", live="executions", reads="GET /jobs/<job_id>/executions")
def executions(job_id: str) -> Values:
    """Read the newest executions."""
    found = page_of_executions(services().database, ExecutionFilter(job_id=job_id), PageRequest(EXECUTIONS))
    return {"executions": found.items, "is_more": found.next is not None}


@page.region("versions", live="jobs", reads="GET /jobs/<job_id>/versions")
def versions(job_id: str) -> Values:
    """Read the newest versions, each with its changes."""
    database = services().database
    found = versions_of(database, get_job(database, job_id), PageRequest(VERSIONS)).items
    shown = [_changeable(each) for each in found]
    before: list[Any] = [*shown[1:], None]
    changes = [[] if old is None else changes_of(old, new) for old, new in zip(before, shown, strict=True)]
    if closed_contents.are_closed():
        changes = [[without_values(each) if is_of(each, "input") else each for each in listed] for listed in changes]
    return {"versions": list(zip(found, changes, strict=True)), "job_id": job_id}


def _input(job: Job) -> str:
    return job.input.why if isinstance(job.input, Unreadable) else indented(job.input)


def _changeable(job: Job) -> dict[str, Any]:
    shaped = JobSchema().dump(job)
    return {name: shaped[name] for name in CHANGEABLE if name in shaped}


def _is_late(job: Job) -> bool:
    grace = timedelta(seconds=services().settings.misfire_grace_seconds)
    return overdue_by(job.next_run_at, now(), grace) is not None
