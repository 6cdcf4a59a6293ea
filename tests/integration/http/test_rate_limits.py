"""Rate limits: per key, shared by all processes through Redis, and suspended while Redis is unreachable."""

import itertools
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.dev.servers import Valkey
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import KeyRing
from app.kernel.access.stored_texts import READ_EVERY_SECONDS
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import UnauthorizedError
from app.web.http import rate_limits
from tests.integration.client import Api, problem, running, services
from tests.integration.registered import one_shot, register
from tests.integration.statements import Statements
from tests.servers import start_or_skip


@contextmanager
def limited(database_url: str, rate: str = "3/minute", **changes: Any) -> Iterator[Flask]:
    with running(Settings(database_url=database_url, db_pool_size=4, rate_limit=rate, **changes)) as app:
        yield app


def client(app: Flask, *, scope: Scope = Scope.ADMIN) -> Api:
    return Api(app, api_keys.create(services(app).database, "test", [scope], None))


def limit_and_remaining(response: TestResponse) -> tuple[int, int]:
    """Check the rate-limit headers of an answer; return the limit and the remaining requests."""
    limit, remaining, reset = (int(response.headers[f"RateLimit-{name}"]) for name in ("Limit", "Remaining", "Reset"))
    assert response.headers["RateLimit-Policy"] == f"{limit};w=60"
    assert 1 <= reset <= 60
    return limit, remaining


def assert_limited(response: TestResponse) -> None:
    error = problem(response, 429, "RATE_LIMITED")
    assert error["retryable"]
    assert 1 <= int(response.headers["Retry-After"]) <= 60


def test_requests_are_not_limited_by_default(api: Api) -> None:
    response = api.get("/jobs")
    assert not [name for name, _ in response.headers if name.lower().startswith("ratelimit")]


def test_key_above_its_limit_gets_429(database_url: str) -> None:
    with limited(database_url) as app:
        one, other = client(app), client(app, scope=Scope.READ)
        register(one)
        assert limit_and_remaining(one.post("/jobs", one_shot("k"))) == (3, 1)
        assert limit_and_remaining(one.get("/jobs/nope")) == (3, 0)
        response = one.get("/jobs")
        assert_limited(response)
        assert limit_and_remaining(response) == (3, 0)
        assert response.headers["Retry-After"] == response.headers["RateLimit-Reset"]
        problem(other.post("/configs"), 403, "FORBIDDEN")
        assert limit_and_remaining(other.get("/jobs")) == (3, 1)
        for path in ("/health/live", "/health/ready", "/openapi.json"):
            assert one.get(path).status_code == 200
        problem(one.get("/nowhere"), 404, "NOT_FOUND")


def test_client_that_waits_for_retry_after_is_served(database_url: str) -> None:
    with limited(database_url, "1/second") as app:
        api = client(app)
        while (response := api.get("/jobs")).status_code == 200:
            pass
        time.sleep(int(response.headers["Retry-After"]))  # this test is about the clock
        assert api.get("/jobs").status_code == 200


def test_processes_share_counters_in_redis(database_url: str, valkey: Valkey) -> None:
    with ExitStack() as stack:
        shared = {"rate_limit_storage_url": valkey.url}
        one = client(stack.enter_context(limited(database_url, **shared)))
        two = Api(stack.enter_context(limited(database_url, **shared)), one.key)
        assert [limit_and_remaining(api.get("/jobs"))[1] for api in (one, two, one)] == [2, 1, 0]
        assert_limited(two.get("/jobs"))
        assert_limited(one.get("/jobs"))
        alone = Api(stack.enter_context(limited(database_url)), one.key)
        assert limit_and_remaining(alone.get("/jobs")) == (3, 2)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == rate_limits.__name__ and r.levelno == logging.WARNING]


