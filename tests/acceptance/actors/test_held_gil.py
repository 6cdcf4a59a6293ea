"""Actor that keeps the lock of the interpreter for longer than the lease of its worker."""

import os
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import User
from tests.acceptance.limits import SHORT_LEASE
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

SECONDS = int(os.environ.get("TE_TEST_GIL_SECONDS", 2 * int(SHORT_LEASE["TE_WORKER_TIMEOUT_SEC"])))


def test_actor_that_holds_the_gil_costs_no_lease(user: User, tasks: Any, database: Database) -> None:
    """The worker renews the lease, so schedulers reclaim nothing. Messages that the process has taken wait for it."""
    adopt_settings(database)
    user.worker(**SHORT_LEASE)
    user.stack.scheduler(**SHORT_LEASE)
    user.process()
    eventually(lambda: database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'hold-gil'")))
    tasks.hold_gil.send(SECONDS)
    eventually(lambda: user.lines() == [f"gil {SECONDS}"])
    for number in range(20):
        tasks.note.send(number)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 21}, timeout=60 + SECONDS)
    assert user.lines().count(f"gil {SECONDS}") == user.lines().count("released") == 1
    attempts = text("SELECT max(attempt_count) AS most FROM executions")
    assert [row.most for row in database.fetch(attempts)] == [1]
    assert [row.n for row in database.fetch(text("SELECT count(*) AS n FROM workers WHERE status = 'ALIVE'"))] == [1]
