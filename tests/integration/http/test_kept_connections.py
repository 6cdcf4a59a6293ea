"""Kept connections under gunicorn: a thread that waits for the next request delays no other client."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.http.kept_client import REQUEST, Client
from tests.integration.http.web_process import Web
from tests.waiting import eventually

CLIENTS = 6
TOGETHER, ROUNDS = 32, 3


@pytest.fixture(scope="module")
def web(module_database_url: str) -> Iterator[Web]:
    with Web(module_database_url, TE_WEB_THREADS="2") as web:
        eventually(web.is_ready, what="the API")
        yield web


def test_pipelined_requests_are_answered_in_order(web: Web) -> None:
    with Client(web) as client:
        client.send(REQUEST * 3)
        assert [client.status() for _ in range(3)] == [200] * 3
        client.send(REQUEST)
        assert client.status() == 200


def test_more_kept_connections_than_threads_are_served(web: Web) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(web)) for _ in range(CLIENTS)]
        for _ in range(20):
            for client in clients:
                client.send(REQUEST)
                assert client.status() == 200


def test_disconnect_of_a_kept_connection_is_no_error(web: Web) -> None:
    for _ in range(20):
        with Client(web) as client:
            client.send(REQUEST)
            assert client.status() == 200
    assert web.refusal("/health/live", {}) is None
    assert "Traceback" not in web.log
    assert "Error" not in web.log


def process_id(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer with the id of the process that serves the connection."""
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def processes(web: Web, together: int) -> Counter[bytes]:
    """Return the number of connections by process, of some that are opened together and kept."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(web)) for _ in range(together)]
        for client in clients:
            client.send(REQUEST)
        return Counter(client.answer()[1] for client in clients)


def test_connections_opened_together_are_shared_by_all_processes(module_database_url: str) -> None:
    with Web(module_database_url, f"{__name__}:process_id", TE_WEB_WORKERS="2") as web:
        eventually(lambda: web.is_ready() and len(processes(web, 2)) == 2, what="both processes")
        found = [processes(web, TOGETHER) for _ in range(ROUNDS)]
    assert all(len(each) == 2 for each in found), found
