"""Kafka producer of librdkafka, shared by all deliveries to the same brokers."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from actors.dispatch.idle_pool import IdlePool
from actors.dispatch.kafka_metadata import named_brokers
from actors.dispatch.librdkafka_log import LibrdkafkaLog
from app.catalog.scrub import Scrubber
from app.kernel.function_types import Call
from app.kernel.threads import BackgroundThread
from app.queue.executions.execution_model import DeliveryError

log = logging.getLogger(__name__)

# Time between two polls of librdkafka's reports: at first, during long waits, and without waiting deliveries. Polls run
# on the event loop, because a thread that waits for reports would compete with deliveries for the interpreter.
SOON_SECONDS = 0.001
LATE_SECONDS = 0.02
IDLE_SECONDS = 0.2
# Between two requests for the brokers that the cluster names; without an answer, the wait for it and for the next try.
CHECK_SECONDS = 60.0
METADATA_SECONDS = 1.0
AGAIN_SECONDS = 0.1

CheckBrokers = Callable[[Collection[tuple[str, int]]], Awaitable[None]]
"""Checks hosts and ports of brokers; raises DeliveryError if a delivery must not connect to all of them."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report on one record; the partition is known once the record was sent to a broker."""

    error: KafkaError | None
    partition: int | None
    offset: int | None


class ProducerFailedError(Exception):
    """The producer failed, and the outcome of its records is unknown."""


