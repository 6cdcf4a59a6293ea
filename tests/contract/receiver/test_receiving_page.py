"""Python blocks of docs/tutorial/receiving.md, run on SQLite with the names that a reader's application has."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import create_engine, inspect, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.signing import signed
from tests.code_blocks import DOCS, blocks_of

SECRET, BODY = "whsec_c2VjcmV0IG9mIHRoZSBob3VzZQ==", b'{"order_id": 7}'


class Base(DeclarativeBase):
    """Tables of the application."""


class Shipment(Base):
    """The page's handler adds one."""

    __tablename__ = "shipments"
    order_id: Mapped[int] = mapped_column(primary_key=True)


def test_blocks_of_the_page_receive_a_delivery_and_migrate(tmp_path: Path) -> None:
    receive, migrate = (block.text for block in blocks_of(DOCS / "tutorial/receiving.md") if block.language == "python")
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    revision: dict[str, Any] = {}
    with engine.begin() as connection:
        revision["op"] = SimpleNamespace(execute=lambda statement: connection.execute(text(statement)))
        exec(migrate, revision)
        revision["upgrade"]()
    headers = signed({"secret": SECRET}, "exec_1", int(time.time()), BODY, 1) | {"X-Task-Executor-Attempt": "1"}
    names: dict[str, Any] = {"Shipment": Shipment}
    names["request"] = SimpleNamespace(headers=headers, get_data=lambda: BODY)
    exec(receive.replace("postgresql+psycopg2://…", url).replace("whsec_…", SECRET), names)
    assert (names["answer"].status, json.loads(names["answer"].body)) == (200, {"shipped": 7})
    with engine.begin() as connection:
        assert connection.execute(text("SELECT order_id FROM shipments")).scalars().all() == [7]
        revision["op"].execute = lambda statement: connection.execute(text(statement))
        revision["downgrade"]()
        assert inspect(connection).get_table_names() == ["shipments"]
    names["engine"].dispose()
    engine.dispose()
