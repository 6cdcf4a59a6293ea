"""Undocumented names of gunicorn that the web server uses.

pyproject.toml pins gunicorn to a minor version. A newer version is adopted once this test and
tests/integration/http pass.
"""

import ast
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import errors, wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.workers.gthread import TConn, ThreadWorker

import app.web.server

SERVER = Path(app.web.server.__file__).parent
NAMES = {
    # Worker: methods and attributes that the web server overrides, calls or reads.
    *("self.init_process", "self.load_wsgi", "self.enqueue_req", "self.handle", "self.handle_request"),
    *("self.handle_error", "self.finish_request", "self.murder_pending", "self._cap_keepalive"),
    *("self._keepalive_after", "self.on_pending_socket_readable", "self.wsgi", "self.cfg.threads"),
    *("self.cfg.keepalive", "self.alive", "self.ppid", "self.tpool", "self.poller.register", "self.poller.unregister"),
    *("self.method_queue.defer", "self.pending_conns.append", "self.keepalived_conns", "self.nr_conns"),
    *("self.worker_connections", "self.accept", "self.set_accept_enabled", "self._accepting"),
    *("self.wait_for_and_dispatch_events", "self.sockets", "self.cfg.backlog"),
    # Connection, parser of its requests, and bytes that the parser has read ahead.
    *("conn.init", "conn.close", "conn.timeout", "conn.client", "conn.sock", "conn.parser.finish_body"),
    *("conn.parser.unreader.buf.getvalue", "conn.parser.mesg.body.failed", "conn.parser.mesg.body.reader.length"),
    "chunked.parser",
    # A request, its body, and its response.
    *("req._expected_100_continue", "req.body.failed", "response.chunked", "response.write"),
    *("response.start_response.__self__", "environ.gunicorn.socket"),
    # Functions and errors.
    *("util.write_nonblock", "http.ParseException", "http.ConfigurationProblem", "http.InvalidResponseHeader"),
    *("http.InvalidResponseHeaderName", "http.LimitRequestLine", "http.LimitRequestHeaders", "http.ExpectationFailed"),
}


@pytest.fixture
def roots() -> Iterator[dict[str, Any]]:
    """Root objects of the listed names, as gunicorn creates them for a request."""
    config = Config()
    worker = ThreadWorker(0, os.getppid(), [], SimpleNamespace(wsgi=lambda: None), 30, config, Logger(config))
    worker.tpool, worker.poller = worker.get_thread_pool(), SimpleNamespace(register=None, unregister=None)
    worker.load_wsgi()
    server, client = socket.socketpair()
    with server, client, closing(worker.tmp), worker.tpool:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        conn = TConn(config, server, ("127.0.0.1", 1), ("127.0.0.1", 2))
        conn.init()
        req = next(conn.parser)
        response, environ = wsgi.create(req, server, conn.client, conn.server, config)
        yield {
            "self": worker,
            "conn": conn,
            "chunked": ChunkedReader(req, None),
            "req": req,
            "response": response,
            "util": util,
            "http": errors,
            "environ": SimpleNamespace(gunicorn=SimpleNamespace(socket=environ["gunicorn.socket"])),
        }


def has(root: Any, path: list[str]) -> bool:
    for name in path:
        if not hasattr(root, name):
            return False
        root = getattr(root, name)
    return True


def test_gunicorn_has_every_private_name_that_the_server_uses(roots: dict[str, Any]) -> None:
    missing = {name for name in NAMES if not has(roots[name.split(".")[0]], name.split(".")[1:])}
    assert missing == set()


def test_every_private_name_that_the_server_uses_is_listed(roots: dict[str, Any]) -> None:
    nodes = [node for file in SERVER.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    assigned = {chain_of(node) for node in attributes if isinstance(node.ctx, ast.Store)}
    assigned |= {f"self.{node.name}" for node in nodes if isinstance(node, ast.FunctionDef)}
    of_gunicorn = {name for name in assigned if has(roots["self"], name.split(".")[1:])}
    used = {name for name in map(chain_of, attributes) if name.startswith(("self.", "conn.", "req."))}
    known = tuple(f"{name}." for name in NAMES | assigned - of_gunicorn)
    unlisted = {
        name
        for name in used | of_gunicorn
        if not f"{name}.".startswith(known) and not any(each.startswith(f"{name}.") for each in known)
    }
    assert unlisted - {"self.__init__"} == set()


def chain_of(node: ast.expr) -> str:
    """Return the dotted name of an expression up to its first call; `super()` counts as `self`."""
    if isinstance(node, ast.Attribute):
        before = chain_of(node.value)
        return f"{before}.{node.attr}" if before else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
        return "self"
    return node.id if isinstance(node, ast.Name) else ""
