"""Stores of the receiver's side, as its tests use them: an inbox, an effect beside it, and how often it was had."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session
from task_executor_receiver import Delivery, TransactionalInbox
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (execution_id VARCHAR(64) NOT NULL, attempt INTEGER NOT NULL)"
EFFECT = "INSERT INTO effects (execution_id, attempt) VALUES (:execution_id, :attempt)"
COUNT = "SELECT count(*) FROM effects WHERE execution_id = :execution_id"


@dataclass
class Store:
    """An inbox with an effect in its store; `others_wait` where one transaction writes at a time."""

    inbox: TransactionalInbox[Any]
    effect: Callable[[Delivery, Any], Any]
    count: Callable[[str], int]
    others_wait: bool = False
    close: Callable[[], None] = field(default=lambda: None)


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

    return Store(inbox, effect, count, engine.dialect.name == "sqlite", engine.dispose)
