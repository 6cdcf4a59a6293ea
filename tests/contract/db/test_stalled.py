"""A server that neither answers nor closes its connections: each wait ends with its timeout."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, TextClause, text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.db.engine import ANSWER_SECONDS, PING_AFTER_IDLE_SECONDS
from app.kernel.errors import UnavailableError
from app.kernel.sql import HotStatement
from tests.frozen import PID, frozen
from tests.waiting import HUNG_SECONDS

TWO = [text("SELECT 2 AS two"), HotStatement("test.two", "SELECT 2 AS two")]


@pytest.fixture
def ping_after_idle_seconds() -> float:
    return PING_AFTER_IDLE_SECONDS


@pytest.fixture
def impatient(database_url: str, ping_after_idle_seconds: float) -> Iterator[Database]:
    """A pool with a statement timeout of half a second."""
    impatient = db.connect(
        database_url,
        pool_size=1,
        application_name="te-frozen",
        statement_timeout_seconds=0.5,
        ping_after_idle_seconds=ping_after_idle_seconds,
    )
    if impatient.is_cockroach:
        pytest.skip("needs a server process for each connection")
    yield impatient
    impatient.close()


@pytest.mark.parametrize("statement", TWO)
def test_statement_is_repeated_on_a_new_connection_after_a_server_froze(
    impatient: Database, statement: TextClause
) -> None:
    impatient.fetch(statement)
    with frozen(impatient) as since:
        assert impatient.fetch(statement)[0].two == 2
        assert 0.5 < time.monotonic() - since < HUNG_SECONDS


@pytest.mark.parametrize("statement", TWO)
def test_statement_that_is_not_repeatable_raises_unavailable_after_a_server_froze(
    impatient: Database, statement: TextClause
) -> None:
    impatient.fetch(statement)
    with frozen(impatient) as since, pytest.raises(UnavailableError):
        impatient.fetch(statement, repeatable=False)
    assert time.monotonic() - since < HUNG_SECONDS


@pytest.mark.parametrize("ping_after_idle_seconds", [0.0])
def test_ping_of_a_frozen_server_times_out(impatient: Database) -> None:
    with frozen(impatient) as since:
        assert impatient.fetch(text("SELECT 2 AS two"))[0].two == 2
        assert time.monotonic() - since < HUNG_SECONDS


def test_transaction_is_repeated_after_its_server_froze_before_the_commit(impatient: Database) -> None:
    pids: list[int] = []

    def freeze_once(connection: Connection) -> None:
        pids.append(connection.execute(PID).scalar_one())
        if len(pids) == 1:
            os.kill(pids[0], signal.SIGSTOP)

    with frozen(impatient):
        pass
    try:
        impatient.transact(freeze_once)
    finally:
        os.kill(pids[0], signal.SIGCONT)
    assert len(set(pids)) == 2


def test_answer_within_the_timeout_keeps_the_connection(impatient: Database) -> None:
    (first,) = impatient.fetch(PID)
    impatient.fetch(text("SELECT pg_sleep(0.1)"))
    time.sleep(0.5 + ANSWER_SECONDS)
    assert impatient.fetch(PID)[0].pid == first.pid
