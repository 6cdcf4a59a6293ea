"""Endpoint with a new target: its executions do not wait behind the open breaker of the old target."""

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
from brokers.attempt import Stage
from brokers.flow_state import FlowState
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.contract.conftest import SHARDS
from tests.contract.features.breakers.breaking import deliveries_of
from tests.waiting import eventually

DEAD, DEAD_URL = "http:127.0.0.1:9", "http://127.0.0.1:9/old"
pytestmark = pytest.mark.parametrize("shards", SHARDS)


def add_blocked_endpoint(
    database: Database, process: WorkerProcess, url: str = DEAD_URL, config: str | None = None
) -> None:
    """Add an endpoint with a target that refuses connections and a breaker that is open for an hour."""
    rows.add_endpoint(database, "moved", spec={"url": url, "method": "POST"}, config_ref=config)
    process.bindings.bind("moved", DEAD, 30_000, has_turns=True)
    rows.add_breaker(database, DEAD, "open", open_for=timedelta(hours=1))
    # A concurrent change of the revision opens the partitions of the endpoint again.
    eventually(process.bindings.behind_open, what="the process to read the open breaker")


def add_version(database: Database, spec: dict[str, Any]) -> None:
    """Add a version 2 of the endpoint with another target, without making it the current version."""
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": json.dumps({"method": "POST"} | spec)},
    )


def add_execution_of_new_version(database: Database, input_: dict[str, Any] | None = None) -> str:
    """Add an execution of the newest version."""
    (new,) = rows.add_executions(database, 1, endpoint="moved", input_=input_)
    database.fetch(text("UPDATE executions SET endpoint_version = 2 WHERE execution_id = :id"), {"id": new})
    return new


def publish_new_version(database: Database) -> None:
    bump = "WITH t AS (UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow' RETURNING 1)"
    database.fetch(text(f"{bump} UPDATE endpoints SET version = 2 WHERE name = 'moved' RETURNING 1"))


def deliver_until(process: WorkerProcess, deliveries: Deliveries, execution_id: str) -> None:
    """Start each claimed delivery until the delivery of this execution has started."""
    attempts, claimed = Attempts(process), ""
    while claimed != execution_id:
        attempt = attempts.next()
        claimed = attempt.claim.execution_id
        deliveries.start([attempt])


def test_new_version_with_another_target_does_not_wait_for_the_old_target(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """Executions of the old version keep waiting for the old target."""
    deliveries = deliveries_of(database, process, loop)
    add_blocked_endpoint(database, process)
    old = rows.add_executions(database, 5, endpoint="moved")
    add_version(database, {"url": receiver.url("/ok/moved")})
    new = add_execution_of_new_version(database)
    publish_new_version(database)
    eventually(lambda: process.bindings.bound["moved"].name == name, what="the new target")
    database.fetch(text("UPDATE breakers SET open_until = now() RETURNING 1"))
    attempts, claimed = Attempts(process), set[str]()
    while new not in claimed or not [each for each in old if rows.attempts(database, each)]:
        attempt = attempts.next()
        claimed.add(attempt.claim.execution_id)
        deliveries.start([attempt])
        eventually(lambda attempt=attempt: attempt.stage is Stage.ENDED)
        assert process.finalizer.flush(60)
    receiver.wait_for(1, path="/ok/moved")
    assert [request.idempotency_key for request in receiver.requests] == [new]
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: row_state(database, DEAD) == "open", what="the probe to fail")
    sent = [rows.execution(database, each).status for each in old if rows.attempts(database, each)]
    assert sent == ["FAILED"], "the probe is the only old execution that was sent"


def test_new_target_of_a_new_version_is_used_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """The new version requires an input value that the executions of the old version do not have."""
    deliveries = deliveries_of(database, process, loop)
    add_blocked_endpoint(database, process)
    old = rows.add_executions(database, 3, endpoint="moved")
    spec = {"url": receiver.url("/ok/moved/{{input.fresh.a}}"), "body_template": "{{input.fresh}}"}
    add_version(database, spec)
    new = add_execution_of_new_version(database, {"fresh": {"a": "b"}})
    publish_new_version(database)
    deliver_until(process, deliveries, new)
    receiver.wait_for(1, path="/ok/moved/b")
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: [rows.execution(database, each).status for each in old] == ["QUEUED"] * 3, what="releases")
    assert row_state(database, DEAD) == "open"


