"""API under gunicorn over real sockets, for behaviour outside the reach of the test client."""

import functools
import gc
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from app.dev.servers import Postgres
from app.kernel import db
from app.kernel.processes.process_heartbeat import ProcessKind, ProcessRecord, processes
from schema import migrate
from tests.integration.http.web_process import Web, key_for
from tests.integration.registered import http_endpoint, one_shot
from tests.pg_proxy import Fault, PgProxy
from tests.servers import start_or_skip
from tests.waiting import eventually


def heartbeats(url: str) -> list[ProcessRecord]:
    database = db.connect(url, pool_size=1, application_name="te-test")
    try:
        return processes(database, ProcessKind.WEB)
    finally:
        database.close()


@pytest.fixture(scope="module")
def web(module_database_url: str) -> Iterator[Web]:
    """Return a server shared by the tests that do not change it."""
    with Web(module_database_url) as web:
        eventually(web.is_ready, what="the API")
        yield web


@pytest.fixture(scope="module")
def key(module_database_url: str) -> str:
    return key_for(module_database_url)


def test_server_serves_logs_json_and_stops(database_url: str) -> None:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {key_for(database_url)}"
    with Web(database_url, TE_LOG_FORMAT="json") as web, session:
        eventually(web.is_ready, what="the API")
        assert session.post(f"{web.base}/endpoints", json=http_endpoint()).status_code == 201
        first = session.post(f"{web.base}/jobs", json=one_shot("k"), headers={"X-Request-ID": "mine"})
        assert first.status_code == 201
        assert first.headers["X-Request-ID"] == "mine"
        assert session.post(f"{web.base}/jobs", json=one_shot("k")).headers["Idempotency-Replayed"] == "true"
        large = session.post(
            f"{web.base}/configs", data=b"x" * 20_000_000, headers={"Content-Type": "application/json"}
        )
        assert (large.status_code, large.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")

        def chunks() -> Iterator[bytes]:
            # Within the limit, this would be a valid config.
            yield json.dumps({"name": "cut", "values": {}}).encode()
            for _ in range(30):
                yield b" " * 65536

        chunked = session.post(f"{web.base}/configs", data=chunks(), headers={"Content-Type": "application/json"})
        assert (chunked.status_code, chunked.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
        (alive,) = eventually(lambda: heartbeats(database_url), what="a heartbeat")
        assert alive.status == "ALIVE"
    assert web.stop() == 0
    (ended,) = heartbeats(database_url)
    assert (ended.id, ended.status) == (alive.id, "DEAD")
    assert "Traceback" not in web.log
    assert "Starting gunicorn" in json.loads(web.lines[0])["message"]
    assert all(json.loads(line)["level"] for line in web.lines)


def test_client_that_sends_all_before_reading_gets_the_413(web: Web, key: str) -> None:
    head = (
        f"POST /configs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 20000000\r\n\r\n"
    )
    status, answer = web.raw(head.encode() + b"x" * 20_000_000)
    assert (status, answer["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"RUBBISH\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET /jobs HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n", 400),
        (b"GET /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
        (b"POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
    ],
)
def test_malformed_http_gets_the_envelope(web: Web, request_: bytes, status: int) -> None:
    found, body = web.raw(request_)
    assert found == status
    assert set(body["error"]) == {"code", "message", "request_id", "details", "retryable"}
    assert "Traceback" not in web.log


LOADED_BY = os.getpid()


def loaded(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer with the numbers of objects that garbage collection skips and scans, and who loaded the application."""
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([gc.get_freeze_count(), len(gc.get_objects()), os.getppid() == LOADED_BY]).encode()]


def test_application_is_loaded_before_the_fork_and_skipped_by_garbage_collection(database_url: str) -> None:
    with Web(database_url, f"{__name__}:loaded", TE_LOG_LEVEL="WARNING") as web:
        eventually(web.is_ready, what="the application")
        skipped, scanned, is_shared = requests.get(web.base, timeout=60).json()
    assert skipped > 10 * scanned
    assert is_shared
    assert "Starting gunicorn" not in web.log


def test_headers_do_not_change_the_path(web: Web) -> None:
    for header in ("SCRIPT_NAME: /elsewhere", "SCRIPT_NAME: /jobs", "PATH_INFO: /elsewhere"):
        status, body = web.raw(f"GET /jobs HTTP/1.1\r\nHost: x\r\n{header}\r\nConnection: close\r\n\r\n".encode())
        assert (status, body["error"]["code"]) == (401, "UNAUTHORIZED"), header


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 100\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    ],
)
def test_incomplete_body_is_400(web: Web, key: str, body: bytes) -> None:
    head = f"POST /configs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    status, answer = web.raw(head.encode() + b"Content-Type: application/json\r\n" + body)
    assert (status, answer["error"]["code"]) == (400, "INVALID_REQUEST")
    assert "Traceback" not in web.log


def test_server_exits_if_the_schema_stays_missing(empty_database_url: str) -> None:
    with Web(empty_database_url, TE_STARTUP_TIMEOUT_SEC="1") as web:
        assert web.process.wait(60) != 0
    assert "db upgrade" in web.lines[-1]
    assert "Traceback" not in web.log


def test_server_waits_for_the_schema_and_starts(empty_database_url: str) -> None:
    with Web(empty_database_url) as web:
        eventually(lambda: "waiting for the database" in web.log, what="the wait")
        migrate.upgrade(empty_database_url)
        eventually(web.is_ready, what="the API")


class _CutAtAStatement(PgProxy):
    """Proxy that refuses connections from the armed statement on, until it is redirected to the server."""

    def take(self, query: str) -> Fault | None:
        fault = super().take(query)
        if fault is not None:
            self.redirect(1)
        return fault


def test_server_waits_for_a_database_that_fails_after_the_check(database_url: str) -> None:
    port = urlsplit(database_url).port or 5432
    with _CutAtAStatement(port) as proxy:
        proxy.arm("INTO enqueue_settings", Fault(committed=False))
        with Web(proxy.url(database_url)) as web:
            eventually(lambda: "waiting for the database" in web.log, what="the wait")
            proxy.redirect(port)
            eventually(web.is_ready, what="the API")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TE_DATABASE_URL": ""}, "TE_DATABASE_URL"),
        ({"TE_WEB_THREADS": "0"}, "TE_WEB_THREADS"),
        ({"TE_SECRET_ENCRYPTION_KEY": "short"}, "TE_SECRET_ENCRYPTION_KEY"),
    ],
)
def test_invalid_setting_is_one_line(environment: dict[str, str], message: str) -> None:
    with Web("postgresql://nobody@127.0.0.1:1/none", **environment) as web:
        assert web.process.wait(60) != 0
    (line,) = web.lines
    assert message in line


def test_lost_database_is_503_until_it_returns() -> None:
    with start_or_skip(Postgres(fast=True)) as postgres:
        migrate.upgrade(postgres.url)
        headers = {"Authorization": f"Bearer {key_for(postgres.url)}"}
        with Web(postgres.url) as web:
            eventually(web.is_ready, what="the API")
            assert requests.get(f"{web.base}/jobs", headers=headers, timeout=60).status_code == 200
            postgres.kill()
            # PostgreSQL's sessions answer until they detect the death of the first process.
            for path in ("/jobs", "/health/ready"):
                (answer,) = eventually(functools.partial(web.refusal, path, headers), what="the loss")
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
                assert answer.headers["Retry-After"]
            assert requests.get(f"{web.base}/health/live", timeout=60).status_code == 200
            postgres.start()
            eventually(web.is_ready, what="the API")
            assert requests.get(f"{web.base}/jobs", headers=headers, timeout=60).status_code == 200
        assert "Traceback" not in web.log
