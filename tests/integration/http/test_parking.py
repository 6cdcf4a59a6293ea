"""Suspended requests in a real gunicorn: a wait for a result holds no thread."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from typing import Any

import pytest
import requests

from app.kernel import db, ids
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.completion import Completion, complete
from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus
from tests import rows
from tests.claiming import take
from tests.integration.http.web_process import Web
from tests.integration.registered import http_endpoint, one_shot
from tests.waiting import HUNG_SECONDS, eventually

THREADS = 2
SLOTS = 40
SLOTS_PER_KEY = SLOTS // 2
OUTPUT = {"status_code": 200, "body": "done"}


@pytest.fixture(scope="module")
def store(module_database_url: str) -> Iterator[Database]:
    with closing(db.connect(module_database_url, pool_size=1, application_name="te-test")) as database:
        lease = {"host": "h", "pid": 1, "queues": ["http"], "capacity": 99, "lease_ms": 3_600_000}
        worker_lease.register(database, worker_id="wrk_1", **lease)  # type: ignore[arg-type]
        yield database


@pytest.fixture(scope="module")
def key(store: Database) -> str:
    return api_keys.create(store, "test", [Scope.ADMIN], None)


@pytest.fixture(scope="module")
def web(module_database_url: str, key: str) -> Iterator[Web]:
    settings = {"TE_WEB_THREADS": str(THREADS), "TE_WEB_QUEUE": "100", "TE_WEB_WAITING": str(SLOTS)}
    with Web(module_database_url, **settings) as web:
        eventually(web.is_ready, what="the API")
        assert requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=authorization(key), timeout=60).ok
        yield web


def authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def head(key: str, path: str, method: str = "GET", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{more}\r\n".encode()


def create(web: Web, key: str) -> str:
    """Create a job and return the id of its execution."""
    answer = requests.post(
        f"{web.base}/jobs", json=one_shot(ids.job_id()), headers=authorization(key), timeout=HUNG_SECONDS
    )
    found: str = answer.json()["execution"]["execution_id"]
    return found


class Client:
    """Connection that sends requests and reads answers."""

    def __init__(self, web: Web, stack: ExitStack) -> None:
        address = ("127.0.0.1", web.port)
        self.socket = stack.enter_context(socket.create_connection(address, timeout=HUNG_SECONDS))

    def send(self, request: bytes) -> "Client":
        self.socket.sendall(request)
        return self

    def answer(self) -> tuple[int, dict[str, str], Any]:
        response = HTTPResponse(self.socket)
        response.begin()
        body = response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, json.loads(body)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def wait_for_result(execution_id: str, key: str, wait: str = "60s") -> bytes:
    return head(key, f"/executions/{execution_id}/result?wait={wait}")


def request_result(web: Web, key: str, execution_id: str) -> requests.Response:
    """Request a result with a short wait."""
    path = f"/executions/{execution_id}/result?wait=10ms"
    return requests.get(web.base + path, headers=authorization(key), timeout=HUNG_SECONDS)


def follow(web: Web, key: str) -> requests.Response:
    """Request a stream."""
    headers = authorization(key) | {"Accept": "text/event-stream"}
    return requests.get(f"{web.base}/events", headers=headers, timeout=HUNG_SECONDS, stream=True)


def read_waiting(web: Web, key: str, series: str = "http_requests_waiting") -> int:
    """Return the number of waiting requests from `/metrics`."""
    text = requests.get(f"{web.base}/metrics", headers=authorization(key), timeout=HUNG_SECONDS).text
    lines = [line for line in text.splitlines() if line.startswith(f"task_executor_{series}")]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def complete_all(store: Database) -> int:
    """Complete all queued executions as a worker does."""
    claims = take(store, "wrk_1", 99).claims
    success = Verdict(ExecutionStatus.SUCCESS, None, dict(OUTPUT), None)
    now = rows.database_now(store)
    return len(complete(store, "wrk_1", [Completion(each, ids.attempt_id(), success, now, 0, ()) for each in claims]))


def test_more_suspended_requests_than_threads_all_get_their_result(
    web: Web, key: str, store: Database, stack: ExitStack
) -> None:
    keys = [key, api_keys.create(store, "other", [Scope.READ], None)]
    executions = [create(web, key) for _ in range(SLOTS)]
    waiting = [
        Client(web, stack).send(wait_for_result(each, keys[number % 2])) for number, each in enumerate(executions)
    ]
    eventually(lambda: read_waiting(web, key) == SLOTS == read_waiting(web, key, "http_waiting_places"))
    full = request_result(web, api_keys.create(store, "third", [Scope.READ], None), executions[0])
    assert full.status_code == 503
    assert full.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert int(full.headers["Retry-After"]) >= 1
    unwaited = requests.post(
        f"{web.base}/jobs",
        json=one_shot("full"),
        headers=authorization(key) | {"Prefer": "wait=60"},
        timeout=HUNG_SECONDS,
    )
    assert (unwaited.status_code, unwaited.headers.get("Preference-Applied")) == (201, None)
    waiting[0].send(head(key, "/jobs?limit=1"))  # a pipelined request, sent before the first answer
    assert complete_all(store) == SLOTS + 1
    for each, client in zip(executions, waiting, strict=True):
        status, headers, result = client.answer()
        assert (status, result["execution_id"], result["output"]) == (200, each, OUTPUT)
        assert (result["status"], result["error"], result["attempt_count"]) == ("SUCCESS", None, 1)
        assert headers["x-request-id"]
    assert waiting[0].answer()[0] == 200
    assert waiting[1].send(head(key, "/jobs?limit=1")).answer()[0] == 200, "the connection is kept"


def test_key_at_its_limit_of_slots_leaves_slots_for_other_keys(
    web: Web, key: str, store: Database, stack: ExitStack
) -> None:
    greedy, other = (api_keys.create(store, name, [Scope.JOBS_WRITE, Scope.READ], None) for name in ("greedy", "other"))
    execution_id = create(web, key)
    with ExitStack() as gone:
        for _ in range(SLOTS_PER_KEY - 1):
            Client(web, gone).send(wait_for_result(execution_id, greedy))
        stream = Client(web, gone).send(head(greedy, "/events", more="Accept: text/event-stream\r\n"))
        assert b" 200 " in stream.socket.recv(100)
        eventually(lambda: read_waiting(web, key) == SLOTS_PER_KEY - 1)
        refused = request_result(web, greedy, execution_id)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "RATE_LIMITED"
        assert int(refused.headers["Retry-After"]) >= 1
        # An EventSource stops for good after an error, so the answer is an empty stream that says when to retry.
        assert b"retry:" in follow(web, greedy).content
        preferring = authorization(greedy) | {"Prefer": "wait=60"}
        unwaited = requests.post(f"{web.base}/jobs", json=one_shot("greedy"), headers=preferring, timeout=HUNG_SECONDS)
        assert (unwaited.status_code, unwaited.headers.get("Preference-Applied")) == (201, None)
        others = [Client(web, stack).send(wait_for_result(execution_id, other)) for _ in range(SLOTS_PER_KEY)]
        eventually(lambda: read_waiting(web, key) == 2 * SLOTS_PER_KEY - 1)
    # A disconnected client frees its slot.
    eventually(lambda: request_result(web, greedy, execution_id).status_code == 202)
    assert complete_all(store) == 2
    assert {client.answer()[0] for client in others} == {200}
    again = create(web, key)
    assert request_result(web, other, again).status_code == 202, "an answered request frees its slot"
    complete_all(store)


def test_prefer_wait_answers_with_the_result(web: Web, key: str, store: Database, stack: ExitStack) -> None:
    body = json.dumps(one_shot("answered")).encode()
    more = (
        f"Prefer: wait=60\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    first, again = (Client(web, stack).send(head(key, "/jobs", "POST", more) + body) for _ in range(2))
    eventually(lambda: read_waiting(web, key) == 2)
    assert complete_all(store) == 1
    answers = sorted((client.answer() for client in (first, again)), key=lambda answer: -answer[0])
    for (status, headers, job), expected in zip(answers, (201, 200), strict=True):
        assert (status, job["status"], job["execution"]["status"]) == (expected, "RETIRED", "SUCCESS")
        assert (job["result"]["output"], headers["preference-applied"]) == (OUTPUT, "wait=60")
    late = requests.post(
        f"{web.base}/jobs",
        json=one_shot("late"),
        headers=authorization(key) | {"Prefer": "respond-async, wait=1"},
        timeout=60,
    )
    assert (late.status_code, late.headers["Preference-Applied"]) == (202, "respond-async, wait=1")
    assert "result" not in late.json()
    location = late.headers["Location"]
    assert requests.get(web.base + location, headers=authorization(key), timeout=60).status_code == 202
    complete_all(store)
    assert requests.get(web.base + location, headers=authorization(key), timeout=60).json()["output"] == OUTPUT


def test_key_revoked_during_the_wait_gets_no_result(web: Web, key: str, store: Database, stack: ExitStack) -> None:
    short_lived = api_keys.create(store, "short", [Scope.READ], None)
    execution_id = create(web, key)
    client = Client(web, stack).send(wait_for_result(execution_id, short_lived))
    eventually(lambda: read_waiting(web, key) == 1)
    api_keys.revoke(store, short_lived.split("_")[1])
    # A revoked key is refused once the cache entry of this process has expired.
    eventually(lambda: web.refusal("/jobs?limit=1", authorization(short_lived)))
    complete_all(store)
    assert client.answer()[0] == 401


def test_suspended_requests_are_answered_when_the_process_stops(
    module_database_url: str, key: str, store: Database, stack: ExitStack
) -> None:
    with Web(module_database_url, TE_WEB_THREADS="1", TE_WEB_WAITING="1") as web:
        eventually(web.is_ready, what="the API")
        execution_id = create(web, key)
        client = Client(web, stack).send(wait_for_result(execution_id, key))
        eventually(lambda: read_waiting(web, key) == 1)
        assert web.stop() == 0
        status, headers, result = client.answer()
        assert (status, headers["connection"], result["status"]) == (202, "close", "QUEUED")
    complete_all(store)
