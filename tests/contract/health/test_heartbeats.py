"""Heartbeats: one row per process, DEAD after a clean end; a heartbeat delays nothing, and old rows are deleted."""

import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.processes.clock_offset import read_clocks
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, ProcessKind, ProcessRecord, beat, leave, processes
from app.kernel.processes.region import REGION, evaluate
from tests import rows
from tests.contract.conftest import worker_process
from tests.contract.scheduler.conftest import chores
from tests.frozen import frozen
from tests.waiting import eventually


@pytest.fixture
def lease(database_url: str) -> Iterator[Database]:
    lease = db.connect(database_url, pool_size=1, application_name="te-test-lease")
    yield lease
    lease.close()


def only(database: Database, kind: ProcessKind) -> ProcessRecord:
    (process,) = eventually(lambda: processes(database, kind), what="a heartbeat")
    return process


def test_worker_writes_heartbeats_until_its_end_and_marks_itself_dead(
    database: Database, database_url: str, lease: Database
) -> None:
    own = db.connect(database_url, pool_size=5, application_name="te-test-worker")
    process = worker_process(own, lease)
    process.open(["http"])
    found = only(database, ProcessKind.WORKER)
    assert (found.region, found.id, found.status) == (REGION, process.worker_id, "ALIVE")
    eventually(lambda: only(database, ProcessKind.WORKER).last_beat_at > found.last_beat_at, what="the next heartbeat")
    process.close()
    ended = only(database, ProcessKind.WORKER)
    assert (ended.status, ended.started_at, ended.pid) == ("DEAD", found.started_at, found.pid)
    assert found.started_at <= rows.database_now(database)


def test_offset_of_the_clock_is_within_its_bound_after_a_pause_between_two_readings(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monotonic, pauses = time.monotonic, [0.02]

    def after_a_pause() -> float:
        paused_until = monotonic() + (pauses.pop() if pauses else 0)
        while monotonic() < paused_until:
            pass
        return monotonic()

    database.fetch(text("SELECT 1"))
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", after_a_pause)
        found = read_clocks(database)
    # Process and database share a machine, so the clocks agree.
    assert abs(found.ahead) <= found.bound


@pytest.mark.postgresql_only
def test_locked_heartbeat_table_does_not_delay_lease_renewals_or_the_end(
    database: Database, database_url: str, lease: Database
) -> None:
    own = db.connect(database_url, pool_size=5, application_name="te-test-worker")
    process = worker_process(own, lease, lease_seconds=6.0)
    renewed = text("SELECT 1 FROM workers WHERE last_beat_at > started_at AND status = 'ALIVE'")
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE region_heartbeats IN ACCESS EXCLUSIVE MODE"))
        process.open(["http"])
        eventually(lambda: database.fetch(renewed), what="a renewal")
        process.close()
        assert database.fetch(text("SELECT status FROM workers"))[0].status == "DEAD"
    assert processes(database, ProcessKind.WORKER) == []


@pytest.mark.postgresql_only  # freezes the server process of one connection
def test_hanging_database_does_not_delay_the_end(database: Database, database_url: str) -> None:
    own = db.connect(database_url, pool_size=1, application_name="te-test-web")
    thread = HealthThread(own, Component(REGION, ProcessKind.WEB))
    thread.start()
    only(database, ProcessKind.WEB)
    with frozen(own):
        assert not thread.stop(), "stop() waited for the database"
    eventually(lambda: only(database, ProcessKind.WEB).status == "DEAD", what="the last heartbeat")
    own.close()


def test_unreachable_database_is_logged_once_and_the_thread_ends(caplog: pytest.LogCaptureFixture) -> None:
    unreachable = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test-away")
    thread = HealthThread(unreachable, Component(REGION, ProcessKind.WEB))
    thread.start()
    eventually(lambda: "could not write the heartbeat" in caplog.text, what="the warning")
    assert thread.stop(30)
    assert caplog.text.count("could not write the heartbeat") == 1


def test_late_heartbeat_of_an_ended_process_changes_nothing(database: Database) -> None:
    component = Component(REGION, ProcessKind.SCHEDULER)
    beat(database, component)
    leave(database, component)
    ended = only(database, ProcessKind.SCHEDULER)
    beat(database, component)
    assert only(database, ProcessKind.SCHEDULER).last_beat_at == ended.last_beat_at
    assert (ended.status, ended.id) == ("DEAD", component.id)


def test_heartbeat_rows_of_a_newer_release_hide_no_process(database: Database) -> None:
    """Two releases run at once during an upgrade or a downgrade."""
    other = """
        INSERT INTO region_heartbeats (region, component, status, metadata)
        SELECT 'default', component, status, CAST(metadata AS JSONB) || jsonb_build_object('started_at', now())
          FROM (VALUES ('archiver/1', 'ALIVE', '{"host": "h", "pid": 1, "version": "9"}'),
                       ('web/2', 'FROZEN', '{"host": "h", "pid": 1, "version": "9"}'),
                       ('web/3', 'ALIVE', '{}'), ('web/4', 'ALIVE', NULL)) AS t (component, status, metadata)"""
    database.fetch(text(other + " RETURNING 1"))
    component = Component(REGION, ProcessKind.WEB)
    beat(database, component)
    assert [process.id for process in processes(database)] == [component.id]
    assert only(database, ProcessKind.WEB).id == component.id


def test_old_heartbeats_of_dead_processes_are_deleted(database: Database) -> None:
    dead = """
        INSERT INTO region_heartbeats (region, component, status, last_beat_at)
        SELECT 'default', 'worker/' || n, 'DEAD', now() - (5 + n % 2 * 10) * INTERVAL '1 minute'
          FROM generate_series(1, 5000) AS n"""
    database.fetch(text(dead))
    component = Component(REGION, ProcessKind.WORKER)
    beat(database, component)
    assert chores(database).prune_heartbeats()["heartbeats"] == 2500
    (left,) = database.fetch(text("SELECT count(*) AS n FROM region_heartbeats"))
    assert left.n == 2501
    database.fetch(text("UPDATE region_heartbeats SET last_beat_at = now() - INTERVAL '1 hour'"))
    chores(database).prune_heartbeats()
    beat(database, component)
    assert only(database, ProcessKind.WORKER).id == component.id, "a living process writes a new row"


def test_evaluator_ends_when_it_is_stopped() -> None:
    stopping = threading.Event()
    thread = threading.Thread(target=evaluate, args=[stopping])
    thread.start()
    stopping.set()
    thread.join(30)
    assert not thread.is_alive()
