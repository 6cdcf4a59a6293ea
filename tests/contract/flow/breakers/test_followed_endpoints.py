"""An endpoint that leads elsewhere by now does not wait behind what it led to before."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.audit import SYSTEM
from app.audit.change import AuditedChange
from app.catalog import loader
from app.catalog.configs import CONFIGS
from app.db import Database
from app.dev.receiver import Receiver
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.conftest import SHARDS
from tests.contract.flow.breakers.breaking import room_of, statuses
from tests.waiting import eventually

DEAD, DEAD_URL = "http:127.0.0.1:9", "http://127.0.0.1:9/old"
pytestmark = pytest.mark.parametrize("shards", SHARDS)


def shut_endpoint(database: Database, process: WorkerProcess, url: str = DEAD_URL, config: str | None = None) -> None:
    """Add an endpoint that leads to where nobody listens, and whose breaker is open for an hour."""
    rows.add_endpoint(database, "moved", spec={"url": url, "method": "POST"}, config_ref=config)
    process.targets.bind("moved", DEAD, 30_000, has_turns=True)
    rows.add_breaker(database, DEAD, "open", open_for=timedelta(hours=1))
    # Where a revision changes at the same moment, its lanes are opened once more.
    eventually(process.targets.behind_shut, what="the state of the breaker")


def add_of_new_version(database: Database, spec: dict[str, Any], input_: dict[str, Any] | None = None) -> str:
    """Let the endpoint lead elsewhere by its newest version; returns an execution of that."""
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": json.dumps({"method": "POST"} | spec)},
    )
    (new,) = rows.add_executions(database, 1, endpoint="moved", input_=input_)
    database.fetch(text("UPDATE executions SET endpoint_version = 2 WHERE execution_id = :id"), {"id": new})
    return new


def deliver_until(database: Database, process: WorkerProcess, loop: DeliveryLoop, execution_id: str) -> None:
    """Deliver, or hand back, whatever is claimed, until this is."""
    catalog = catalog_of(database)
    process.on_revision = catalog.observe
    attempts, deliveries = Attempts(process), Deliveries(catalog, loop, database, process.targets)
    claimed = ""
    while claimed != execution_id:
        attempt = attempts.next()
        claimed = attempt.claim.execution_id
        deliveries.start([attempt])


def test_a_new_version_that_leads_elsewhere_does_not_wait_behind_the_old_one(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """What the old one has left goes on waiting for its own target."""
    shut_endpoint(database, process)
    old = rows.add_executions(database, 5, endpoint="moved")
    new = add_of_new_version(database, {"url": receiver.url("/ok/moved")})
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    deliver_until(database, process, loop, new)
    receiver.wait_for(1, path="/ok/moved")
    assert [request.idempotency_key for request in receiver.requests] == [new]
    assert process.targets.bound["moved"].name == name
    eventually(lambda: row_state(database, DEAD) == "open", what="that the probe has failed")
    # One of them was the probe.
    expected = ["FAILED", *["QUEUED"] * 4]
    eventually(lambda: sorted(rows.execution(database, one).status for one in old) == expected, what=f"{expected}")


def test_a_new_version_is_followed_long_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Also one that asks for a value that the old version's inputs have not."""
    shut_endpoint(database, process)
    old = rows.add_executions(database, 3, endpoint="moved")
    spec = {"url": receiver.url("/ok/moved/{{input.fresh.a}}"), "body_template": "{{input.fresh}}"}
    new = add_of_new_version(database, spec, {"fresh": {"a": "b"}})
    told = "WITH t AS (UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1)"
    database.fetch(text(f"{told} UPDATE endpoints SET version = 2 WHERE name = 'moved' RETURNING 1"))
    deliver_until(database, process, loop, new)
    receiver.wait_for(1, path="/ok/moved/b")
    assert process.targets.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, one).status for one in old] == ["QUEUED"] * 3, what="what waits")
    assert row_state(database, DEAD) == "open"


