"""Lost answers: the database commits, and the connection breaks before the answer arrives."""

from typing import Any

import psycopg2
import pytest

from app.kernel.db import Database


def lose_answer_of_next_commit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = database.engine.dialect.do_commit

    def commit_and_disconnect(connection: Any) -> None:
        monkeypatch.setattr(database.engine.dialect, "do_commit", commit)
        commit(connection)
        connection.close()
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(database.engine.dialect, "do_commit", commit_and_disconnect)
