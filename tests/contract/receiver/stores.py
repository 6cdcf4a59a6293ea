"""Stores of the receiver's tests: an inbox, a handler with an effect in the same store, and a count of effects."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import redis
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session
from task_executor_receiver import Answer, Delivery, TransactionalInbox
from task_executor_receiver.redis import RedisInbox
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox

from tests.django_app import connected

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (execution_id VARCHAR(64) NOT NULL, attempt INTEGER NOT NULL)"
EFFECT = "INSERT INTO effects (execution_id, attempt) VALUES (:execution_id, :attempt)"
COUNT = "SELECT count(*) FROM effects WHERE execution_id = :execution_id"


@dataclass
class Store:
    """Inbox with an effect in its store; `others_wait` if the store runs one writing transaction at a time."""

    inbox: TransactionalInbox[Any]
    effect: Callable[[Delivery, Any], Any]
    count: Callable[[str], int]
    others_wait: bool = False
    may_commit: bool = False
    close: Callable[[], None] = field(default=lambda: None)
    end_thread: Callable[[], None] = field(default=lambda: None)

    def process_elsewhere(self, delivery: Delivery) -> Answer:
        """Process a delivery in a thread that ends afterwards."""
        try:
            return self.inbox.process(delivery, self.effect)
        finally:
            self.end_thread()


def over_sqlalchemy(engine: Engine) -> Store:
    inbox = SqlAlchemyInbox(engine)
    inbox.create_table()
    with engine.begin() as connection:
        connection.execute(text(EFFECTS))

    def effect(delivery: Delivery, session: Session) -> dict[str, int]:
        session.execute(text(EFFECT), {"execution_id": delivery.execution_id, "attempt": delivery.attempt})
        return {"by": delivery.attempt}

    def count(execution_id: str) -> int:
        with engine.connect() as connection:
            return int(connection.execute(text(COUNT), {"execution_id": execution_id}).scalar_one())

    return Store(inbox, effect, count, engine.dialect.name == "sqlite", may_commit=True, close=engine.dispose)


def over_django(url: str) -> Store:
    """Make a store of Django's ORM over the database at a URL; the migration creates its table."""
    from django.core.management import call_command
    from django.db import connections

    stack = ExitStack()
    connection = stack.enter_context(connected("default", url))
    # The import reads Django's settings.
    from task_executor_receiver.django.inbox import DjangoInbox

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(EFFECTS)

    def effect(delivery: Delivery, using: str) -> dict[str, int]:
        with connections[using].cursor() as cursor:
            cursor.execute("INSERT INTO effects VALUES (%s, %s)", [delivery.execution_id, delivery.attempt])
        return {"by": delivery.attempt}

    def count(execution_id: str) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM effects WHERE execution_id = %s", [execution_id])
            return int(cursor.fetchone()[0])

    return Store(DjangoInbox(), effect, count, close=stack.close, end_thread=connections.close_all)


def over_redis(url: str) -> Store:
    client = redis.Redis.from_url(url)

    def effect(delivery: Delivery, pipe: Any) -> dict[str, int]:
        pipe.rpush(f"effects:{delivery.execution_id}", delivery.attempt)
        return {"by": delivery.attempt}

    def count(execution_id: str) -> int:
        return int(client.llen(f"effects:{execution_id}"))  # type: ignore[arg-type]

    return Store(RedisInbox(client), effect, count, close=client.close)