def test_new_target_of_a_changed_config_is_used_before_the_next_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """The retries ahead keep the config of their first attempt."""
    CONFIGS.create(database, "conf", {"base": "http://127.0.0.1:9"}, AuditedChange(SYSTEM))
    deliveries = deliveries_of(database, process, loop)
    add_blocked_endpoint(database, process, url="{{config.base}}/ok/moved", config="conf")
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
    eventually(lambda: [rows.execution(database, each).status for each in old] == ["RETRYING"] * 3, what="releases")
    assert row_state(database, DEAD) == "open"


def test_newer_version_does_not_wait_for_a_breaker_opened_later_by_an_earlier_version(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, name: str
) -> None:
    """The endpoint's last delivery was of the earlier version, and nothing has changed since."""
    asks_for_an_hour = receiver.url("/retry-after/3600").replace("127.0.0.1", "localhost")
    rows.add_endpoint(database, "moved", spec={"url": asks_for_an_hour, "method": "POST"})
    (old,) = rows.add_executions(database, 1, endpoint="moved")
    add_version(database, {"url": receiver.url("/ok/moved")})
    publish_new_version(database)
    deliveries = deliveries_of(database, process, loop)
    deliveries.start([Attempts(process).next()])
    eventually(process.bindings.behind_open, what="the Retry-After to open the breaker")
    assert row_state(database, name.replace("127.0.0.1", "localhost")) == "open"
    later = rows.add_executions(database, 3, endpoint="moved")
    new = add_execution_of_new_version(database)
    deliver_until(process, deliveries, new)
    receiver.wait_for(1, path="/ok/moved")
    assert process.bindings.bound["moved"].name == name
    eventually(lambda: {rows.execution(database, each).status for each in later} == {"QUEUED"}, what="releases")
    assert [request.idempotency_key for request in receiver.requests] == [old, new]


def row_state(database: Database, target: str) -> str:
    (found,) = database.fetch(text("SELECT state FROM breakers WHERE target = :target"), {"target": target})
    state: str = found.state
    return state


def test_target_is_resolved_without_a_claim_and_without_a_token(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str
) -> None:
    """Otherwise a rate-limited endpoint could not start for an hour after its breaker has closed."""
    add_blocked_endpoint(database, process)
    (waiting,) = rows.add_executions(database, 1, endpoint="moved")
    deliveries_of(database, process, loop)
    add_version(database, {"url": f"http://{name.partition(':')[2]}/ok/moved"})
    publish_new_version(database)
    eventually(lambda: process.bindings.bound["moved"].name == name, what="the new target")
    assert not process.bindings.behind_open()
    assert (rows.execution(database, waiting).status, rows.execution(database, waiting).attempt_count) == ("QUEUED", 0)


def test_unresolvable_target_of_one_endpoint_does_not_delay_other_endpoints(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    add_blocked_endpoint(database, process)
    rows.add_endpoint(database, "a-broken", spec={"url": "{{config.gone}}/", "method": "POST"})
    process.bindings.bind("a-broken", DEAD, 30_000, has_turns=True)
    add_version(database, {"url": f"http://{name.partition(':')[2]}/ok/moved"})
    with caplog.at_level("INFO", "actors.deliver"):
        deliveries_of(database, process, loop)
        eventually(lambda: process.bindings.bound["moved"].name == name, what="the new target")
        message = "cannot resolve the target of endpoint a-broken: TemplateError"
        eventually(lambda: message in caplog.messages, what="the log line with the reason")
    assert process.bindings.behind_open() == ["a-broken"]


def test_many_endpoints_are_resolved_in_batches_and_once_per_revision(
    database: Database, process: WorkerProcess, loop: DeliveryLoop
) -> None:
    revisions = iter(range(1, 8))
    deliveries = Deliveries(catalog_of(database), loop, database, process)
    add_blocked_endpoint(database, process)
    for number in range(2 * MAX_RESOLVED):
        process.bindings.bind(f"many-{number}", DEAD, 30_000, has_turns=True)
    reads = count_reads(database)
    for _ in range(2):
        state = FlowState(next(revisions), 1, [])
        taken = [(deliveries.follow(state), reads())[1] for _ in range(4)]
        assert taken == [MAX_RESOLVED, MAX_RESOLVED, 1, 0]
    # Every endpoint gets its turn, even while the revision keeps changing.
    taken = [(deliveries.follow(FlowState(revision, 1, [])), reads())[1] for revision in revisions]
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
