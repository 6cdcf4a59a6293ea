"""Inbox for SQLAlchemy 2: the handler receives a Session."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session, sessionmaker

from task_executor_receiver.inbox import RETRY_AFTER_SECONDS
from task_executor_receiver.sql import SqlInbox, is_sqlite


class SqlAlchemyInbox(SqlInbox[Session]):
    """Inbox in the database of an engine or sessionmaker; the inbox begins and commits the handler's session.

    Each delivery has a session of its own, so threads may share an inbox. The session and its connection last as long
    as the handler. After a caught database error the handler needs a savepoint (`session.begin_nested()`).

    Args:
        source: Engine, or sessionmaker of the handler's sessions. AUTOCOMMIT is refused: deliveries raise RuntimeError.
        retry_after: Seconds that the answer asks the service to wait while another attempt is running.

    Example:
        def handler(delivery: Delivery, session: Session) -> None:
            session.add(Shipment(order_id=delivery.json()["order_id"]))


        receiver = Receiver(Verifier(secret), SqlAlchemyInbox(engine), handler)
    """

    def __init__(self, source: Engine | sessionmaker[Session], retry_after: int = RETRY_AFTER_SECONDS) -> None:
        super().__init__(retry_after)
        self._sessions = sessionmaker(source) if isinstance(source, Engine) else source

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._sessions() as session, session.begin():
            if _commits_by_itself(session.connection().connection.dbapi_connection):
                raise RuntimeError("the inbox needs transactions: its engine must not use AUTOCOMMIT")
            yield session

    def _run(self, tx: Session, statement: str, values: dict[str, Any]) -> int:
        return tx.connection().execute(text(statement), values).rowcount

    def _rows(self, tx: Session, statement: str, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        return tx.connection().execute(text(statement), values).all()

    def _is_sqlite(self, tx: Session) -> bool:
        return is_sqlite(tx.get_bind().dialect.name)


def _commits_by_itself(connection: Any) -> bool:
    # sqlite3 commits by itself without an isolation level, unless SQLAlchemy's begin event opened a transaction.
    is_open = getattr(connection, "in_transaction", True)
    return getattr(connection, "autocommit", False) is True or (not is_open and connection.isolation_level is None)
