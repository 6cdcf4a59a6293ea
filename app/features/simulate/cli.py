"""`flask simulate`: forecast of the executions of repeating jobs, hour by hour, with an optional outage."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import one_line, ready_database
from app.cli.console import json_option, plain, print_json, progress, show_fields, show_line, show_table, shown
from app.cli.options import MAX_LISTED, Duration, Value, enum_option, gather
from app.cli.shell_completion import OF_JOBS
from app.features.simulate.simulation import SimulatedLoad, SimulatedPeriod, simulate
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import numbered, rfc3339
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.jobs.job_queries import get_job
from app.schedule.interval import parse_every
from app.schedule.timetable import Timetable
from app.web.http.request_fields import Instant
from app.web.services import services
from schema.states import CatchUp, JobStatus, Overlap, Trigger

MAX_SHOWN = 10
_WIDTH = 50  # of the longest bar


class Subject(NamedTuple):
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
    changes: dict[str, Any] = {} if catch_up is None else {"catch_up": catch_up, "max_catch_up": max_catch_up}
    changes |= {} if overlap is None else {"overlap": overlap}
    subjects = [_asked(begin, cron, timezone, every)] if cron or every else _stored(job_ids)
    # At a given start, earlier ticks have been started.
    subjects = [
        Subject(each.name, replace(each.timetable, **changes), None if start else each.next_tick) for each in subjects
    ]
    loads, total = _simulate(subjects, period)
    if as_json:
        print_json(_shape(period, loads, total))
    else:
        _show(period, loads, total)


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
                    newest, is_more = gather(partial(page_of_jobs, database, wanted), MAX_LISTED)
                    jobs += newest
                    if is_more:
                        click.echo(f"only the newest {MAX_LISTED:,} {trigger} jobs are simulated", err=True)
    active = [job for job in jobs if job.status is JobStatus.ACTIVE]
    found = [Subject(job.name or job.job_id, job.timetable, job.next_run_at) for job in active if job.timetable]
    if len(found) < len(job_ids):
        fault = "only ACTIVE jobs with the trigger CRON or INTERVAL have future ticks"
        raise click.BadParameter(fault, param_hint="--job")
    return found


def _simulate(subjects: Sequence[Subject], period: SimulatedPeriod) -> tuple[dict[str, SimulatedLoad], SimulatedLoad]:
    loads, total = defaultdict[str, SimulatedLoad](SimulatedLoad), SimulatedLoad()
    with progress("jobs", len(subjects)) as advance:
        for subject in subjects:
            try:
                load = simulate(subject.timetable, period, subject.next_tick)
            except (TaskExecutorError, ArithmeticError, ValueError) as error:
                click.echo(plain(f"skipping {subject.name}: {error}"), err=True)
            else:
                loads[subject.name].add(load)
                total.add(load)
            advance(1)
    return loads, total


def _shape(period: SimulatedPeriod, loads: dict[str, SimulatedLoad], total: SimulatedLoad) -> dict[str, Any]:
    return {
        "start": rfc3339(period.start),
        "end": rfc3339(period.end),
        "jobs": [{"name": name, **_counts(load)} for name, load in loads.items()],
        "total": _counts(total),
        "hours": [{"hour": rfc3339(hour), "starts": total.hours[hour]} for hour in sorted(total.hours)],
        "collisions": [{"at": rfc3339(at), "starts": number} for at, number in _collisions(total)],
    }


def _counts(load: SimulatedLoad) -> dict[str, int]:
    return {name: getattr(load, name) for name in ("starts", "made_up", "skipped_catch_up", "skipped_overlap")}


def _collisions(total: SimulatedLoad) -> list[tuple[datetime, int]]:
    most = sorted(total.seconds.items(), key=lambda each: (-each[1], each[0]))[:MAX_SHOWN]
    return [(at, number) for at, number in most if number > 1]


def _show(period: SimulatedPeriod, loads: dict[str, SimulatedLoad], total: SimulatedLoad) -> None:
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
    collisions = _collisions(total)
    if collisions:
        show_line("")
        show_table(("AT ONE SECOND", "STARTS"), [(at, f"{number:,}") for at, number in collisions], right=["STARTS"])
    show_line("")
    header = ("JOB", "STARTS", "CAUGHT UP", "CATCH-UP", "OVERLAP")
    busy = sorted(loads.items(), key=lambda each: -each[1].starts)[:MAX_SHOWN]
    rows = [(name, *(f"{number:,}" for number in _counts(load).values())) for name, load in busy]
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
