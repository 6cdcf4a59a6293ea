"""Queue, priority and limit key of an execution: from its job, or else from the endpoint at creation."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.executions import materialization
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.schedule.due_ticks import Advance
from schema.states import ExecutionStatus
from tests.cron_jobs import due_jobs
from tests.integration.client import Api, another_process, pointers, problem, read_all_pages, services
from tests.integration.registered import created, cron, delayed, interval, one_shot, register

Partition = tuple[str, int, str | None]
LIMITS = {"per_key": {"key": "{{input.tenant.id}}", "max_in_flight": 1}}
OWN: dict[str, Any] = {"queue": "own", "priority": 255}


def partition(shown: Any) -> Partition:
    return shown["queue"], shown["priority"], shown["limit_key"]


def execution(api: Api, job: Any) -> Partition:
    return partition(api.get(f"/executions/{job['execution']['execution_id']}").json)


def patch(api: Api, **flow: Any) -> None:
    assert api.send("PATCH", "/endpoints/target", json=flow).status_code == 200


def alone(api: Api, body: Any) -> Any:
    return created(api, body)


def in_batch(api: Api, body: Any) -> Any:
    """Create the job in a batch between two jobs of another endpoint, which keep the default flow."""
    if api.get("/endpoints/other").status_code == 404:
        register(api, "other")
    others = [one_shot(f"{body['idempotency_key']}-{n}", endpoint="other") for n in range(2)]
    items = api.post("/jobs/batch", {"jobs": [others[0], body, others[1]]}).json["items"]
    assert [item["status"] for item in items] == [201] * 3, items
    assert all(execution(api, items[n]["job"]) == ("http", 128, None) for n in (0, 2))
    return items[1]["job"]


@pytest.mark.parametrize("create", [alone, in_batch])
def test_execution_takes_the_flow_of_its_job_or_else_of_its_endpoint(
    api: Api, create: Callable[[Api, Any], Any]
) -> None:
    register(api)
    plain = create(api, one_shot("plain"))
    assert (partition(plain), execution(api, plain)) == ((None, None, None), ("http", 128, None))
    patch(api, queue="bulk", priority=7, limits=LIMITS)
    tenant = {"tenant": {"id": "acme"}}
    second = create(api, one_shot("second", input=tenant))
    assert (partition(second), execution(api, second)) == ((None, None, "acme"), ("bulk", 7, "acme"))
    own = create(api, delayed("own", "2090-01-01T00:00:00Z", input=tenant, **OWN))
    assert (partition(own), execution(api, own)) == (("own", 255, "acme"), ("own", 255, "acme"))
    zero = create(api, one_shot("zero", priority=0))
    # An input without the value of the limit key is no failure: its limit key is empty.
    assert execution(api, zero) == ("bulk", 0, "")
    # A waiting execution keeps its queue.
    assert execution(api, plain) == ("http", 128, None)
    again = api.post("/jobs", one_shot("own"))
    assert (again.status_code, again.json) == (200, api.get(f"/jobs/{own['job_id']}").json)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("a=b", "a=b"),
        (7, "7"),
        (True, "true"),
        (None, "null"),
        ({"b": [1]}, '{"b":[1]}'),
        ("x" * 100, "x" * 100),
        ("x" * 101, "#" + hashlib.blake2b(b"x" * 101, digest_size=16).hexdigest()),
        ("#x", "#" + hashlib.blake2b(b"#x", digest_size=16).hexdigest()),
        ("é", "é"),
    ],
)
def test_limit_key_is_the_value_as_text_or_a_hash(api: Api, value: Any, key: str) -> None:
    register(api, limits=LIMITS)
    assert execution(api, created(api, one_shot("k", input={"tenant": {"id": value}}))) == ("http", 128, key)


def test_changed_limit_key_applies_in_every_process(api: Api) -> None:
    """The other process has cached the endpoint; the INSERT compares the cached template with the stored template."""
    register(api)
    with another_process(api) as other:
        bodies = [one_shot(f"k{n}", input={"a": "one", "b": "two"}) for n in range(4)]
        assert execution(other, created(other, bodies[0])) == ("http", 128, None)
        for number, path in enumerate(("a", "b"), 1):
            patch(api, limits={"per_key": {"key": f"{{{{input.{path}}}}}", "max_in_flight": 1}})
            found = other.post("/jobs/batch", {"jobs": [bodies[number]]}).json["items"][0]["job"]
            assert execution(other, found) == ("http", 128, bodies[number]["input"][path])
        patch(api, limits=None)
        assert execution(other, created(other, bodies[3])) == ("http", 128, None)


@pytest.mark.parametrize("body", [cron(), interval(every="1h", starts_at="2020-01-01T00:00:00Z", catch_up="latest")])
def test_ticks_and_manual_runs_take_the_flow_of_job_and_endpoint(
    api: Api, database: Database, body: dict[str, Any]
) -> None:
    register(api, limits=LIMITS)
    job = created(api, body | {"input": {"tenant": {"id": "acme"}}})
    path = f"/jobs/{job['job_id']}"
    assert partition(job) == (None, None, "acme")

    def run() -> Partition:
        return partition(api.post(f"{path}/run").json)

    def tick() -> tuple[Partition, frozenset[str]]:
        database.fetch(text("UPDATE jobs SET cron_next_run_at = now() - INTERVAL '1 second' WHERE status = 'ACTIVE'"))
        (due,) = due_jobs(database)
        advance = Advance(due, (due.next_run_at,), due.next_run_at + timedelta(hours=1))
        done = materialization.materialize(database, [advance], shards=1)
        newest = api.get("/executions", limit=1).json["items"][0]
        return partition(newest), done.queues

    assert (run(), tick()) == (("http", 128, "acme"), (("http", 128, "acme"), frozenset({"http"})))
    patch(api, queue="bulk", priority=7)
    assert (run(), tick()) == (("bulk", 7, "acme"), (("bulk", 7, "acme"), frozenset({"bulk"})))
    changed = api.put(path, OWN).json
    assert partition(changed) == ("own", 255, "acme")
    path = f"/jobs/{changed['job_id']}"
    assert (run(), tick()) == (("own", 255, "acme"), (("own", 255, "acme"), frozenset({"own"})))
    kept = api.put(path, {"name": "kept"}).json
    assert partition(kept) == ("own", 255, "acme")
    assert partition(api.put(f"/jobs/{kept['job_id']}", {"queue": None, "priority": None}).json) == (None, None, "acme")


def test_hint_names_the_queue_of_the_execution(app: Flask, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[str] = []
    register(api, queue="bulk")
    monkeypatch.setattr(services(app).notifier, "hint", lambda queue, *_: woken.append(queue))
    job = created(api, one_shot("a"))
    created(api, one_shot("b", queue="own"))
    assert woken == ["bulk", "own"]
    assert api.post("/jobs/batch", {"jobs": [one_shot("c"), one_shot("d", queue="own")]}).status_code == 200
    assert sorted(woken[2:]) == ["bulk", "own"]
    patch(api, queue="elsewhere")
    del woken[:]
    assert api.post(f"/jobs/{job['job_id']}/run").status_code == 200
    assert woken == ["bulk"]
    assert api.post("/endpoints/target/pause").status_code == 200
    assert woken == ["bulk", "elsewhere"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 256), ("priority", -1), ("priority", 1.5), ("priority", "7"), ("queue", "Bulk"), ("queue", 7)],
)
def test_invalid_flow_field_of_a_job_is_named(shared_api: Api, field: str, value: Any) -> None:
    wrong = {field: value}
    for response in (
        shared_api.post("/jobs", one_shot("k", **wrong)),
        shared_api.post("/jobs", cron(**wrong)),
        shared_api.put("/jobs/nope", wrong),
        shared_api.send("PATCH", "/jobs/nope", json=wrong),
    ):
        assert pointers(problem(response, 400, "INVALID_REQUEST")) == [f"/{field}"]
    item = shared_api.post("/jobs/batch", {"jobs": [one_shot("k", **wrong)]}).json["items"][0]
    assert (item["status"], item["error"]["details"][0]["pointer"]) == (400, f"/{field}")


def test_jobs_are_filtered_by_the_queue_of_the_job(api: Api) -> None:
    register(api)
    own = [created(api, one_shot(f"own{n}", queue="own"))["job_id"] for n in range(4)]
    created(api, one_shot("none"))
    created(api, cron(queue="other"))
    assert read_all_pages(api, "/jobs", "job_id", queue="own") == own[::-1]
    assert api.get("/jobs", queue="none").json["items"] == []


def read_queue_own(database: Database, chunk: int, seconds: float, limit: int, **wanted: Any) -> list[str]:
    """Return the ids of all pages of executions in the queue `own`."""
    found, request = list[str](), PageRequest(limit)
    filters = ExecutionFilter(queue="own", **wanted)
    while True:
        page = page_of_executions(database, filters, request, chunk=chunk, seconds=seconds)
        assert len(page.items) <= limit
        found += [each.execution_id for each in page.items]
        if page.next is None:
            return found
        request = PageRequest(limit, page.next)


def test_executions_are_filtered_by_their_current_queue(api: Api, database: Database) -> None:
    """Small chunks end between any two rows; without a time budget, each page is a single chunk."""
    register(api)
    own = []
    for number in range(7):
        created(api, one_shot(f"other-{number}"))
        if number % 3 == 0:
            own.append(created(api, one_shot(f"own-{number}", queue="own"))["execution"]["execution_id"])
    database.fetch(text("UPDATE executions SET status = 'RETRYING' WHERE execution_id = :id"), {"id": own[1]})
    for chunk, seconds in ((250, 9), (3, 9), (2, 9), (2, 0)):
        read = partial(read_queue_own, database, chunk, seconds)
        assert read(2) == own[::-1]
        assert read(1, endpoint="target") == own[::-1]
        assert read(3, statuses=(ExecutionStatus.RETRYING,)) == [own[1]]
    assert read_all_pages(api, "/executions", "execution_id", queue="own", limit=2) == own[::-1]
    job_id = api.get(f"/executions/{own[0]}").json["job_id"]
    assert read_all_pages(api, f"/jobs/{job_id}/executions", "execution_id", queue="own") == [own[0]]
    assert read_all_pages(api, f"/jobs/{job_id}/executions", "execution_id", queue="none") == []
