"""A stopping web process answers the requests that it has, and refuses new connections at once."""

import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.integration.http.kept_client import REQUEST, Client
from tests.integration.http.web_process import Web
from tests.waiting import eventually

CLIENTS = 5


def held(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answer with the id of the process; /held answers when the writer of the pipe in the query closes it."""
    if environ["PATH_INFO"] == "/held":
        Path(environ["QUERY_STRING"]).read_bytes()
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def refuses(web: Web) -> bool:
    """Return whether a new connection is refused."""
    try:
        socket.create_connection(("127.0.0.1", web.port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def test_new_connections_are_refused_while_a_request_is_unfinished(module_database_url: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Web(module_database_url, f"{__name__}:held") as web:
        eventually(web.is_ready, what="the server")
        with Client(web) as client:
            client.send(f"GET /held?{pipe} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            with pipe.open("wb"):  # opened as soon as the request reads it
                web.process.send_signal(signal.SIGTERM)
                eventually(lambda: refuses(web), what="a refusal")
            assert client.status() == 200
        assert web.stop() == 0


def test_connections_that_wait_when_the_process_stops_are_answered(module_database_url: str) -> None:
    with Web(module_database_url, f"{__name__}:held") as web, ExitStack() as stack:
        eventually(web.is_ready, what="the server")
        with Client(web) as client:
            client.send(REQUEST)
            worker = int(client.answer()[1])
        os.kill(worker, signal.SIGSTOP)
        clients = [stack.enter_context(Client(web)) for _ in range(CLIENTS)]
        for client in clients:
            client.send(REQUEST)
        web.process.send_signal(signal.SIGTERM)
        os.kill(worker, signal.SIGTERM)  # as the master does
        os.kill(worker, signal.SIGCONT)
        assert [client.status() for client in clients] == [200] * CLIENTS
        assert web.stop() == 0
