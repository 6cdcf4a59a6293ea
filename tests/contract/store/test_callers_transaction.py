"""Connections of callers: the actor kit refuses the ones that it cannot use in a transaction."""

import asyncio
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from sqlalchemy import create_engine
from task_executor_dramatiq.callers_transaction import executing
from task_executor_dramatiq.sending import SendError

from schema.url import database_url as parse_url

pytestmark = pytest.mark.postgresql_only


def test_autocommit_of_a_driver_that_shows_no_open_transaction_is_refused() -> None:
    """Such as pg8000, whose connections have no `info`."""

    def execute(*_arguments: Any) -> None:
        pytest.fail("the statement runs, and is committed by itself")

    connection = SimpleNamespace(autocommit=True, cursor=execute)
    with pytest.raises(SendError, match=r"\(autocommit\): set autocommit = False"):
        executing(connection)("SELECT 1", ())


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgresql+psycopg2"])
def test_refusal_of_sqlalchemy_names_the_option_to_leave_out(database_url: str, driver: str) -> None:
    """`begin()` is no remedy: it sends no BEGIN."""
    engine = create_engine(parse_url(database_url).set(drivername=driver), isolation_level="AUTOCOMMIT")
    with engine.begin() as connection, pytest.raises(SendError, match='leave out isolation_level="AUTOCOMMIT"'):
        executing(connection)("SELECT 1", ())
    engine.dispose()


def test_connection_of_a_pool_of_asyncpg_is_refused(database_url: str) -> None:
    """Its methods are no coroutine functions on Python 3.11."""

    async def refuse() -> None:
        async with asyncpg.create_pool(database_url, min_size=1) as pool, pool.acquire() as connection:
            with pytest.raises(TypeError, match="is asynchronous"):
                executing(connection)

    asyncio.run(refuse())


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgresql+psycopg2"])
def test_raw_connection_of_sqlalchemy_runs_without_a_warning(database_url: str, driver: str) -> None:
    engine = create_engine(parse_url(database_url).set(drivername=driver))
    with closing(engine.raw_connection()) as connection:
        assert executing(connection)("SELECT %s", (1,))[0] == 1
        connection.rollback()
        connection.dbapi_connection.autocommit = True
        with pytest.raises(SendError, match="begin a transaction first"):
            executing(connection)("SELECT %s", (1,))
    engine.dispose()
