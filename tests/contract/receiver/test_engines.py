"""Inbox of SQLAlchemy over several kinds of engine: it needs transactions and creates its table once."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, event
from task_executor_receiver.sql import DROP
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox

from tests.contract.receiver.deliveries import fail, is_replayed, new_delivery
from tests.contract.receiver.stores import over_sqlalchemy
from tests.racing import at_once


@pytest.mark.parametrize("file", [None, "inbox"])
def test_engine_without_transactions_is_refused(url: str, tmp_path: Path, execution: str, file: str | None) -> None:
    engine = create_engine(url if file is None else f"sqlite:///{tmp_path / file}", isolation_level="AUTOCOMMIT")
    with pytest.raises(RuntimeError, match="must not use AUTOCOMMIT"):
        SqlAlchemyInbox(engine).process(new_delivery(execution), fail)
    engine.dispose()


def test_engine_with_an_explicit_begin_has_transactions(tmp_path: Path, execution: str) -> None:
    """SQLAlchemy recommends an explicit BEGIN for sqlite3, whose own transactions begin late."""
    engine = create_engine(f"sqlite:///{tmp_path / 'inbox'}")
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    store = over_sqlalchemy(engine)
    with pytest.raises(LookupError):
        store.inbox.process(new_delivery(execution), fail)
    assert not is_replayed(store.inbox.process(new_delivery(execution, 2), store.effect))
    store.close()


def test_concurrent_starts_create_one_table(url: str) -> None:
    engine = create_engine(url, pool_size=8)
    for _ in range(5):
        at_once(*[SqlAlchemyInbox(engine).create_table] * 8)
        with engine.begin() as connection:
            connection.exec_driver_sql(DROP)
    engine.dispose()