class SharedProducer(BackgroundThread):
    """Creates and destroys the producer on a thread of its own, because both may take long; the event loop polls it.

    Reports come from the brokers of one target and affect its deliveries only. If they cannot be read, the deliveries
    fail with ProducerFailedError, and the pool forgets the producer, so that it is replaced. The same happens once
    `check_brokers` refuses the brokers that the cluster names, before the first delivery and every `check_seconds`.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        scrubbers: Iterable[Scrubber],
        pool: "IdlePool[SharedProducer]",
        check_brokers: CheckBrokers,
        *,
        connection: Mapping[str, str],
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """`connection` is the part of the configuration that a client needs to connect."""
        super().__init__("te-kafka")
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()
        self._ready = asyncio.Event()
        self._refusal: DeliveryError | None = None
        self._check_brokers = check_brokers
        self._checking: asyncio.Task[None] | None = None
        self._connection = connection
        self._check_seconds = check_seconds
        self.failure: Exception | None = None
        self._pool = pool
        self.last_error: KafkaError | None = None
        self._loop = asyncio.get_running_loop()
        self._configuration = {**configuration, "error_cb": self.note_error}
        self._log = LibrdkafkaLog(scrubbers)
        self._producer: Producer | None = None
        self._fault: ProducerFailedError | None = None
        self._waiting: set[asyncio.Future[Report]] = set()
        self._reports = deque[tuple[asyncio.Future[Report], Report]]()
        self._pause = SOON_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self.start()

    @property
    def is_broken(self) -> bool:
        """Return whether an error has ended the producer for good."""
        return self._fault is not None or (self.last_error is not None and self.last_error.fatal())

    async def ready(self) -> None:
        """Wait for the first check of the brokers; raises DeliveryError or ProducerFailedError."""
        await self._ready.wait()
        if fault := self._refusal or self._fault:
            raise fault

    async def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, str | bytes | None]]
    ) -> Report:
        """Send one record and wait for its report; raises KafkaException or BufferError."""
        if self._producer is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "the producer is closed"))  # noqa: SLF001
        future: asyncio.Future[Report] = self._loop.create_future()
        self._producer.produce(
            topic, key=key, value=value, headers=headers, on_delivery=partial(self._note_report, future)
        )
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._pause > SOON_SECONDS:
            self._serve_after(SOON_SECONDS)
        return await future

    def stop(self, timeout_seconds: float = 0.0) -> bool:
        """End the thread and with it the producer, without waiting; the event loop waits for `closed`."""
        self._producer = None
        self._ready.set()
        if self._timer is not None:
            self._timer.cancel()
        return super().stop(timeout_seconds)

    async def close(self) -> None:
        """Stop, and wait until the producer is destroyed."""
        self.stop()
        await self.closed.wait()

    def note_error(self, error: KafkaError) -> None:
        """Store an error that belongs to no single record; called by librdkafka."""
        # "All brokers are down" follows the error with the reason.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - confluent-kafka spells local errors so
            self.last_error = error

    def run(self) -> None:
        """Create the producer, and destroy it at the end."""
        try:
            producer = Producer(self._configuration, logger=self._log)
        except Exception as error:  # noqa: BLE001 - see the class
            self.failure = error
            self._wake(self.opened.set)
        else:
            if not self.stopping.is_set():
                self._producer = producer
            self._wake(self._serve)
            self._wake(self.opened.set)
            self._follow_brokers()
            self._producer = None
            # Every record gets its report, even an unsent one.
            with contextlib.suppress(Exception):
                producer.purge()
                producer.flush(1)
            del producer  # waits for librdkafka's own threads, so not on the event loop
        self._wake(self._end)

    def _follow_brokers(self) -> None:
        """Read which brokers the cluster names, until the producer is stopped; the event loop checks them."""
        wait = 0.0
        while not self.stopping.wait(wait):
            wait = AGAIN_SECONDS
            try:
                brokers = named_brokers(self._connection, METADATA_SECONDS)
            except KafkaException:
                continue  # nothing can be sent either, and the deliveries quote the cause
            self._wake(partial(self._begin_check, brokers))
            wait = self._check_seconds

    def _begin_check(self, brokers: Collection[tuple[str, int]]) -> None:
        if self._checking is None and not self.stopping.is_set():
            self._checking = self._loop.create_task(self._check(brokers))

    async def _check(self, brokers: Collection[tuple[str, int]]) -> None:
        try:
            await self._check_brokers(brokers)
        except DeliveryError as error:
            self._refusal = error
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - see the class
            self._fail(error)
        finally:
            self._checking = None
            self._ready.set()

    def _fail(self, error: Exception) -> None:
        """Have this producer replaced; its pending deliveries fail."""
        log.warning("replacing the producer of a Kafka target after %s", type(error).__name__)
        self._fault = ProducerFailedError(type(error).__name__)
        self.stop()
        self._pool.forget(self)

    def _serve(self) -> None:
        """Poll librdkafka's reports, more often while deliveries wait and reports come."""
        producer = self._producer
        if producer is None:
            return
        served = 0
        try:
            served = producer.poll(0)
        except KafkaException as error:
            # A fatal error, such as a broker that forgot this producer. The delivery that gets the report of it
            # replaces the producer.
            self.last_error = error.args[0]
        except Exception as error:  # noqa: BLE001 - see the class; for example invalid UTF-8 in a broker's text
            self._fail(error)
            return
        self._settle()
        longest = LATE_SECONDS if self._waiting else IDLE_SECONDS
        self._serve_after(SOON_SECONDS if served else min(self._pause * 1.25, longest))

    def _serve_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pause = seconds
        self._timer = self._loop.call_later(seconds, self._serve)

    def _end(self) -> None:
        """Settle the last reports, and fail the records without one."""
        self._ready.set()
        if self._checking is not None:
            self._checking.cancel()
        self._settle()
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(self._fault or ProducerFailedError("no report"))
        self.closed.set()

    def _note_report(self, future: asyncio.Future[Report], error: KafkaError | None, message: Message) -> None:
        if error is None and not self.is_broken:
            self.last_error = None
        self._reports.append((future, Report(error, message.partition(), message.offset())))

    def _settle(self) -> None:
        while self._reports:
            future, report = self._reports.popleft()
            if not future.done():
                future.set_result(report)

    def _wake(self, callback: Call) -> None:
        # The loop may be closed at the end of the process.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)
