"""Every list of the OpenAPI document, read by pages during inserts: each item appears exactly once."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.endpoints.actor_endpoints import register as register_actors
from app.catalog.specs.actor import endpoint_name
from app.features.breakers import store as breakers_store
from app.features.breakers.rules import Reason, Transition
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import actor_processes, process_heartbeat, worker_lease
from app.kernel.processes.actor_processes import ActorProcess
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from brokers.flow_state import read_flow_state
from schema.states import BreakerState
from tests import rows
from tests.integration.client import Api
from tests.integration.http.document import document
from tests.integration.registered import created, cron, http_endpoint, one_shot, register

TARGET = "http:listed:80"


@dataclass(slots=True)
class Service:
    """An endpoint, a cron job with its latest version, and an execution; `added` counts the inserted items."""

    api: Api
    database: Database
    job: dict[str, Any]
    latest: str
    execution_id: str
    added: int = 0

    def path(self, template: str) -> str:
        ids = {"job_id": self.job["job_id"], "execution_id": self.execution_id, "worker_id": "listed"}
        return template.format(target=TARGET, name="listed", **ids)


@pytest.fixture
def service(api: Api, database: Database) -> Service:
    register(api)
    rows.add_rule(database, "listed", "target")
    job = created(api, cron())
    (execution_id,) = rows.add_executions(database)
    return Service(api, database, job, job["job_id"], execution_id)


def name(service: Service) -> str:
    return f"n-{service.added}"


def add_version(service: Service) -> None:
    response = service.api.put(f"/jobs/{service.latest}", {"cron": f"{service.added % 60} 9 * * *"})
    assert response.status_code == 200, response.get_data(as_text=True)
    service.latest = response.json["job_id"]


def add_config(service: Service) -> None:
    assert service.api.post("/configs", {"name": name(service), "values": {}}).status_code == 201


def add_payload_spec(service: Service) -> None:
    assert service.api.post("/payload-specs", {"name": name(service), "schema": {}}).status_code == 201


def add_secret(service: Service) -> None:
    assert service.api.post("/secrets", {"name": name(service), "value": "value-v"}).status_code == 201


def add_endpoint(service: Service) -> None:
    register(service.api, name(service))


def add_endpoint_version(service: Service) -> None:
    if service.added == 1:
        register(service.api, "listed")
    body = http_endpoint("listed", retry_policy={"max_attempts": service.added % 9 + 1})
    assert service.api.put("/endpoints/listed", body).status_code == 200


def add_api_key(service: Service) -> None:
    api_keys.create(service.database, name(service), [Scope.READ], None)


def add_job(service: Service) -> None:
    created(service.api, one_shot(name(service)))


def add_tick(service: Service) -> None:
    rows.add_tick(service.database, service.job["job_id"])


def add_attempt(service: Service) -> None:
    rows.add_attempt(service.database, service.execution_id, service.added, "FAILED")


def add_log(service: Service) -> None:
    rows.add_log(service.database, service.execution_id, service.added, "INFO")


def publish_breaker(service: Service, target: str) -> None:
    breakers_store.publish(service.database, {target: 60_000}, [])


def add_breaker(service: Service) -> None:
    publish_breaker(service, f"http:{name(service)}:80")


def add_breaker_event(service: Service) -> None:
    publish_breaker(service, TARGET)
    breakers = read_flow_state(service.database, "wrk_1").breakers
    (breaker,) = [breaker for breaker in breakers if breaker.target == TARGET]
    assert breakers_store.change(
        service.database, breaker, Transition(BreakerState.OPEN, Reason.RETRY_AFTER, 1000), "wrk_1"
    )


def add_worker(service: Service) -> None:
    register_worker(service, name(service))


def register_worker(service: Service, worker_id: str) -> None:
    about: dict[str, Any] = {"host": "h", "pid": 1, "queues": ["http"], "capacity": 9, "lease_ms": 600_000}
    worker_lease.register(service.database, worker_id=worker_id, **about)


def add_actor(service: Service) -> None:
    register_actors(service.database, [{"name": name(service)}])


def add_offered_actor(service: Service) -> None:
    if service.added == 1:
        register_worker(service, "listed")
    add_actor(service)
    about: dict[str, Any] = {"host": "h", "pid": 1, "threads": 1, "is_connected": True}
    process = ActorProcess(session_id=name(service), endpoints=(endpoint_name(name(service)),), **about)
    actor_processes.write(service.database, "listed", process)


def add_scheduler(service: Service) -> None:
    process_heartbeat.beat(service.database, Component("default", ProcessKind.SCHEDULER, name(service)))


def add_letter(service: Service) -> None:
    rows.add_letter(service.database)


def add_redrive(service: Service) -> None:
    assert service.api.post("/redrives", {"wanted": {}, "all": True}).status_code == 202


def add_rule(service: Service) -> None:
    rule = {"name": name(service), "events": ["execution.failed"], "channels": ["target"], "all": True}
    assert service.api.post("/notification-rules", rule).status_code == 201


def add_bulk_operation(service: Service) -> None:
    body = {"action": "retry", "wanted": {"endpoint": "target"}}
    assert service.api.post("/bulk-operations", body).status_code == 202


def add_workflow(service: Service) -> None:
    body = {"name": name(service), "nodes": [{"name": "a", "endpoint": "target", "delay": "1d"}]}
    assert service.api.post("/workflows", body).status_code == 201


def add_message(service: Service) -> None:
    group = {"subjects": [], "counts": {"queue.late": 1}, "first_at": "2030-01-01T00:00:00Z"}
    params = {"id": name(service), "event_batch": json.dumps(group | {"last_at": group["first_at"]})}
    add = "INSERT INTO notification_groups (group_id, rule, told, closed_at, messages)"
    service.database.fetch(
        text(f"{add} VALUES (:id, 'listed', CAST(:event_batch AS JSONB), now(), CAST('[]' AS JSONB))"), params
    )


# Lists in another order have no entry in LISTS: new items are not first there. A graph gets no new nodes.
IN_ANOTHER_ORDER = {"/queues", "/workflows/{workflow_id}/nodes", "/workflows/{workflow_id}/nodes/{node}/items"}
# Path of a list -> the field that identifies its items, and the function that adds an item.
LISTS: dict[str, tuple[str, Callable[[Service], None]]] = {
    "/payload-specs": ("name", add_payload_spec),
    "/configs": ("name", add_config),
    "/secrets": ("name", add_secret),
    "/endpoints": ("name", add_endpoint),
    "/endpoints/{name}/versions": ("version", add_endpoint_version),
    "/jobs": ("job_id", add_job),
    "/jobs/{job_id}/executions": ("execution_id", add_tick),
    "/jobs/{job_id}/versions": ("job_id", add_version),
    "/executions": ("execution_id", add_job),
    "/attempts": ("attempt_id", add_attempt),
    "/executions/{execution_id}/attempts": ("attempt_id", add_attempt),
    "/executions/{execution_id}/logs": ("log_id", add_log),
    "/dead-letters": ("letter_id", add_letter),
    "/redrives": ("redrive_id", add_redrive),
    "/notification-rules": ("name", add_rule),
    "/bulk-operations": ("operation_id", add_bulk_operation),
    "/notification-rules/{name}/messages": ("group_id", add_message),
    "/workflows": ("workflow_id", add_workflow),
    "/audit": ("audit_id", add_config),
    "/api-keys": ("key_id", add_api_key),
    "/breakers": ("target", add_breaker),
    "/breakers/{target}/events": ("event_id", add_breaker_event),
    "/workers": ("worker_id", add_worker),
    "/workers/{worker_id}/actors": ("actor", add_offered_actor),
    "/actors": ("actor", add_actor),
    "/schedulers": ("scheduler_id", add_scheduler),
    "/processes": ("process_id", add_scheduler),
}

# A removed feature takes its lists with it.
FOUND = {path: each for path, each in LISTS.items() if path in document()["paths"]}


def test_every_list_of_the_document_is_tested() -> None:
    listed = {
        path
        for path, operations in document()["paths"].items()
        if any(parameter.get("name") == "cursor" for parameter in operations.get("get", {}).get("parameters", []))
    }
    assert listed - IN_ANOTHER_ORDER == FOUND.keys()


def add(service: Service, template: str, count: int) -> None:
    for _ in range(count):
        service.added += 1
        LISTS[template][1](service)


def page(service: Service, template: str, limit: int, cursor: str | None = None) -> tuple[list[str], str | None]:
    query: dict[str, Any] = {"limit": limit} if cursor is None else {"limit": limit, "cursor": cursor}
    response = service.api.get(service.path(template), **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    assert set(response.json) == {"items", "cursor"}
    return [item[LISTS[template][0]] for item in response.json["items"]], response.json["cursor"]


@pytest.mark.parametrize("template", FOUND)
def test_pages_have_each_item_once_during_inserts(service: Service, template: str) -> None:
    add(service, template, 8)
    before, end = page(service, template, 200)
    assert end is None
    assert len(before) >= 8
    listed, cursor = page(service, template, 3)
    while cursor is not None:
        add(service, template, 2)
        found, cursor = page(service, template, 3, cursor)
        assert 1 <= len(found) <= 3
        listed += found
    assert listed == before
    after, _ = page(service, template, 200)
    assert after[-len(before) :] == before
    assert len(set(after)) == len(after) > len(before)


@pytest.mark.parametrize("template", FOUND)
def test_last_page_has_no_cursor(service: Service, template: str) -> None:
    add(service, template, 3)
    everything, _ = page(service, template, 200)
    assert page(service, template, len(everything)) == (everything, None)
    first, cursor = page(service, template, len(everything) - 1)
    assert (first, page(service, template, 1, cursor)) == (everything[:-1], (everything[-1:], None))
