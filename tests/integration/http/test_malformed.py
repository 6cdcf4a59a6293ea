"""Thousands of malformed requests to every operation: never a 5xx, always the envelope, no change of any row count.

The cases are derived from the OpenAPI document: each leaf of each example body, each parameter, each path.
"""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from schema import tables
from tests.cases import choice_of, each_case
from tests.integration.client import Api, services
from tests.integration.http.document import document
from tests.integration.http.malformed import CONTENT_TYPES, HEADERS, INJECTED, MALFORMED, URL_PARTS, VALUES
from tests.integration.registered import created, cron, http_endpoint, one_shot, register_all
from tests.rows import add_letter, add_rule

pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]

OPERATIONS = [
    (method, path)
    for path, found in document()["paths"].items()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    if method.lower() in found
]
EACH_OPERATION = each_case(("method", "path"), OPERATIONS, ids=map(" ".join, OPERATIONS))
WITH_BODY = [
    (method, path) for method, path in OPERATIONS if "requestBody" in document()["paths"][path][method.lower()]
]
EACH_OPERATION_WITH_BODY = each_case(("method", "path"), WITH_BODY, ids=map(" ".join, WITH_BODY))
Send = Callable[..., None]
Rows = Callable[[], list[tuple[str, int]]]
# Id of the first transaction after all completed transactions that wrote something.
NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())"


@pytest.fixture(scope="module")
def existing(shared_api: Api) -> dict[str, str]:
    """Return path parameters of existing resources, in a catalog that fits the document's examples."""
    register_all(shared_api)
    for name in ("send-welcome-email", "push-notification"):
        assert shared_api.post("/endpoints", http_endpoint(name)).status_code == 201
    add_rule(services(shared_api.app).database, "config", "push-notification", endpoint="x-*")
    # The first cursor creates the signing key, which must not appear as the effect of a refused request.
    assert shared_api.get("/endpoints", limit=1).json["cursor"] is not None
    created(shared_api, cron())
    job = created(shared_api, one_shot("existing", trigger="DELAYED", run_at="2100-01-01T00:00:00Z"))
    job_parameters = {"job_id": job["job_id"], "execution_id": job["execution"]["execution_id"]}
    letter_id = add_letter(services(shared_api.app).database)
    nobody = {"target": "http:nobody:80", "queue": "nobody", "worker_id": "nobody", "version": "1"}
    redrive_id = shared_api.post("/redrives", {"wanted": {}, "all": True}).json["redrive_id"]
    bulk = shared_api.post("/bulk-operations", {"action": "retry", "wanted": {}, "all": True}).json
    bulk_parameters = {"redrive_id": redrive_id, "operation_id": bulk["operation_id"]}
    nodes = [{"name": "a", "endpoint": "push-notification", "delay": "1d"}]
    workflow = shared_api.post("/workflows", {"name": "w", "nodes": nodes}).json
    workflow_parameters = {"workflow_id": workflow["workflow_id"], "node": "a"}
    named = {"name": "config", "letter_id": letter_id}
    return job_parameters | nobody | bulk_parameters | workflow_parameters | named


@pytest.fixture(scope="module")
def rows(shared_api: Api) -> Iterator[Rows]:
    """Return a counter of the rows of each table; it counts only after a write, since counting is slow."""
    known: dict[object, list[tuple[str, int]]] = {}
    counts = [f"SELECT '{table}', count(*) FROM {table}" for table in sorted(tables.metadata.tables)]
    database = services(shared_api.app).database
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # A prepared statement, because planning takes longer than counting.
        connection.execute(text(f"PREPARE counts AS {' UNION ALL '.join(counts)} ORDER BY 1"))

        def current() -> list[tuple[str, int]]:
            until = None if database.is_cockroach else connection.exec_driver_sql(NEXT_TRANSACTION).scalar_one()
            if until is None or until not in known:
                known.clear()
                known[until] = [(name, number) for name, number in connection.execute(text("EXECUTE counts"))]
            return known[until]

        yield current


