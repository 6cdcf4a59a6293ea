"""Waits for the end of executions: they end in time, whatever becomes of the database."""

import threading

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.reading.waits import Waits
from tests.waiting import HUNG_SECONDS


def test_a_wait_ends_though_the_table_is_missing_as_while_it_is_restored(database: Database) -> None:
    waits = Waits(database)
    rename(database, "executions", "elsewhere")
    missing, there = threading.Event(), threading.Event()
    waits.begin("exec_1", 0.1, missing.set)
    assert missing.wait(HUNG_SECONDS)
    rename(database, "elsewhere", "executions")
    waits.begin("exec_1", 3600.0, there.set)
    assert there.wait(HUNG_SECONDS), "what is not there is over"
    assert waits.stop()


def rename(database: Database, before: str, after: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {before} RENAME TO {after}"))
