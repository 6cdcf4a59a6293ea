"""Reclaim of actors: their own time limit, and a bound on attempts that lost their process or worker."""

from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.attempt_notes import AttemptNote, note
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.manual_retry import retry_execution
from app.queue.reading.earlier_attempts import actor_past
from schema.states import EndpointType
from tests import rows
from tests.claiming import take
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.reclaiming import DEATHS
from tests.contract.scheduler.reclaiming import claimed as claimed_by_http

CLAIM = text("SELECT attempt_count, started_at FROM executions WHERE execution_id = :id")
WARNINGS = text("SELECT message FROM execution_logs WHERE level = 'WARN' ORDER BY logged_at, log_id")
STUCK_MS, GRACE_MS = 300_000, 60_000


def claimed(database: Database, spec: dict[str, Any], input_: Any = None) -> str:
    """Return an execution of an actor that a live worker runs."""
    claimed_by_http(database, 1)
    database.fetch(text("DELETE FROM executions"))
    rows.add_endpoint(database, "mail", type_=EndpointType.ACTOR, spec=spec, retry_policy={"max_attempts": 100})
    (execution_id,) = rows.add_executions(
        database, endpoint="mail", type_=EndpointType.ACTOR, max_attempts=100, input_=input_
    )
    take(database, "wrk_1", queue="actor")
    return execution_id


def lose(database: Database, execution_id: str, numbers: range) -> None:
    """Add attempts that lost their process, the earlier ones than the running one."""
    for number in numbers:
        database.fetch(text("UPDATE executions SET attempt_count = :n"), {"n": number + 1})
        rows.add_attempt(database, execution_id, number, "FAILED", error={"type": "PROCESS_LOST", "options": {"n": 1}})


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


@pytest.mark.parametrize(
    ("time_limit", "age_ms", "is_stuck"),
    [
        (3_600_000, 3_600_000 + 30_000 + GRACE_MS - 5_000, False),
        (3_600_000, 3_600_000 + 30_000 + GRACE_MS + 1_000, True),
        (1_000, 630_000 + GRACE_MS - 5_000, False),
        ("long", 630_000 + GRACE_MS + 1_000, True),
        (1e300, 86_400_000, False),
        (1e300, 86_400_000 + GRACE_MS + 1_000, True),
    ],
)
def test_message_with_a_longer_time_limit_than_its_actor_is_stuck_later(
    database: Database, time_limit: object, age_ms: int, is_stuck: bool
) -> None:
    claimed(database, {"actor": "mail"}, {"args": [], "kwargs": {}, "options": {"time_limit": time_limit}})
    moved = "UPDATE executions SET started_at = now() - CAST(:ms AS BIGINT) * INTERVAL '1 millisecond'"
    database.fetch(text(moved), {"ms": age_ms})
    assert len(reclaim_candidates.candidates(database, stuck_ms=STUCK_MS, limit=10)) == is_stuck


@pytest.mark.parametrize("arguments", [{"args": [], "options": {"time_limit": 3_600_000}}, "{{input.message}}"])
def test_arguments_of_the_endpoint_may_have_any_time_limit(database: Database, arguments: Any) -> None:
    claimed(database, {"actor": "mail", "arguments": arguments})
    aged = "UPDATE executions SET started_at = now() - CAST(:ms AS BIGINT) * INTERVAL '1 millisecond'"
    for age_ms, is_stuck in ((3_600_000, False), (86_400_000 + GRACE_MS + 1_000, True)):
        database.fetch(text(aged), {"ms": age_ms})
        assert len(reclaim_candidates.candidates(database, stuck_ms=STUCK_MS, limit=10)) == is_stuck


def begin(database: Database, execution_id: str) -> None:
    """Note that the running attempt has begun its actor, as an attempt does after a loss of its worker."""
    key = ClaimKey(execution_id, *next(iter(database.fetch(CLAIM, {"id": execution_id}))))
    before = database.fetch(WARNINGS)
    assert note(database, "wrk_1", [AttemptNote.of_start(key)]) == {"ACTOR_STARTED": 1}
    assert database.fetch(WARNINGS) == before  # a start is no reason to act


def lose_worker(database: Database, number: int) -> dict[str, int]:
    """End the running attempt by the death of its worker, and claim the execution again by another; return counts."""
    database.fetch(text(DEATHS["worker row is missing"]))
    counts = chores(database).reclaim_from_dead_workers()
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=2, queues=["actor"], capacity=9, lease_ms=60_000)
    assert len(take(database, "wrk_1", queue="actor").claims) == counts["retrying"], number
    return counts


def test_message_in_advance_loses_no_attempt_with_its_worker(database: Database) -> None:
    """No thread of a process had begun it."""
    execution_id = claimed(database, {"actor": "mail"})
    for number in range(1, 6):
        assert lose_worker(database, number)["retrying"] == 1
        past = actor_past(database, execution_id)
        assert (past.lost, past.has_lost_worker) == (0, True)


def test_actor_that_begins_and_loses_its_worker_fails_after_max_lost(database: Database) -> None:
    """The first of its losses is not known to have begun, so it does not count."""
    execution_id = claimed(database, {"actor": "mail"})
    assert lose_worker(database, 1)["retrying"] == 1
    for number in (2, 3):
        begin(database, execution_id)
        assert lose_worker(database, number)["retrying"] == 1
        assert actor_past(database, execution_id).lost == number - 1
    begin(database, execution_id)
    assert lose_worker(database, 4)["failed"] == 1


@pytest.mark.parametrize(("spec", "lost"), [({"actor": "mail"}, 3), ({"actor": "mail", "max_lost": 1}, 1)])
def test_execution_fails_once_max_lost_attempts_had_no_outcome(
    database: Database, spec: dict[str, Any], lost: int
) -> None:
    """With a bound of 1 an actor may not run twice, so a loss counts that may have begun."""
    execution_id = claimed(database, spec)
    lose(database, execution_id, range(1, lost))
    if lost > 1:
        begin(database, execution_id)
    database.fetch(text(DEATHS["worker row is missing"]))
    counts = chores(database).reclaim_from_dead_workers()
    assert (counts["retrying"], counts["failed"]) == (0, 1)
    error = rows.attempts(database, execution_id)[-1].error
    assert (error["type"], error["retryable"]) == ("WORKER_LOST", False)


def test_losses_and_options_of_the_attempts_before_a_manual_retry_do_not_count(database: Database) -> None:
    execution_id = claimed(database, {"actor": "mail"})
    lose(database, execution_id, range(1, 3))
    begin(database, execution_id)
    database.fetch(text(DEATHS["worker row is missing"]))
    assert chores(database).reclaim_from_dead_workers()["failed"] == 1
    assert actor_past(database, execution_id) == (3, True, {"type": "PROCESS_LOST", "options": {"n": 1}})
    retry_execution(database, execution_id, actor=None)
    assert actor_past(database, execution_id) == (0, False, {})
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=2, queues=["actor"], capacity=9, lease_ms=60_000)
    assert take(database, "wrk_2", queue="actor").claims
    database.fetch(text(DEATHS["worker row is missing"]))
    assert chores(database).reclaim_from_dead_workers()["retrying"] == 1
    assert actor_past(database, execution_id) == (0, True, {})
