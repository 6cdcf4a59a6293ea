"""Kafka brokers that send arbitrary bytes: only their own deliveries fail, at a bounded cost."""

import asyncio
import itertools
import logging
import random
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka import MAX_RECEIVED_BYTES, KafkaDispatcher
from app.dev.servers import Tansu
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import Opening, failure, identity, rendered, run
from tests.contract.dispatch.kafka.hostile import FloodingKafka, HostileKafka

KIB = bytes(1024)
SYSTEM_BUFFERS = 16_000_000  # at most this many unread bytes fit into the kernel's buffers of a connection
THREADS = 100  # a few per producer, none for advertised brokers


def announcing(size: int) -> Iterator[bytes]:
    """Announce an answer of `size` bytes, and send zeros for ever."""
    return itertools.chain([struct.pack(">i", size)], itertools.repeat(64 * KIB))


def dripping() -> Iterator[bytes]:
    """Announce the longest accepted answer, and send its bytes too slowly to ever finish."""
    yield struct.pack(">i", MAX_RECEIVED_BYTES - 1)
    for _ in range(MAX_RECEIVED_BYTES - 2):
        yield b"\0"
        threading.Event().wait(0.01)


def garbage() -> Iterator[bytes]:
    generator = random.Random(20_260_315)
    while True:
        yield generator.randbytes(65_536)


HOSTILE = {
    "garbage": garbage,
    "the largest possible length": lambda: announcing(2**31 - 1),
    "a length within librdkafka's own limit": lambda: announcing(99_000_000),
    "a negative length": lambda: announcing(-1),
    "a drip": dripping,
}


def spec(bootstrap: str, topic: str = "t", timeout_ms: int = 4_000) -> dict[str, Any]:
    values = {"bootstrap_servers": bootstrap, "topic": topic, "value_template": {"a": 1}, "timeout_ms": timeout_ms}
    return rendered(EndpointType.KAFKA, values)


def test_hostile_brokers_fail_only_their_own_deliveries(
    kafka: Tansu, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL)
    died: list[object] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    before = psutil.Process().num_threads()
    kafka.create_topic("healthy")

    async def main(dispatcher: KafkaDispatcher, bootstraps: list[str]) -> int:
        attacks = [asyncio.create_task(failure(dispatcher, spec(bootstrap))) for bootstrap in bootstraps]
        for number in range(10):
            healthy = spec(kafka.bootstrap, "healthy", timeout_ms=60_000)
            assert (await dispatcher.send(healthy, identity(f"exec_{number}")))["partition"] == 0
        errors = await asyncio.gather(*attacks)
        assert {error.type for error in errors} <= {"TIMEOUT", "BROKER_ERROR"}
        return psutil.Process().num_threads()

    with ExitStack() as stack:
        floods = [stack.enter_context(FloodingKafka(flood)) for flood in HOSTILE.values()]
        many_brokers = stack.enter_context(HostileKafka(b"127.0.0.1", brokers=4_000))
        bootstraps = [hostile.bootstrap for hostile in [*floods, many_brokers]]
        threads = run(Opening(KafkaDispatcher), lambda dispatcher: main(dispatcher, bootstraps))
    assert died == []
    assert {
        name: flood.max_taken for name, flood in zip(HOSTILE, floods, strict=True) if flood.max_taken > SYSTEM_BUFFERS
    } == {}
    assert threads - before < THREADS
