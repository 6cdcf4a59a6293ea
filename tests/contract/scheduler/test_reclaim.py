"""Reclaim: attempts of dead workers and stuck claims end exactly once, and no other attempt ends."""

from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.completion import complete
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.claiming import take
from tests.contract.races.racing import WAYS, Hints, schedulers, strip_locks, total
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.reclaiming import DEATHS, UNTIL_NOW, claimed, completed
from tests.racing import at_once

STUCK_MS = 300_000


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_execution_of_a_dead_worker_is_due_again_at_once(database: Database, death: str) -> None:
    (claim,) = claimed(database)
    database.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '1 hour'"))
    database.fetch(text(death))
    hints = Hints()
    counts = chores(database, hints=hints).reclaim_from_dead_workers()
    assert (counts["retrying"], counts["failed"], hints.queues) == (1, 0, ["http"])
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count, row.worker_id, row.completed_at) == ("RETRYING", 1, "wrk_1", None)
    assert timedelta(0) <= rows.database_now(database) - row.run_at < timedelta(seconds=30)
    assert rows.job_of(database, claim.execution_id).status == "ACTIVE"


def test_lost_attempt_is_recorded(database: Database) -> None:
    (claim,) = claimed(database)
    database.fetch(text(DEATHS["worker row is missing"]))
    chores(database).reclaim_from_dead_workers()
    (tried,) = rows.attempts(database, claim.execution_id)
    assert (tried.attempt_number, tried.status, tried.worker_id) == (1, "FAILED", "wrk_1")
    assert tried.started_at == rows.execution(database, claim.execution_id).started_at
    assert tried.due_at == claim.due_at
    assert tried.completed_at >= tried.started_at
    assert abs(tried.duration_ms - (tried.completed_at - tried.started_at) / timedelta(milliseconds=1)) <= 0.5
    assert tried.error == {
        "type": "WORKER_LOST",
        "message": "the worker's lease ran out before it wrote a result",
        "retryable": True,
        "may_have_been_delivered": True,
    }
    (line,) = database.fetch(text("SELECT * FROM execution_logs"))
    assert (line.execution_id, line.attempt_number, line.level) == (claim.execution_id, 1, "WARN")
    assert line.message.endswith("; trying again")


def test_live_worker_keeps_its_claims(database: Database) -> None:
    claimed(database, 2, worker="wrk_living")
    lost = claimed(database, 1, worker="wrk_dead")
    database.fetch(text(f"UPDATE workers {UNTIL_NOW} WHERE worker_id = 'wrk_dead'"))
    assert chores(database).reclaim_from_dead_workers()["retrying"] == 1
    assert rows.statuses(database) == {"RETRYING": 1, "RUNNING": 2}
    assert rows.execution(database, lost[0].execution_id).status == "RETRYING"
    assert chores(database).reclaim_stuck()["retrying"] == 0


def test_stuck_claim_of_a_live_worker_is_reclaimed(database: Database) -> None:
    old, young = claimed(database, 2, max_attempts=2)
    query = text("UPDATE executions SET started_at = now() - INTERVAL '301 seconds' WHERE execution_id = :id")
    database.fetch(query, {"id": old.execution_id})
    assert chores(database).reclaim_from_dead_workers()["retrying"] == 0
    hints = Hints()
    assert chores(database, hints=hints).reclaim_stuck()["retrying"] == 1
    assert rows.execution(database, old.execution_id).status == "RETRYING"
    assert rows.execution(database, young.execution_id).status == "RUNNING"
    (tried,) = rows.attempts(database, old.execution_id)
    assert (tried.error["type"], tried.error["may_have_been_delivered"]) == ("STUCK", True)
    assert 301_000 <= tried.duration_ms < 400_000
    assert hints.queues == ["http"]


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_late_completion_changes_nothing(database: Database, max_attempts: int) -> None:
    (claim,) = claimed(database, max_attempts=max_attempts)
    database.fetch(text(DEATHS["lease expired"]))
    chores(database).reclaim_from_dead_workers()
    before = rows.execution(database, claim.execution_id)
    assert complete(database, "wrk_1", [completed(claim)]) == set()
    assert rows.execution(database, claim.execution_id) == before
    assert [a.status for a in rows.attempts(database, claim.execution_id)] == ["FAILED"]


def test_attempt_numbers_have_no_gap_after_a_lost_worker(database: Database) -> None:
    (claim,) = claimed(database, max_attempts=2)
    database.fetch(text(DEATHS["worker row is missing"]))
    chores(database).reclaim_from_dead_workers()
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=2, queues=["http"], capacity=9, lease_ms=60_000)
    (again,) = take(database, "wrk_2", 1).claims
    complete(database, "wrk_2", [completed(again)])
    found = [(a.attempt_number, a.status, a.worker_id) for a in rows.attempts(database, claim.execution_id)]
    assert found == [(1, "FAILED", "wrk_1"), (2, "SUCCESS", "wrk_2")]


