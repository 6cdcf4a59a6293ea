"""The API under gunicorn, over real sockets: what the test client cannot show."""

import functools
import gc
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import requests

from app.dev.process.ports import free_port
from app.dev.servers import Postgres
from app.dev.stack import programs
from app.kernel import db
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.processes.process_heartbeat import Kind, Process, processes
from schema import migrate
from tests.integration.registered import http_endpoint, one_shot
from tests.servers import start_or_skip
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
*COMMAND, APPLICATION = sys.executable, "-m", *programs.WEB


class Web:
    """A running gunicorn; a context manager, so that a test that fails leaves none behind."""

    def __init__(self, url: str, application: str = APPLICATION, **environment: str) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        environment = {"TE_LISTEN_ADDR": f"127.0.0.1:{self.port}", "TE_WEB_WORKERS": "1"} | environment
        self.process = subprocess.Popen(
            [*COMMAND, application],
            cwd=ROOT,
            env=os.environ | {"TE_DATABASE_URL": url} | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        # Read all the time, so that the process never waits for us.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += iter(self.process.stderr.readline, "")

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def is_ready(self) -> bool:
        try:
            return requests.get(f"{self.base}/health/ready", timeout=30).ok
        except requests.ConnectionError:
            return False

    def refusal(self, path: str, headers: dict[str, str]) -> tuple[requests.Response] | None:
        """Return what is not 200, in a tuple: such an answer is false by itself."""
        answer = requests.get(self.base + path, headers=headers, timeout=60)
        return None if answer.status_code == 200 else (answer,)

    def raw(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """Send bytes and read the answer: its status and its JSON."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Send TERM and return the exit status; also of one that ended by itself."""
        assert self.process.stderr is not None
        self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self._reader.join(10)
            self.process.stderr.close()


def key_for(url: str) -> str:
    database = db.connect(url, pool_size=1, application_name="te-test")
    try:
        return api_keys.create(database, "test", [Scope.ADMIN], None)
    finally:
        database.close()


def heartbeats(url: str) -> list[Process]:
    database = db.connect(url, pool_size=1, application_name="te-test")
    try:
        return processes(database, Kind.WEB)
    finally:
        database.close()


@pytest.fixture(scope="module")
def web(module_database_url: str) -> Iterator[Web]:
    """One server for all tests that leave it as it was."""
    with Web(module_database_url) as web:
        eventually(web.is_ready, what="the API")
        yield web


@pytest.fixture(scope="module")
def key(module_database_url: str) -> str:
    return key_for(module_database_url)


def test_it_serves_and_stops(database_url: str) -> None:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {key_for(database_url)}"
    with Web(database_url) as web, session:
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
            # What fits into the limit would be a config.
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


def test_who_sends_all_before_reading_sees_the_413(web: Web, key: str) -> None:
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
def test_what_is_not_even_http_gets_the_envelope(web: Web, request_: bytes, status: int) -> None:
    found, body = web.raw(request_)
    assert found == status
    assert set(body["error"]) == {"code", "message", "request_id", "details", "retryable"}
    assert "Traceback" not in web.log


def collected(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Tell how many objects collections of cycles leave out, and how many they look at."""
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([gc.get_freeze_count(), len(gc.get_objects())]).encode()]


def test_collections_leave_out_what_a_worker_has_loaded(database_url: str) -> None:
    with Web(database_url, f"{__name__}:collected") as web:
        eventually(web.is_ready, what="the application")
        left_out, looked_at = requests.get(web.base, timeout=60).json()
    assert left_out > 10 * looked_at


def test_no_header_changes_the_path(web: Web) -> None:
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
def test_a_body_that_breaks_off_is_400(web: Web, key: str, body: bytes) -> None:
    head = f"POST /configs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    status, answer = web.raw(head.encode() + b"Content-Type: application/json\r\n" + body)
    assert (status, answer["error"]["code"]) == (400, "INVALID_REQUEST")
    assert "Traceback" not in web.log


def test_it_waits_for_the_schema_and_gives_up(empty_database_url: str) -> None:
    with Web(empty_database_url, TE_STARTUP_TIMEOUT_SEC="1") as web:
        assert web.process.wait(60) != 0
    assert "db upgrade" in web.lines[-1]
    assert "Traceback" not in web.log


def test_it_waits_for_the_schema_and_starts(empty_database_url: str) -> None:
    with Web(empty_database_url) as web:
        eventually(lambda: "waiting for the database" in web.log, what="the wait")
        migrate.upgrade(empty_database_url)
        eventually(web.is_ready, what="the API")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TE_DATABASE_URL": ""}, "TE_DATABASE_URL"),
        ({"TE_WEB_THREADS": "0"}, "TE_WEB_THREADS"),
        ({"TE_SECRET_ENCRYPTION_KEY": "short"}, "TE_SECRET_ENCRYPTION_KEY"),
    ],
)
def test_a_wrong_setting_is_one_line(environment: dict[str, str], said: str) -> None:
    with Web("postgresql://nobody@127.0.0.1:1/none", **environment) as web:
        assert web.process.wait(60) != 0
    (line,) = web.lines
    assert said in line


def test_gunicorns_own_lines_follow_the_settings_of_the_log(database_url: str) -> None:
    with Web(database_url, TE_LOG_FORMAT="json") as web:
        eventually(web.is_ready, what="the API")
    assert "Starting gunicorn" in json.loads(web.lines[0])["message"]
    assert all(json.loads(line)["level"] for line in web.lines)
    with Web(database_url, TE_LOG_LEVEL="WARNING") as quiet:
        eventually(quiet.is_ready, what="the API")
    assert "Starting gunicorn" not in quiet.log


def test_a_lost_database_is_503_until_it_is_back() -> None:
    with start_or_skip(Postgres(fast=True)) as postgres:
        migrate.upgrade(postgres.url)
        headers = {"Authorization": f"Bearer {key_for(postgres.url)}"}
        with Web(postgres.url) as web:
            eventually(web.is_ready, what="the API")
            assert requests.get(f"{web.base}/jobs", headers=headers, timeout=60).status_code == 200
            postgres.kill()
            # Its sessions answer until they notice that the first process is gone.
            for path in ("/jobs", "/health/ready"):
                (answer,) = eventually(functools.partial(web.refusal, path, headers), what="the loss")
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
                assert answer.headers["Retry-After"]
            assert requests.get(f"{web.base}/health/live", timeout=60).status_code == 200
            postgres.start()
            eventually(web.is_ready, what="the API")
            assert requests.get(f"{web.base}/jobs", headers=headers, timeout=60).status_code == 200
        assert "Traceback" not in web.log
