"""The lease of a process as its own thread sees it: renewed, taken away, or out of reach."""

import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from brokers.lease_heartbeat import Heartbeat, Lease
from tests.contract.broker.faults import Faults
from tests.waiting import eventually

WORKER = "wrk_1"
LEASE_SECONDS = 6.0
SHORT_SECONDS = 2.0
"""Of a lease that is waited out."""

Start = Callable[..., list[str]]


@pytest.fixture
def start(database: Database) -> Iterator[Start]:
    """Register a worker and start its heartbeat; returns the reasons for which it is given up."""
    running: list[Heartbeat] = []

    def start(way: Database, lease_seconds: float = LEASE_SECONDS) -> list[str]:
        lease_ms = round(lease_seconds * 1000)
        worker_lease.register(
            database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=lease_ms
        )
        reasons: list[str] = []
        heartbeat = Heartbeat(
            way,
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
    found: int = database.fetch(text("SELECT in_flight FROM workers"))[0].in_flight
    return found


def test_a_lease_that_the_database_calls_over_is_given_up(database: Database, start: Start) -> None:
    reasons = start(database)
    eventually(lambda: in_flight(database) == 7, what="a renewal")
    database.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second'"))
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    assert reasons == ["the database says the lease is over"]


def test_a_lease_that_nobody_could_renew_is_given_up(database: Database, start: Start) -> None:
    away = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test-away")
    reasons = start(away, SHORT_SECONDS)
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    assert reasons == ["no heartbeat could be written for 2 s"]


@pytest.mark.parametrize("state", ["25006", "53200", "58030", "58C00", "XXUUU", "P0001", "23514", "42501"])
def test_a_lease_that_cannot_be_renewed_now_is_renewed_later(
    database: Database, faults: Faults, start: Start, state: str
) -> None:
    """Also after an error that would blame the row: only the end of the lease ends the heartbeat."""
    faults.set(state)
    reasons = start(database)
    eventually(lambda: faults.met() >= 2, what="another try after the first")
    faults.clear()
    eventually(lambda: in_flight(database) == 7, what="a renewal")
    assert reasons == []


def test_a_read_only_database_costs_the_lease_in_the_end(database: Database, faults: Faults, start: Start) -> None:
    faults.set("25006")
    reasons = start(database, SHORT_SECONDS)
    eventually(lambda: reasons, what="the end of the lease to be noticed")
    faults.clear()
    assert len(reasons) == 1, "either clock may be the first to say so"
