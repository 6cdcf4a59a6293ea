"""te_enqueue over each kind of connection that the client knows: the job is there if and only if the caller commits."""

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
from task_executor_client.transaction import Enqueued, EnqueueError, enqueue, enqueue_async

from app.kernel.db import Database
from app.queue.jobs import enqueue_settings
from tests.django_app import connected

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


class MindChangedError(Exception):
    """Raised by a caller that changes its mind."""


def of_psycopg2(**options: Any) -> Any:
    @contextmanager
    def opened(url: str) -> Iterator[Any]:
        with psycopg2.connect(url, **options) as connection:
            yield connection
        connection.close()

    return opened


def of_psycopg(**options: Any) -> Any:
    @contextmanager
    def opened(url: str) -> Iterator[Any]:
        with psycopg.connect(url, **options) as connection:
            yield connection

    return opened


@contextmanager
def of_django(url: str) -> Iterator[Any]:
    from django.db import transaction

    with connected("caller", url) as connection, transaction.atomic(using="caller"):
        yield connection


def of_sqlalchemy(driver: str, kind: Callable[[Any], AbstractContextManager[Any]]) -> Any:
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
    with Session(engine) as own, own.begin():
        yield own


@asynccontextmanager
async def of_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def of_psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


def of_async_sqlalchemy(kind: Callable[[Any], AbstractAsyncContextManager[Any]]) -> Any:
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
    async with AsyncSession(engine) as own, own.begin():
        yield own


KINDS = {
    "psycopg2": of_psycopg2(),
    "psycopg2-dictionaries": of_psycopg2(cursor_factory=RealDictCursor),
    "psycopg": of_psycopg(),
    "psycopg-dictionaries": of_psycopg(row_factory=dict_row),
    "django": of_django,
    "sqlalchemy": of_sqlalchemy("psycopg2", lambda engine: engine.begin()),
    "sqlalchemy-psycopg": of_sqlalchemy("psycopg", lambda engine: engine.begin()),
    "sqlalchemy-session": of_sqlalchemy("psycopg2", session),
}
ASYNC_KINDS = {
    "asyncpg": of_asyncpg,
    "psycopg-async": of_psycopg_async,
    "sqlalchemy-asyncpg": of_async_sqlalchemy(lambda engine: engine.begin()),
    "sqlalchemy-async-session": of_async_sqlalchemy(async_session),
}


def run(kind: str, url: str, *given: Any, commits: bool = True, **options: Any) -> Enqueued:
    """Enqueue a job in a transaction over a connection of a kind, and commit it or roll it back."""

    async def waiting() -> Enqueued:
        with suppress(MindChangedError):
            async with ASYNC_KINDS[kind](url) as connection:
                found = await enqueue_async(connection, *given, **options)
                if not commits:
                    raise MindChangedError
        return found

    if kind in ASYNC_KINDS:
        return asyncio.run(waiting())
    with suppress(MindChangedError), KINDS[kind](url) as connection:
        found = enqueue(connection, *given, **options)
        if not commits:
            raise MindChangedError
    return found


@pytest.mark.parametrize("kind", [*KINDS, *ASYNC_KINDS])
def test_the_job_is_there_if_and_only_if_the_caller_commits(kind: str, database: Database, database_url: str) -> None:
    enqueue_settings.adopt(database, shards=1, look_ahead_ms=5000)
    assert run(kind, database_url, "target", idempotency_key="never", commits=False).is_new
    first = run(kind, database_url, "target", idempotency_key="k", **GIVEN)
    again = run(kind, database_url, "target", {"other": 1}, idempotency_key="k")
    with pytest.raises(EnqueueError) as refused:
        run(kind, database_url, "nowhere")
    with pytest.raises(EnqueueError, match="not CockroachDB"):
        run(kind, database_url, "target", schema="pg_catalog")
    assert first.is_new
    assert again == Enqueued(first.job_id, first.execution_id, is_new=False)
    assert (refused.value.code, refused.value.message) == ("ENDPOINT_NOT_FOUND", "there is no endpoint named 'nowhere'")
    (job,) = database.fetch(text("SELECT * FROM jobs"))
    assert (job.job_id, job.input, job.run_at, job.labels) == (first.job_id, GIVEN["input"], LATER, {"team": "a"})
    (execution,) = database.fetch(text("SELECT * FROM executions"))
    assert (execution.priority, execution.queue, execution.status) == (7, "bulk", "PENDING")
