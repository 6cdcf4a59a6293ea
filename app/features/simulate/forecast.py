"""Forecast: the simulated load of many schedules, each schedule and all together."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from app.features.simulate.simulation import SimulatedLoad, SimulatedPeriod, simulate
from app.kernel.errors import TaskExecutorError
from app.kernel.function_types import Counted, uncounted
from app.queue.jobs.active_schedules import ActiveSchedule
from app.queue.jobs.job_model import Job
from app.schedule.timetable import Timetable
from schema.states import CatchUp, JobStatus, Overlap

MAX_SHOWN = 10


class Subject(NamedTuple):
    """Schedule to simulate; `job_id` is None for a rule that is not stored."""

    name: str
    timetable: Timetable
    next_tick: datetime | None
    job_id: str | None = None

    def under(
        self, catch_up: CatchUp | None, max_catch_up: int | None, overlap: Overlap | None, *, start_given: bool
    ) -> "Subject":
        """Return the schedule under other rules; None keeps a rule, and `max_catch_up` belongs to `catch_up`.

        At a given start of the simulation, earlier ticks have been started.
        """
        table = self.timetable
        if catch_up is not None:
            table = replace(table, catch_up=catch_up, max_catch_up=max_catch_up)
        if overlap is not None:
            table = replace(table, overlap=overlap)
        return self._replace(timetable=table, next_tick=None if start_given else self.next_tick)


def subject_of(schedule: ActiveSchedule) -> Subject:
    return Subject(schedule.name or schedule.job_id, schedule.timetable, schedule.next_run_at, schedule.job_id)


def stored_subject(job: Job) -> Subject | None:
    """Return the schedule of a job; None unless it is a repeating job that is ACTIVE."""
    if job.timetable is None or job.status is not JobStatus.ACTIVE:
        return None
    return Subject(job.name or job.job_id, job.timetable, job.next_run_at, job.job_id)


class Forecasted(NamedTuple):
    subject: Subject
    load: SimulatedLoad


class LeftOut(NamedTuple):
    """Schedule that was not simulated, and the reason."""

    subject: Subject
    reason: str


@dataclass(slots=True)
class Forecast:
    """Loads of the schedules in their order, their sum, and the schedules that were left out."""

    period: SimulatedPeriod
    loads: list[Forecasted] = field(default_factory=list)
    total: SimulatedLoad = field(default_factory=SimulatedLoad)
    left_out: list[LeftOut] = field(default_factory=list)

    def collisions(self) -> list[tuple[datetime, int]]:
        """Return the seconds with most starts, at most MAX_SHOWN."""
        most = sorted(self.total.seconds.items(), key=lambda each: (-each[1], each[0]))[:MAX_SHOWN]
        return [(at, number) for at, number in most if number > 1]

    def by_name(self) -> dict[str, Counter[str]]:
        """Return the counts of the schedules with each name."""
        found: dict[str, Counter[str]] = {}
        for subject, load in self.loads:
            found.setdefault(subject.name, Counter()).update(load.counts())
        return found


def forecast(
    subjects: Sequence[Subject],
    period: SimulatedPeriod,
    *,
    seconds: float | None = None,
    advance: Counted = uncounted,
) -> Forecast:
    """Simulate schedules; schedules with the same rule follow each other, because its ticks are cached.

    No schedule is begun after `seconds`; None sets no limit. Calls `advance` with 1 after each schedule.
    """
    result, until = Forecast(period), None if seconds is None else time.monotonic() + seconds
    for subject in sorted(subjects, key=lambda each: (each.timetable.cron or "", each.timetable.timezone or "")):
        if until is not None and time.monotonic() >= until:
            result.left_out.append(LeftOut(subject, f"The simulation ended after {seconds:g} seconds."))
            continue
        try:
            load = simulate(subject.timetable, period, subject.next_tick)
        except (TaskExecutorError, ArithmeticError, ValueError) as error:
            result.left_out.append(LeftOut(subject, str(error)))
        else:
            result.loads.append(Forecasted(subject, load))
            result.total.add(load)
        advance(1)
    return result
