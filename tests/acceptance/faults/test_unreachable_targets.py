"""Unreachable targets: each delivery fails with the documented error type, and other deliveries continue."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from schema.states import EndpointType
from tests import rows
from tests.acceptance.tls import certify, https
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

NOWHERE = "no-such-host.invalid"


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Ports of HTTPS servers; `trusted.pem` contains all certificates except the self-signed certificate."""
    certificates = {
        "good": certify(tmp_path / "good.pem", "localhost"),
        "wrong-host": certify(tmp_path / "wrong.pem", "other.example"),
        "self-signed": certify(tmp_path / "self.pem", "localhost"),
    }
    trusted = "".join(certificates[name].read_text() for name in ("good", "wrong-host"))
    (tmp_path / "trusted.pem").write_text(trusted)
    with ExitStack() as stack:
        yield {name: stack.enter_context(https(certificate)) for name, certificate in certificates.items()}


# Only expected timeouts are short, because a refusal can also take long on a busy machine.
SHORT_MS, LONG_MS = 1500, 60_000


def http(url: str, timeout_ms: int = LONG_MS) -> tuple[EndpointType, dict[str, Any]]:
    return EndpointType.HTTP, {"url": url, "method": "POST", "timeout_ms": timeout_ms}


def kafka(servers: str, timeout_ms: int = LONG_MS) -> tuple[EndpointType, dict[str, Any]]:
    spec = {"bootstrap_servers": servers, "topic": "t", "timeout_ms": timeout_ms, "value_template": {}}
    return EndpointType.KAFKA, spec


def redis(url: str) -> tuple[EndpointType, dict[str, Any]]:
    return EndpointType.REDIS_STREAM, {
        "redis_url": url,
        "stream": "s",
        "timeout_ms": LONG_MS,
        "fields_template": {"a": "b"},
    }


# Documented error type, and whether the message may have been delivered.
EXPECTED = {
    "http-dns": ("CONNECTION_ERROR", False),
    "http-refused": ("CONNECTION_ERROR", False),
    "http-self-signed": ("CONNECTION_ERROR", False),
    "http-wrong-host": ("CONNECTION_ERROR", False),
    "http-too-slow": ("TIMEOUT", True),
    "kafka-dns": ("BROKER_ERROR", False),
    "kafka-refused": ("TIMEOUT", False),
    "redis-dns": ("CONNECTION_ERROR", False),
    "redis-refused": ("CONNECTION_ERROR", False),
    "redis-self-signed": ("CONNECTION_ERROR", False),
}


def test_each_target_fails_as_documented_while_other_deliveries_continue(
    database: Database, stack: Stack, receiver: Receiver, tls: dict[str, int], tmp_path: Path
) -> None:
    targets = {
        "http-dns": http(f"http://{NOWHERE}/x"),
        "http-refused": http("http://127.0.0.1:1/x"),
        "http-self-signed": http(f"https://localhost:{tls['self-signed']}/x"),
        "http-wrong-host": http(f"https://localhost:{tls['wrong-host']}/x"),
        "http-too-slow": http(f"{receiver.base_url}/hang/unreachable", SHORT_MS),
        "kafka-dns": kafka(f"{NOWHERE}:9092"),
        "kafka-refused": kafka("127.0.0.1:1", 2500),
        "redis-dns": redis(f"redis://{NOWHERE}:6379/0"),
        "redis-refused": redis("redis://127.0.0.1:1/0"),
        "redis-self-signed": redis(f"rediss://localhost:{tls['self-signed']}/0"),
    }
    healthy = {"tls": http(f"https://localhost:{tls['good']}/x"), "plain": http(f"{receiver.base_url}/ok/healthy")}
    hanging = {"hanging": http(f"{receiver.base_url}/hang/during-all-deliveries", 240_000)}
    worker = stack.worker(SSL_CERT_FILE=str(tmp_path / "trusted.pem"))
    started: dict[str, list[str]] = {}
    for name, (type_, spec) in (hanging | targets | healthy).items():
        rows.add_endpoint(database, name, type_=type_, spec=spec)
        started[name] = rows.add_executions(database, 3, endpoint=name, type_=type_)
    eventually(lambda: set(states(database, started["plain"] + started["tls"])) == {"SUCCESS"})
    failing = [execution_id for name in targets for execution_id in started[name]]
    eventually(lambda: {"QUEUED", "RUNNING"}.isdisjoint(states(database, failing)))
    assert set(states(database, started["hanging"])) == {"RUNNING"}, "a hanging delivery ended before the test"
    found = {name: {failure_of(database, execution_id) for execution_id in started[name]} for name in targets}
    assert found == {name: {expected} for name, expected in EXPECTED.items()}
    assert worker.is_running, worker.tail()


def test_hanging_host_holds_only_its_own_connections(database: Database, stack: Stack, receiver: Receiver) -> None:
    """Two deliveries hang and four stay unclaimed, so the other host gets all remaining slots."""
    hanging, quick = "/hang/capped", "/slow/20/uncapped"
    for name, host, path in (("hanging", "localhost", hanging), ("quick", "127.0.0.1", quick)):
        spec = {"url": f"http://{host}:{receiver.port}{path}", "method": "POST", "timeout_ms": 240_000}
        rows.add_endpoint(database, name, spec=spec)
    stack.worker(TE_CONNECTIONS_PER_HOST="2", TE_WORKER_MAX_CONCURRENT="8")
    stuck = rows.add_executions(database, 6, endpoint="hanging")
    receiver.wait_for(2, path=hanging)
    quick_executions = rows.add_executions(database, 60, endpoint="quick")
    eventually(lambda: set(states(database, quick_executions)) == {"SUCCESS"})
    assert sorted(states(database, stuck)) == ["QUEUED"] * 4 + ["RUNNING"] * 2
    assert len(receiver.wait_for(0, path=hanging)) == 2


def states(database: Database, executions: list[str]) -> list[str]:
    return [rows.execution(database, execution_id).status for execution_id in executions]


def failure_of(database: Database, execution_id: str) -> tuple[str, bool]:
    (attempt,) = rows.attempts(database, execution_id)
    return attempt.error["type"], attempt.error["may_have_been_delivered"]
