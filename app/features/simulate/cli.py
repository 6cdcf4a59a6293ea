"""`flask simulate`: forecast of the executions of repeating jobs, hour by hour, with an optional outage."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import one_line, ready_database
from app.cli.console import json_option, plain, print_json, progress, show_fields, show_line, show_table, shown
from app.cli.options import MAX_LISTED, Duration, EnumChoice, Value
from app.cli.shell_completion import OF_JOBS
from app.features.simulate.forecast import MAX_SHOWN, Forecast, Subject, forecast, stored_subject, subject_of
from app.features.simulate.simulation import SimulatedLoad, SimulatedPeriod
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import numbered, rfc3339
from app.queue.jobs.active_schedules import ScheduleBounds, active_schedules
from app.queue.jobs.job_list import JobFilter
from app.queue.jobs.job_queries import get_job
from app.schedule.interval import parse_every
from app.schedule.timetable import Timetable
from app.web.http.request_fields import Instant
from app.web.services import services
from schema.states import CatchUp, Overlap

_WIDTH = 50  # of the longest bar


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
@click.option("--catch-up", type=EnumChoice(CatchUp), help="use this rule for all jobs")
@click.option("--max-catch-up", type=click.IntRange(1, 1000), help="with --catch-up all")
@click.option("--overlap", type=EnumChoice(Overlap), help="use this rule for all jobs")
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
    job_ids: Sequence[str],
    cron: str | None,
    timezone: str,
    every: str | None,
    catch_up: CatchUp | None,
    max_catch_up: int | None,
    overlap: Overlap | None,
) -> None:
    """Count the executions that repeating jobs will start, hour by hour, by the rules of the scheduler.

    Shows the load of each hour of the day, instants with many starts, and for an outage of all schedulers the skipped
    and the caught-up ticks. Nothing is stored.
    """
    begin = (start or datetime.now(UTC)).replace(microsecond=0)
    outage = None if outage_after is None else (begin + outage_after, begin + outage_after + outage_for)
    if outage is not None and outage[1] > begin + length:
        raise click.BadParameter("the outage has to end within --for", param_hint="--outage-for")
    if sum(map(bool, (job_ids, cron, every))) > 1:
        raise click.UsageError("use only one of --job, --cron and --every")
    grace = timedelta(seconds=services().settings.misfire_grace_seconds)
    period = SimulatedPeriod(begin, begin + length, outage, takes, grace)
    subjects = [_asked(begin, cron, timezone, every)] if cron or every else _stored(job_ids)
    subjects = [each.under(catch_up, max_catch_up, overlap, start_given=start is not None) for each in subjects]
    with progress("jobs", len(subjects)) as advance:
        result = forecast(subjects, period, advance=advance)
    for subject, reason in result.left_out:
        click.echo(plain(f"skipping {subject.name}: {reason}"), err=True)
    if as_json:
        print_json(_shape(result))
    else:
        _show(result)


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
        if not job_ids:
            found, is_complete = active_schedules(database, JobFilter(), ScheduleBounds(MAX_LISTED, seconds=60))
            if not is_complete:
                click.echo(f"only the newest {MAX_LISTED:,} schedules are simulated", err=True)
            return list(map(subject_of, found))
        subjects = [subject for job_id in job_ids if (subject := stored_subject(get_job(database, job_id)))]
    if len(subjects) < len(job_ids):
        fault = "only ACTIVE jobs with the trigger CRON or INTERVAL have future ticks"
        raise click.BadParameter(fault, param_hint="--job")
    return subjects


def _shape(result: Forecast) -> dict[str, Any]:
    hours = result.total.hours
    return {
        "start": rfc3339(result.period.start),
        "end": rfc3339(result.period.end),
        "jobs": [{"name": name, **counts} for name, counts in result.by_name().items()],
        "total": result.total.counts(),
        "hours": [{"hour": rfc3339(hour), "starts": hours[hour]} for hour in sorted(hours)],
        "collisions": [{"at": rfc3339(at), "starts": number} for at, number in result.collisions()],
    }


def _show(result: Forecast) -> None:
    period, total, loads = result.period, result.total, result.by_name()
    (busiest, starts), *_ = [*total.hours.most_common(1), (period.start, 0)]
    show_fields(
        {
            "from": period.start,
            "to": period.end,
            "outage": None if period.outage is None else " to ".join(map(shown, period.outage)),
            "jobs": f"{len(loads):,}",
            "starts": f"{total.starts:,}",
            "busiest hour": f"{shown(busiest)}: {numbered(starts, 'start')}, {starts / 3600:.2f} a second",
            "caught up": f"{total.made_up:,} (they start in portions)" if total.made_up else None,
            "skipped": f"{total.skipped_catch_up:,} by catch_up, {total.skipped_overlap:,} by overlap",
        }
    )
    show_line("")
    _chart(period, total)
    if collisions := result.collisions():
        show_line("")
        show_table(("AT ONE SECOND", "STARTS"), [(at, f"{number:,}") for at, number in collisions], right=["STARTS"])
    show_line("")
    header = ("JOB", "STARTS", "CAUGHT UP", "CATCH-UP", "OVERLAP")
    busy = sorted(loads.items(), key=lambda each: -each[1]["starts"])[:MAX_SHOWN]
    rows = [(name, *(f"{number:,}" for number in counts.values())) for name, counts in busy]
    show_table(header, rows, right=header[1:])


def _chart(period: SimulatedPeriod, total: SimulatedLoad) -> None:
    """Draw the mean and the maximum of each hour of the day, in UTC."""
    days = max(1.0, (period.end - period.start) / timedelta(days=1))
    highest = max(total.hours.values(), default=0)
    show_line("starts in each hour of the day, UTC: mean █, maximum ░")
    for hour in range(24):
        numbers = [number for at, number in total.hours.items() if at.hour == hour]
        mean, most = sum(numbers) / days, max(numbers, default=0)
        solid, light = (round(_WIDTH * number / highest) if highest else 0 for number in (mean, most))
        bar = "█" * solid + "░" * (light - solid)
        show_line(f"{hour:02}  {bar:<{_WIDTH}}  {mean:,.0f} to {most:,}".rstrip())
