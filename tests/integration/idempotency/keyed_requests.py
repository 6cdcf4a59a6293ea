"""Requests to all operations that take an Idempotency-Key, with the rows that they need."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import text
from werkzeug.test import TestResponse

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from schema.tables import metadata
from tests import rows
from tests.integration.client import Api
from tests.integration.registered import SCHEMA, created, cron, http_endpoint, one_shot

Path = Callable[[Api, Database], str]
NOT_COMPARED = {"api_keys", "idempotency_keys"}


def job(path: str) -> Path:
    return lambda api, _database: path.format(created(api, cron())["job_id"])


def paused(api: Api, database: Database) -> str:
    job_id = created(api, cron())["job_id"]
    rows.add_tick(database, job_id)
    assert api.post(f"/jobs/{job_id}/pause").status_code == 200
    return f"/jobs/{job_id}/resume"


def paused_endpoint(api: Api, _database: Database) -> str:
    assert api.post("/endpoints/target/pause").status_code == 200
    return "/endpoints/target/resume"


def queue(verb: str) -> Path:
    def path(api: Api, _database: Database) -> str:
        created(api, one_shot("before", queue="bulk"))
        if verb == "resume":
            assert api.post("/queues/bulk/pause").status_code == 200
        return f"/queues/bulk/{verb}"

    return path


def workflow(verb: str) -> Path:
    def path(api: Api, _database: Database) -> str:
        # Only a gate has ended at once.
        nodes = [{"name": "a"} if verb == "retry" else {"name": "a", "endpoint": "target", "delay": "1d"}]
        made = api.post("/workflows", {"name": "w", "nodes": nodes}).json["workflow_id"]
        if verb == "resume":
            assert api.post(f"/workflows/{made}/pause").status_code == 200
        return f"/workflows/{made}/{verb}"

    return path


def worker(_api: Api, database: Database) -> str:
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=1, lease_ms=600_000)
    return "/workers/w/drain"


def with_a_tick(verb: str) -> Path:
    def path(api: Api, database: Database) -> str:
        job_id = created(api, cron())["job_id"]
        rows.add_tick(database, job_id)
        return f"/jobs/{job_id}/{verb}"

    return path


def execution(verb: str, status: str) -> Path:
    def path(api: Api, database: Database) -> str:
        found = created(api, one_shot("before"))
        rows.set_status(database, found["job_id"], status)
        return f"/executions/{found['execution']['execution_id']}/{verb}"

    return path


def letter(verb: str) -> Path:
    return lambda _api, database: f"/dead-letters/{rows.add_letter(database)}/{verb}"


def a_redrive(verb: str) -> Path:
    return a_bulk_job("/redrives", {"wanted": {}, "all": True}, "redrive_id", verb)


def a_bulk_operation(verb: str) -> Path:
    return a_bulk_job("/bulk-operations", {"action": "cancel", "wanted": {"endpoint": "target"}}, "operation_id", verb)


def a_bulk_job(collection: str, body: Any, id_field: str, verb: str) -> Path:
    def path(api: Api, _database: Database) -> str:
        started = api.post(collection, body)
        assert started.status_code == 202
        if verb == "resume":
            assert api.post(f"{collection}/{started.json[id_field]}/pause").status_code == 200
        return f"{collection}/{started.json[id_field]}/{verb}"

    return path


def an_open_breaker(_api: Api, database: Database) -> str:
    rows.add_breaker(database, "http:host:80", "open")
    return "/breakers/http:host:80/close"


RULE = {"name": "n", "events": ["execution.failed"], "channels": ["target"], "all": True}
BATCH = {"jobs": [one_shot("a"), cron(), one_shot("b", endpoint="nope")]}
# Path of the operation -> function that creates the rows and returns the path of the request, and the body.
REQUESTS: Mapping[str, tuple[Path, Any]] = {
    "/payload-specs": (lambda *_: "/payload-specs", {"name": "n", "schema": SCHEMA}),
    "/configs": (lambda *_: "/configs", {"name": "n", "values": {"a": 1}}),
    "/secrets": (lambda *_: "/secrets", {"name": "n", "value": "1234"}),
    "/notification-rules": (lambda *_: "/notification-rules", RULE),
    "/endpoints": (lambda *_: "/endpoints", http_endpoint("n")),
    "/endpoints/{name}/pause": (lambda *_: "/endpoints/target/pause", None),
    "/endpoints/{name}/resume": (paused_endpoint, None),
    "/jobs/batch": (lambda *_: "/jobs/batch", BATCH),
    "/jobs/{job_id}/cancel": (with_a_tick("cancel"), None),
    "/jobs/{job_id}/pause": (with_a_tick("pause"), None),
    "/jobs/{job_id}/resume": (paused, None),
    "/jobs/{job_id}/run": (job("/jobs/{}/run"), None),
    "/executions/{execution_id}/cancel": (execution("cancel", "RETRYING"), None),
    "/breakers/{target}/close": (an_open_breaker, None),
    "/workers/{worker_id}/drain": (worker, None),
    "/bulk-operations": (lambda *_: "/bulk-operations", {"action": "cancel", "wanted": {"endpoint": "target"}}),
    "/bulk-operations/{operation_id}/pause": (a_bulk_operation("pause"), None),
    "/bulk-operations/{operation_id}/resume": (a_bulk_operation("resume"), None),
    "/bulk-operations/{operation_id}/stop": (a_bulk_operation("stop"), None),
    "/redrives": (lambda *_: "/redrives", {"wanted": {"endpoint": "target"}}),
    "/redrives/{redrive_id}/pause": (a_redrive("pause"), None),
    "/redrives/{redrive_id}/resume": (a_redrive("resume"), None),
    "/redrives/{redrive_id}/stop": (a_redrive("stop"), None),
    "/dead-letters/{letter_id}/redrive": (letter("redrive"), {"input": {"user_id": "u-1"}}),
    "/dead-letters/{letter_id}/archive": (letter("archive"), {"note": "seen"}),
    "/workflows/{workflow_id}/cancel": (workflow("cancel"), None),
    "/workflows/{workflow_id}/pause": (workflow("pause"), None),
    "/workflows/{workflow_id}/resume": (workflow("resume"), None),
    "/workflows/{workflow_id}/retry": (workflow("retry"), {"from_nodes": ["a"]}),
    "/queues/{queue}/pause": (queue("pause"), None),
    "/queues/{queue}/resume": (queue("resume"), None),
    "/executions/{execution_id}/retry": (execution("retry", "FAILED"), None),
}


def send(api: Api, path: str, body: Any, key: str = "8e03978e") -> TestResponse:
    return api.post(path, body, headers={"Idempotency-Key": key})


def is_replay(response: TestResponse) -> bool:
    return response.headers.get("Idempotency-Replayed") == "true"


def contents(database: Database) -> dict[str, str]:
    """Return a hash of each table's rows."""
    hashes = [
        f"SELECT '{table.name}', md5(string_agg(CAST(t AS TEXT), ',' ORDER BY t)) FROM {table.name} AS t"
        for table in metadata.sorted_tables
        if table.name not in NOT_COMPARED
    ]
    return {row[0]: row[1] for row in database.fetch(text(" UNION ALL ".join(hashes)))}
