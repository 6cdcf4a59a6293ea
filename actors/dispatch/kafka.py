"""Kafka deliveries: deliveries to the same brokers with the same settings share a producer.

An attempt writes its record at most once: librdkafka resends only if the broker can drop the duplicate (with `acks`
"all" and a timeout of 2.4 s or more). The record header `te-idempotency-key` is the same in all attempts.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from actors.dispatch.base import Dispatcher, Identity
from actors.dispatch.idle_pool import IdlePool
from actors.dispatch.kafka_brokers import check_named_brokers, checked_servers
from actors.dispatch.kafka_producer import CHECK_SECONDS, ProducerFailedError, Report, SharedProducer
from actors.dispatch.network import Network
from actors.dispatch.send_progress import Progress, bounded
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.kernel.formats import compact_json
from app.queue.executions.execution_model import DeliveryError

_NO_CREDENTIALS = frozenset({"security.protocol", "sasl.mechanism"})
# librdkafka checks for expired records once a second. Its time limit is shorter by a little more than that, so that its
# report comes within the attempt and nothing is sent later. (With less than about 2 s the attempt may end first.)
_SCAN_MS = 1_200
# An idempotent producer requests its id on a half-second timer, so its first record takes 0.5 s or 1.0 s.
_IDEMPOTENT_START_MS = 1_200

# Maximum answer of a broker. librdkafka allocates the announced length, by default up to 100 MB, and starts a thread
# for each broker in it. This limit allows about 1,500 partitions of the topics of one producer.
MAX_RECEIVED_BYTES = 65_536

_AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001
# Errors that another attempt would get again.
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
_UNFIT = re.compile("[\\0\\ud800-\\udfff]")  # characters that a topic cannot have
# Errors after the append to the leader's log.
_APPENDED = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class KafkaDispatcher(Dispatcher):
    """Produces records; `send`, `sweep` and `close` belong to one event loop.

    The egress guard checks the addresses of the bootstrap servers before a producer is made, and those of the brokers
    that the cluster names before the producer is used and every minute. librdkafka resolves names again by itself, and
    may learn of a broker and connect to it between two checks: its callbacks for that do not exist in Python. So
    nothing is sent if only public addresses are allowed.
    """

    def __init__(self, network: Network, check_seconds: float = CHECK_SECONDS) -> None:
        """`check_seconds` pass between two checks of the brokers that a cluster names."""
        self._network = network
        self._check_seconds = check_seconds
        self._pool: IdlePool[SharedProducer] = IdlePool()

    async def send(self, spec: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Produce one record and wait for the brokers to confirm it."""
        used: SharedProducer | None = None

        def explain(error: Exception, progress: Progress) -> Exception:
            if isinstance(error, KafkaException | ProducerFailedError):
                self._drop_broken(used)
            return failure(error, progress, used.last_error if used else None)

        async def produce(progress: Progress) -> dict[str, Any]:
            nonlocal used
            record = _record(spec, identity)
            async with self.producer(spec, identity.scrubber) as producer:
                used = producer
                await producer.ready()
                progress.begin_sending()
                report = await producer.produce(*record)
                return self._judge(report, progress, producer)

        return await bounded(spec["timeout_ms"], identity, explain, produce)

    def producer(
        self, spec: Mapping[str, Any], scrubber: Scrubber = NO_SECRETS
    ) -> AbstractAsyncContextManager[SharedProducer]:
        """Lend the producer for the brokers and settings of a spec, with the scrubber of its secrets."""
        servers = spec["bootstrap_servers"]
        # A producer has one log: a delivery with a secret in a server's name needs a producer of its own.
        shown = scrubber.text(servers)
        key = servers, shown, frozenset(spec["properties"].items()), spec["acks"], spec["timeout_ms"]
        return self._pool.use(key, partial(self._open, spec, scrubber))

    async def _open(self, spec: Mapping[str, Any], scrubber: Scrubber) -> SharedProducer:
        servers = await checked_servers(spec["bootstrap_servers"], self._network)
        producer = SharedProducer(
            _configuration(spec, servers),
            log_scrubbers(spec, scrubber),
            self._pool,
            partial(check_named_brokers, network=self._network),
            connection=_connection(spec, servers),
            check_seconds=self._check_seconds,
        )
        try:
            await producer.opened.wait()
        except asyncio.CancelledError:
            producer.stop()
            raise
        if producer.failure is not None:
            raise producer.failure
        return producer

    def _judge(self, report: Report, progress: Progress, producer: SharedProducer) -> dict[str, Any]:
        """Return the output of a confirmed record; raises DeliveryError for other reports."""
        error = report.error
        if error is None:
            return {"partition": report.partition, "offset": report.offset}
        self._drop_broken(producer, error)
        if error.code() != KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
            raise broker_error(error, report.partition)
        # A record without a partition was never sent to a broker.
        progress.is_sent = report.partition is not None
        raise timed_out(progress, producer.last_error)

    def _drop_broken(self, producer: SharedProducer | None, error: KafkaError | None = None) -> None:
        """Stop and forget a permanently broken producer."""
        if producer is not None and (producer.is_broken or (error is not None and error.fatal())):
            self._pool.forget(producer)
            producer.stop()


