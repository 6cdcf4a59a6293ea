"""Fire-and-forget statements: sent without waiting, on a separate connection that is replaced when it is lost."""

import os
from collections.abc import Iterator

import psycopg2
import pytest
from sqlalchemy import make_url, text

from app.dev.process.proxy import Mode, Proxy
from app.kernel import db
from app.kernel.db import Database
from tests.waiting import eventually

NAME = "te-test-fire_and_forget"
PID = text("SELECT pid FROM pg_stat_activity WHERE application_name = :name")
NOTIFY = text("SELECT pg_notify('te_unawaited', :payload)")
SLEEP = text("SELECT pg_sleep(0.5)")
CUT = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name")


@pytest.fixture
def sender(database: Database, database_url: str) -> Iterator[Database]:
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    sender = db.connect(database_url, pool_size=1, application_name=NAME)
    yield sender
    sender.close()


def test_statement_is_sent_once_the_previous_statement_is_answered(sender: Database, database_url: str) -> None:
    assert not sender.fire_and_forget.send(NOTIFY, {"payload": "unsent"}), "the connection is not open yet"
    sender.open_fire_and_forget()
    listening = psycopg2.connect(database_url)
    listening.autocommit = True
    listening.cursor().execute("LISTEN te_unawaited")
    for number in range(3):
        eventually(lambda number=number: sender.fire_and_forget.send(NOTIFY, {"payload": f"{number}'"}))

    def received() -> list[str]:
        listening.poll()
        return [notify.payload for notify in listening.notifies]

    eventually(lambda: len(received()) == 3)
    assert received() == ["0'", "1'", "2'"]
    listening.close()


def test_statement_is_dropped_while_the_connection_is_busy(sender: Database) -> None:
    sender.open_fire_and_forget()
    assert sender.fire_and_forget.send(SLEEP, {})
    assert not sender.fire_and_forget.send(NOTIFY, {"payload": "x"})
    eventually(lambda: sender.fire_and_forget.send(NOTIFY, {"payload": "x"}), what="a free connection")


def test_connection_that_sends_nothing_is_closed(sender: Database) -> None:
    sender.open_fire_and_forget()
    assert sender.fire_and_forget.send(NOTIFY, {"payload": "x"})
    sender.fire_and_forget.close_idle(60)
    assert sender.fire_and_forget.is_open
    sender.fire_and_forget.close_idle(0)
    assert sender.fire_and_forget.is_wanting


def test_lost_connection_is_replaced(sender: Database, database: Database) -> None:
    sender.open_fire_and_forget()
    before = set(database.fetch(PID, {"name": NAME}))
    database.fetch(CUT, {"name": NAME})
    eventually(lambda: not sender.fire_and_forget.send(NOTIFY, {"payload": "x"}) and sender.fire_and_forget.is_wanting)
    sender.fetch(text("SELECT 1"))
    sender.open_fire_and_forget()
    assert not before & set(database.fetch(PID, {"name": NAME}))
    assert sender.fire_and_forget.send(NOTIFY, {"payload": "x"})


def test_connection_to_a_silent_server_times_out(sender: Database, database_url: str) -> None:
    with Proxy(int(database_url.rpartition(":")[2].partition("/")[0])) as proxy:
        hanging = db.connect(proxy.url(database_url), pool_size=1, application_name=NAME)
        hanging.fire_and_forget.connect_seconds = 0.2
        hanging.fetch(text("SELECT 1"))
        proxy.set(Mode.DROP)
        with pytest.raises(psycopg2.OperationalError, match="in time"):
            hanging.open_fire_and_forget()
        assert not hanging.fire_and_forget.send(NOTIFY, {"payload": "x"})
        assert not hanging.fire_and_forget.is_wanting, "the next wake-up must not repeat the failed attempt"
        hanging.close()


def test_connection_uses_the_address_of_the_pool(database: Database, database_url: str) -> None:
    """The first of several hosts may be unreachable, and a lookup of a host name would block the whole process."""
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    host, port = make_url(database_url).host, make_url(database_url).port
    query = {"host": f"127.0.0.2,{host}", "port": f"1,{port}"}
    several = make_url(database_url).set(host=None, port=None, query=query)
    both = db.connect(several, pool_size=1, application_name=NAME)
    both.open_fire_and_forget()
    assert both.fire_and_forget.send(NOTIFY, {"payload": "x"})
    both.close()


def test_connection_is_replaced_after_its_maximum_age(sender: Database) -> None:
    sender.fire_and_forget.lasts_seconds = 0.0
    sender.open_fire_and_forget()
    assert not sender.fire_and_forget.send(NOTIFY, {"payload": "x"})
    assert sender.fire_and_forget.is_wanting


def test_forked_process_does_not_use_its_parents_connection(sender: Database) -> None:
    sender.open_fire_and_forget()
    child = os.fork()
    if child == 0:
        sent = sender.fire_and_forget.send(NOTIFY, {"payload": "x"})
        sender.fire_and_forget.close()
        os._exit(1 if sent else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert sender.fire_and_forget.send(NOTIFY, {"payload": "x"}), "the parent's connection still works"
