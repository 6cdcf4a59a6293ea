"""Reclaim of actors: their own time limit, and a bound on attempts that lost their process or worker."""

from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import reclaim, reclaim_candidates
from schema.states import EndpointType
from tests import rows
from tests.claiming import take
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.reclaiming import DEATHS
from tests.contract.scheduler.reclaiming import claimed as claimed_by_http

STUCK_MS, GRACE_MS = 300_000, 60_000


def claimed(database: Database, spec: dict[str, Any]) -> str:
    """Return an execution of an actor that a live worker runs."""
    claimed_by_http(database, 1)
    database.fetch(text("DELETE FROM executions"))
    rows.add_endpoint(database, "mail", type_=EndpointType.ACTOR, spec=spec, retry_policy={"max_attempts": 100})
    (execution_id,) = rows.add_executions(database, endpoint="mail", type_=EndpointType.ACTOR, max_attempts=100)
    take(database, "wrk_1", queue="actor")
    return execution_id


@pytest.mark.parametrize(
    ("spec", "age_ms", "is_stuck"),
    [
        ({"actor": "mail", "timeout_ms": 3_600_000}, 3_600_000 + GRACE_MS - 5_000, False),
        ({"actor": "mail", "timeout_ms": 3_600_000}, 3_600_000 + GRACE_MS + 1_000, True),
        ({"actor": "mail"}, STUCK_MS + 1_000, False),
        ({"actor": "mail", "timeout_ms": "soon"}, 900_000, True),
        ({"actor": "mail", "timeout_ms": 1e300}, 900_000, False),
    ],
)
def test_actor_is_stuck_after_its_own_time_limit(
    database: Database, spec: dict[str, Any], age_ms: int, is_stuck: bool
) -> None:
    claimed(database, spec)
    moved = "UPDATE executions SET started_at = now() - CAST(:ms AS BIGINT) * INTERVAL '1 millisecond'"
    database.fetch(text(moved), {"ms": age_ms})
    found = reclaim_candidates.candidates(database, stuck_ms=STUCK_MS, limit=10)
    assert len(found) == is_stuck
    assert reclaim.reclaim(database, found, stuck_ms=STUCK_MS).retrying == is_stuck


@pytest.mark.parametrize(("spec", "lost"), [({"actor": "mail"}, 3), ({"actor": "mail", "max_lost": 1}, 1)])
def test_execution_fails_once_max_lost_attempts_had_no_outcome(
    database: Database, spec: dict[str, Any], lost: int
) -> None:
    execution_id = claimed(database, spec)
    for number in range(1, lost):
        database.fetch(text("UPDATE executions SET attempt_count = :n"), {"n": number + 1})
        rows.add_attempt(database, execution_id, number, "FAILED", error={"type": "PROCESS_LOST"})
    database.fetch(text(DEATHS["worker row is missing"]))
    counts = chores(database).reclaim_from_dead_workers()
    assert (counts["retrying"], counts["failed"]) == (0, 1)
    error = rows.attempts(database, execution_id)[-1].error
    assert (error["type"], error["retryable"]) == ("WORKER_LOST", False)
