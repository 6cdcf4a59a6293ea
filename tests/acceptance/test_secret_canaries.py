"""Canary secrets of several kinds, echoed in many encodings: no row, log or response contains a readable part."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.dump import dump
from tests.acceptance.jobs import run_job
from tests.unit.catalog.canaries import ECHOES, SECRETS
from tests.unit.catalog.readings import leaks

pytestmark = pytest.mark.acceptance

KINDS = ("webhook with long segments", "bearer", "basic", "PEM", "key file", "database URL", "short", "not ASCII")
MAX_READABLE_CHARACTERS = 12  # including punctuation between eleven letters and digits


class Echo(BaseHTTPRequestHandler):
    """Responds with the received path and token in every encoding; the service truncates the long response."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        received = [json.loads(body)["token"], self.path]
        answer = "\n".join(f"<{way}> {echo(text)}" for text in received for way, echo in ECHOES.items()).encode()
        self.send_response(403 if "/refused/" in self.path else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def echo_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def channel(name: str, url: str, token: str) -> dict[str, Any]:
    """Make a channel with the secret in login, path, header and payload; its server echoes all and responds 403."""
    login = url.replace("http://", f"json://me:{token}@")
    spec = {"url": f"{login}/refused/{token}?+X-Token={token}&:token={token}", "title": "t", "body": "b"}
    return {"name": name, "type": "NOTIFICATION", "spec": spec}


def responses_of(api: Api, execution: Any) -> list[str]:
    path = f"/executions/{execution['execution_id']}"
    return [json.dumps(api.get(path + suffix)) for suffix in ("", "/attempts", "/logs")]


def test_no_canary_is_in_a_row_a_log_or_a_response(database: Database, stack: Stack, api: Api, echo_url: str) -> None:
    """The test covers successes, errors, and endpoints with a secret URL."""
    stack.web(TE_LOG_LEVEL="DEBUG")
    worker = stack.worker(TE_LOG_LEVEL="DEBUG")
    hook = f"{echo_url}/services/T0123ABCD/B0123ABCD/aB3dE6gH9jK2mN5pQ8"
    canaries = {kind.lower().replace(" ", "-"): SECRETS[kind][0] for kind in KINDS}
    api.post("/secrets", {"name": "hook", "value": hook})
    shown = []
    for name, value in canaries.items():
        api.post("/secrets", {"name": name, "value": value})
        for status in (200, 299):
            spec = {"url": "{{secret.hook}}", "body_template": {"token": f"{{{{secret.{name}}}}}"}}
            endpoint = f"{name}-{status}"
            api.post(
                "/endpoints", {"name": endpoint, "type": "HTTP", "spec": spec | {"expected_status_codes": [status]}}
            )
            execution = run_job(api, endpoint, endpoint)
            assert execution["status"] == ("SUCCESS" if status == 200 else "FAILED")
            stack.wait_for_line(worker, execution["execution_id"])
            shown += responses_of(api, execution)
        if name in {"bearer", "short"}:
            api.post("/endpoints", channel(f"{name}-channel", echo_url, f"{{{{secret.{name}}}}}"))
            execution = run_job(api, f"{name}-channel", f"{name}-channel")
            assert execution["last_error"]["status_code"] == 403
            stack.wait_for_line(worker, execution["execution_id"])
            shown += responses_of(api, execution)
    kept, written, answers = dump(database), stack.output(), "\n".join(shown)
    assert "[secret]" in answers
    for value in (*canaries.values(), hook.partition("services")[2]):
        longest = min(MAX_READABLE_CHARACTERS, len(value) - 1)
        for place in (kept, written, answers):
            assert leaks(place, value, longest) == set()
