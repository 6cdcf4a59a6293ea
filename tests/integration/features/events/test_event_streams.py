"""Event streams of a real gunicorn: many streams at once, and resumption after kill -9."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, BinaryIO

import pytest
import requests

from app.kernel import db, ids
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.http.web_process import Web
from tests.integration.registered import http_endpoint, one_shot
from tests.waiting import HUNG_SECONDS, eventually

STREAMS = 200
JOBS = 30


@pytest.fixture(scope="module")
def store(module_database_url: str) -> Iterator[Database]:
    with closing(db.connect(module_database_url, pool_size=1, application_name="te-test")) as database:
        yield database


@pytest.fixture(scope="module")
def key(store: Database) -> str:
    return api_keys.create(store, "test", [Scope.ADMIN], None)


@pytest.fixture(scope="module")
def web(module_database_url: str, key: str) -> Iterator[Web]:
    with Web(module_database_url, TE_WEB_THREADS="8", TE_WEB_QUEUE="400") as web:
        eventually(web.is_ready, what="the API")
        assert requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=authorization(key), timeout=60).ok
        yield web


def authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Reader:
    """Client of a stream that uses a raw socket, so that the test controls how much it reads."""

    def __init__(self, web: Web, key: str, query: str = "", last: str | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(HUNG_SECONDS)
        self.socket.connect(("127.0.0.1", web.port))
        more = "" if last is None else f"Last-Event-ID: {last}\r\n"
        head = f"GET /events{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n"
        self.socket.sendall(f"{head}{more}\r\n".encode())
        self.file: BinaryIO = self.socket.makefile("rb")
        self.last = last
        self.events: list[dict[str, Any]] = []
        self.has_ended_cleanly = False

    def begin(self) -> "Reader":
        """Read the head of the answer and the first message, which has the id at which the stream starts."""
        status = self.file.readline()
        assert b" 200 " in status, status + self.file.read(2000)
        while self.file.readline() != b"\r\n":
            pass
        assert self.message()
        return self

    def message(self) -> bool:
        """Read the next message, one chunk of the answer; return False at the end of the stream."""
        size = self.file.readline()
        if not size:
            return False
        chunk = self.file.read(int(size, 16) + 2)
        if int(size, 16) == 0:
            self.has_ended_cleanly = True
            return False
        fields = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines())
        self.last = fields["id"]
        if "data" in fields:
            self.events.append(json.loads(fields["data"]) | {"name": fields["event"]})
            assert self.events[-1]["event_id"] == self.last
        return True

    def read(self, count: int) -> list[str]:
        """Read until the client has `count` events; return their jobs."""
        while len(self.events) < count:
            assert self.message()
        return [event["job_id"] for event in self.events]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def create(web: Web, key: str, session: Any = requests) -> str:
    answer = session.post(
        f"{web.base}/jobs", json=one_shot(ids.job_id()), headers=authorization(key), timeout=HUNG_SECONDS
    )
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["job_id"]
    return found


def read_metric(web: Web, key: str, name: str) -> int:
    lines = requests.get(f"{web.base}/metrics", headers=authorization(key), timeout=HUNG_SECONDS).text.splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(f"task_executor_{name}"))


def test_200_streams_use_no_threads_and_each_gets_every_event_once(web: Web, key: str) -> None:
    with ExitStack() as stack, requests.Session() as session:
        # Open one stream after another: a slow machine refuses a request that waits 5 s for a thread.
        readers = [stack.enter_context(closing(Reader(web, key, "?kind=job"))).begin() for _ in range(STREAMS)]
        # The main thread counts a stream shortly after its head was sent, when it gets the connection back.
        eventually(lambda: read_metric(web, key, "http_streams_open") == STREAMS, what="the count of the streams")
        created, took = [], []
        for _ in range(JOBS):
            started = time.perf_counter()
            created.append(create(web, key, session))
            took.append(time.perf_counter() - started)
        p50, most = sorted(took)[JOBS // 2] * 1000, max(took) * 1000
        print(f"POST /jobs with {STREAMS} open streams: p50 {p50:.0f} ms, {most:.0f} ms at most")
        for reader in readers:
            assert reader.read(JOBS) == created
    eventually(lambda: read_metric(web, key, "http_streams_open") == 0, what="the end of the closed streams")


def test_client_that_resumes_after_a_kill_gets_each_event_once(module_database_url: str, key: str, web: Web) -> None:
    with Web(module_database_url) as other:
        eventually(other.is_ready, what="the API")
        first = Reader(other, key, "?kind=job").begin()
        created = [create(web, key) for _ in range(5)]
        assert first.read(3) == created[:3]
        last = first.last
        other.process.send_signal(signal.SIGKILL)
        for child in (line for line in other.lines if "Booting worker with pid" in line):
            kill(int(child.rpartition(" ")[2]))
        first.close()
    created += [create(web, key) for _ in range(3)]
    with closing(Reader(web, key, "?kind=job", last)) as again:
        assert again.begin().read(5) == created[3:]
    listed = requests.get(
        f"{web.base}/events?kind=job&after={last}&limit=2", headers=authorization(key), timeout=60
    ).json()
    assert [event["job_id"] for event in listed["items"]] == created[3:5]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_streams_end_cleanly_when_the_process_stops(module_database_url: str, key: str) -> None:
    with Web(module_database_url) as web:
        eventually(web.is_ready, what="the API")
        with closing(Reader(web, key).begin()) as reader:
            ended = threading.Thread(target=lambda: [None for _ in iter(reader.message, False)])
            ended.start()
            assert web.stop() == 0
            ended.join(HUNG_SECONDS)
            assert reader.has_ended_cleanly


def test_stream_of_a_revoked_key_ends(web: Web, key: str, store: Database) -> None:
    revoked = api_keys.create(store, "revoked", [Scope.READ], None)
    with closing(Reader(web, revoked, "?kind=breaker").begin()) as reader:
        api_keys.revoke(store, revoked.split("_")[1])
        while reader.message():
            pass
        assert reader.has_ended_cleanly
