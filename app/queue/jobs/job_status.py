"""Status of a job: its last, open and next executions, and the statistics of the last 24 hours."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from app.kernel.db import Database, chunked_scan
from app.kernel.formats import MICROSECOND
from app.kernel.sql import statement
from app.queue.jobs import job_queries
from app.queue.jobs.job_model import Job
from app.schedule.cron import Schedule
from app.schedule.preview import NextRun, runs
from schema.states import FINAL, ExecutionStatus

HEALTHY_SHARE = 0.95
DEGRADED_SHARE = 0.5

# Bounds of the statistics of a repeating job: older executions that ended within 24 hours are ignored, and so are all
# but the newest of a job that runs every few seconds. A one-shot job's execution always counts.
_CREATED_WITHIN = timedelta(hours=48)
NEWEST = 5_000
# Executions cancelled before they began are skipped in the search for the last execution; there may be very many.
LATEST = 100  # newest executions of each final status that the search reads
OPEN = 10_000
_EVER = timedelta(days=36_600)

# Bounded for any number of executions: open executions are read by their own index in id order (oldest first on
# PostgreSQL), and each final status by its index from the newest.
_BY_STATUS = {
    status: f"status = '{status}' AND completed_at IS NOT NULL" for status in ExecutionStatus if status in FINAL
}
_LAST_OF_EACH = "\n            UNION ALL ".join(
    f"""(
              SELECT * FROM (
                SELECT execution_id, status, started_at, completed_at, attempt_count, created_at FROM executions
                 WHERE job_id = :job_id AND {of_status}
                 ORDER BY created_at DESC, execution_id DESC LIMIT {LATEST}) AS latest
               WHERE started_at IS NOT NULL
               ORDER BY created_at DESC, execution_id DESC LIMIT 1)"""  # noqa: S608 - constants of this module
    for of_status in _BY_STATUS.values()
)
_NEWEST_OF_EACH = "\n                    UNION ALL ".join(
    f"""(
                      SELECT status, completed_at, duration_ms, created_at, execution_id FROM executions
                       WHERE job_id = :job_id AND {_BY_STATUS[status]}
                         AND created_at > now() - CAST(:created_within_ms AS BIGINT) * INTERVAL '1 millisecond'
                       ORDER BY created_at DESC, execution_id DESC LIMIT :newest)"""  # noqa: S608 - as above
    for status in (ExecutionStatus.SUCCESS, ExecutionStatus.FAILED)
)
FIGURES = statement(
    "jobs.figures",
    """
    WITH unfinished AS MATERIALIZED (
      SELECT execution_id, status, started_at, completed_at, attempt_count, created_at FROM executions
       WHERE completed_at IS NULL AND (job_id, execution_id) >= (CAST(:job_id AS TEXT), '')
         AND job_id <= CAST(:job_id AS TEXT)
       ORDER BY job_id, execution_id LIMIT {open})
    SELECT a.pending, a.running, s.succeeded, s.failed, s.avg_duration_ms, s.p99_duration_ms,
           l.execution_id, l.status, l.started_at, l.completed_at, l.attempt_count
      FROM (SELECT count(CASE WHEN status <> 'RUNNING' THEN 1 END) AS pending,
                   count(CASE WHEN status = 'RUNNING' THEN 1 END) AS running
              FROM unfinished) AS a
     CROSS JOIN
           (SELECT count(CASE WHEN status = 'SUCCESS' THEN 1 END) AS succeeded,
                   count(CASE WHEN status = 'FAILED' THEN 1 END) AS failed,
                   CAST(avg(duration_ms) AS DOUBLE PRECISION) AS avg_duration_ms,
                   percentile_disc(0.99) WITHIN GROUP (ORDER BY duration_ms) AS p99_duration_ms
              FROM (SELECT * FROM (
                    {newest_of_each}) AS newest_of_each
                     ORDER BY created_at DESC, execution_id DESC LIMIT :newest) AS newest
             WHERE completed_at > now() - INTERVAL '24 hours') AS s
      LEFT JOIN
           (SELECT * FROM (
            {last_of_each}
            UNION ALL SELECT * FROM unfinished WHERE started_at IS NOT NULL) AS last_of_each
             ORDER BY created_at DESC, execution_id DESC LIMIT 1) AS l ON true
    """,
    open=OPEN,
    newest_of_each=_NEWEST_OF_EACH,
    last_of_each=_LAST_OF_EACH,
)


class Health(StrEnum):
    """Rating of a job by its success rate over the last 24 hours."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    FAILING = "FAILING"
    IDLE = "IDLE"


class LastExecution(NamedTuple):
    execution_id: str
    status: ExecutionStatus
    started_at: datetime
    completed_at: datetime | None
    attempt_number: int


class DayStats(NamedTuple):
    """Executions that ended within the last 24 hours; durations in milliseconds, None without any.

    For a repeating job, only the NEWEST executions count, and only if created within 48 hours.
    """

    succeeded: int
    failed: int
    avg_duration_ms: int | None
    p99_duration_ms: int | None

    @property
    def total(self) -> int:
        """Return the number of executions that succeeded or failed; cancelled executions do not count."""
        return self.succeeded + self.failed

    @property
    def health(self) -> Health:
        if self.total == 0:
            return Health.IDLE
        share = self.succeeded / self.total
        if share >= HEALTHY_SHARE:
            return Health.HEALTHY
        return Health.DEGRADED if share >= DEGRADED_SHARE else Health.FAILING


class JobStatusReport(NamedTuple):
    job: Job
    last_execution: LastExecution | None
    pending: int
    running: int
    stats: DayStats


def status_of(database: Database, job_id: str, *, newest: int = NEWEST) -> JobStatusReport:
    """Report on a job of any trigger; raises JobNotFoundError."""
    job = job_queries.get_job(database, job_id)
    created_within = _CREATED_WITHIN if job.trigger.repeats else _EVER
    params = {"job_id": job_id, "created_within_ms": created_within // timedelta(milliseconds=1), "newest": newest}
    (row,) = chunked_scan.in_order(database, FIGURES, params)
    last = None
    if row.execution_id is not None:
        last = LastExecution(
            row.execution_id, ExecutionStatus(row.status), row.started_at, row.completed_at, row.attempt_count
        )
    average = None if row.avg_duration_ms is None else round(row.avg_duration_ms)
    stats = DayStats(row.succeeded, row.failed, average, row.p99_duration_ms)
    return JobStatusReport(job, last, row.pending, row.running, stats)


def next_runs(job: Job, count: int) -> list[NextRun]:
    """Return up to `count` next runs, at most one of a fixed delay; none if the job is paused or retired."""
    table, tick = job.timetable, job.next_run_at
    if table is None:
        execution = job.execution
        if execution is None or job.paused_at is not None:
            return []
        return [_run(execution.run_at)] if execution.status in {ExecutionStatus.PENDING, ExecutionStatus.QUEUED} else []
    if tick is None or table.is_over(tick):
        return []
    if table.cron is not None:
        return runs(Schedule.parse(table.cron, table.timezone or ""), tick - MICROSECOND, count, table.ends_at)
    found: list[NextRun] = []
    while tick is not None and len(found) < (1 if table.fixed_delay else count):
        found.append(_run(tick))
        tick = table.next_after(tick)
    return found


def _run(instant: datetime) -> NextRun:
    return NextRun(instant, instant.astimezone(UTC), None)