@pytest.fixture
def send(shared_api: Api, rows: Rows) -> Send:
    before = rows()

    def send(method: str, path: str, **kwargs: Any) -> None:
        nonlocal before
        response = shared_api.send(method, path, **kwargs)
        check(response)
        earlier, before = before, rows()
        assert response.status_code < 400 or earlier == before, (method, path[:200])

    return send


def check(response: TestResponse) -> None:
    summary = (response.request.method, response.request.path[:200], response.status_code)
    assert response.status_code < 500, summary
    assert INJECTED not in response.headers
    if response.status_code >= 400:
        assert set(response.json) == {"error"}, summary
        error = response.json["error"]
        assert set(error) == {"code", "message", "request_id", "details", "retryable"}
        assert error["request_id"] == response.headers["X-Request-ID"]
        assert len(response.data) < 20_000, summary
        assert "Traceback" not in error["message"]


def examples(method: str, path: str) -> list[Any]:
    media = document()["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
    return [example["value"] for example in media["examples"].values()]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value, including itself."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from leaves(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    result = target = copy.deepcopy(value)
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = new
    return result


@EACH_OPERATION_WITH_BODY
def test_malformed_bodies_change_nothing(method: str, path: str, send: Send, existing: dict[str, str]) -> None:
    path = path.format(**existing)
    for raw in MALFORMED.values():
        send(method, path, data=raw, content_type="application/json")


@EACH_OPERATION_WITH_BODY
def test_malformed_values_in_bodies_change_nothing(
    method: str, path: str, send: Send, existing: dict[str, str]
) -> None:
    url = path.format(**existing)
    for number, example in enumerate(examples(method, path)):
        # Fewer values in other examples than in the first. A PUT has the fields of a POST.
        share = 12 if number == 0 and method != "PUT" else 24
        for leaf in leaves(example):
            for value in choice_of(VALUES, share):
                send(method, url, data=json.dumps(changed(example, leaf, value)), content_type="application/json")


@EACH_OPERATION_WITH_BODY
def test_unsupported_content_types_change_nothing(method: str, path: str, send: Send, existing: dict[str, str]) -> None:
    for content_type in CONTENT_TYPES:
        send(method, path.format(**existing), data=json.dumps(examples(method, path)[0]), content_type=content_type)


@EACH_OPERATION
def test_malformed_paths_change_nothing(method: str, path: str, send: Send, existing: dict[str, str]) -> None:
    for name in (name for name in existing if f"{{{name}}}" in path):
        for part in choice_of(URL_PARTS, 3):
            send(method, path.format(**{**existing, name: part}), **body(method, path))


@EACH_OPERATION
def test_malformed_queries_change_nothing(method: str, path: str, send: Send, existing: dict[str, str]) -> None:
    known = [
        each["name"]
        for each in document()["paths"][path][method.lower()].get("parameters", [])
        if each["in"] == "query"
    ]
    cursor = quote("eyJhIjogMX0"), "A" * 9, "AAAA.BBBB", "%3D%3D"
    for name in [*known, "unknown", "limit%5B%5D", "%00"]:
        for part in choice_of([*URL_PARTS, *cursor, f"1&{name}=2", ""], 14):
            send(method, f"{path.format(**existing)}?{name}={part}", **body(method, path, empty=True))


@EACH_OPERATION
def test_malformed_headers_change_nothing(method: str, path: str, send: Send, existing: dict[str, str]) -> None:
    for headers in choice_of(HEADERS, 9):
        send(method, path.format(**existing), headers=headers, **body(method, path, empty=True))


def body(method: str, path: str, *, empty: bool = False) -> dict[str, Any]:
    if (method, path) not in WITH_BODY:
        return {}
    return {"json": {} if empty else examples(method, path)[0]}
