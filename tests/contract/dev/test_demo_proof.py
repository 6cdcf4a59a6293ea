"""The demo's proof reads deliveries back from their targets, reports missing deliveries, and masks secrets."""

import io
import json
from collections.abc import Iterator

import pytest
import redis
import requests
from confluent_kafka import Producer

from app.dev.demo.demo_definitions import STREAM, TOPIC
from app.dev.demo.demo_job import DemoJob
from app.dev.demo.proof import show_deliveries
from app.dev.stack.receiver_targets import LocalTargets, local_targets
from app.dev.terminal import Terminal

SECRET = "sk-demo-not-to-be-seen"


@pytest.fixture
def targets() -> Iterator[LocalTargets]:
    with local_targets() as started:
        started.kafka.create_topic(TOPIC)
        yield started


@pytest.fixture
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal(printed: io.StringIO) -> Terminal:
    return Terminal(printed)


def jobs() -> list[DemoJob]:
    """Return two jobs for each transport, `a` and `b`."""
    transports = ("HTTP", "KAFKA", "REDIS_STREAM", "NOTIFICATION")
    return [DemoJob(f"{transport}-{name}", "any", transport, "IMMEDIATE") for transport in transports for name in "ab"]


def deliver(targets: LocalTargets, name: str) -> None:
    with requests.Session() as client:
        client.trust_env = False
        body = {"order_id": f"HTTP-{name}"}
        client.post(targets.receiver.url("/ok/orders"), json=body, headers={"Authorization": f"Bearer {SECRET}"})
        client.post(targets.receiver.url("/ok/people"), json={"title": f"NOTIFICATION-{name}"})
    producer = Producer({"bootstrap.servers": targets.kafka.bootstrap})
    producer.produce(TOPIC, json.dumps({"order_id": f"KAFKA-{name}"}), headers={"ce-type": "order.placed"})
    assert producer.flush(10) == 0
    with redis.Redis.from_url(targets.valkey.url) as client_of_redis:
        client_of_redis.xadd(STREAM, {"order_id": f"REDIS_STREAM-{name}"})


def test_all_deliveries_are_found_and_secrets_are_masked(
    targets: LocalTargets, terminal: Terminal, printed: io.StringIO
) -> None:
    deliver(targets, "a")
    deliver(targets, "b")
    assert show_deliveries(jobs(), targets, SECRET, terminal) == []
    shown = printed.getvalue()
    assert "ce-type: order.placed" in shown
    assert "Authorization: Bearer sk-d•••" in shown
    assert SECRET not in shown


def test_missing_deliveries_are_reported(targets: LocalTargets, terminal: Terminal) -> None:
    deliver(targets, "a")
    missing = ["HTTP-b", "KAFKA-b", "REDIS_STREAM-b", "NOTIFICATION-b"]
    assert show_deliveries(jobs(), targets, SECRET, terminal, patience=1.0) == missing


def test_lateness_is_measured_at_the_first_attempt() -> None:
    job = DemoJob("a", "any", "HTTP", "DELAYED", job_id="job_1")
    assert job.lateness_ms is None
    job.execution = {
        "status": "SUCCESS",
        "scheduled_at": "2026-01-01T00:00:00.000Z",
        "run_at": "2026-01-01T00:00:09.000Z",  # moved by the retry
    }
    job.attempts = [{"started_at": "2026-01-01T00:00:00.012Z"}, {"started_at": "2026-01-01T00:00:09.500Z"}]
    assert job.lateness_ms == 12
