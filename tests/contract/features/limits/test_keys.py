"""Thousands of limit keys at one endpoint: a backlog of one key does not stop the other keys."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from brokers.attempt import Attempt, Stage
from tests import rows
from tests.contract.conftest import StartWorker
from tests.target_rules import set_rules
from tests.verdicts import success
from tests.waiting import eventually

KEYS, BIG = 2_000, 4_000
GIVE_KEYS = text(
    "UPDATE executions AS e SET limit_key = '=tenant' || n.number "
    "FROM (SELECT execution_id, row_number() OVER (ORDER BY execution_id) AS number FROM executions) AS n "
    "WHERE n.execution_id = e.execution_id"
)


@pytest.mark.postgresql_only
def test_thousands_of_keys_make_progress_beside_the_backlog_of_one_key(
    database: Database, start_worker: StartWorker
) -> None:
    """The executions of the backlog are the oldest."""
    rows.add_executions(database, KEYS)
    rows.analyze(database)
    database.fetch(GIVE_KEYS)
    rows.add_executions(database, BIG, due_in=-timedelta(minutes=1))
    database.fetch(text("UPDATE executions SET limit_key = '=big' WHERE limit_key = ''"))
    database.fetch(text("ANALYZE"))
    set_rules(database, {"max_in_flight": 100, "per_key": {"key": "{{input.tenant}}", "max_in_flight": 2}})
    served, lock = Counter[str](), threading.Lock()

    def deliver(attempt: Attempt) -> None:
        assert attempt.enter(Stage.TAKEN)
        assert attempt.enter(Stage.STARTED)
        with lock:
            served[attempt.claim.limit_key] += 1
        attempt.complete(success({}))

    start_worker(deliver, capacity=200)
    eventually(lambda: len(served) == KEYS + 1, what="each key to be served")
    assert max(count for key, count in served.items() if key != "=big") == 1
    assert served["=big"] < BIG / 2
