"""`flask simulate`: forecast of the executions of repeating jobs, hour by hour, with an optional outage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.command_session import ready_database
from app.cli.console import json_option, plain, print_json, show_fields, show_line, show_table, shown
from app.cli.exit_statuses import one_line
from app.cli.options import MAX_LISTED, Duration, Value, enum_option, gather
from app.cli.progress_bar import progress
from app.cli.shell_completion import OF_JOBS
from app.features.simulate.simulation import SimulatedLoad, SimulatedPeriod, simulate
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import rfc3339
from app.queue.jobs.job_filter import JobFilter
from app.queue.jobs.job_list import page_of_jobs
from app.queue.jobs.job_queries import get_job
from app.schedule.interval import parse_every
from app.schedule.timetable import Timetable
from app.web.http.request_fields import Instant
from app.web.services import services
from schema.states import CatchUp, JobStatus, Overlap, Trigger

MOST_COLLISIONS = 10
_WIDTH = 50  # of the longest bar


@dataclass(frozen=True, slots=True)
class Subject:
    """A job to simulate."""

    name: str
    timetable: Timetable
    next_tick: datetime | None


@commands.command("simulate")
@click.option(
    "--job", "job_ids", multiple=True, **OF_JOBS, help="only this job; may be repeated. Default: all active jobs"
)
@click.option("--cron", help="a rule of five fields instead of stored jobs")
@click.option("--timezone", default="UTC", show_default=True, help="of --cron")
@click.option("--every", help="an interval instead of stored jobs: 500ms, 10s, 5m")
@click.option(
    "--from", "start", type=Value("time", Instant()), help="start, such as 2030-01-31T09:00:00Z; default: now"
)
@click.option("--for", "length", type=Duration(), default="30d", show_default=True, help="length of the forecast")
@click.option("--takes", type=Duration(), default="0s", show_default=True, help="duration of an execution")
@click.option("--outage-after", type=Duration(), help="start of an outage of all schedulers, after the start")
@click.option("--outage-for", type=Duration(), default="1h", show_default=True, help="length of the outage")
@enum_option("--catch-up", CatchUp, "use this rule for all jobs")
@click.option("--max-catch-up", type=click.IntRange(1, 1000), help="with --catch-up all")
@enum_option("--overlap", Overlap, "use this rule for all jobs")
@json_option
@with_appcontext
def command(
    *,
    start: datetime | None,
    length: timedelta,
    takes: timedelta,
    outage_after: timedelta | None,
    outage_for: timedelta,
    as_json: bool,
    **options: Any,
) -> None:
    """Count the executions that repeating jobs will start, hour by hour, by the rules of the scheduler.

    Shows the load of each hour of the day, instants with many starts, and for an outage of all schedulers the skipped
    and the caught-up ticks. Nothing is stored.
    """
    begin = (start or datetime.now(UTC)).replace(microsecond=0)
    down = None if outage_after is None else begin + outage_after
    outage = None if down is None else (down, down + outage_for)
    if outage is not None and outage[1] > begin + length:
        raise click.BadParameter("the outage has to end within --for", param_hint="--outage-for")
    grace = timedelta(seconds=services().settings.misfire_grace_seconds)
    stretch = SimulatedPeriod(begin, begin + length, outage, takes, grace)
    subjects = [_what_if(subject, **options) for subject in _subjects(begin, **options)]
    if start is not None:
        # Earlier ticks have been started by then.
        subjects = [replace(subject, next_tick=None) for subject in subjects]
    loads = _simulate(subjects, stretch)
    total = SimulatedLoad()
    for load in loads.values():
        total.add(load)
    if as_json:
        return print_json(_shape(stretch, loads, total))
    _show(stretch, loads, total)
    return None


def _subjects(
    begin: datetime, job_ids: Sequence[str], cron: str | None, timezone: str, every: str | None, **_: Any
) -> list[Subject]:
    if sum(map(bool, (job_ids, cron, every))) > 1:
        raise click.UsageError("use only one of --job, --cron and --every")
    if cron or every:
        return [_asked(begin, cron, timezone, every)]
    return _stored(job_ids)


def _asked(begin: datetime, cron: str | None, timezone: str, every: str | None) -> Subject:
    with one_line():
        try:
            every_ms = parse_every(every) if every else None
            table = Timetable(cron=cron, timezone=timezone if cron else None, every_ms=every_ms, starts_at=begin)
            return Subject(cron or f"every {every}", table, table.first_tick(begin, start_given=bool(cron)))
        except TaskExecutorError as error:
            hint = next((each["pointer"].replace("/", "--", 1) for each in error.details), None)
            raise click.BadParameter(plain(error.message), param_hint=hint) from error


def _stored(job_ids: Sequence[str]) -> list[Subject]:
    with ready_database() as database:
        jobs = [get_job(database, job_id) for job_id in job_ids]
        if not job_ids:
            for trigger in Trigger:
                if trigger.repeats:
                    wanted = JobFilter(status=JobStatus.ACTIVE, trigger=trigger)
                    found, is_more = gather(partial(page_of_jobs, database, wanted), MAX_LISTED)
                    jobs += found
                    if is_more:
                        click.echo(f"only the newest {MAX_LISTED:,} {trigger} jobs are simulated", err=True)
    repeating = [job for job in jobs if job.timetable is not None and job.status is JobStatus.ACTIVE]
    if len(repeating) < len(job_ids):
        raise click.BadParameter(
            "only ACTIVE jobs with the trigger CRON or INTERVAL have future ticks", param_hint="--job"
        )
    return [Subject(job.name or job.job_id, job.timetable, job.next_run_at) for job in repeating if job.timetable]


def _what_if(
    subject: Subject, catch_up: CatchUp | None, max_catch_up: int | None, overlap: Overlap | None, **_: Any
) -> Subject:
    table = subject.timetable
    if catch_up is not None:
        table = replace(table, catch_up=catch_up, max_catch_up=max_catch_up)
    if overlap is not None:
        table = replace(table, overlap=overlap)
    return replace(subject, timetable=table)


def _simulate(subjects: Sequence[Subject], stretch: SimulatedPeriod) -> dict[str, SimulatedLoad]:
    loads: dict[str, SimulatedLoad] = {}
    with progress("jobs", len(subjects)) as advance:
        for subject in subjects:
            try:
                load = simulate(subject.timetable, stretch, subject.next_tick)
            except TaskExecutorError as error:
                click.echo(plain(f"skipping {subject.name}: {error.message}"), err=True)
            else:
                loads.setdefault(subject.name, SimulatedLoad()).add(load)
            advance(1)
    return loads


def _shape(stretch: SimulatedPeriod, loads: dict[str, SimulatedLoad], total: SimulatedLoad) -> dict[str, Any]:
    return {
        "start": rfc3339(stretch.start),
        "end": rfc3339(stretch.end),
        "jobs": [{"name": name, **_figures(load)} for name, load in loads.items()],
        "total": _figures(total),
        "hours": [{"hour": rfc3339(hour), "starts": total.hours[hour]} for hour in sorted(total.hours)],
        "collisions": [{"at": rfc3339(at), "starts": number} for at, number in _collisions(total)],
    }


def _figures(load: SimulatedLoad) -> dict[str, int]:
    return {
        "starts": load.starts,
        "made_up": load.made_up,
        "skipped_catch_up": load.skipped_catch_up,
        "skipped_overlap": load.skipped_overlap,
    }


def _collisions(total: SimulatedLoad) -> list[tuple[datetime, int]]:
    most = sorted(total.seconds.items(), key=lambda each: (-each[1], each[0]))[:MOST_COLLISIONS]
    return [(at, number) for at, number in most if number > 1]


def _show(stretch: SimulatedPeriod, loads: dict[str, SimulatedLoad], total: SimulatedLoad) -> None:
    busiest = max(total.hours.items(), key=lambda each: each[1], default=(stretch.start, 0))
    show_fields(
        {
            "from": stretch.start,
            "to": stretch.end,
            "outage": None if stretch.outage is None else " to ".join(map(shown, stretch.outage)),
            "jobs": f"{len(loads):,}",
            "starts": f"{total.starts:,}",
            "busiest hour": f"{shown(busiest[0])}: {busiest[1]:,} starts, {busiest[1] / 3600:.2f} a second",
            "made up for": f"{total.made_up:,} (they start in portions)" if total.made_up else None,
            "left out": f"{total.skipped_catch_up:,} by catch_up, {total.skipped_overlap:,} by overlap",
        }
    )
    show_line("")
    _chart(stretch, total)
    collisions = _collisions(total)
    if collisions:
        show_line("")
        show_table(("AT ONE SECOND", "STARTS"), [(at, f"{number:,}") for at, number in collisions], right=["STARTS"])
    show_line("")
    header = ("JOB", "STARTS", "MADE UP", "CATCH-UP", "OVERLAP")
    busy = sorted(loads.items(), key=lambda each: -each[1].starts)[:MOST_COLLISIONS]
    rows = [(name, *(f"{number:,}" for number in _figures(load).values())) for name, load in busy]
    show_table(header, rows, right=header[1:])


def _chart(stretch: SimulatedPeriod, total: SimulatedLoad) -> None:
    """Draw the mean and the maximum of each hour of the day, in UTC."""
    by_hour: dict[int, list[int]] = {hour: [] for hour in range(24)}
    for at, number in total.hours.items():
        by_hour[at.hour].append(number)
    days = max(1.0, (stretch.end - stretch.start) / timedelta(days=1))
    highest = max((max(numbers, default=0) for numbers in by_hour.values()), default=0)
    show_line("starts in each hour of the day, UTC: mean █, maximum ░")
    for hour, numbers in by_hour.items():
        mean, most = sum(numbers) / days, max(numbers, default=0)
        solid, light = (round(_WIDTH * number / highest) if highest else 0 for number in (mean, most))
        bar = "█" * solid + "░" * (light - solid)
        show_line(f"{hour:02}  {bar:<{_WIDTH}}  {mean:,.0f} to {most:,}".rstrip())
