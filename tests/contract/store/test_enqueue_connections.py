"""te_enqueue and te_send over each supported kind of connection: the job exists if and only if the client commits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from psycopg.rows import dict_row
from psycopg2.extras import RealDictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from task_executor_client.transaction import Enqueued, EnqueueError, enqueue, enqueue_async, send, send_async

from app.kernel.db import Database
from tests.django_app import connected
from tests.enqueueing import adopt_settings

pytestmark = pytest.mark.postgresql_only

LATER = datetime.now(UTC) + timedelta(hours=1)
GIVEN: dict[str, Any] = {
    "input": {"a": [1.5, None, "ä $1 %s"]},
    "run_at": LATER,
    "labels": {"team": "a"},
    "priority": 7,
    "queue": "bulk",
    "schema": "public",
}
GIVEN_SEND = {name: value for name, value in GIVEN.items() if name != "input"}


class RollbackRequestedError(Exception):
    """Raised inside the transaction of the client to roll back the transaction."""


def psycopg2_opener(**options: Any) -> Any:
    @contextmanager
    def opened(url: str) -> Iterator[Any]:
        with psycopg2.connect(url, **options) as connection:
            yield connection
        connection.close()

    return opened


def psycopg_opener(**options: Any) -> Any:
    @contextmanager
    def opened(url: str) -> Iterator[Any]:
        with psycopg.connect(url, **options) as connection:
            yield connection

    return opened


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    from django.db import transaction

    with connected("caller", url) as connection, transaction.atomic(using="caller"):
        yield connection


def sqlalchemy_opener(driver: str, kind: Callable[[Any], AbstractContextManager[Any]]) -> Any:
    @contextmanager
    def opened(url: str) -> Iterator[Any]:
        engine = create_engine(url.replace("postgresql:", f"postgresql+{driver}:"))
        try:
            with kind(engine) as connection:
                yield connection
        finally:
            engine.dispose()

    return opened


@contextmanager
def session(engine: Any) -> Iterator[Session]:
    with Session(engine) as database_session, database_session.begin():
        yield database_session


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def psycopg_async_connection(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


def async_sqlalchemy_opener(kind: Callable[[Any], AbstractAsyncContextManager[Any]]) -> Any:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
        try:
            async with kind(engine) as connection:
                yield connection
        finally:
            await engine.dispose()

    return opened


@asynccontextmanager
async def async_session(engine: Any) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as database_session, database_session.begin():
        yield database_session


KINDS = {
    "psycopg2": psycopg2_opener(),
    "psycopg2-dictionaries": psycopg2_opener(cursor_factory=RealDictCursor),
    "psycopg": psycopg_opener(),
    "psycopg-dictionaries": psycopg_opener(row_factory=dict_row),
    "django": django_connection,
    "sqlalchemy": sqlalchemy_opener("psycopg2", lambda engine: engine.begin()),
    "sqlalchemy-psycopg": sqlalchemy_opener("psycopg", lambda engine: engine.begin()),
    "sqlalchemy-session": sqlalchemy_opener("psycopg2", session),
}
ASYNC_KINDS = {
    "asyncpg": asyncpg_connection,
    "psycopg-async": psycopg_async_connection,
    "sqlalchemy-asyncpg": async_sqlalchemy_opener(lambda engine: engine.begin()),
    "sqlalchemy-async-session": async_sqlalchemy_opener(async_session),
}
ENQUEUE, SEND = (enqueue, enqueue_async), (send, send_async)


def run(kind: str, url: str, *given: Any, commits: bool = True, calls: Any = ENQUEUE, **options: Any) -> Enqueued:
    """Enqueue a job over the given kind of connection, and commit the transaction or roll it back."""

    async def enqueued_async() -> Enqueued:
        with suppress(RollbackRequestedError):
            async with ASYNC_KINDS[kind](url) as connection:
                found: Enqueued = await calls[1](connection, *given, **options)
                if not commits:
                    raise RollbackRequestedError
        return found

    if kind in ASYNC_KINDS:
        return asyncio.run(enqueued_async())
    with suppress(RollbackRequestedError), KINDS[kind](url) as connection:
        found: Enqueued = calls[0](connection, *given, **options)
        if not commits:
            raise RollbackRequestedError
    return found


@pytest.mark.parametrize("kind", [*KINDS, *ASYNC_KINDS])
def test_job_exists_if_and_only_if_the_client_commits(kind: str, database: Database, database_url: str) -> None:
    adopt_settings(database)
    assert run(kind, database_url, "target", idempotency_key="never", commits=False).is_new
    first = run(kind, database_url, "target", idempotency_key="k", **GIVEN)
    again = run(kind, database_url, "target", {"other": 1}, idempotency_key="k")
    with pytest.raises(EnqueueError) as refused:
        run(kind, database_url, "nowhere")
    with pytest.raises(EnqueueError, match="not CockroachDB"):
        run(kind, database_url, "target", schema="pg_catalog")
    sent = run(
        kind, database_url, "https://shop.example", None, calls=SEND, headers={"A": "ä"}, timeout_ms=5, **GIVEN_SEND
    )
    assert first.is_new
    assert again == Enqueued(first.job_id, first.execution_id, is_new=False)
    assert (refused.value.code, refused.value.message) == ("ENDPOINT_NOT_FOUND", "there is no endpoint named 'nowhere'")
    (job, other) = database.fetch(text("SELECT * FROM jobs ORDER BY created_at"))
    assert (other.job_id, other.input, other.run_at) == (sent.job_id, {}, LATER)
    assert (job.job_id, job.input, job.run_at, job.labels) == (first.job_id, GIVEN["input"], LATER, {"team": "a"})
    execution, _ = database.fetch(text("SELECT * FROM executions ORDER BY created_at"))
    assert (execution.priority, execution.queue, execution.status) == (7, "bulk", "PENDING")