def log_scrubbers(spec: Mapping[str, Any], scrubber: Scrubber) -> list[Scrubber]:
    """Return the scrubbers for the log of a producer: of the endpoint's secrets, and always of its credentials."""
    credentials = [value for name, value in spec["properties"].items() if name not in _NO_CREDENTIALS]
    return [scrubber, Scrubber(credentials)]


def _connection(spec: Mapping[str, Any], servers: str) -> dict[str, str]:
    """Return the part of the configuration that a client needs to connect."""
    return {
        "receive.message.max.bytes": str(MAX_RECEIVED_BYTES),
        **spec["properties"],
        "bootstrap.servers": servers,
        "client.id": "task-executor",
    }


def _configuration(spec: Mapping[str, Any], servers: str) -> dict[str, Any]:
    timeout_ms = spec["timeout_ms"]
    is_idempotent = spec["acks"] == "all" and timeout_ms >= _SCAN_MS + _IDEMPOTENT_START_MS
    return {
        **_connection(spec, servers),
        # linger.ms is librdkafka's 5 ms: with 1 ms, batches are smaller, and a record takes a quarter more CPU time.
        "acks": spec["acks"],
        **({"enable.idempotence": True} if is_idempotent else {"retries": 0}),
        "message.timeout.ms": max(timeout_ms - _SCAN_MS, timeout_ms // 2, 10),
        # A missing topic is an error of its own, and must be detected within the timeout.
        "topic.metadata.propagation.max.ms": max(timeout_ms // 4, 1),
        "socket.keepalive.enable": True,
        "log.connection.close": False,
    }


def _record(
    spec: Mapping[str, Any], identity: Identity
) -> tuple[str, bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]:
    _check_topic(spec["topic"])
    key, value = spec.get("key_template"), spec.get("value_template")
    headers = {**spec["headers"], **identity.as_metadata()}
    return (
        spec["topic"],
        None if key is None else (key if isinstance(key, str) else compact_json(key)).encode(errors="replace"),
        None if value is None else compact_json(value).encode(errors="replace"),  # without a value: a tombstone
        [(name, text.encode(errors="replace")) for name, text in headers.items()],
    )


def _check_topic(topic: str) -> None:
    if not topic:
        raise DeliveryError("BROKER_ERROR", "the topic is empty", permanent=True)
    if _UNFIT.search(topic):
        raise DeliveryError("BROKER_ERROR", "the topic has a character that Kafka cannot take", permanent=True)


def failure(error: Exception, progress: Progress, last_error: KafkaError | None) -> Exception:
    """Return the error of a record without a report; `last_error` is the last error of the producer."""
    if isinstance(error, TimeoutError):
        return timed_out(progress, last_error)
    if isinstance(error, KafkaException):
        return broker_error(error.args[0])
    if isinstance(error, ProducerFailedError):
        message = f"the connection to these brokers failed: {error}"
        return DeliveryError("BROKER_ERROR", message, may_have_been_delivered=progress.is_sent)
    if isinstance(error, BufferError):
        return DeliveryError("BROKER_ERROR", "too many records wait for these brokers")
    if isinstance(error, TypeError | ValueError):
        message = f"librdkafka cannot take the record: {type(error).__name__}"
        return DeliveryError("BROKER_ERROR", message, permanent=True)
    return error


def timed_out(progress: Progress, last_error: KafkaError | None) -> DeliveryError:
    """Return the error of a record without a confirmation in time."""
    if last_error is not None and last_error.code() in _AUTHENTICATION:
        return broker_error(last_error)
    quote = f"; last error: {last_error.str()}" if last_error is not None else ""
    missing = "no confirmation came"
    return progress.timed_out(missing, unsent=missing, quote=quote)


def broker_error(error: KafkaError, partition: int | None = None) -> DeliveryError:
    """Return the error for an error of librdkafka or a broker; `partition` is known once the record was sent."""
    # Positive codes are answers of a broker, which are definite with two exceptions. Negative codes are local failures,
    # which leave the outcome open once the record was sent.
    is_open = error.code() in _APPENDED or (error.code() < 0 and partition is not None)
    return DeliveryError(
        "BROKER_ERROR",
        str(error.name()),
        quote=f": {error.str()}",
        permanent=error.code() in _PERMANENT,
        may_have_been_delivered=is_open,
    )
