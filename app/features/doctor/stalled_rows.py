"""Stalled rows: attempts without a worker, and due rows that no scheduler has moved."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

from app.kernel.sql import statement
from app.queue.executions.materialization import due
from app.queue.executions.reclaim import Candidate, candidates, reclaim
from app.queue.jobs import unfinished_changes
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, START_SCHEDULER, Finding, counted

LATE = timedelta(minutes=1)  # a scheduler that keeps up is never so late
_MOST_NAMED = 5
_LATE_MS = LATE // timedelta(milliseconds=1)

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


def lost(context: ChoreContext) -> Iterator[Finding]:
    """Find executions of lost workers that a scheduler should have reclaimed by now."""
    settings = context.settings
    pause = min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds)
    yield from _unclaimed(context, None, pause, "run on workers that are gone")


def stuck(context: ChoreContext) -> Iterator[Finding]:
    """Find executions that exceed the stuck timeout."""
    settings = context.settings
    stuck_ms = int(settings.stuck_timeout_seconds * 1000)
    problem = f"have been running for longer than TE_STUCK_EXECUTION_TIMEOUT_SEC ({settings.stuck_timeout_seconds:g})"
    yield from _unclaimed(context, stuck_ms, settings.reclaim_interval_seconds, problem)


def overdue(context: ChoreContext) -> Iterator[Finding]:
    """Find due schedules and delayed executions that no scheduler has moved."""
    jobs = due(context.database, ahead_ms=-_LATE_MS, limit=MAX_COUNTED).jobs
    if jobs:
        named = ", ".join(job.job_id for job in jobs[:_MOST_NAMED]) + (", …" if len(jobs) > _MOST_NAMED else "")
        since = (jobs[0].now - jobs[0].next_run_at).total_seconds()
        problem = f"{counted(len(jobs), 'repeating jobs')} are overdue, the first for {since:.0f} s ({named})"
        yield Finding("schedules", problem, START_SCHEDULER)
    params = {"late_ms": _LATE_MS, "most": MAX_COUNTED}
    number = sum(context.database.fetch(OVERDUE, params | {"shard": shard})[0].n for shard in range(context.shards))
    if number:
        yield Finding("schedules", f"{counted(number, 'executions')} are due, but PENDING yet", START_SCHEDULER)


def cut_off(context: ChoreContext) -> Iterator[Finding]:
    """Find interrupted changes of jobs."""
    number = context.database.fetch(CUT_OFF)[0].n
    if number:
        problem = f"{number} changes of jobs with very many executions were interrupted"
        repair = partial(_finish, context)
        yield Finding("executions", problem, "--fix completes them, as a scheduler would", repair)


def _unclaimed(context: ChoreContext, stuck_ms: int | None, pause: float, problem: str) -> Iterator[Finding]:
    find = partial(candidates, context.database, stuck_ms=stuck_ms, limit=MAX_COUNTED)
    first = {(each.tried.execution_id, each.tried.attempt) for each in find()}
    if not first:
        return
    # Read twice: a scheduler may be about to reclaim them.
    time.sleep(pause * 1.5)
    left = [each for each in find() if (each.tried.execution_id, each.tried.attempt) in first]
    if left:
        fix = f"--fix ends these attempts, by the retry policies of their endpoints; {START_SCHEDULER}"
        yield Finding(
            "executions", f"{counted(len(left), 'executions')} {problem}", fix, partial(_take, context, stuck_ms, left)
        )


def _take(context: ChoreContext, stuck_ms: int | None, found: Sequence[Candidate]) -> int:
    done = reclaim(context.database, found, stuck_ms=stuck_ms)
    context.hint_all(done.queues)
    return done.retrying + done.failed + done.cancelled + done.ignored


def _finish(context: ChoreContext) -> int:
    done = unfinished_changes.finish(context.database, context.ahead_ms, limit=MAX_COUNTED, stopping=context.stopping)
    context.hint_all(done.queues)
    return done.changes
