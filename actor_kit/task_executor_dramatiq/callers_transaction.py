"""Caller's transaction: statements on a session or connection that the caller commits."""

from inspect import iscoroutinefunction
from typing import Any

from task_executor_dramatiq.sending import Execute, SendError, execute_on

IDLE = 0  # status of libpq: no transaction is open
COMMITS = "the connection commits each statement (autocommit)"


def executing(connection: Any) -> Execute:
    """Return the way to run a statement on a session or connection of SQLAlchemy, or a connection of DB-API or Django.

    Raises TypeError for anything else, and SendError at a statement on a connection that commits each statement.
    """
    run = _running(connection)

    def execute(sql: str, parameters: tuple[Any, ...]) -> Any:
        driver = _driver_connection(connection)
        if getattr(driver, "autocommit", False) is True:
            info = getattr(driver, "info", None)
            if info is None:  # such as of pg8000: whether a transaction is open cannot be read
                raise SendError(f"{COMMITS}: {_remedy(connection, 'set autocommit = False')}")
            run("SELECT 1", ())  # opens the transaction of `with connection:`, if there is one
            if int(info.transaction_status) == IDLE:
                raise SendError(f"{COMMITS}: {_remedy(connection, 'begin a transaction first')}")
        return run(sql, parameters)

    return execute


def _remedy(connection: Any, remedy: str) -> str:
    """Return a remedy for autocommit: the option for SQLAlchemy, else the given one."""
    if hasattr(connection, "exec_driver_sql") or hasattr(connection, "get_bind"):
        return 'leave out isolation_level="AUTOCOMMIT" of SQLAlchemy, with which begin() sends no BEGIN'
    return remedy


def _running(connection: Any) -> Execute:
    # A connection of a pool of asyncpg has no coroutine functions on Python 3.11, but a method of asyncpg.
    if iscoroutinefunction(getattr(connection, "execute", None)) or hasattr(connection, "fetchrow"):
        raise TypeError(f"{type(connection)!r} is asynchronous: give a session or connection that is not")
    if hasattr(connection, "exec_driver_sql"):
        return lambda sql, parameters: connection.exec_driver_sql(sql, parameters).first()
    if hasattr(connection, "get_bind"):
        return lambda sql, parameters: connection.connection().exec_driver_sql(sql, parameters).first()
    if hasattr(connection, "cursor"):
        return execute_on(connection)
    raise TypeError(f"a session or connection of SQLAlchemy, psycopg or Django is needed, not {type(connection)!r}")


def _driver_connection(connection: Any) -> Any:
    """Return the connection of the driver below a session or connection of SQLAlchemy, or a connection of Django."""
    if hasattr(connection, "get_bind"):
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        connection = connection.connection
    if hasattr(connection, "dbapi_connection"):  # also of raw_connection(), whose `connection` is deprecated
        return connection.dbapi_connection
    if hasattr(connection, "ensure_connection"):
        connection.ensure_connection()
    return getattr(connection, "connection", connection)
