"""Wake-up hints reach idle consumers, by either way."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app import db
from app.db import Database
from app.wakeup import Notifier
from brokers.listener import PostgresSource, RedisSource, Source, WakeupListener
from brokers.worker_process import WorkerProcess


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
    listener = WakeupListener(process, way[0])
    yield listener
    listener.stop()


def test_a_hint_wakes_the_consumer_of_its_queue_only(
    process: WorkerProcess, database: Database, listener: WakeupListener, way: tuple[Source, str]
) -> None:
    http, kafka = threading.Event(), threading.Event()
    process.on_wake("http", http.set)
    process.on_wake("kafka", kafka.set)
    listener.start()
    # Both are woken once when the connection stands, since hints may have been missed before.
    assert http.wait(60)
    assert kafka.wait(60)
    http.clear()
    kafka.clear()
    notifier = Notifier.over(database, way[1])
    notifier.hint("http")
    assert http.wait(60)
    assert not kafka.is_set()
    assert notifier.stop(60)


def test_the_listener_comes_back_after_its_connection_was_cut(
    process: WorkerProcess, database: Database, database_url: str
) -> None:
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    source = PostgresSource(db.connect(database_url, pool_size=1, application_name="te-cut"))
    listener = WakeupListener(process, source)
    http = threading.Event()
    process.on_wake("http", http.set)
    listener.start()
    assert http.wait(60)
    http.clear()
    database.fetch(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-cut'"))
    assert http.wait(60), "it must listen again, and look at once"
    assert listener.stop(60)
