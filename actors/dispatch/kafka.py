"""Kafka deliveries: producers, shared by the deliveries to the same brokers with the same settings.

An attempt writes its record at most once: librdkafka resends where the broker can drop the duplicate (with `acks` "all"
and a timeout of 2.4 s or more), and nowhere else. The record header `te-idempotency-key` is the same in all attempts.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from actors.dispatch.base import Identity
from actors.dispatch.egress import EgressGuard
from actors.dispatch.kafka_bootstrap import check
from actors.dispatch.kafka_producer import SharedProducer
from actors.dispatch.resolver import Resolver
from app.executions.model import DeliveryError
from app.formats import compact_json

IDLE_SECONDS = 300.0
CLOSE_SECONDS = 2.0
# librdkafka looks for records that are out of time once a second. It gets a little more than that less time, so that
# its report comes within the attempt and nothing is sent after it. (Below about 2 s that leaves too little: there the
# attempt may end before the report.)
_SCAN_MS = 1_200
# An idempotent producer asks for its id on a half-second timer, so that its first record takes 0.5 s or 1.0 s.
_IDEMPOTENT_START_MS = 1_200

_AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001
# Another attempt would meet the same answer.
_PERMANENT = _AUTHENTICATION | {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError._INVALID_ARG,  # noqa: SLF001
}
# The record is in the leader's log already.
_APPENDED = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


_Key = tuple[str, frozenset[tuple[str, str]], str, int]


@dataclass(slots=True)
class _Shared:
    """A producer, or its making, and when it was asked for last."""

    opening: asyncio.Task[SharedProducer]
    used_at: float

    def ready(self) -> SharedProducer | None:
        """Return the producer once it is made."""
        opening = self.opening
        is_ready = opening.done() and not opening.cancelled() and opening.exception() is None
        return opening.result() if is_ready else None


class KafkaDispatcher:
    """Produces records; `send`, `sweep` and `close` belong to one event loop.

    The egress guard checks the addresses of the bootstrap servers before a producer is made. librdkafka looks names
    up again by itself, and connects to the brokers that the cluster names: those are not checked.
    """

    def __init__(self, guard: EgressGuard) -> None:
        self._guard = guard
        self._resolver = Resolver()
        self._shared: dict[_Key, _Shared] = {}

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Produce one record and wait for the brokers to confirm it."""
        timeout_ms = spec["timeout_ms"]
        producer = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                producer = await self._producer(spec)
                report = await producer.produce(*_record(spec, identity))
        except TimeoutError:
            raise _timed_out(timeout_ms, producer, was_sent=producer is not None) from None
        except KafkaException as error:
            if producer is not None and producer.is_broken:
                self._drop(producer)
            raise _failure(error.args[0], None) from None
        except BufferError:
            raise DeliveryError("BROKER_ERROR", "too many records wait for these brokers") from None
        except (TypeError, ValueError) as error:
            raise DeliveryError(
                "BROKER_ERROR", f"librdkafka cannot take the record: {type(error).__name__}", permanent=True
            ) from None
        if report.error is not None:
            raise self._judge(report.error, report.partition, timeout_ms, producer)
        return {"partition": report.partition, "offset": report.offset}

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close producers that have not been used for long."""
        now = time.monotonic()
        for key, shared in list(self._shared.items()):
            producer = shared.ready()
            if producer is not None and not producer.pending and now - shared.used_at >= idle_seconds:
                del self._shared[key]
                producer.stop()

    async def close(self) -> None:
        """Close every producer; records that were not confirmed stay so."""
        openings = [shared.opening for shared in self._shared.values()]
        for opening in openings:
            opening.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for producer in await asyncio.gather(*openings, return_exceptions=True):
                    if isinstance(producer, SharedProducer):
                        producer.stop()
                        await producer.closed.wait()
        await self._resolver.close()

    async def _producer(self, spec: Mapping[str, Any]) -> SharedProducer:
        key = spec["bootstrap_servers"], frozenset(spec["properties"].items()), spec["acks"], spec["timeout_ms"]
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(asyncio.create_task(self._open(spec)), 0.0)
            shared.opening.add_done_callback(partial(self._forget_failed, key))
        shared.used_at = time.monotonic()
        # Others may wait for it too: who runs out of time leaves it alone.
        return await asyncio.shield(shared.opening)

    async def _open(self, spec: Mapping[str, Any]) -> SharedProducer:
        await check(spec["bootstrap_servers"], self._guard, self._resolver)
        secrets = [value for name, value in spec["properties"].items() if name.endswith(("password", "key.pem"))]
        producer = SharedProducer(_configuration(spec), secrets)
        try:
            await producer.opened.wait()
        except asyncio.CancelledError:
            producer.stop()
            raise
        if producer.failure is not None:
            raise producer.failure
        return producer

    def _forget_failed(self, key: _Key, opening: asyncio.Task[SharedProducer]) -> None:
        if opening.cancelled() or opening.exception() is not None:
            self._shared.pop(key, None)

    def _drop(self, producer: SharedProducer) -> None:
        for key, shared in list(self._shared.items()):
            if shared.ready() is producer:
                del self._shared[key]
        producer.stop()

    def _judge(
        self, error: KafkaError, partition: int | None, timeout_ms: int, producer: SharedProducer
    ) -> DeliveryError:
        if error.fatal() or producer.is_broken:
            self._drop(producer)  # it will never produce again
        if error.code() != KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
            return _failure(error, partition)
        # Without a partition it was never on its way to a broker.
        return _timed_out(timeout_ms, producer, was_sent=partition is not None)


def _configuration(spec: Mapping[str, Any]) -> dict[str, Any]:
    timeout_ms = spec["timeout_ms"]
    is_idempotent = spec["acks"] == "all" and timeout_ms >= _SCAN_MS + _IDEMPOTENT_START_MS
    return {
        **spec["properties"],
        "bootstrap.servers": spec["bootstrap_servers"],
        "client.id": "task-executor",
        "acks": spec["acks"],
        **({"enable.idempotence": True} if is_idempotent else {"retries": 0}),
        "message.timeout.ms": max(timeout_ms - _SCAN_MS, timeout_ms // 2, 10),
        # A topic that does not exist is an error of its own, and found out in time.
        "topic.metadata.propagation.max.ms": max(timeout_ms // 4, 1),
        "linger.ms": 1,
        "socket.keepalive.enable": True,
        "log.connection.close": False,
    }


def _record(
    spec: Mapping[str, Any], identity: Identity
) -> tuple[str, bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]:
    if not spec["topic"]:
        raise DeliveryError("BROKER_ERROR", "the topic is empty", permanent=True)
    key, value = spec.get("key_template"), spec.get("value_template")
    headers = {
        **spec["headers"],
        "te-idempotency-key": identity.idempotency_key,
        "te-job-id": identity.job_id,
        "te-execution-id": identity.execution_id,
        "te-attempt": str(identity.attempt),
        "te-scheduled-at": identity.scheduled_at_text,
        "traceparent": identity.traceparent,
    }
    return (
        spec["topic"],
        None if key is None else (key if isinstance(key, str) else compact_json(key)).encode(errors="replace"),
        None if value is None else compact_json(value).encode(errors="replace"),  # without a value: a tombstone
        [(name, text.encode(errors="replace")) for name, text in headers.items()],
    )


def _timed_out(timeout_ms: int, producer: SharedProducer | None, *, was_sent: bool) -> DeliveryError:
    last = producer.last_error if producer is not None else None
    if last is not None and last.code() in _AUTHENTICATION:
        return _failure(last, None)
    reason = f"; last error: {last.str()}" if last is not None else ""
    message = f"no confirmation came within {timeout_ms} ms{reason}"
    return DeliveryError("TIMEOUT", message, may_have_been_delivered=was_sent)


def _failure(error: KafkaError, partition: int | None) -> DeliveryError:
    # A broker's answer has a positive code, and says when the record was taken all the same. A failure of our side of
    # the connection leaves it open once the record was on its way.
    is_open = error.code() in _APPENDED or (error.code() < 0 and partition is not None)
    return DeliveryError(
        "BROKER_ERROR",
        f"{error.name()}: {error.str()}",
        permanent=error.code() in _PERMANENT,
        may_have_been_delivered=is_open,
    )
