"""The heartbeat thread: it renews the lease of its process, or gives up an expired lease."""

import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import event, text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from brokers.lease_heartbeat import Heartbeat, Lease
from tests.contract.broker.faults import Faults
from tests.waiting import eventually

WORKER = "wrk_1"
LEASE_SECONDS = 6.0
SHORT_SECONDS = 2.0
"""Length of a lease whose expiry a test waits for."""

Start = Callable[..., list[str]]


@pytest.fixture
def start(database: Database) -> Iterator[Start]:
    """Return a function that registers a worker and starts its heartbeat.

    The function returns a list, to which the heartbeat adds its reason when it gives up the lease.
    """
    running: list[Heartbeat] = []

    def start(heartbeat_database: Database, lease_seconds: float = LEASE_SECONDS) -> list[str]:
        lease_ms = round(lease_seconds * 1000)
        worker_lease.register(
            database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms
        )
        reasons: list[str] = []
        heartbeat = Heartbeat(
            heartbeat_database,
            WORKER,
            lease=Lease(lease_seconds),
            in_flight=range(7),
            on_lost=reasons.append,
            renewals=30,
        )
        heartbeat.granted(time.monotonic())
        heartbeat.start()
        running.append(heartbeat)
        return reasons

    yield start
    for heartbeat in running:
        heartbeat.stop()


def in_flight(database: Database) -> int:
    count: int = database.fetch(text("SELECT in_flight FROM workers"))[0].in_flight
    return count


def test_lease_that_is_expired_in_the_database_is_given_up(database: Database, start: Start) -> None:
    reasons = start(database)
    eventually(lambda: in_flight(database) == 7, what="a renewal")
    database.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second'"))
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    assert reasons == ["the database says the lease is over"]


def test_lease_that_could_not_be_renewed_is_given_up(database: Database, start: Start) -> None:
    away = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test-away")
    reasons = start(away, SHORT_SECONDS)
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    assert reasons == ["no heartbeat could be written for 2 s"]


@pytest.mark.parametrize("state", ["25006", "53200", "58030", "58C00", "XXUUU", "P0001", "23514", "42501"])
def test_failed_renewal_is_repeated(database: Database, faults: Faults, start: Start, state: str) -> None:
    """No SQLSTATE ends the heartbeat, not even an error caused by the row; only an expired lease does."""
    faults.set(state)
    reasons = start(database)
    eventually(lambda: faults.met() >= 2, what="another try after the first")
    faults.clear()
    eventually(lambda: in_flight(database) == 7, what="a renewal")
    assert reasons == []


def test_lease_on_a_read_only_database_expires(database: Database, faults: Faults, start: Start) -> None:
    faults.set("25006")
    reasons = start(database, SHORT_SECONDS)
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    faults.clear()
    assert len(reasons) == 1, "the clock of the process or of the database reports the expiry, not both"


def test_lease_ends_here_before_other_workers_may_claim(database: Database, start: Start) -> None:
    """Nothing is sent after DEAD is written: a delivery asks the lease right before its first byte."""
    valid_until: list[float] = []
    start(database)
    lease = Lease(LEASE_SECONDS)
    heartbeat = Heartbeat(database, WORKER, lease=lease, in_flight=range(7), on_lost=print)
    heartbeat.granted(time.monotonic())
    assert lease.valid_until > time.monotonic()

    def note(*call: object) -> None:
        if "UPDATE workers" in str(call[2]):
            valid_until.append(lease.valid_until)

    event.listen(database.engine, "before_cursor_execute", note)
    heartbeat.stop()
    heartbeat.granted(time.monotonic())  # the answer to a late renewal
    event.remove(database.engine, "before_cursor_execute", note)
    assert (valid_until[-1:], lease.valid_until) == ([0.0], 0.0)
