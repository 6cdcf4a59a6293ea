"""Rate at which one, two and four schedulers turn due ticks into executions."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg2

from app.dev.process.child import Child, ChildError
from app.dev.stack import programs
from benchmarks import backlog, machine
from benchmarks.contenders.contender import check, ended
from benchmarks.contenders.ours import Ours, settle
from benchmarks.history import id_of
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

SCHEDULERS = (1, 2, 4)

RATE = Figure("ticks (10-90 %)", "1/s")
RATIO = Figure("ticks, relative to one scheduler in the same round", "", 2)
SCHEDULER_CPU = Figure("CPU of the schedulers a tick, with their start", "ms", 3)
DATABASE_CPU = Figure("CPU of PostgreSQL a tick", "ms", 3)

_KEPT = "scheduler-1"
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 600.0

# Each job is due once, now, and then in the next year.
_FILL = f"""
    INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                      max_attempts, cron_expression, cron_timezone, cron_starts_at, cron_next_run_at)
    SELECT {id_of("job", "clock_timestamp()")}, %s, 1, 'HTTP', 'CRON', CAST(gen_random_uuid() AS TEXT), '{{}}', 3,
           '0 0 1 1 *', 'UTC', now(), now()
      FROM generate_series(1, %s)
"""
_IS_DUE = "SELECT 1 FROM jobs WHERE cron_next_run_at <= now() LIMIT 1"
_TIMES = "SELECT extract(epoch FROM created_at) FROM executions ORDER BY created_at"


def measure(run: Run, ours: Ours, url: str, due: int, rounds: int) -> Section:
    """Materialise `due` jobs by each number of schedulers in turn; every second round in the opposite order."""
    section = run.section(f"Ticks of {due:,} due jobs")
    endpoint = ours.endpoint(url)
    ours.stack.terminate(_KEPT)
    for number in range(rounds):
        run.calibrate()
        turns = SCHEDULERS if number % 2 == 0 else reversed(SCHEDULERS)
        figures = {count: _materialise(ours, endpoint, due, count) for count in turns}
        for count in SCHEDULERS:
            column = f"ours, {count} scheduler{'' if count == 1 else 's'}"
            for figure, value in figures[count].items():
                section.add(figure, column, value)
            section.add(RATIO, column, figures[count][RATE] / figures[1][RATE])
    run.calibrate()
    ours.stack.start_process(_KEPT)
    return section


def _materialise(ours: Ours, endpoint: str, due: int, count: int) -> dict[Figure, float]:
    database_url, database_pid = ours.stack.database_url, ours.database_pid or 0
    with closing(psycopg2.connect(database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(_FILL, (endpoint, due))
    settle(database_url)
    before = machine.cpu_seconds(database_pid)
    with _schedulers(ours, count) as schedulers:
        _wait(database_url, schedulers)
        used = machine.cpu_seconds(*(scheduler.pid for scheduler in schedulers))
    database = machine.cpu_seconds(database_pid) - before
    times = [float(at) for (at,) in _rows(database_url, _TIMES)]
    backlog.clear(database_url)
    steady = times[due // 10 : due * 9 // 10]
    return {
        RATE: len(steady) / max(steady[-1] - steady[0], 1e-6),
        SCHEDULER_CPU: used / due * 1000,
        DATABASE_CPU: database / due * 1000,
    }


@contextmanager
def _schedulers(ours: Ours, count: int) -> Iterator[list[Child]]:
    """Start schedulers, and stop them at the end."""
    first = len(ours.stack.names)
    with ExitStack() as stack:
        names = [f"ticks-{number}" for number in range(first, first + count)]
        yield [stack.enter_context(ended(ours.stack.launch(name, programs.SCHEDULER))) for name in names]


def _wait(database_url: str, schedulers: list[Child]) -> None:
    """Wait until no job is due; raises ChildError if a scheduler ends, or after ten minutes."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _rows(database_url, _IS_DUE):
        check(schedulers)
        if time.monotonic() > deadline:
            raise ChildError(f"jobs are still due after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


def _rows(database_url: str, query: str) -> list[Any]:
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
