"""Enqueue in the client's own transaction: connections that are refused before a statement."""

from types import SimpleNamespace
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from task_executor_client.transaction import enqueue, send

from tests.cases import each_case


@each_case("kind", [asyncpg.Connection, psycopg.AsyncConnection, AsyncConnection, AsyncSession])
def test_asynchronous_connection_is_refused_with_the_function_for_it(kind: Any) -> None:
    connection = SimpleNamespace(execute=kind.execute)
    with pytest.raises(TypeError, match="is asynchronous: await enqueue_async"):
        enqueue(connection, "mail")
    with pytest.raises(TypeError, match="or send_async"):
        send(connection, "https://shop.example")
