"""Stalled rows and bulk jobs: attempts without a worker, and work that no scheduler continues."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

from app.kernel.formats import numbered
from app.kernel.sql import statement
from app.queue.bulk.bulk_job_runner import TURN_SECONDS
from app.queue.executions.materialization import due
from app.queue.executions.reclaim import reclaim
from app.queue.executions.reclaim_candidates import Candidate, candidates
from app.queue.jobs import unfinished_changes
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, START_SCHEDULER, Finding, counted, demand, listed, pause

LATE = timedelta(minutes=1)  # a scheduler that keeps up is never so late
_LATE_MS = LATE // timedelta(milliseconds=1)
_WATCHED_SECONDS, _POLL_SECONDS = 5.0, 0.2
# A bulk job that progresses is held at most twice at one cursor: by the turn that reached it and by the next turn.
_MAX_HOLDS = 2

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
UNDER_WAY = statement(
    "doctor.bulk_jobs",
    """
    (SELECT 'the redrive ' || redrive_id AS name, reached_at, reached_id, held_until,
            CAST(EXTRACT(EPOCH FROM now() - COALESCE(held_until, created_at)) AS BIGINT) AS left_for,
            COALESCE(held_until > now(), false) AS is_held
       FROM redrives WHERE status = 'RUNNING' ORDER BY redrive_id LIMIT :most)
    UNION ALL
    (SELECT 'the bulk operation ' || operation_id, reached_at, reached_id, held_until,
            CAST(EXTRACT(EPOCH FROM now() - COALESCE(held_until, created_at)) AS BIGINT),
            COALESCE(held_until > now(), false)
       FROM bulk_operations WHERE status = 'RUNNING' ORDER BY operation_id LIMIT :most)
    """,
)


def lost(context: ChoreContext) -> Iterator[Finding]:
    """Find executions of lost workers that a scheduler should have reclaimed by now."""
    settings = context.settings
    interval = min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds)
    yield from _unclaimed(context, None, interval, "run on a lost worker")


def stuck(context: ChoreContext) -> Iterator[Finding]:
    """Find executions that exceed the stuck timeout."""
    settings = context.settings
    stuck_ms = int(settings.stuck_timeout_seconds * 1000)
    problem = f"have been running for longer than TE_STUCK_EXECUTION_TIMEOUT_SEC ({settings.stuck_timeout_seconds:g})"
    yield from _unclaimed(context, stuck_ms, settings.reclaim_interval_seconds, problem)


def overdue(context: ChoreContext) -> Iterator[Finding]:
    """Find due schedules and delayed executions that no scheduler has moved."""
    jobs, _, _ = due(context.database, ahead_ms=-_LATE_MS, limit=MAX_COUNTED)
    if jobs:
        since = (jobs[0].now - jobs[0].next_run_at).total_seconds()
        problem = f"{counted(len(jobs), 'repeating job', 'are overdue')}, the first for {since:.0f} s "
        yield Finding("schedules", f"{problem}({listed([job.job_id for job in jobs])})", START_SCHEDULER)
    params = {"late_ms": _LATE_MS, "most": MAX_COUNTED}
    number = sum(context.database.fetch(OVERDUE, params | {"shard": shard})[0].n for shard in range(context.shards))
    if number:
        yield Finding("schedules", counted(number, "execution", "are due, but PENDING yet"), START_SCHEDULER)


def cut_off(context: ChoreContext) -> Iterator[Finding]:
    """Find interrupted changes of jobs."""

    def finish() -> int:
        finished, queues, _ = unfinished_changes.finish(
            context.database, context.ahead_ms, limit=MAX_COUNTED, stopping=context.stopping
        )
        context.hint_all(queues)
        return finished

    number = context.database.fetch(CUT_OFF)[0].n
    if number:
        problem = numbered(number, "large change", "were interrupted, each of a job with very many executions")
        yield Finding("executions", problem, "--fix completes them, as a scheduler would", finish)


def bulk_jobs(context: ChoreContext) -> Iterator[Finding]:
    """Find redrives and bulk operations that are not paused and make no progress."""
    rows = context.database.fetch(UNDER_WAY, {"most": MAX_COUNTED})
    # A bulk job waits for a turn of each other bulk job.
    late = LATE.total_seconds() + len(rows) * TURN_SECONDS
    if left := sorted(row.name for row in rows if row.left_for > late):
        yield Finding("bulk_jobs", f"no scheduler continues {listed(left)}", START_SCHEDULER)
    if any(row.is_held for row in rows) and (stuck := _without_progress(context)):
        problem = f"schedulers try to continue {listed(stuck)} and fail"
        fix = "their log has the reason (`could not continue`); stop a bulk job that is not needed (`POST .../stop`)"
        yield Finding("bulk_jobs", problem, fix)


def _without_progress(context: ChoreContext) -> list[str]:
    """Poll for a while, and return the bulk jobs that were held repeatedly at the same cursor."""
    demand(context, _WATCHED_SECONDS)
    holds = set[tuple[object, ...]]()
    until = time.monotonic() + _WATCHED_SECONDS
    while time.monotonic() < until:
        rows = context.database.fetch(UNDER_WAY, {"most": MAX_COUNTED})
        holds |= {(row.name, row.reached_at, row.reached_id, row.held_until) for row in rows if row.is_held}
        time.sleep(_POLL_SECONDS)
    at_cursor = Counter(hold[:3] for hold in holds)
    return sorted({str(name) for (name, *_), number in at_cursor.items() if number > _MAX_HOLDS})


def _unclaimed(context: ChoreContext, stuck_ms: int | None, interval: float, problem: str) -> Iterator[Finding]:
    find = partial(candidates, context.database, stuck_ms=stuck_ms, limit=MAX_COUNTED)
    first = {(each.tried.execution_id, each.tried.attempt) for each in find()}
    if not first:
        return
    # Read twice: a scheduler may be about to reclaim them.
    pause(context, interval * 1.5)
    left = [each for each in find() if (each.tried.execution_id, each.tried.attempt) in first]
    if left:
        fix = f"--fix ends these attempts, by the retry policies of their endpoints; {START_SCHEDULER}"
        repair = partial(_reclaim, context, stuck_ms, left)
        yield Finding("executions", counted(len(left), "execution", problem), fix, repair)


def _reclaim(context: ChoreContext, stuck_ms: int | None, found: Sequence[Candidate]) -> int:
    done = reclaim(context.database, found, stuck_ms=stuck_ms)
    context.hint_all(done.queues)
    return done.retrying + done.failed + done.cancelled + done.ignored