def test_a_config_that_leads_elsewhere_is_followed_long_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Behind retries, which keep the config that they began with."""
    CONFIGS.create(database, "conf", {"base": "http://127.0.0.1:9"}, AuditedChange(SYSTEM))
    shut_endpoint(database, process, url="{{config.base}}/ok/moved", config="conf")
    old = rows.add_executions(database, 3, endpoint="moved", max_attempts=3)
    database.fetch(
        text(
            "UPDATE executions SET attempt_count = 1, config_revision ="
            " (SELECT revision FROM catalog_revision WHERE id = 'catalog') RETURNING 1"
        )
    )
    (new,) = rows.add_executions(database, 1, endpoint="moved")
    CONFIGS.replace(database, "conf", {"base": receiver.base_url}, AuditedChange(SYSTEM))
    deliver_until(database, process, loop, new)
    receiver.wait_for(1, path="/ok/moved")
    assert process.targets.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, one).status for one in old] == ["RETRYING"] * 3, what="what waits")
    assert row_state(database, DEAD) == "open"


def test_a_newer_version_does_not_wait_for_what_an_earlier_one_opens_later(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Its last delivery was the earlier one's, and nothing has changed since."""
    asks_for_an_hour = receiver.url("/retry-after/3600").replace("127.0.0.1", "localhost")
    rows.add_endpoint(database, "moved", spec={"url": asks_for_an_hour, "method": "POST"})
    (old,) = rows.add_executions(database, 1, endpoint="moved")
    database.fetch(text("UPDATE endpoints SET version = 2 WHERE name = 'moved' RETURNING 1"))
    catalog = catalog_of(database)
    Deliveries(catalog, loop, database, process.targets).start([Attempts(process).next()])
    eventually(process.targets.behind_shut, what="that the receiver's wish has opened its breaker")
    assert row_state(database, name.replace("127.0.0.1", "localhost")) == "open"
    # One of them is looked up, be it of the earlier version.
    later = rows.add_executions(database, 3, endpoint="moved")
    new = add_of_new_version(database, {"url": receiver.url("/ok/moved")})
    deliver_until(database, process, loop, new)
    receiver.wait_for(1, path="/ok/moved")
    assert process.targets.bound["moved"].name == name
    eventually(lambda: {rows.execution(database, one).status for one in later} == {"QUEUED"}, what="what waits")
    assert [request.idempotency_key for request in receiver.requests] == [old, new]


def row_state(database: Database, target: str) -> str:
    (found,) = database.fetch(text("SELECT state FROM breakers WHERE target = :target"), {"target": target})
    state: str = found.state
    return state


def test_where_an_endpoint_leads_is_looked_up_until_the_database_tells(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    rows.add_executions(database, 1, endpoint="shut")
    deliveries, attempts = Deliveries(catalog_of(database), loop, database, process.targets), Attempts(process)
    process.targets.look_up(["shut"])
    process.wake()
    with monkeypatch.context() as fault:
        fault.setattr(loader, "NEWEST", text("SELECT 1 / 0 AS version"))
        deliveries.start([attempts.next()])
        assert room_of(process.targets, "shut", {}) == 1
    deliveries.start([attempts.next()])
    assert room_of(process.targets, "shut", {}) == 0
    eventually(lambda: statuses(database) == [("QUEUED", 0)], what="one that waits with no attempt spent")


def test_one_delivery_is_claimed_to_look_up_where_its_endpoint_leads(
    database: Database, process: WorkerProcess, shards: int, name: str
) -> None:
    """Of all lanes of it together, until that one is prepared."""
    process.targets.bind("shut", name, 5000, has_turns=True)
    rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    rows.add_executions(database, 20, endpoint="shut", shards=shards)
    (other,) = rows.add_executions(database, 1)
    attempts = Attempts(process)
    got = [attempts.next()]
    assert got[0].claim.execution_id == other, "it has seen all lanes by then"
    process.targets.look_up(["shut"])
    process.wake()
    got.append(attempts.next())
    rows.add_executions(database, 1)
    process.wake()
    got.append(attempts.next())
    assert [attempt.claim.endpoint for attempt in got] == ["target", "shut", "target"]
    assert [found for found in statuses(database) if found != ("QUEUED", 0)] == [("RUNNING", 1)]
    for attempt in got:
        assert attempt.release(put_off_ms=3_600_000)
