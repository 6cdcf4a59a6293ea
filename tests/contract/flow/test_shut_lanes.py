"""What is due for a target whose breaker is open is left alone, until one of it is the probe."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.db import Database
from app.dev.receiver import Receiver
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.conftest import SHARDS
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("shards", SHARDS)


@pytest.fixture
def name(database: Database, receiver: Receiver) -> str:
    """The receiver as a target, which an endpoint leads to."""
    receiver.clear()
    rows.add_endpoint(database, "shut", spec={"url": receiver.url("/ok/shut"), "method": "POST", "timeout_ms": 5000})
    return f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"


def statuses(database: Database) -> list[tuple[str, int]]:
    found = database.fetch(text("SELECT status, attempt_count FROM executions WHERE endpoint = 'shut' ORDER BY 1, 2"))
    return [(row.status, row.attempt_count) for row in found]


def test_nothing_is_claimed_while_it_is_open_and_then_one(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    """Others are claimed meanwhile, and all of it once the probe has succeeded."""
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    rows.add_executions(database, 5, endpoint="shut")
    (other,) = rows.add_executions(database, 1)
    attempts = Attempts(process)
    # By then the consumer has had something due of both in its hands.
    first = attempts.next()
    assert first.claim.execution_id == other
    assert first.release()
    assert statuses(database) == [("QUEUED", 0)] * 5
    assert not process.shares.slots.get("shut")

    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    probe = attempts.next()
    while probe.claim.endpoint != "shut":
        assert probe.release(put_off_ms=3_600_000)
        probe = attempts.next()
    assert statuses(database) == [*[("QUEUED", 0)] * 4, ("RUNNING", 1)]
    catalog, targets = catalog_of(database), process.targets
    Deliveries(catalog, loop, database, targets).start([probe])
    eventually(lambda: not targets.shut, what="that the probe has closed the breaker")
    got = [attempts.next() for _ in range(4)]
    assert {attempt.claim.endpoint for attempt in got} == {"shut"}
    Deliveries(catalog, loop, database, targets).start(got)
    eventually(lambda: statuses(database) == [("SUCCESS", 1)] * 5, what="five successes, one attempt each")


def test_what_is_shut_wants_no_slots(database: Database, process: WorkerProcess, name: str) -> None:
    """Else an endpoint that is alone beside it would get half of them."""
    process.shares.capacity = 4
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    rows.add_executions(database, 5, endpoint="shut")
    rows.add_executions(database, 4)
    attempts = Attempts(process)
    got = [attempts.next() for _ in range(4)]
    assert {attempt.claim.endpoint for attempt in got} == {"target"}
    for attempt in got:
        assert attempt.release(put_off_ms=3_600_000)


def test_what_was_claimed_before_it_opened_is_handed_back_unspent(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """And so is what this process did not know the target of."""
    rows.add_executions(database, 3, endpoint="shut")
    attempts = Attempts(process)
    got = [attempts.next() for _ in range(3)]
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    bind = process.targets.bind
    eventually(lambda: bind("another", name, 5000, has_turns=True).target.is_shut, what="the state of the breaker")
    Deliveries(catalog_of(database), loop, database, process.targets).start(got)
    eventually(lambda: statuses(database) == [("QUEUED", 0)] * 3, what="three that wait with no attempt spent")
    assert receiver.requests == []
    assert process.targets.room("shut", {}) == 0


def test_settings_that_change_open_the_lanes(
    database: Database, process: WorkerProcess, receiver: Receiver, name: str
) -> None:
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    rows.add_executions(database, 1, endpoint="shut")
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:off AS JSONB) RETURNING 1"), {"off": json.dumps("off")})
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1"))
    claimed = Attempts(process).next()
    assert claimed.claim.endpoint == "shut"
    assert claimed.release()
    assert receiver.requests == []


def test_a_new_version_that_leads_elsewhere_does_not_wait_behind_the_old_one(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """What the old one has left goes on waiting for its own target."""
    dead = "http:127.0.0.1:9"
    rows.add_endpoint(database, "moved", spec={"url": "http://127.0.0.1:9/old", "method": "POST"})
    process.targets.bind("moved", dead, 30_000, has_turns=True)
    rows.add_breaker(database, dead, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    old = rows.add_executions(database, 5, endpoint="moved")
    spec = json.dumps({"url": receiver.url("/ok/moved"), "method": "POST"})
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": spec},
    )
    (new,) = rows.add_executions(database, 1, endpoint="moved")
    database.fetch(text("UPDATE executions SET endpoint_version = 2 WHERE execution_id = :id"), {"id": new})
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process.targets)
    while not receiver.requests:
        deliveries.start([attempts.next()])
        if rows.execution(database, new).status == "RUNNING":
            receiver.wait_for(1, path="/ok/moved")
    assert [request.idempotency_key for request in receiver.requests] == [new]
    assert process.targets.bound["moved"].name == name
    eventually(lambda: row_state(database, dead) == "open", what="that the probe has failed")
    # One of them was the probe.
    expected = ["FAILED", *["QUEUED"] * 4]
    eventually(lambda: sorted(rows.execution(database, one).status for one in old) == expected, what=f"{expected}")


def test_a_new_version_is_followed_long_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Also one that asks for a value that the old version's inputs have not."""
    dead = "http:127.0.0.1:9"
    rows.add_endpoint(database, "moved", spec={"url": "http://127.0.0.1:9/old", "method": "POST"})
    process.targets.bind("moved", dead, 30_000, has_turns=True)
    rows.add_breaker(database, dead, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    old = rows.add_executions(database, 3, endpoint="moved")
    spec = {"url": receiver.url("/ok/moved/{{input.fresh.a}}"), "method": "POST", "body_template": "{{input.fresh}}"}
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": json.dumps(spec)},
    )
    (new,) = rows.add_executions(database, 1, endpoint="moved", input_={"fresh": {"a": "b"}})
    database.fetch(text("UPDATE executions SET endpoint_version = 2 WHERE execution_id = :id"), {"id": new})
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1"))
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process.targets)
    claimed = ""
    while claimed != new:
        attempt = attempts.next()
        claimed = attempt.claim.execution_id
        deliveries.start([attempt])
    receiver.wait_for(1, path="/ok/moved/b")
    assert process.targets.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, one).status for one in old] == ["QUEUED"] * 3, what="what waits")
    assert row_state(database, dead) == "open"


def row_state(database: Database, target: str) -> str:
    (found,) = database.fetch(text("SELECT state FROM breakers WHERE target = :target"), {"target": target})
    state: str = found.state
    return state