def test_unreachable_storage_limits_no_request_until_it_returns(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with start_or_skip(Valkey()) as server, limited(database_url, rate_limit_storage_url=server.url) as app:
        services(app).counters.pause_seconds = 0.0
        api = client(app)
        for _ in range(3):
            assert api.get("/jobs").status_code == 200
        assert_limited(api.get("/jobs"))
        server.kill()
        for _ in range(6):
            response = api.get("/jobs")
            assert response.status_code == 200
            assert "RateLimit-Limit" not in response.headers
        assert len(warnings_of(caplog)) == 1
        server.start()
        assert limit_and_remaining(api.get("/jobs")) == (3, 2)


def connections_to(listener: socket.socket) -> int:
    listener.setblocking(False)
    for count in itertools.count():
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
    raise AssertionError


def test_hanging_storage_delays_one_request_briefly(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://:hunter2@127.0.0.1:{silent.getsockname()[1]}"
        with limited(database_url, rate_limit_storage_url=url) as app:
            api = client(app)
            for _ in range(20):
                assert api.get("/jobs").status_code == 200
        assert 1 <= connections_to(silent) <= 2
    (warning,) = warnings_of(caplog)
    assert "hunter2" not in warning


WRONG = "te_0123456789abcdef_wrong"


def sent_from(address: str) -> dict[str, Any]:
    return {"environ_overrides": {"REMOTE_ADDR": address}}


@pytest.mark.parametrize("is_shared", [False, True], ids=["in memory", "in redis"])
def test_address_with_too_many_invalid_keys_gets_429(
    database_url: str, request: pytest.FixtureRequest, is_shared: bool
) -> None:
    url = request.getfixturevalue("valkey").url if is_shared else ""
    bad, good = sent_from("192.0.2.1"), sent_from("192.0.2.2")
    with limited(database_url, "", rate_limit_bad_keys="3/minute", rate_limit_storage_url=url) as app:
        familiar, stranger, wrong = client(app), client(app), Api(app, WRONG)
        assert familiar.send("GET", "/jobs", **bad).status_code == 200
        for _ in range(5):
            problem(Api(app, None).send("GET", "/jobs", **bad), 401, "UNAUTHORIZED")
        for _ in range(3):
            problem(wrong.send("GET", "/jobs", **bad), 401, "UNAUTHORIZED")
        assert_limited(wrong.send("GET", "/jobs", **bad))
        assert stranger.send("GET", "/jobs", **bad).status_code == 200, "a valid key that this process has not cached"
        assert familiar.send("GET", "/jobs", **bad).status_code == 200
        assert stranger.send("GET", "/jobs", **good).status_code == 200
        problem(wrong.send("GET", "/jobs", **good), 401, "UNAUTHORIZED")


def test_flood_of_invalid_keys_costs_one_query_a_second(database: Database, statements: Statements) -> None:
    """Each key has a different id, so that a cache of invalid keys would not help."""
    now = 0.0
    ring = KeyRing(database, clock=lambda: now)
    old = api_keys.create(database, "old", [Scope.READ], None)
    statements.clear()
    for number in range(100):
        with pytest.raises(UnauthorizedError):
            ring.verify(f"te_{number:016x}_wrong", is_flooded=lambda: True)
    assert len(statements.texts) == 1
    assert ring.verify(old, is_flooded=lambda: True).name == "old", "a valid key that this process has not cached"
    new = api_keys.create(database, "new", [Scope.READ], None)
    now = READ_EVERY_SECONDS
    assert ring.verify(new, is_flooded=lambda: True).name == "new", "a key created during the flood"


def test_invalid_keys_do_not_evict_valid_keys(database: Database, statements: Statements) -> None:
    ring = KeyRing(database, clock=lambda: 0.0, cache_size=2)
    key = api_keys.create(database, "good", [Scope.READ], None)
    ring.verify(key)
    for number in range(5):
        with pytest.raises(UnauthorizedError):
            ring.verify(f"te_{number:016x}_wrong")
    statements.clear()
    assert ring.verify(key).name == "good"
    assert statements.texts == [], "the valid key is still cached"
