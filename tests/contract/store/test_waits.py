"""Waits for the completion of executions: each wait ends in time, also when the database fails."""

import threading

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.reading.waits import Waits
from tests.waiting import HUNG_SECONDS


def test_wait_ends_in_time_while_the_table_is_missing(database: Database) -> None:
    waits = Waits(database)
    rename(database, "executions", "elsewhere")
    timed_out, over = threading.Event(), threading.Event()
    waits.begin("exec_1", 0.1, timed_out.set)
    assert timed_out.wait(HUNG_SECONDS)
    rename(database, "elsewhere", "executions")
    waits.begin("exec_1", 3600.0, over.set)
    assert over.wait(HUNG_SECONDS), "the wait for an unknown execution did not end at once"
    assert waits.stop()


def rename(database: Database, before: str, after: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {before} RENAME TO {after}"))
