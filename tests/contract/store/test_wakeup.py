"""Wake-up hints reach idle consumers, by either way."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from sqlalchemy import text

from app.dev.process.proxy import Mode, Proxy
from app.dev.servers import Valkey
from app.kernel import db
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.wakeup import CHANNEL, Place, Wakeup, WakeupSender, digest_of, redis_client
from brokers.inbox import PostgresSource, RedisSource, Source, WakeupListener
from brokers.worker_process import WorkerProcess
from tests.waiting import eventually


@pytest.fixture(params=["notify", "redis"])
def way(request: pytest.FixtureRequest, database_url: str) -> tuple[Source, str]:
    """The listening side, and the Redis URL of the sending side."""
    if request.param == "redis":
        url = request.getfixturevalue("valkey").url
        return RedisSource(url), url
    database = db.connect(database_url, pool_size=1, application_name="te-test-listener")
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    return PostgresSource(database), ""


@pytest.fixture
def listener(process: WorkerProcess, way: tuple[Source, str]) -> Iterator[WakeupListener]:
    listener = WakeupListener(process.inboxes, way[0])
    yield listener
    listener.stop()


def test_a_hint_wakes_the_consumer_of_its_queue_only(
    process: WorkerProcess, database: Database, listener: WakeupListener, way: tuple[Source, str]
) -> None:
    """Told by the partition that it names from a poll of te-flow, and from a standing connection: these wake all."""
    inboxes = {queue: process.inboxes.open(queue) for queue in ("http", "kafka")}
    listener.start()
    notifier = WakeupSender(database, way[1])

    def told(queue: str) -> set[Wakeup]:
        return set(inboxes[queue].wakeups)

    def place(queue: str) -> Place:
        return Place(0, queue, "", 128, EPOCH)

    def is_heard(queue: str) -> bool:
        notifier.hint(queue, place(queue))  # again and again: whether the listener listens yet, nobody tells
        return bool(told(queue))

    eventually(lambda: is_heard("http"))
    eventually(lambda: is_heard("kafka"))
    # They are heard one after the other, so of that for http all is told.
    expected = {queue: {Wakeup(queue, digest_of(*place(queue)[:4]), EPOCH)} for queue in inboxes}
    assert {queue: told(queue) for queue in inboxes} == expected
    assert notifier.stop(60)


@contextmanager
def notified(process: WorkerProcess, url: str, *queues: str, name: str = "te-test-listener") -> Iterator[list[Event]]:
    """Listen by NOTIFY, and yield an event of each queue once all were woken because the connection stands."""
    assert process.flow.stop(60), "a poll wakes all as well"
    source = PostgresSource(db.connect(url, pool_size=1, application_name=name))
    listener = WakeupListener(process.inboxes, source)
    events = [process.inboxes.open(queue).arrived for queue in queues]
    listener.start()
    for event in events:
        assert event.wait(60)
        event.clear()
    yield events
    assert listener.stop(60)


def test_the_listener_comes_back_after_its_connection_was_cut(
    process: WorkerProcess, database: Database, database_url: str
) -> None:
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    with notified(process, database_url, "http", name="te-cut") as (http,):
        database.fetch(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-cut'"))
        assert http.wait(60), "it must listen again, and look at once"


def test_wake_up_is_sent_while_the_pool_is_exhausted(process: WorkerProcess, database_url: str) -> None:
    sender = db.connect(database_url, pool_size=1, application_name="te-test-sender")
    if sender.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    notifier = WakeupSender(sender, "")
    with notified(process, database_url, "http", "kafka") as (http, kafka):
        notifier.hint("http")
        assert http.wait(60)
        sleep = text("SELECT pg_sleep(0.2)")
        eventually(lambda: sender.fire_and_forget.send(sleep, {}), what="the connection for wake-ups")
        with sender.engine.connect():
            notifier.hint("kafka")  # the previous statement is not answered yet
            assert kafka.wait(60)
    assert notifier.stop(60)
    sender.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Take every descriptor below 1,100, as a thousand open deliveries do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the hard limit of descriptors is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < 1100:
        taken.append(os.dup(taken[0]))
    yield
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_hints_are_heard_on_a_high_descriptor(
    process: WorkerProcess, database: Database, many_descriptors: None, database_url: str
) -> None:
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    notifier = WakeupSender(database, "")
    with notified(process, database_url, "http") as (http,):
        notifier.hint("http")
        assert http.wait(60)
    assert notifier.stop(60)


class Failing:
    """A source that fails in ways that nobody foresaw, and then works."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors
        self._stopped = Event()

    def listen(self, listener: WakeupListener) -> None:
        if self._errors:
            raise self._errors.pop()
        listener.connected()
        self._stopped.wait()

    def interrupt(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """Nothing is open."""


def test_no_error_of_a_source_ends_the_listener_and_it_is_said_once(
    process: WorkerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    http = process.inboxes.open("http").arrived
    listener = WakeupListener(
        process.inboxes, Failing([ValueError("x"), MemoryError(), RuntimeError("y")]), reconnect_seconds=0.01
    )
    listener.start()
    assert http.wait(60)
    assert listener.stop(60)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["cannot receive wake-ups: RuntimeError; polling instead"]


def test_a_redis_link_that_was_dropped_silently_is_replaced(
    process: WorkerProcess, valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    http = process.inboxes.open("http").arrived
    with Proxy(valkey.port) as proxy:
        source = RedisSource(proxy.url(valkey.url), health_check_seconds=0.2)
        listener = WakeupListener(process.inboxes, source)
        listener.start()
        assert http.wait(60)
        proxy.set(Mode.DROP)
        eventually(lambda: "cannot receive wake-ups" in caplog.text, what="the loss to be noticed")
        http.clear()
        proxy.set(Mode.PASS)
        assert http.wait(60), "it must subscribe again, and look at once"
        assert listener.stop(60)


def test_message_of_a_stranger_does_not_end_the_subscription(
    process: WorkerProcess, valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = process.inboxes.open("http")
    listener = WakeupListener(process.inboxes, RedisSource(valkey.url))
    listener.start()
    assert inbox.arrived.wait(60)
    client = redis_client(valkey.url)

    def is_heard() -> bool:
        client.publish(CHANNEL, b"http\xff")
        client.publish(CHANNEL, "http")
        return bool(inbox.wakeups)

    eventually(is_heard)
    assert "cannot receive wake-ups" not in caplog.text
    assert listener.stop(60)
