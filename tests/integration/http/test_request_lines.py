"""Log line of each request: exactly one, with its ids."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.log import IDS, formatter
from app.web.http import request_log
from tests.integration.client import Api
from tests.integration.registered import register

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(params=["json"])
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """Return the request log of a web process at INFO, in the format of the parameter."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(request.param))
    log = logging.getLogger(request_log.__name__)
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield stream
    log.removeHandler(handler)
    log.setLevel(before)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_request_is_one_log_line_with_its_ids(api: Api, app: Flask, database: Database, written: io.StringIO) -> None:
    register(api, "mail")
    written.truncate(0)
    written.seek(0)
    reader = api_keys.create(database, "reader", [Scope.READ], None)
    body = {"endpoint": "mail", "trigger": "IMMEDIATE", "idempotency_key": "k", "input": {"card": "visa-4111"}}
    job = api.post("/jobs", body, headers={"X-Request-ID": "mine"}).json
    execution_id = job["execution"]["execution_id"]
    Api(app, reader).get(f"/executions/{execution_id}")
    Api(app, reader).send("GET", "/jobs/none", headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    created, read, missing = lines(written)
    assert {name: created[name] for name in ("level", "method", "path", "status_code", "request_id")} == {
        "level": "INFO",
        "method": "POST",
        "path": "/jobs",
        "status_code": 201,
        "request_id": "mine",
    }
    assert (created["job_id"], created["execution_id"]) == (job["job_id"], execution_id)
    assert (read["execution_id"], read["key_id"]) == (execution_id, api_keys.id_in(reader))
    assert read["path"] == f"/executions/{execution_id}"
    assert (missing["status_code"], missing["job_id"], missing["trace_id"]) == (404, "none", TRACE)
    for each in ("visa", reader.split("_")[2]):
        assert each not in written.getvalue()
    assert IDS.get() == {}, "the ids are cleared for the next request of the thread"


def test_probes_and_requests_without_a_key_are_not_logged(
    api: Api, app: Flask, database: Database, written: io.StringIO
) -> None:
    reader = api_keys.create(database, "reader", [Scope.READ], None)
    for key, path in ((None, "/jobs"), (None, "/nowhere"), (None, "/health/ready"), (reader, "/metrics")):
        Api(app, key).get(path)
    Api(app, reader).send("POST", "/jobs")
    assert lines(written) == []


@pytest.mark.parametrize("written", ["text"], indirect=True)
def test_path_is_escaped_and_truncated_in_the_log(api: Api, written: io.StringIO) -> None:
    api.get("/jobs/x%0a2026-01-01%20ERROR%20forged" + "y" * 5000)
    (line,) = written.getvalue().splitlines()
    assert "GET /jobs/x\\n2026-01-01 ERROR forged" in line
    assert len(line) < 800
