"""Open breakers: due executions for the target are not claimed, except for one execution that is the probe."""

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
from tests.contract.features.breakers.breaking import capacity_of, statuses
from tests.waiting import eventually

DEAD, DEAD_URL = "http:127.0.0.1:9", "http://127.0.0.1:9/old"
pytestmark = pytest.mark.parametrize("shards", SHARDS)


def test_nothing_is_claimed_while_the_breaker_is_open_and_then_one_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    """Other endpoints are claimed while it is open, and all executions after the probe has succeeded."""
    process.bindings.bind("blocked", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the process to read the open breaker")
    rows.add_executions(database, 5, endpoint="blocked")
    (other,) = rows.add_executions(database, 1)
    attempts = Attempts(process)
    # This claim shows that the consumer has chosen between the due executions of both endpoints.
    first = attempts.next()
    assert first.claim.execution_id == other
    assert first.release()
    assert statuses(database) == [("QUEUED", 0)] * 5
    assert not process.shares.slots.get("blocked")

    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    probe = attempts.next()
    while probe.claim.endpoint != "blocked":
        assert probe.release(defer_ms=3_600_000)
        probe = attempts.next()
    assert statuses(database) == [*[("QUEUED", 0)] * 4, ("RUNNING", 1)]
    deliveries = Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([probe])
    eventually(lambda: not process.bindings.behind_open(), what="the probe to close the breaker")
    got = [attempts.next() for _ in range(4)]
    assert {attempt.claim.endpoint for attempt in got} == {"blocked"}
    deliveries.start(got)
    eventually(lambda: statuses(database) == [("SUCCESS", 1)] * 5, what="five successes, one attempt each")


def test_endpoint_behind_an_open_breaker_reserves_no_slots(
    database: Database, process: WorkerProcess, name: str
) -> None:
    """Otherwise the only other endpoint would get half of the slots."""
    process.shares.capacity = 4
    process.bindings.bind("blocked", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the process to read the open breaker")
    rows.add_executions(database, 5, endpoint="blocked")
    rows.add_executions(database, 4)
    attempts = Attempts(process)
    got = [attempts.next() for _ in range(4)]
    assert {attempt.claim.endpoint for attempt in got} == {"target"}
    for attempt in got:
        assert attempt.release(defer_ms=3_600_000)


def test_claims_made_before_the_breaker_opened_are_released_without_an_attempt(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """The process had not resolved the target of these claims."""
    rows.add_executions(database, 3, endpoint="blocked")
    attempts = Attempts(process)
    got = [attempts.next() for _ in range(3)]
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    bind = process.bindings.bind
    eventually(
        lambda: bind("another", name, 5000, has_turns=True).target.is_open, what="the process to read the open breaker"
    )
    Deliveries(catalog_of(database), loop, database, process).start(got)
    eventually(lambda: statuses(database) == [("QUEUED", 0)] * 3, what="three queued executions without an attempt")
    assert receiver.requests == []
    assert capacity_of(process, "blocked") == 0


def test_changed_settings_open_the_partitions(
    database: Database, process: WorkerProcess, receiver: Receiver, name: str
) -> None:
    process.bindings.bind("blocked", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the process to read the open breaker")
    rows.add_executions(database, 1, endpoint="blocked")
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:off AS JSONB) RETURNING 1"), {"off": json.dumps("off")})
    database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1"))
    claimed = Attempts(process).next()
    assert claimed.claim.endpoint == "blocked"
    assert claimed.release()
    assert receiver.requests == []


def test_change_of_another_endpoint_opens_no_partition(database: Database, process: WorkerProcess, name: str) -> None:
    """Otherwise, at each change, each process would claim and release an execution of every blocked endpoint."""
    process.bindings.bind("blocked", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(process.bindings.behind_open, what="the process to read the open breaker")
    states: list[int] = []
    process.flow.on_poll(lambda state: states.append(state.revision))
    eventually(lambda: len(states) > 1, what="two states")
    for _ in range(2):
        change_flow(database, "target", {"limits": {"max_in_flight": len(states)}}, AuditedChange(SYSTEM))
        CONFIGS.create(database, f"conf-{len(states)}", {}, AuditedChange(SYSTEM))
        states_before = len(states)
        eventually(
            lambda states_before=states_before: len(states) > states_before + 2, what="two states after the change"
        )
        assert capacity_of(process, "blocked") == 0
        assert process.bindings.behind_open() == ["blocked"]
