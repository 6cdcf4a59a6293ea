"""Rows that stand still: attempts without a worker, executions without attempts left, what no scheduler has moved."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from app.features.dead_letters import metrics as dead_letters_metrics
from app.features.doctor.finding import MOST, Finding, Patient, counted
from app.kernel.sql import statement
from app.queue.executions import reclaim, repairs
from app.queue.executions.materialization import due
from app.queue.executions.reclaim import Candidate, Reclaimed
from app.queue.jobs import unfinished_changes
from app.web.services import wake

LATE = timedelta(minutes=1)  # a scheduler that keeps up is never so late
_MOST_NAMED = 5
_LATE_MS = LATE // timedelta(milliseconds=1)
_SCHEDULER = "start a scheduler (`python -m app.scheduler`), or look into its log: none runs, or none keeps up"

OVERDUE = statement(
    "doctor.overdue",
    """
    SELECT count(*) AS n FROM (
      SELECT execution_id FROM executions
       WHERE shard = :shard AND status = 'PENDING' AND NOT on_hold
         AND run_at < now() - CAST(:late_ms AS BIGINT) * INTERVAL '1 millisecond'
       ORDER BY run_at, execution_id LIMIT :most) AS late
    """,
)
CUT_OFF = statement(
    "doctor.cut_off",
    "SELECT count(*) AS n FROM unfinished_changes WHERE began_at < now() - INTERVAL '5 minutes'",
)


def lost(patient: Patient) -> Iterator[Finding]:
    """Find what runs on workers that are gone, for longer than a scheduler needs to notice."""
    settings = patient.services.settings
    pause = min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds)
    find = partial(reclaim.lost, patient.database, limit=MOST)
    take = partial(reclaim.reclaim_lost, patient.database)
    yield from _unclaimed(find, take, pause, "run on workers that are gone")


def stuck(patient: Patient) -> Iterator[Finding]:
    """Find what was claimed longer ago than the stuck timeout allows."""
    settings = patient.services.settings
    stuck_ms = int(settings.stuck_timeout_seconds * 1000)
    find = partial(reclaim.stuck, patient.database, stuck_ms=stuck_ms, limit=MOST)
    take = partial(reclaim.reclaim_stuck, patient.database, stuck_ms=stuck_ms)
    problem = f"have been running for longer than TE_STUCK_EXECUTION_TIMEOUT_SEC ({settings.stuck_timeout_seconds:g})"
    yield from _unclaimed(find, take, settings.reclaim_interval_seconds, problem)


def exhausted(patient: Patient) -> Iterator[Finding]:
    """Find what waits although all its attempts are used up."""
    number = len(repairs.exhausted(patient.database, limit=MOST))
    if number:
        problem = f"{counted(number, 'executions')} wait although their attempts are used up: somebody edited them"
        repair = partial(_until_none, partial(repairs.fail_exhausted, patient.database, limit=100))
        yield Finding("executions", problem, "--fix fails them, as a scheduler would within five minutes", repair)


def overdue(patient: Patient) -> Iterator[Finding]:
    """Find schedules and delayed executions that are due and that no scheduler has moved."""
    jobs = due(patient.database, ahead_ms=-_LATE_MS, limit=MOST).jobs
    if jobs:
        named = ", ".join(job.job_id for job in jobs[:_MOST_NAMED]) + (", …" if len(jobs) > _MOST_NAMED else "")
        since = (jobs[0].now - jobs[0].next_run_at).total_seconds()
        problem = f"{counted(len(jobs), 'repeating jobs')} are overdue, the first for {since:.0f} s ({named})"
        yield Finding("schedules", problem, _SCHEDULER)
    params = {"late_ms": _LATE_MS, "most": MOST}
    number = sum(patient.database.fetch(OVERDUE, params | {"shard": shard})[0].n for shard in patient.shards)
    if number:
        yield Finding("schedules", f"{counted(number, 'executions')} are due, but PENDING yet", _SCHEDULER)


def cut_off(patient: Patient) -> Iterator[Finding]:
    """Find changes of jobs that ended in the middle."""
    number = patient.database.fetch(CUT_OFF)[0].n
    if number:
        problem = f"{number} changes of jobs with very many executions ended in the middle"
        repair = partial(_finish, patient)
        yield Finding("executions", problem, "--fix ends them, as a scheduler would", repair)


def late_ends(patient: Patient) -> Iterator[Finding]:
    """Find ends of which something has not followed."""
    number = dead_letters_metrics.late_ends(patient.database, late_seconds=LATE.total_seconds())
    if number:
        problem = f"of {counted(number, 'ends')} something has not followed, such as a dead letter"
        yield Finding("ends", problem, f"look for `outbox` in the log of workers and schedulers; {_SCHEDULER}")


def _unclaimed(
    find: Callable[[], Sequence[Candidate]],
    take: Callable[[Sequence[Candidate]], Reclaimed],
    pause: float,
    problem: str,
) -> Iterator[Finding]:
    first = {(each.tried.execution_id, each.tried.attempt) for each in find()}
    if not first:
        return
    # A scheduler may be about to take them.
    time.sleep(pause * 1.5)
    left = [each for each in find() if (each.tried.execution_id, each.tried.attempt) in first]
    if left:
        fix = f"--fix ends these attempts, by the retry policies of their endpoints; {_SCHEDULER}"
        yield Finding("executions", f"{counted(len(left), 'executions')} {problem}", fix, partial(_take, take, left))


def _take(take: Callable[[Sequence[Candidate]], Reclaimed], found: Sequence[Candidate]) -> int:
    done = take(found)
    for queue in done.queues:
        wake(queue)
    return done.retrying + done.failed + done.cancelled + done.ignored


def _finish(patient: Patient) -> int:
    services = patient.services
    done = unfinished_changes.finish(services.database, services.look_ahead_ms, limit=MOST, stopping=lambda: False)
    for queue in done.queues:
        wake(queue)
    return done.changes


def _until_none(do_batch: Callable[[], int]) -> int:
    done = 0
    while number := do_batch():
        done += number
    return done
