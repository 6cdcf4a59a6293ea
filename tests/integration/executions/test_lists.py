"""Every list of the OpenAPI document, walked page by page while rows are inserted: nothing twice, nothing missed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from app.features.breakers import store as breakers_store
from app.features.breakers.rules import Reason, Transition
from app.kernel.db import Database
from app.kernel.processes import process_heartbeat, worker_lease
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from schema.states import BreakerState
from tests import rows
from tests.integration.client import Api
from tests.integration.http.document import document
from tests.integration.registered import created, cron, one_shot, register

TARGET = "http:walked:80"


@dataclass(slots=True)
class World:
    """A service with an endpoint, a cron job, the latest version of it, and an execution; it counts what is added."""

    api: Api
    database: Database
    job: dict[str, Any]
    latest: str
    execution_id: str
    added: int = 0

    def path(self, template: str) -> str:
        return template.format(job_id=self.job["job_id"], execution_id=self.execution_id, target=TARGET, name="walked")


@pytest.fixture
def world(api: Api, database: Database) -> World:
    register(api)
    rule = {"name": "walked", "events": ["execution.failed"], "channels": ["target"], "all": True}
    assert api.post("/notification-rules", rule).status_code == 201
    job = created(api, cron())
    (execution_id,) = rows.add_executions(database)
    return World(api, database, job, job["job_id"], execution_id)


def name(world: World) -> str:
    return f"n-{world.added}"


def add_version(world: World) -> None:
    response = world.api.put(f"/jobs/{world.latest}", {"cron": f"{world.added % 60} 9 * * *"})
    assert response.status_code == 200, response.get_data(as_text=True)
    world.latest = response.json["job_id"]


def add_config(world: World) -> None:
    assert world.api.post("/configs", {"name": name(world), "values": {}}).status_code == 201


def add_payload_spec(world: World) -> None:
    assert world.api.post("/payload-specs", {"name": name(world), "schema": {}}).status_code == 201


def add_secret(world: World) -> None:
    assert world.api.post("/secrets", {"name": name(world), "value": "value-v"}).status_code == 201


def add_endpoint(world: World) -> None:
    register(world.api, name(world))


def add_job(world: World) -> None:
    created(world.api, one_shot(name(world)))


def add_tick(world: World) -> None:
    rows.add_tick(world.database, world.job["job_id"])


def add_attempt(world: World) -> None:
    rows.add_attempt(world.database, world.execution_id, world.added, "FAILED")


def add_log(world: World) -> None:
    rows.add_log(world.database, world.execution_id, world.added, "INFO")


def watch(world: World, target: str) -> None:
    breakers_store.publish(world.database, {target: 60_000}, [])


def add_breaker(world: World) -> None:
    watch(world, f"http:{name(world)}:80")


def add_breaker_event(world: World) -> None:
    watch(world, TARGET)
    (noted,) = [noted for noted in breakers_store.notable(world.database) if noted.target == TARGET]
    assert breakers_store.change(
        world.database, noted, Transition(BreakerState.OPEN, Reason.RETRY_AFTER, 1000), "wrk_1"
    )


def add_worker(world: World) -> None:
    about: dict[str, Any] = {"host": "h", "pid": 1, "queues": ["http"], "capacity": 9, "lease_ms": 600_000}
    worker_lease.register(world.database, worker_id=name(world), **about)


def add_scheduler(world: World) -> None:
    process_heartbeat.beat(world.database, Component("default", ProcessKind.SCHEDULER, name(world)))


def add_letter(world: World) -> None:
    rows.add_letter(world.database)


def add_redrive(world: World) -> None:
    assert world.api.post("/redrives", {"wanted": {}, "all": True}).status_code == 202


def add_rule(world: World) -> None:
    rule = {"name": name(world), "events": ["execution.failed"], "channels": ["target"], "all": True}
    assert world.api.post("/notification-rules", rule).status_code == 201


def add_bulk_operation(world: World) -> None:
    body = {"action": "retry", "wanted": {"endpoint": "target"}}
    assert world.api.post("/bulk-operations", body).status_code == 202


def add_message(world: World) -> None:
    group = {"subjects": [], "counts": {"queue.late": 1}, "first_at": "2030-01-01T00:00:00Z"}
    params = {"id": name(world), "told": json.dumps(group | {"last_at": group["first_at"]})}
    add = "INSERT INTO notification_groups (group_id, rule, told, closed_at, messages)"
    world.database.fetch(
        text(f"{add} VALUES (:id, 'walked', CAST(:told AS JSONB), now(), CAST('[]' AS JSONB))"), params
    )


# Not those that are in the order of names: what is added comes first here.
BY_NAME = {"/queues"}
# By the path of each list: the field that tells its items apart, and how one more of them comes to be.
LISTS: dict[str, tuple[str, Callable[[World], None]]] = {
    "/payload-specs": ("name", add_payload_spec),
    "/configs": ("name", add_config),
    "/secrets": ("name", add_secret),
    "/endpoints": ("name", add_endpoint),
    "/jobs": ("job_id", add_job),
    "/jobs/{job_id}/executions": ("execution_id", add_tick),
    "/jobs/{job_id}/versions": ("job_id", add_version),
    "/executions": ("execution_id", add_job),
    "/executions/{execution_id}/attempts": ("attempt_id", add_attempt),
    "/executions/{execution_id}/logs": ("log_id", add_log),
    "/dead-letters": ("letter_id", add_letter),
    "/redrives": ("redrive_id", add_redrive),
    "/notification-rules": ("name", add_rule),
    "/bulk-operations": ("operation_id", add_bulk_operation),
    "/notification-rules/{name}/messages": ("group_id", add_message),
    "/audit": ("audit_id", add_config),
    "/breakers": ("target", add_breaker),
    "/breakers/{target}/events": ("event_id", add_breaker_event),
    "/workers": ("worker_id", add_worker),
    "/schedulers": ("scheduler_id", add_scheduler),
    "/processes": ("process_id", add_scheduler),
}


def test_every_list_of_the_document_is_here() -> None:
    listed = {
        path
        for path, operations in document()["paths"].items()
        if any(parameter.get("name") == "cursor" for parameter in operations.get("get", {}).get("parameters", []))
    }
    assert listed == LISTS.keys() | BY_NAME


def add(world: World, template: str, count: int) -> None:
    for _ in range(count):
        world.added += 1
        LISTS[template][1](world)


def page(world: World, template: str, limit: int, cursor: str | None = None) -> tuple[list[str], str | None]:
    query: dict[str, Any] = {"limit": limit} if cursor is None else {"limit": limit, "cursor": cursor}
    response = world.api.get(world.path(template), **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    assert set(response.json) == {"items", "cursor"}
    return [item[LISTS[template][0]] for item in response.json["items"]], response.json["cursor"]


@pytest.mark.parametrize("template", LISTS)
def test_a_walk_sees_each_item_once_while_others_are_inserted(world: World, template: str) -> None:
    add(world, template, 8)
    before, end = page(world, template, 200)
    assert end is None
    assert len(before) >= 8
    walked, cursor = page(world, template, 3)
    while cursor is not None:
        add(world, template, 2)
        found, cursor = page(world, template, 3, cursor)
        assert 1 <= len(found) <= 3
        walked += found
    assert walked == before
    after, _ = page(world, template, 200)
    assert after[-len(before) :] == before
    assert len(set(after)) == len(after) > len(before)


@pytest.mark.parametrize("template", LISTS)
def test_a_page_that_ends_the_list_has_no_cursor(world: World, template: str) -> None:
    add(world, template, 3)
    everything, _ = page(world, template, 200)
    assert page(world, template, len(everything)) == (everything, None)
    first, cursor = page(world, template, len(everything) - 1)
    assert (first, page(world, template, 1, cursor)) == (everything[:-1], (everything[-1:], None))
