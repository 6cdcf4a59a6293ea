"""Statements that nobody waits for: sent at once, one at a time, on a connection that is given up when it is lost."""

import os
from collections.abc import Iterator

import psycopg2
import pytest
from sqlalchemy import make_url, text

from app.dev.process.proxy import Mode, Proxy
from app.kernel import db
from app.kernel.db import Database
from tests.waiting import eventually

NAME = "te-test-unawaited"
PID = text("SELECT pid FROM pg_stat_activity WHERE application_name = :name")
TOLD = text("SELECT pg_notify('te_unawaited', :told)")
SLEEP = text("SELECT pg_sleep(0.5)")
CUT = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name")


@pytest.fixture
def sender(database: Database, database_url: str) -> Iterator[Database]:
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    sender = db.connect(database_url, pool_size=1, application_name=NAME)
    yield sender
    sender.close()


def test_each_is_sent_once_the_one_before_is_answered(sender: Database, database_url: str) -> None:
    assert not sender.unawaited.send(TOLD, {"told": "nobody"}), "there is no connection yet"
    sender.open_unawaited()
    listening = psycopg2.connect(database_url)
    listening.autocommit = True
    listening.cursor().execute("LISTEN te_unawaited")
    for number in range(3):
        eventually(lambda number=number: sender.unawaited.send(TOLD, {"told": f"{number}'"}))

    def told() -> list[str]:
        listening.poll()
        return [notify.payload for notify in listening.notifies]

    eventually(lambda: len(told()) == 3)
    assert told() == ["0'", "1'", "2'"]
    listening.close()


def test_what_cannot_be_sent_at_once_is_not_sent(sender: Database) -> None:
    sender.open_unawaited()
    assert sender.unawaited.send(SLEEP, {})
    assert not sender.unawaited.send(TOLD, {"told": "x"})
    eventually(lambda: sender.unawaited.send(TOLD, {"told": "x"}), what="the connection to be of use again")


def test_a_lost_connection_is_given_up_and_opened_again(sender: Database, database: Database) -> None:
    sender.open_unawaited()
    before = set(database.fetch(PID, {"name": NAME}))
    database.fetch(CUT, {"name": NAME})
    eventually(lambda: not sender.unawaited.send(TOLD, {"told": "x"}) and sender.unawaited.is_wanting)
    sender.fetch(text("SELECT 1"))
    sender.open_unawaited()
    assert not before & set(database.fetch(PID, {"name": NAME}))
    assert sender.unawaited.send(TOLD, {"told": "x"})


def test_a_server_that_does_not_answer_is_waited_for_so_long(sender: Database, database_url: str) -> None:
    with Proxy(int(database_url.rpartition(":")[2].partition("/")[0])) as proxy:
        hanging = db.connect(proxy.url(database_url), pool_size=1, application_name=NAME)
        hanging.unawaited.connect_seconds = 0.2
        hanging.fetch(text("SELECT 1"))
        proxy.set(Mode.DROP)
        with pytest.raises(psycopg2.OperationalError, match="in time"):
            hanging.open_unawaited()
        assert not hanging.unawaited.send(TOLD, {"told": "x"})
        assert not hanging.unawaited.is_wanting, "it must not be tried at each hint"
        hanging.close()


def test_it_leads_to_where_the_pool_has_connected(database: Database, database_url: str) -> None:
    """Of several hosts the first one may be away; and a name that is looked up holds up the whole process."""
    if database.is_cockroach:
        pytest.skip("CockroachDB has no NOTIFY")
    host, port = make_url(database_url).host, make_url(database_url).port
    query = {"host": f"127.0.0.2,{host}", "port": f"1,{port}"}
    several = make_url(database_url).set(host=None, port=None, query=query)
    both = db.connect(several, pool_size=1, application_name=NAME)
    both.open_unawaited()
    assert both.unawaited.send(TOLD, {"told": "x"})
    both.close()


def test_it_is_replaced_after_some_minutes(sender: Database) -> None:
    sender.unawaited.lasts_seconds = 0.0
    sender.open_unawaited()
    assert not sender.unawaited.send(TOLD, {"told": "x"})
    assert sender.unawaited.is_wanting


def test_a_forked_process_leaves_its_parents_connection_alone(sender: Database) -> None:
    sender.open_unawaited()
    child = os.fork()
    if child == 0:
        sent = sender.unawaited.send(TOLD, {"told": "x"})
        sender.unawaited.close()
        os._exit(1 if sent else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert sender.unawaited.send(TOLD, {"told": "x"}), "its connection is as it was"
