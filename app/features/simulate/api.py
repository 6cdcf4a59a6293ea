"""/schedules/simulate: forecasts of the starts of repeating jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.features.simulate.forecast import Forecast, Subject, forecast, stored_subject, subject_of
from app.features.simulate.simulation import SimulatedPeriod
from app.features.simulate.simulation_schemas import MAX_SIMULATED, SimulationQuestionSchema, SimulationSchema
from app.kernel.db import Database
from app.kernel.errors import Detail, InvalidCronError
from app.kernel.formats import pointer
from app.queue.jobs.active_schedules import ScheduleBounds, active_schedules
from app.queue.jobs.job_list import JobFilter
from app.queue.jobs.job_queries import find_jobs
from app.schedule.timetable import Timetable
from app.web.http.body import invalid
from app.web.jobs import schedules_api
from app.web.services import services

MAX_SECONDS = 2.0

resource = schedules_api.resource


@resource.route(
    "POST",
    "/schedules/simulate",
    body=SimulationQuestionSchema,
    returns=SimulationSchema,
    errors=[InvalidCronError],
)
def simulate(body: dict[str, Any]) -> dict[str, Any]:
    """Simulate the starts of repeating jobs over a period, and the effect of an outage; changes nothing.

    At most 500 schedules, for at most two seconds; the answer names the schedules that are left out.
    """
    subjects, is_complete = subjects_of(services().database, body)
    return _shape_simulation(simulate_in(body, subjects), is_complete=is_complete)


def simulate_in(body: dict[str, Any], subjects: list[Subject]) -> Forecast:
    """Simulate schedules by the period and the rules of a request."""
    start, outage = _start(body), body.get("outage")
    period = SimulatedPeriod(
        start,
        start + timedelta(milliseconds=body["length"]),
        None if outage is None else (outage["start"], outage["end"]),
        timedelta(milliseconds=body["takes"]),
        timedelta(seconds=services().settings.misfire_grace_seconds),
    )
    rules = [body.get(name) for name in ("catch_up", "max_catch_up", "overlap")]
    changed = [each.under(*rules, start_given=body.get("start") is not None) for each in subjects]
    return forecast(changed, period, seconds=MAX_SECONDS)


def _start(body: dict[str, Any]) -> datetime:
    return (body.get("start") or datetime.now(UTC)).replace(microsecond=0)


def subjects_of(database: Database, body: dict[str, Any]) -> tuple[list[Subject], bool]:
    """Return the schedules of a request, and whether these are all that match."""
    if body.get("cron") is not None or body.get("every") is not None:
        return [_asked(body)], True
    if body.get("jobs") is not None:
        return _stored(database, body["jobs"]), True
    wanted = JobFilter(**{name: body.get(name) for name in ("endpoint", "name", "labels")})
    found, is_complete = active_schedules(database, wanted, ScheduleBounds(MAX_SIMULATED, seconds=1))
    return list(map(subject_of, found)), is_complete


def _asked(body: dict[str, Any]) -> Subject:
    cron, every_ms, start = body.get("cron"), body.get("every"), _start(body)
    zone = None if cron is None else body.get("timezone") or "UTC"
    table = Timetable(cron=cron, timezone=zone, every_ms=every_ms, starts_at=start)
    return Subject(cron or f"every {every_ms} ms", table, table.first_tick(start, start_given=cron is not None))


def _stored(database: Database, job_ids: list[str]) -> list[Subject]:
    found = {job.job_id: stored_subject(job) for job in find_jobs(database, job_ids)}
    subjects = [found.get(job_id) for job_id in job_ids]
    message = "Must be the id of an ACTIVE job with the trigger CRON or INTERVAL."
    faults: list[Detail] = [
        {"pointer": pointer(("jobs", number)), "message": message}
        for number, subject in enumerate(subjects)
        if subject is None
    ]
    if faults:
        raise invalid(faults)
    return [subject for subject in subjects if subject is not None]


def _shape_simulation(found: Forecast, *, is_complete: bool) -> dict[str, Any]:
    hours = found.total.hours
    return {
        "start": found.period.start,
        "end": found.period.end,
        "total": found.total.counts(),
        "schedules": [_shape_subject(subject) | load.counts() for subject, load in found.loads],
        "hours": [{"hour": hour, "starts": hours[hour]} for hour in sorted(hours)],
        "collisions": [{"at": at, "starts": number} for at, number in found.collisions()],
        "left_out": [_shape_subject(subject) | {"reason": reason} for subject, reason in found.left_out],
        "is_complete": is_complete and not found.left_out,
    }


def _shape_subject(subject: Subject) -> dict[str, Any]:
    return {"job_id": subject.job_id, "name": subject.name}
