"""What is due for a target whose breaker is open is left alone, until one of it is the probe."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.catalog.endpoints.live_settings import change_flow
from app.catalog.named_table import CONFIGS
from app.dev.receiver import Receiver
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.conftest import SHARDS
from tests.contract.features.breakers.breaking import room_of, statuses
from tests.waiting import eventually

DEAD, DEAD_URL = "http:127.0.0.1:9", "http://127.0.0.1:9/old"
pytestmark = pytest.mark.parametrize("shards", SHARDS)


def test_nothing_is_claimed_while_it_is_open_and_then_one(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    """Others are claimed meanwhile, and all of it once the probe has succeeded."""
    process.bindings.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the state of the breaker")
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
    deliveries = Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([probe])
    eventually(lambda: not process.bindings.behind_open(), what="that the probe has closed the breaker")
    got = [attempts.next() for _ in range(4)]
    assert {attempt.claim.endpoint for attempt in got} == {"shut"}
    deliveries.start(got)
    eventually(lambda: statuses(database) == [("SUCCESS", 1)] * 5, what="five successes, one attempt each")


def test_what_is_shut_wants_no_slots(database: Database, process: WorkerProcess, name: str) -> None:
    """Else an endpoint that is alone beside it would get half of them."""
    process.shares.capacity = 4
    process.bindings.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the state of the breaker")
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
    bind = process.bindings.bind
    eventually(lambda: bind("another", name, 5000, has_turns=True).target.is_open, what="the state of the breaker")
    Deliveries(catalog_of(database), loop, database, process).start(got)
    eventually(lambda: statuses(database) == [("QUEUED", 0)] * 3, what="three that wait with no attempt spent")
    assert receiver.requests == []
    assert room_of(process, "shut") == 0


def test_settings_that_change_open_the_partitions(
    database: Database, process: WorkerProcess, receiver: Receiver, name: str
) -> None:
    process.bindings.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the state of the breaker")
    rows.add_executions(database, 1, endpoint="shut")
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:off AS JSONB) RETURNING 1"), {"off": json.dumps("off")})
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1"))
    claimed = Attempts(process).next()
    assert claimed.claim.endpoint == "shut"
    assert claimed.release()
    assert receiver.requests == []


def test_what_changes_of_another_endpoint_opens_no_partition(
    database: Database, process: WorkerProcess, name: str
) -> None:
    """Else each process would claim, and hand back, one of each endpoint that is shut at each change of any."""
    process.bindings.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the state of the breaker")
    pulses: list[int] = []
    process.flow.on_pulse(lambda pulse: pulses.append(pulse.revision))
    eventually(lambda: len(pulses) > 1, what="two pulses")
    for _ in range(2):
        change_flow(database, "target", {"limits": {"max_in_flight": len(pulses)}}, AuditedChange(SYSTEM))
        CONFIGS.create(database, f"conf-{len(pulses)}", {}, AuditedChange(SYSTEM))
        told = len(pulses)
        eventually(lambda told=told: len(pulses) > told + 2, what="two pulses after the change")
        assert room_of(process, "shut") == 0
        assert process.bindings.behind_open() == ["shut"]
