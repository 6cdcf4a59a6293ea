"""Updates of a job while ticks of its old version are claimed ahead of their instant."""

from datetime import datetime

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.claiming import take
from tests.contract.scheduler.conftest import chores
from tests.integration.client import Api, problem
from tests.integration.registered import created, interval, register

YEARLY = interval(every="366d", starts_at="2090-01-01T00:00:00Z")
CENTURY_SECONDS = 100 * 366 * 86_400


def take_ahead(database: Database, claims: int) -> list[datetime]:
    """Create the executions of all ticks of a century, and claim the first `claims` of them."""
    chores(database, look_ahead_seconds=CENTURY_SECONDS).materialize()
    rows.move_to_one_shard(database)
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    ahead_ms = CENTURY_SECONDS * 1000
    if claims:
        take(database, "w", claims, ahead_ms=ahead_ms)
    ticks = database.fetch(text("SELECT scheduled_at FROM executions ORDER BY scheduled_at"))
    return [row.scheduled_at for row in ticks]


@pytest.mark.parametrize("claims", [1, 2])
def test_new_version_skips_ticks_claimed_by_the_old_version(api: Api, database: Database, claims: int) -> None:
    register(api)
    old = created(api, YEARLY)
    ticks = take_ahead(database, claims)
    new = api.put(f"/jobs/{old['job_id']}", {"input": {"user_id": "u_2"}}).json
    assert rows.statuses(database) == {"CANCELLED": len(ticks) - claims, "RUNNING": claims}
    assert datetime.fromisoformat(new["next_run_at"]) == ticks[claims]


def test_new_version_runs_the_cancelled_ticks_of_the_old_version(api: Api, database: Database) -> None:
    register(api)
    old = created(api, YEARLY)
    ticks = take_ahead(database, 0)
    new = api.put(f"/jobs/{old['job_id']}", {"input": {"user_id": "u_2"}}).json
    assert datetime.fromisoformat(new["next_run_at"]) == ticks[0]


def test_update_without_a_remaining_tick_is_refused(api: Api, database: Database) -> None:
    register(api)
    old = created(api, YEARLY)
    ticks = take_ahead(database, 1)
    problem(api.put(f"/jobs/{old['job_id']}", {"ends_at": "2090-06-01T00:00:00Z"}), 400, "INVALID_REQUEST")
    assert rows.statuses(database) == {"QUEUED": len(ticks) - 1, "RUNNING": 1}
