"""The finalizer while the database fails: nothing finished is dropped, and no row holds up the others."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from app import db, ids, workers
from app.db import Database
from app.executions.claim import claim_batch
from app.executions.conclusion import Conclusion
from app.executions.model import Claim, LogLine
from app.executions.verdict import Verdict
from brokers.counters import Counters
from brokers.finalizer import Finalizer
from schema.states import LogLevel
from tests import rows
from tests.contract.broker.faults import Faults
from tests.pg_proxy import PgProxy
from tests.waiting import eventually

WORKER = "wrk_1"
OUTPUT = {"status_code": 200, "body": "as it was answered"}

# None of these says anything about a row: it is the server, the cluster, the disk, the way there, or another session.
DATABASES_FAULTS = [
    *("08P01", "0A000", "25006", "40001", "40003", "53100", "53200", "53300", "55P03", "55000", "57014", "57P01"),
    *("58030", "58C00", "58C01", "F0000", "P0001", "XX000", "XXUUU"),
]
ROWS_FAULTS = ["22P05", "23505", "54000"]


@pytest.fixture
def faults(database: Database) -> Faults:
    if database.is_cockroach:
        pytest.skip("needs PL/pgSQL to fail on demand")
    return Faults(database)


class Running:
    """A finalizer at work, and the claims whose ends it writes."""

    def __init__(self, database: Database, own: Database) -> None:
        self.database = database
        self.counters = Counters()
        self.finalizer = Finalizer(own, WORKER, self.counters)
        lease_ms = 600_000
        workers.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms)
        self.finalizer.start()

    def claim(self, count: int) -> list[Claim]:
        """Claim new executions, in the order of their ids."""
        rows.add_executions(self.database, count, max_attempts=3)
        claims = claim_batch(self.database, queue="http", shard=0, worker_id=WORKER, limit=count, ahead_ms=0).claims
        return sorted(claims, key=lambda claim: claim.execution_id)

    def end(self, *claims: Claim, output: dict[str, object] | None = None) -> None:
        """Submit that these succeeded."""
        for claim in claims:
            verdict = Verdict.success(output or OUTPUT)
            logs = (LogLine(LogLevel.INFO, "it's delivered"),)
            self.finalizer.submit(Conclusion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, logs))

    def ended(self, *claims: Claim) -> bool:
        """Return whether all of these are written in full."""
        found = [rows.execution(self.database, claim.execution_id) for claim in claims]
        return all(row.status == "SUCCESS" and row.output == OUTPUT for row in found)

    def wait_for(self, *claims: Claim) -> None:
        """Wait until these are written in full."""
        eventually(lambda: self.ended(*claims), what="the results")


Run = Callable[[Database], Running]


@pytest.fixture
def run(database: Database) -> Iterator[Run]:
    """Start a finalizer on a way to the database; ended afterwards, whatever it still has."""
    started: list[Running] = []

    def start(own: Database) -> Running:
        started.append(Running(database, own))
        return started[-1]

    yield start
    for running in started:
        running.finalizer.abandon()
        running.finalizer.stop(60)


@pytest.fixture
def impatient(database_url: str) -> Iterator[Database]:
    """The same database, on connections that wait a second for a lock."""
    own = db.connect(database_url, pool_size=2, application_name="te-own", statement_timeout_seconds=2)
    with closing(own):
        yield own


@contextmanager
def locked(database: Database, claim: Claim) -> Iterator[None]:
    """Hold the lock on an execution, as an open session of an operator does."""
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": claim.execution_id})
        yield


@pytest.mark.parametrize("state", [*DATABASES_FAULTS, "42501", "42P01"])
def test_what_the_database_cannot_write_now_is_written_later_in_full(
    database: Database, faults: Faults, run: Run, state: str
) -> None:
    running = run(database)
    claims = running.claim(8)
    faults.set(state)
    running.end(*claims)
    eventually(lambda: faults.met() >= 6, what="several tries")
    faults.clear()
    assert running.finalizer.flush(60)
    assert running.ended(*claims)
    assert running.counters.snapshot() == {"concluded": 8}


@pytest.mark.parametrize("state", DATABASES_FAULTS)
def test_a_row_that_cannot_be_written_holds_up_no_other_and_is_not_dropped(
    database: Database, faults: Faults, run: Run, state: str
) -> None:
    running = run(database)
    odd, *others = running.claim(40)
    faults.set(state, odd.execution_id)
    running.end(odd, *others)
    running.wait_for(*others)
    later = running.claim(3)
    running.end(*later)
    running.wait_for(*later)
    assert running.finalizer.pending() == {odd.key}
    faults.clear()
    assert running.finalizer.flush(60)
    assert running.ended(odd)
    assert running.counters.snapshot() == {"concluded": 43}


@pytest.mark.parametrize("state", ROWS_FAULTS)
def test_a_row_that_is_refused_holds_up_nothing_and_ends_bare_once_it_can(
    database: Database, faults: Faults, run: Run, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    odd, *others = running.claim(40)
    faults.set(state, odd.execution_id, message="as it was answered: hunter2\nDETAIL: hunter2")
    running.end(odd, *others, output={"body": "hunter2"})
    eventually(lambda: rows.statuses(database) == {"RUNNING": 1, "SUCCESS": 39})
    assert running.finalizer.flush(60), "what is refused for good delays no shutdown"
    assert running.finalizer.pending() == {odd.key}
    faults.clear()
    eventually(lambda: rows.execution(database, odd.execution_id).status == "SUCCESS")
    assert rows.execution(database, odd.execution_id).output is None
    assert running.counters.snapshot()["results_refused"] == 1
    assert f"SQLSTATE {state}" in caplog.text


def test_a_refused_row_is_dropped_once_its_claim_is_lost(database: Database, faults: Faults, run: Run) -> None:
    running = run(database)
    (odd,) = running.claim(1)
    faults.set("23505", odd.execution_id)
    running.end(odd)
    eventually(lambda: faults.met() >= 2, what="both tries")
    faults.clear()
    database.fetch(text("UPDATE executions SET status = 'RETRYING'"))
    faults.set("23505", odd.execution_id)
    eventually(lambda: running.counters.snapshot().get("leases_lost") == 1)
    assert running.finalizer.pending() == set()


def test_a_locked_row_holds_up_no_other(database: Database, impatient: Database, run: Run) -> None:
    running = run(impatient)
    kept, *others = running.claim(60)
    with locked(database, kept):
        running.end(kept, *others)
        running.wait_for(*others)
        for _ in range(3):
            later = running.claim(5)
            running.end(*later)
            running.wait_for(*later)
        assert running.finalizer.pending() == {kept.key}
    assert running.finalizer.flush(60)
    assert running.ended(kept)
    assert running.counters.snapshot() == {"concluded": 75}


def test_a_result_whose_claim_is_lost_is_dropped_without_waiting_for_a_lock(
    database: Database, impatient: Database, run: Run
) -> None:
    running = run(impatient)
    lost, *others = running.claim(10)
    taken = text("UPDATE executions SET worker_id = 'wrk_2' WHERE execution_id = :id")
    database.fetch(taken, {"id": lost.execution_id})
    with locked(database, lost):
        running.end(lost, *others)
        assert running.finalizer.flush(60)
    assert running.ended(*others)
    assert running.counters.snapshot() == {"concluded": 9, "leases_lost": 1}


def test_a_locked_hand_back_holds_up_no_other_and_no_result(database: Database, impatient: Database, run: Run) -> None:
    running = run(impatient)
    kept, given, ended = running.claim(3)
    with locked(database, kept):
        running.finalizer.submit_release(kept.key)
        running.finalizer.submit_release(given.key)
        running.end(ended)
        running.wait_for(ended)
        eventually(lambda: rows.execution(database, given.execution_id).status == "QUEUED")
        assert running.finalizer.pending() == {kept.key}
    assert running.finalizer.flush(60)
    assert rows.execution(database, kept.execution_id).attempt_count == 0


# The largest message that CockroachDB reads; PostgreSQL's own is 1 GB.
COCKROACH_LARGEST = 16 * 1024 * 1024


@pytest.mark.postgresql_only
def test_no_statement_is_larger_than_the_database_reads(database: Database, database_url: str, run: Run) -> None:
    body = {"status_code": 200, "body": "\u00e9'\\" * 5000}
    with (
        PgProxy(urlsplit(database_url).port or 5432, largest=COCKROACH_LARGEST) as proxy,
        closing(db.connect(proxy.url(database_url), pool_size=2, application_name="te-own")) as own,
    ):
        running = run(own)
        claims = running.claim(500)
        with locked(database, claims[0]):  # so that the others gather
            running.end(claims[0])
            eventually(lambda: rows.is_a_lock_waited_for(database))
            running.end(*claims[1:], output=body)
        assert running.finalizer.flush(60)
        assert rows.statuses(database) == {"SUCCESS": 500}
        assert proxy.longest < COCKROACH_LARGEST / 2
        running.finalizer.stop(60)


def test_a_result_that_is_too_large_alone_holds_up_no_other(database: Database, database_url: str, run: Run) -> None:
    with (
        PgProxy(urlsplit(database_url).port or 5432, largest=100_000) as proxy,
        closing(db.connect(proxy.url(database_url), pool_size=2, application_name="te-own")) as own,
    ):
        running = run(own)
        large, *others = running.claim(40)
        running.end(large, output={"body": "x" * 100_000})
        running.end(*others)
        running.wait_for(*others)
        assert running.finalizer.pending() == {large.key}
        taken = text("UPDATE executions SET worker_id = 'wrk_2' WHERE execution_id = :id")
        database.fetch(taken, {"id": large.execution_id})
        assert running.finalizer.flush(60), "dropped once its claim is known to be lost"
        assert running.counters.snapshot() == {"concluded": 39, "leases_lost": 1}
        running.finalizer.stop(60)


def test_an_outage_is_one_line_in_the_log(
    database: Database, faults: Faults, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    running = run(database)
    faults.set("25006")
    with caplog.at_level(logging.WARNING):
        running.end(*running.claim(20))
        eventually(lambda: faults.met() >= 4)
    kept = [record for record in caplog.records if "keeping them" in record.message]
    assert len(kept) == 1
    assert "SQLSTATE 25006" in caplog.text