CHANGES = {
    "completed": "UPDATE executions SET status = 'SUCCESS', completed_at = now()",
    "claimed again": "UPDATE executions SET attempt_count = 2, worker_id = 'wrk_1'",
    "released": "UPDATE executions SET status = 'QUEUED', attempt_count = 0",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_candidate_that_changed_after_it_was_read_is_not_reclaimed(database: Database, change: str) -> None:
    (claim,) = claimed(database)
    database.fetch(text(DEATHS["lease expired"]))
    candidates = reclaim_candidates.candidates(database, limit=10)
    database.fetch(text(change))
    before = rows.execution(database, claim.execution_id)
    done = reclaim.reclaim(database, candidates)
    assert (done.retrying, done.failed) == (0, 0)
    assert rows.execution(database, claim.execution_id) == before
    assert rows.attempts(database, claim.execution_id) == []


def test_candidate_of_a_live_worker_is_not_reclaimed(database: Database) -> None:
    """An expired lease is never renewed, but the statement does not rely on this rule."""
    (claim,) = claimed(database)
    database.fetch(text(DEATHS["lease expired"]))
    candidates = reclaim_candidates.candidates(database, limit=10)
    database.fetch(text("UPDATE workers SET lease_expires_at = now() + INTERVAL '1 minute'"))
    assert reclaim.reclaim(database, candidates).retrying == 0
    assert reclaim.reclaim(database, candidates, stuck_ms=STUCK_MS).retrying == 0
    assert rows.execution(database, claim.execution_id).status == "RUNNING"


@pytest.mark.parametrize("way", WAYS)
def test_each_row_is_won_by_one_of_two_schedulers_or_a_late_completion(
    database: Database, database_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, way, reclaim, "RECLAIM")
    held = claimed(database, 600, max_attempts=2)
    database.fetch(text(f"UPDATE workers {UNTIL_NOW}"))
    with schedulers(database_url, way, 3) as (first, second, worker):
        answers = at_once(
            chores(first).reclaim_from_dead_workers,
            chores(second).reclaim_from_dead_workers,
            lambda: [complete(worker, "wrk_1", [completed(c) for c in held[n : n + 40]]) for n in range(0, 600, 40)],
        )
    taken, effective = total(answers[:2], "retrying"), set().union(*answers[2])  # type: ignore[arg-type,call-overload]
    chores(database).reclaim_from_dead_workers()
    assert rows.statuses(database).get("SUCCESS", 0) == len(effective)
    assert taken + len(effective) <= 600
    pairs = database.fetch(
        text(
            "SELECT e.status, a.status AS attempt, count(*) AS n FROM executions e "
            f"  JOIN {ALL_ATTEMPTS} AS a ON a.execution_id = e.execution_id GROUP BY e.status, a.status"
        )
    )
    assert {(row.status, row.attempt) for row in pairs} <= {("SUCCESS", "SUCCESS"), ("RETRYING", "FAILED")}
    assert sum(row.n for row in pairs) == 600


def test_attempt_that_is_already_recorded_blocks_no_other_reclaim(database: Database) -> None:
    """After a manual edit the attempt number is taken; the batch must still succeed."""
    held = claimed(database, 2)
    complete(database, "wrk_1", [completed(held[0])])
    database.fetch(text("UPDATE executions SET status = 'RUNNING', completed_at = NULL"))
    database.fetch(text(DEATHS["worker row is missing"]))
    assert chores(database).reclaim_from_dead_workers()["retrying"] == 2


def test_run_reclaims_more_than_one_batch(database: Database) -> None:
    claimed(database, 1100)
    database.fetch(text(DEATHS["worker row is missing"]))
    assert chores(database).reclaim_from_dead_workers()["retrying"] == 1100


@pytest.mark.postgresql_only
def test_candidates_are_read_by_the_index_of_running_rows(database: Database) -> None:
    rows.add_executions(database, 5_000)
    claimed(database, 50)
    database.fetch(text("ANALYZE executions"))
    start = reclaim_candidates.START._asdict() | {"limit": 500}
    for statement, params in ((reclaim_candidates.LOST, start), (reclaim_candidates.STUCK, start | {"stuck_ms": 1})):
        plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + statement.text), params))
        assert "idx_executions_running" in plan
        assert "Seq Scan on executions" not in plan
        assert "Seq Scan on jobs" not in plan


@pytest.mark.postgresql_only
@pytest.mark.parametrize("analyzed", [True, False], ids=["fresh statistics", "no statistics"])
def test_rows_are_reclaimed_by_their_keys(database: Database, analyzed: bool) -> None:
    rows.add_executions(database, 5_000)
    claimed(database, 50)
    database.fetch(text(DEATHS["worker row is missing"]))
    if analyzed:
        database.fetch(text("ANALYZE executions"))
        database.fetch(text("ANALYZE jobs"))
    candidates = reclaim_candidates.candidates(database, limit=50)
    params: dict[str, object] = {}
    event.listen(database.engine, "before_execute", lambda *given: params.update(given[3]), once=True)
    assert reclaim.reclaim(database, candidates).retrying == 50
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + reclaim.RECLAIM.text), params))
    assert "pk_jobs" in plan
    assert "pk_executions" in plan
    assert "Seq Scan on executions" not in plan
    assert "Seq Scan on jobs" not in plan
