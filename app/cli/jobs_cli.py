"""`flask jobs`: send, list, show and cancel jobs."""

from functools import partial
from typing import Any

import click

from app.cli.commands import ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, progress, show_fields, show_line, show_table
from app.cli.jobs_send import send
from app.cli.options import LABELS, QUEUE, TEXT, EnumChoice, created_options, gather, show_list
from app.cli.shell_completion import OF_ENDPOINTS, OF_JOBS
from app.kernel.formats import numbered, show_duration
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.jobs import job_cancellation
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_queries import get_job
from app.queue.jobs.job_status import status_of
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.web.executions.execution_schemas import ExecutionSchema
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.status_schemas import StatusSchema, shape_status
from schema.states import JobStatus, Trigger

LATEST = 5  # executions that `show` lists

group = ServiceGroup("jobs", help="Send, list, show and cancel jobs.")
group.add_command(send)


@group.command("list")
@click.option("--status", type=EnumChoice(JobStatus), help="only jobs in this state")
@click.option("--trigger", type=EnumChoice(Trigger), help="only jobs with this trigger")
@click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only jobs of this endpoint")
@click.option("--name", type=TEXT, help="only jobs with this name")
@click.option("--labels", type=LABELS, help="only jobs with all of these labels: team=billing,env=prod")
@click.option("--queue", type=QUEUE, help="only jobs that set this queue themselves")
@created_options
@json_option
def list_(limit: int, as_json: bool, **filters: Any) -> None:
    """List jobs, newest first."""
    with ready_database() as database:
        found, is_more = gather(partial(page_of_jobs, database, JobFilter(**filters)), limit)
    items = [JobSchema().dump(job) for job in found]
    header = ("JOB", "STATUS", "TRIGGER", "WHEN", "ENDPOINT", "NAME", "CREATED")
    show_list(items, header, map(_row, found), is_more=is_more, as_json=as_json)


@group.command("show")
@click.argument("job_id", **OF_JOBS)
@json_option
def show(job_id: str, as_json: bool) -> None:
    """Show a job, its health and its latest executions."""
    with ready_database() as database:
        report = status_of(database, job_id)
        of_job = ExecutionFilter(job_id=job_id)
        latest, _ = gather(partial(page_of_executions, database, of_job), LATEST)
    job, status = JobSchema().dump(report.job), StatusSchema().dump(shape_status(report))
    if as_json:
        executions = [ExecutionSchema().dump(each) for each in latest]
        return print_json({"job": job, "status": status, "executions": executions})
    show_fields(job | {"execution": None, "labels": job["labels"] or None, "health": status["health"]})
    show_fields({"active": status["active_executions"], "last 24 h": status["stats"]["last_24h"]})
    show_line("")
    rows = [(each.execution_id, each.status, each.attempt_count, each.run_at, each.completed_at) for each in latest]
    show_table(("EXECUTION", "STATUS", "ATTEMPTS", "DUE", "ENDED"), rows, right=["ATTEMPTS"])
    return None


@group.command("cancel")
@click.argument("job_id", **OF_JOBS)
@click.option(
    "--if-running", type=EnumChoice(IfRunning), help="request: no further attempts; abort: also abort running attempts"
)
@yes_option
@json_option
def cancel(job_id: str, if_running: IfRunning | None, yes: bool, as_json: bool) -> None:
    """Cancel a job and its waiting executions. Cancelling a cancelled job changes nothing.

    Exits with 3 if the job does not exist, with 4 if it is a one-shot job whose execution is running or has ended.
    """
    with ready_database() as database:
        job = get_job(database, job_id)
        confirm(f"Cancel the {job.trigger} job {job_id} of the endpoint {job.endpoint!r}?", yes=yes)
        # The job may have very many open executions.
        with progress("cancelling"):
            done = job_cancellation.cancel_job(database, job_id, if_running=if_running, actor=actor().name)
        job = get_job(database, job_id)
    result = {"job": JobSchema().dump(job), "cancelled": done.ended, "asked_to_end": done.asked}
    asked = f"; {numbered(done.asked, 'running execution')} asked to end" if done.asked else ""
    print_result(
        result, f"{job_id} is {job.status}: {numbered(done.ended, 'execution')} cancelled{asked}", as_json=as_json
    )


def _row(job: Job) -> tuple[object, ...]:
    return (job.job_id, job.status, job.trigger, _when(job), job.endpoint, job.name, job.created_at)


def _when(job: Job) -> object:
    if job.timetable is None:
        return job.planned_at or (job.execution.status if job.execution is not None else None)
    if job.timetable.every_ms is not None:
        return f"every {show_duration(job.timetable.every_ms)}"
    return f"{job.timetable.cron} {job.timetable.timezone}"
