"""An endpoint that leads elsewhere by now does not wait behind what it led to before."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from actors.deliver import MAX_RESOLVED, Deliveries
from actors.loop import DeliveryLoop
from app.catalog.named_table import CONFIGS
from app.dev.receiver import Receiver
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import Pulse
from brokers.attempt import Stage
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.conftest import SHARDS
from tests.contract.features.breakers.breaking import deliveries_of
from tests.waiting import eventually

DEAD, DEAD_URL = "http:127.0.0.1:9", "http://127.0.0.1:9/old"
pytestmark = pytest.mark.parametrize("shards", SHARDS)


def shut_endpoint(database: Database, process: WorkerProcess, url: str = DEAD_URL, config: str | None = None) -> None:
    """Add an endpoint that leads to where nobody listens, and whose breaker is open for an hour."""
    rows.add_endpoint(database, "moved", spec={"url": url, "method": "POST"}, config_ref=config)
    process.bindings.bind("moved", DEAD, 30_000, has_turns=True)
    rows.add_breaker(database, DEAD, "open", open_for=timedelta(hours=1))
    # Where a revision changes at the same moment, its partitions are opened once more.
    eventually(process.bindings.behind_open, what="the state of the breaker")


def add_version(database: Database, spec: dict[str, Any]) -> None:
    """Let the endpoint lead elsewhere by its newest version."""
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": json.dumps({"method": "POST"} | spec)},
    )


def add_of_new_version(database: Database, input_: dict[str, Any] | None = None) -> str:
    """Add an execution of the newest version."""
    (new,) = rows.add_executions(database, 1, endpoint="moved", input_=input_)
    database.fetch(text("UPDATE executions SET endpoint_version = 2 WHERE execution_id = :id"), {"id": new})
    return new


def tell_of_new_version(database: Database) -> None:
    told = "WITH t AS (UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1)"
    database.fetch(text(f"{told} UPDATE endpoints SET version = 2 WHERE name = 'moved' RETURNING 1"))


def deliver_until(process: WorkerProcess, deliveries: Deliveries, execution_id: str) -> None:
    """Deliver, or hand back, whatever is claimed, until this is."""
    attempts, claimed = Attempts(process), ""
    while claimed != execution_id:
        attempt = attempts.next()
        claimed = attempt.claim.execution_id
        deliveries.start([attempt])


def test_a_new_version_that_leads_elsewhere_does_not_wait_behind_the_old_one(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """What the old one has left goes on waiting for its own target."""
    deliveries = deliveries_of(database, process, loop)
    shut_endpoint(database, process)
    old = rows.add_executions(database, 5, endpoint="moved")
    add_version(database, {"url": receiver.url("/ok/moved")})
    new = add_of_new_version(database)
    tell_of_new_version(database)
    eventually(lambda: process.bindings.bound["moved"].name == name, what="that the endpoint leads elsewhere")
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    attempts, claimed = Attempts(process), set[str]()
    while new not in claimed or not [one for one in old if rows.attempts(database, one)]:
        attempt = attempts.next()
        claimed.add(attempt.claim.execution_id)
        deliveries.start([attempt])
        eventually(lambda attempt=attempt: attempt.stage is Stage.ENDED)
        assert process.finalizer.flush(60)
    receiver.wait_for(1, path="/ok/moved")
    assert [request.idempotency_key for request in receiver.requests] == [new]
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: row_state(database, DEAD) == "open", what="that the probe has failed")
    sent = [rows.execution(database, one).status for one in old if rows.attempts(database, one)]
    assert sent == ["FAILED"], "the probe"


def test_a_new_version_is_followed_long_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Also one that asks for a value that the old version's inputs have not."""
    deliveries = deliveries_of(database, process, loop)
    shut_endpoint(database, process)
    old = rows.add_executions(database, 3, endpoint="moved")
    spec = {"url": receiver.url("/ok/moved/{{input.fresh.a}}"), "body_template": "{{input.fresh}}"}
    add_version(database, spec)
    new = add_of_new_version(database, {"fresh": {"a": "b"}})
    tell_of_new_version(database)
    deliver_until(process, deliveries, new)
    receiver.wait_for(1, path="/ok/moved/b")
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, one).status for one in old] == ["QUEUED"] * 3, what="what waits")
    assert row_state(database, DEAD) == "open"


