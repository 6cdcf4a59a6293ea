"""The scheduler as a process: start, outages, and end."""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.dev.stack.programs import Command
from app.dev.stack.stack_processes import Processes
from app.features.dead_letters import redrives
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrives import REDRIVES
from app.kernel import db
from app.kernel.db import Database
from app.kernel.processes.process_heartbeat import ProcessKind, processes
from app.scheduler.__main__ import EXIT_STUCK
from schema import migrate
from schema.states import BulkJobStatus
from tests import rows
from tests.cron_jobs import add_cron_job, add_interval_job, scheduled
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

Start = Callable[..., Child]
LETTERS = int(os.environ.get("TEST_LETTERS", "3000"))  # thousands; 100,000 with --timeout 900 take two minutes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `python -m app.scheduler` with the given settings; kill remaining processes after the test."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}
    processes = Processes(inherited, logs=tmp_path)

    def start(url: str | None, *, program: Command = programs.SCHEDULER, **settings: object) -> Child:
        given = {"TE_DATABASE_URL": url} if url else {}
        env = given | {name: str(value) for name, value in settings.items()}
        return processes.launch(f"scheduler-{len(processes.names)}", program, **env)

    yield start
    print(processes.output())  # pytest shows the output of a failed test
    processes.stop(timeout=0)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = db.connect(database_url, pool_size=2, application_name="te-test")
    rows.add_endpoint(database)
    yield database
    database.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_scheduler_works_until_a_signal_and_ends_cleanly(
    start: Start, database: Database, database_url: str, number: signal.Signals
) -> None:
    job_id = add_cron_job(database, missed=timedelta(minutes=3))
    (delayed,) = rows.add_executions(database, status="PENDING", due_in=timedelta(seconds=1))
    child = start(database_url)
    eventually(lambda: len(scheduled(database, job_id)) >= 3)
    eventually(lambda: rows.execution(database, delayed).status == "QUEUED")
    (alive,) = eventually(lambda: processes(database, ProcessKind.SCHEDULER))
    child.send(number)
    assert child.wait(60) == 0
    (ended,) = processes(database, ProcessKind.SCHEDULER)
    assert (alive.status, ended.status, ended.id) == ("ALIVE", "DEAD", alive.id)
    assert "scheduler stopped" in child.tail()
    assert "Traceback" not in child.tail()


def test_redrive_continues_after_its_scheduler_is_killed(start: Start, database: Database, database_url: str) -> None:
    """Two schedulers started afterwards redrive each remaining dead letter once."""
    failed = [letter for _ in range(LETTERS // 1_000) for letter in rows.add_letters(database, 1_000)]
    rate, patience = min(LETTERS // 3, 10_000), 60 + LETTERS / 500
    begun = redrives.begin(database, LetterFilter(), to_endpoint=None, rate=rate, actor=None)
    first = start(database_url)
    eventually(lambda: REDRIVES.get(database, begun.redrive_id).redriven >= LETTERS // 3, timeout=patience)
    first.kill()
    assert REDRIVES.get(database, begun.redrive_id).status is BulkJobStatus.RUNNING
    for _ in range(2):
        start(database_url)
    eventually(lambda: REDRIVES.get(database, begun.redrive_id).status is BulkJobStatus.DONE, timeout=patience)
    redriven = database.fetch(text("SELECT execution_id FROM execution_events WHERE reason = 'RETRIED_BY_HAND'"))
    assert sorted(row.execution_id for row in redriven) == sorted(failed)
    done = REDRIVES.get(database, begun.redrive_id)
    assert (done.redriven, done.refused) == (LETTERS, 0)


def test_stalled_chore_ends_the_process(start: Start, database: Database, database_url: str) -> None:
    """A process with a stalled chore would still serve metrics, and no supervisor would restart it."""
    child = start(database_url, program=("tests.acceptance.faults.blocked_scheduler",))
    assert child.wait(60) == EXIT_STUCK
    assert "the scheduler exits: its chore promote stalled" in child.tail()


def test_scheduler_without_a_database_exits_after_the_startup_timeout(start: Start) -> None:
    child = start(f"postgresql://nobody:secret@127.0.0.1:{free_port()}/none", TE_STARTUP_TIMEOUT_SEC=1)
    assert child.wait(60) == 1
    last = child.tail().splitlines()[-1]
    assert last.startswith("scheduler: gave up after 1 s: the database cannot be reached")
    assert "waiting for the database" in child.tail()
    assert "secret" not in child.tail()
    assert "Traceback" not in child.tail()


def test_scheduler_exits_when_the_database_is_not_migrated(start: Start, empty_database_url: str) -> None:
    child = start(empty_database_url, TE_STARTUP_TIMEOUT_SEC=0)
    assert child.wait(60) == 1
    assert "flask --app app db upgrade" in child.tail().splitlines()[-1]


@pytest.mark.parametrize("settings", [{}, {"TE_DATABASE_URL": "mysql://a:secret@b/c"}, {"TE_RETENTION_DAYS": "soon"}])
def test_wrong_setting_is_named_in_one_line(start: Start, settings: dict[str, str]) -> None:
    child = start(None, **settings)
    assert child.wait(60) == 1
    (line,) = child.tail().splitlines()
    assert (list(settings) or ["TE_DATABASE_URL"])[0] in line
    assert "secret" not in line


def test_signal_ends_the_wait_for_the_database(start: Start) -> None:
    child = start(f"postgresql://nobody@127.0.0.1:{free_port()}/none", TE_STARTUP_TIMEOUT_SEC=60)
    eventually(lambda: "waiting for the database" in child.tail())
    child.send(signal.SIGTERM)
    assert child.wait(60) == 0


def test_outage_of_the_database_is_logged_once_and_work_resumes(start: Start) -> None:
    with start_or_skip(Postgres()) as server:  # with fsync, because the test kills the server
        migrate.upgrade(server.url)
        database = db.connect(server.url, pool_size=2, application_name="te-test")
        rows.add_endpoint(database)
        first = add_cron_job(database, missed=timedelta(minutes=2))
        child = start(server.url, TE_CRON_TICK_INTERVAL_SEC=0.1, TE_PROMOTE_INTERVAL_MS=100)
        eventually(lambda: scheduled(database, first))
        for outage in (1, 2):
            server.kill()
            eventually(lambda n=outage: child.tail(1000).count("the scheduler retries") == n)  # type: ignore[misc]
            server.start()
            eventually(lambda n=outage: child.tail(1000).count("the database answers again") == n)  # type: ignore[misc]
        # The job is due now; only a full scan would find a job that was due before the watermark.
        second = add_interval_job(database, timedelta(minutes=1))
        eventually(lambda: scheduled(database, second))
        assert child.tail(1000).count("the scheduler retries") == 2
        assert "Traceback" not in child.tail(1000)
        child.send(signal.SIGTERM)
        assert child.wait(60) == 0
        database.close()
