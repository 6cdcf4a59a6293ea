"""Kafka deliveries: producers, shared by the deliveries to the same brokers with the same settings.

An attempt writes its record at most once: librdkafka resends where the broker can drop the duplicate (with `acks` "all"
and a timeout of 2.4 s or more), and nowhere else. The record header `te-idempotency-key` is the same in all attempts.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from actors.dispatch.base import Dispatcher, Identity, Network
from actors.dispatch.idle_pool import IDLE_SECONDS, IdlePool
from actors.dispatch.kafka_bootstrap import checked_servers
from actors.dispatch.kafka_outcome import broker_error, failure, timed_out
from actors.dispatch.kafka_producer import ProducerFailedError, Report, SharedProducer
from actors.dispatch.send_progress import Progress, bounded
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.kernel.formats import compact_json
from app.queue.executions.execution_model import DeliveryError

_NO_CREDENTIALS = frozenset({"security.protocol", "sasl.mechanism"})
# librdkafka looks for records that are out of time once a second. It gets a little more than that less time, so that
# its report comes within the attempt and nothing is sent after it. (Below about 2 s that leaves too little: there the
# attempt may end before the report.)
_SCAN_MS = 1_200
# An idempotent producer asks for its id on a half-second timer, so that its first record takes 0.5 s or 1.0 s.
_IDEMPOTENT_START_MS = 1_200

# The longest answer of a broker. librdkafka takes memory for what a broker announces, 100 MB by default, and starts a
# thread for each broker that it names. This is room for about 1,500 partitions of the topics that one producer uses.
MOST_RECEIVED_BYTES = 65_536


def open_dispatcher(network: Network) -> Dispatcher:
    """Make the dispatcher of Kafka."""
    return KafkaDispatcher(network)


class KafkaDispatcher:
    """Produces records; `send`, `sweep` and `close` belong to one event loop.

    The egress guard checks the addresses of the bootstrap servers before a producer is made. librdkafka looks names
    up again by itself, and connects to the brokers that the cluster names: those cannot be checked, because its
    callbacks for that are out of reach in Python. So nothing is sent where only public addresses are allowed.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._producers = IdlePool(SharedProducer.close)

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Produce one record and wait for the brokers to confirm it."""
        used: SharedProducer | None = None

        def explain(error: Exception, progress: Progress) -> Exception:
            if isinstance(error, KafkaException | ProducerFailedError):
                self._drop_broken(used)
            return failure(error, progress, used.last_error if used else None)

        async def produce(progress: Progress) -> dict[str, Any]:
            nonlocal used
            async with self.producer(spec, identity.scrubber) as producer:
                used = producer
                progress.begin_sending()
                report = await producer.produce(*_record(spec, identity))
                return self._judge(report, progress, producer)

        return await bounded(spec["timeout_ms"], identity, explain, produce)

    def producer(
        self, spec: Mapping[str, Any], scrubber: Scrubber = NO_SECRETS
    ) -> AbstractAsyncContextManager[SharedProducer]:
        """Lend the producer for the brokers and the settings of a spec, with the scrubber of its secrets."""
        servers = spec["bootstrap_servers"]
        # A producer logs for all who share it: to whom a server's name is a secret needs one that does not show it.
        shown = scrubber.text(servers)
        key = servers, shown, frozenset(spec["properties"].items()), spec["acks"], spec["timeout_ms"]
        return self._producers.use(key, partial(self._open, spec, scrubber))

    async def sweep(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close producers that have not been used for long."""
        await self._producers.sweep(idle_seconds)

    async def close(self) -> None:
        """Close every producer; records that were not confirmed stay so."""
        await self._producers.close()

    async def _open(self, spec: Mapping[str, Any], scrubber: Scrubber) -> SharedProducer:
        servers = await checked_servers(spec["bootstrap_servers"], self._network)
        producer = SharedProducer(_configuration(spec, servers), log_scrubbers(spec, scrubber), self._producers)
        try:
            await producer.opened.wait()
        except asyncio.CancelledError:
            producer.stop()
            raise
        if producer.failure is not None:
            raise producer.failure
        return producer

    def _judge(self, report: Report, progress: Progress, producer: SharedProducer) -> dict[str, Any]:
        """Make the output of a record that was taken; raises DeliveryError for any other."""
        error = report.error
        if error is None:
            return {"partition": report.partition, "offset": report.offset}
        self._drop_broken(producer, error)
        if error.code() != KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
            raise broker_error(error, report.partition)
        # Without a partition the record was never on its way to a broker.
        progress.is_sent = report.partition is not None
        raise timed_out(progress, producer.last_error)

    def _drop_broken(self, producer: SharedProducer | None, error: KafkaError | None = None) -> None:
        """Give up a producer that will never produce again."""
        if producer is not None and (producer.is_broken or (error is not None and error.fatal())):
            self._producers.forget(producer)
            producer.stop()


def log_scrubbers(spec: Mapping[str, Any], scrubber: Scrubber) -> list[Scrubber]:
    """Return what hides secrets from the log of a producer: those of the endpoint, and its credentials in any case."""
    credentials = [value for name, value in spec["properties"].items() if name not in _NO_CREDENTIALS]
    return [scrubber, Scrubber(credentials)]


def _configuration(spec: Mapping[str, Any], servers: str) -> dict[str, Any]:
    timeout_ms = spec["timeout_ms"]
    is_idempotent = spec["acks"] == "all" and timeout_ms >= _SCAN_MS + _IDEMPOTENT_START_MS
    return {
        "receive.message.max.bytes": MOST_RECEIVED_BYTES,
        **spec["properties"],
        "bootstrap.servers": servers,
        "client.id": "task-executor",
        "acks": spec["acks"],
        **({"enable.idempotence": True} if is_idempotent else {"retries": 0}),
        "message.timeout.ms": max(timeout_ms - _SCAN_MS, timeout_ms // 2, 10),
        # A topic that does not exist is an error of its own, and must be found within the timeout.
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
    headers = {**spec["headers"], **identity.as_metadata()}
    return (
        spec["topic"],
        None if key is None else (key if isinstance(key, str) else compact_json(key)).encode(errors="replace"),
        None if value is None else compact_json(value).encode(errors="replace"),  # without a value: a tombstone
        [(name, text.encode(errors="replace")) for name, text in headers.items()],
    )