def test_a_config_that_leads_elsewhere_is_followed_long_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Behind retries, which keep the config that they began with."""
    CONFIGS.create(database, "conf", {"base": "http://127.0.0.1:9"}, AuditedChange(SYSTEM))
    deliveries = deliveries_of(database, process, loop)
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
    deliver_until(process, deliveries, new)
    receiver.wait_for(1, path="/ok/moved")
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, one).status for one in old] == ["RETRYING"] * 3, what="what waits")
    assert row_state(database, DEAD) == "open"


def test_a_newer_version_does_not_wait_for_what_an_earlier_one_opens_later(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Its last delivery was the earlier one's, and nothing has changed since."""
    asks_for_an_hour = receiver.url("/retry-after/3600").replace("127.0.0.1", "localhost")
    rows.add_endpoint(database, "moved", spec={"url": asks_for_an_hour, "method": "POST"})
    (old,) = rows.add_executions(database, 1, endpoint="moved")
    add_version(database, {"url": receiver.url("/ok/moved")})
    tell_of_new_version(database)
    deliveries = deliveries_of(database, process, loop)
    deliveries.start([Attempts(process).next()])
    eventually(process.bindings.behind_open, what="that the receiver's wish has opened its breaker")
    assert row_state(database, name.replace("127.0.0.1", "localhost")) == "open"
    later = rows.add_executions(database, 3, endpoint="moved")
    new = add_of_new_version(database)
    deliver_until(process, deliveries, new)
    receiver.wait_for(1, path="/ok/moved")
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: {rows.execution(database, one).status for one in later} == {"QUEUED"}, what="what waits")
    assert [request.idempotency_key for request in receiver.requests] == [old, new]


def row_state(database: Database, target: str) -> str:
    (found,) = database.fetch(text("SELECT state FROM breakers WHERE target = :target"), {"target": target})
    state: str = found.state
    return state


def test_a_target_is_resolved_without_a_claim_and_spends_no_token(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    """Else nothing of a limited endpoint would start for an hour after its breaker has closed."""
    shut_endpoint(database, process)
    (waiting,) = rows.add_executions(database, 1, endpoint="moved")
    deliveries_of(database, process, loop)
    add_version(database, {"url": f"http://{name.partition(':')[2]}/ok/moved"})
    tell_of_new_version(database)
    eventually(lambda: process.bindings.bound["moved"].name == name, what="that the endpoint leads elsewhere")
    assert not process.bindings.behind_open()
    assert (rows.execution(database, waiting).status, rows.execution(database, waiting).attempt_count) == ("QUEUED", 0)


def test_a_version_whose_target_cannot_be_resolved_keeps_no_other(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    shut_endpoint(database, process)
    rows.add_endpoint(database, "a-broken", spec={"url": "{{config.gone}}/", "method": "POST"})
    process.bindings.bind("a-broken", DEAD, 30_000, has_turns=True)
    add_version(database, {"url": f"http://{name.partition(':')[2]}/ok/moved"})
    with caplog.at_level("INFO", "actors.deliver"):
        deliveries_of(database, process, loop)
        eventually(lambda: process.bindings.bound["moved"].name == name, what="that the endpoint leads elsewhere")
        told = "cannot resolve the target of endpoint a-broken: TemplateError"
        eventually(lambda: told in caplog.messages, what="what is wrong")
    assert process.bindings.behind_open() == ["a-broken"]


def test_very_many_endpoints_are_resolved_in_parts_and_once_for_each_revision(
    database: Database, process: WorkerProcess, loop: DeliveryLoop
) -> None:
    revisions = iter(range(1, 8))
    deliveries = Deliveries(catalog_of(database), loop, database, process)
    shut_endpoint(database, process)
    for number in range(2 * MAX_RESOLVED):
        process.bindings.bind(f"many-{number}", DEAD, 30_000, has_turns=True)
    reads = count_reads(database)
    for _ in range(2):
        pulse = Pulse(next(revisions), 1, [])
        taken = [(deliveries.follow(pulse), reads())[1] for _ in range(4)]
        assert taken == [MAX_RESOLVED, MAX_RESOLVED, 1, 0]
    # Every endpoint has its turn, also while revisions keep changing.
    taken = [(deliveries.follow(Pulse(revision, 1, [])), reads())[1] for revision in revisions]
    assert set(taken) == {MAX_RESOLVED}


def count_reads(database: Database) -> Callable[[], int]:
    """Count the statements that read a newest version; each call starts again at 0."""
    seen: list[int] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        seen.extend([1] * ("max(version)" in sql))

    def taken() -> int:
        number = len(seen)
        seen.clear()
        return number

    return taken
