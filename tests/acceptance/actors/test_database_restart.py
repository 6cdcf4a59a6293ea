"""Restart of the database while actors run: every message has its effect, and no process needs a restart."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.servers import Postgres
from app.dev.stack.runner import Stack
from app.kernel import db
from schema import migrate
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.acceptance.conftest import stack_over
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

MESSAGES = 300


@pytest.fixture
def durable() -> Iterator[Postgres]:
    """A separate PostgreSQL server with fsync, which the test restarts."""
    with start_or_skip(Postgres()) as server:
        yield server


@pytest.fixture
def database_url(durable: Postgres) -> str:
    migrate.upgrade(durable.url)
    return durable.url


@pytest.fixture
def stack(database_url: str, tmp_path: Path) -> Iterator[Stack]:
    with stack_over(database_url, tmp_path) as stack:
        yield stack


def test_restart_of_the_database_loses_no_message(user: User, tasks: Any, durable: Postgres) -> None:
    with closing(db.connect(durable.url, pool_size=2, application_name="te-test")) as database:
        user.stack.web()
        user.stack.scheduler()
        worker = user.worker()
        runner = user.process()
        eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'other'")))
        for number in range(MESSAGES):
            tasks.note.send(number)
        eventually(lambda: len(user.lines()) > MESSAGES // 10, what="the first messages")
        durable.restart()
        tasks.note.send("after")
        eventually(lambda: rows.statuses(database) == {"SUCCESS": MESSAGES + 1}, timeout=120)
    assert worker.is_running, worker.tail()
    assert runner.is_running, runner.tail()
    times = Counter(user.lines())
    assert set(times) == {f"note {number}" for number in [*range(MESSAGES), "after"]}
