"""A thousand processes of a user that are connected to one worker, and run a message each at the same time."""

import subprocess
import sys

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.acceptance.actors.conftest import HERE, User, wait_for_actors
from tests.enqueueing import adopt_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgresql_only]

COUNT = 1_000
SEND = "SELECT te_enqueue(endpoint => 'many', input => '{}', idempotency_key => CAST(n AS TEXT))"


def test_thousand_processes_run_a_message_each_at_the_same_time(user: User, database: Database) -> None:
    adopt_settings(database)
    user.worker(TE_WORKER_MAX_CONCURRENT=str(COUNT))
    command = [sys.executable, str(HERE / "many_processes.py"), str(user.sockets), str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as processes:
        try:
            wait_for_actors(database, "many")
            database.fetch(text(f"SELECT count(*) FROM ({SEND} FROM generate_series(1, {COUNT}) AS n) AS sent"))
            said, _ = processes.communicate(timeout=120)
        finally:
            processes.kill()
    assert (processes.returncode, said) == (0, f"{COUNT} processes have a message at once\n")
    eventually(lambda: rows.statuses(database) == {"SUCCESS": COUNT})
    found = "SELECT count(DISTINCT output->>'body') AS processes, max(attempt_count) AS attempts FROM executions"
    assert [*map(tuple, database.fetch(text(found)))] == [(COUNT, 1)]
