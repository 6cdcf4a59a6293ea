"""Health: liveness and readiness."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event, text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.web.readiness import GOOD_FOR_SECONDS, Readiness
from tests.integration.client import Api, problem, running
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS


def test_live_and_ready_answer_without_a_key(app: Flask) -> None:
    anonymous = Api(app, None)
    assert anonymous.get("/health/live").json == {"status": "ok"}
    assert anonymous.get("/health/ready").json == {"status": "ok"}


def test_readiness_needs_a_migrated_database(empty_database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with running(Settings(database_url=empty_database_url)) as app:
        anonymous = Api(app, None)
        assert anonymous.get("/health/live").status_code == 200
        error = problem(anonymous.get("/health/ready"), 503, "SERVICE_UNAVAILABLE")
        assert "db upgrade" not in error["message"], "clients without a key get no details"
        assert "db upgrade" in caplog.text


def test_readiness_queries_the_database_once_a_second(database: Database, statements: Statements) -> None:
    now = 0.0
    readiness = Readiness(database, clock=lambda: now)
    readiness.check()
    once = len(statements.texts)
    assert once > 0
    for _ in range(100):
        readiness.check()
    assert len(statements.texts) == once
    database.fetch(text("UPDATE alembic_version SET version_num = '0001'"))
    readiness.check()
    now = GOOD_FOR_SECONDS
    with pytest.raises(UnavailableError):
        readiness.check()


def test_only_one_thread_waits_for_a_hanging_database(database: Database) -> None:
    is_checking, may_continue = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        is_checking.set()
        assert may_continue.wait(HUNG_SECONDS)

    event.listen(database.engine, "before_cursor_execute", hang)
    readiness = Readiness(database, patience_seconds=0.01)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(readiness.check)
        assert is_checking.wait(HUNG_SECONDS)
        with pytest.raises(UnavailableError):
            readiness.check()
        assert not first.done()
        may_continue.set()
        first.result(HUNG_SECONDS)
    readiness.check()
