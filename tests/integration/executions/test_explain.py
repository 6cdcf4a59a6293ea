"""Explanation of an execution: one reason and one sentence for each state."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.claiming.release import Release, release
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.executions.verdict import Verdict
from app.queue.reading.waiting_reasons import MAX_ABOVE, MAX_AHEAD
from schema.states import ExecutionStatus
from tests import rows
from tests.contract.scheduler.conftest import chores
from tests.integration.client import Api
from tests.integration.executions.worker import ERROR, WORKER, claim, end
from tests.integration.registered import created, one_shot
from tests.integration.statements import Statements
from tests.verdicts import success

Prepare = Callable[[Api, Database, str], object]


def explained(api: Api, execution_id: str) -> dict[str, Any]:
    response = api.get(f"/executions/{execution_id}/explain")
    assert response.status_code == 200
    found: dict[str, Any] = response.json
    assert found["status"] == api.get(f"/executions/{execution_id}").json["status"]
    assert found["explanation"].endswith(".")
    return found


def sql(statement: str) -> Prepare:
    return lambda _api, database, _id: database.fetch(text(statement))


def later(_api: Api, database: Database, _id: str) -> None:
    database.fetch(text("UPDATE executions SET status = 'PENDING', run_at = now() + INTERVAL '1 hour'"))


def no_worker(_api: Api, database: Database, _id: str) -> None:
    worker_lease.leave(database, WORKER)
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=1, queues=["kafka"], capacity=9, lease_ms=60_000)


def behind(api: Api, database: Database, _id: str) -> None:
    for number in range(2):
        created(api, one_shot(f"other-{number}"))
    query = text("UPDATE executions SET run_at = run_at - INTERVAL '1 hour' WHERE execution_id <> :id")
    database.fetch(query, {"id": _id})
    rows.move_to_one_shard(database)


def paused(api: Api, _database: Database, execution_id: str) -> None:
    api.post(f"/jobs/{api.get(f'/executions/{execution_id}').json['job_id']}/pause")


def paused_while_running(api: Api, database: Database, execution_id: str) -> None:
    held = claim(database)
    paused(api, database, execution_id)
    end(database, held, Verdict.retry(ERROR, 60_000))


def run_during_a_pause(api: Api, database: Database, execution_id: str) -> None:
    paused(api, database, execution_id)
    api.post(f"/jobs/{api.get(f'/executions/{execution_id}').json['job_id']}/run")


def failing(_api: Api, database: Database, _id: str) -> None:
    end(database, claim(database), Verdict.retry(ERROR, 60_000))


def deferred_without_a_key(_api: Api, database: Database, _id: str) -> None:
    held = Release(claim(database).key, 60_000, reason=ChangeReason.SECRET_UNREADABLE)
    assert release(database, WORKER, [held])


def failing_after_a_deferral_without_a_key(api: Api, database: Database, execution_id: str) -> None:
    deferred_without_a_key(api, database, execution_id)
    failing(api, database, execution_id)


def rescheduled_after_a_deferral_without_a_key(api: Api, database: Database, execution_id: str) -> None:
    deferred_without_a_key(api, database, execution_id)
    later(api, database, execution_id)
    moved = [StateChange(execution_id, ExecutionStatus.QUEUED, ExecutionStatus.PENDING, 0)]
    database.transact(lambda connection: record(connection, moved, actor="test", reason=ChangeReason.RESCHEDULED))


def deferred_by_another_worker(api: Api, database: Database, execution_id: str) -> None:
    deferred_without_a_key(api, database, execution_id)
    database.fetch(text("UPDATE executions SET worker_id = 'another'"))  # as its claim does, which is no event


def running(_api: Api, database: Database, _id: str) -> None:
    claim(database)


def requested_to_end(api: Api, database: Database, execution_id: str) -> None:
    claim(database)
    api.post(f"/executions/{execution_id}/cancel?if_running=request")


def to_be_aborted(api: Api, database: Database, execution_id: str) -> None:
    claim(database)
    api.post(f"/executions/{execution_id}/cancel?if_running=abort")


def aborted(api: Api, database: Database, execution_id: str) -> None:
    held = claim(database)
    api.post(f"/executions/{execution_id}/cancel?if_running=abort")
    end(database, held, Verdict.abort())


def ignored(_api: Api, database: Database, _id: str) -> None:
    end(database, claim(database), Verdict.ignore(ERROR))


def lost(_api: Api, database: Database, _id: str) -> None:
    claim(database)
    worker_lease.leave(database, WORKER)


def lost_without_a_row(_api: Api, database: Database, _id: str) -> None:
    claim(database)
    database.fetch(text("DELETE FROM workers"))


def declared_dead(_api: Api, database: Database, _id: str) -> None:
    claim(database)
    database.fetch(text("UPDATE workers SET status = 'DEAD'"))


def succeeded(_api: Api, database: Database, _id: str) -> None:
    end(database, claim(database), success({"status_code": 200, "body": ""}))


def failed(_api: Api, database: Database, _id: str) -> None:
    end(database, claim(database), Verdict.fail(ERROR))


def expired(_api: Api, database: Database, _id: str) -> None:
    database.fetch(text("UPDATE endpoints SET paused_at = now()"))
    database.fetch(text("UPDATE executions SET expires_at = now()"))
    assert chores(database).expire()["expired"] == 1


def expired_as_a_retry(api: Api, database: Database, execution_id: str) -> None:
    failing(api, database, execution_id)
    expired(api, database, execution_id)


def expired_then_failed_after_a_manual_retry(api: Api, database: Database, execution_id: str) -> None:
    expired(api, database, execution_id)
    database.fetch(text("UPDATE endpoints SET paused_at = NULL"))
    api.post(f"/executions/{execution_id}/retry")
    failed(api, database, execution_id)


def exhausted_by_a_manual_edit(_api: Api, database: Database, _id: str) -> None:
    database.fetch(text("UPDATE executions SET attempt_count = 3, run_at = now() - INTERVAL '1 hour'"))
    assert chores(database).repair()["failed"] == 1


def used_up(_api: Api, database: Database, _id: str) -> None:
    database.fetch(text("UPDATE executions SET max_attempts = 1"))
    end(database, claim(database), Verdict.fail(ERROR))


def cancelled(api: Api, _database: Database, execution_id: str) -> None:
    api.post(f"/executions/{execution_id}/cancel")


def cancelled_with_job(api: Api, _database: Database, execution_id: str) -> None:
    api.post(f"/jobs/{api.get(f'/executions/{execution_id}').json['job_id']}/cancel")


def cancelled_on_request(api: Api, database: Database, execution_id: str) -> None:
    held = claim(database)
    api.post(f"/executions/{execution_id}/cancel?if_running=request")
    end(database, held, Verdict.retry(ERROR, 1000))


CASES: list[tuple[Prepare, str, str, bool]] = [
    (later, "WAITING_FOR_RUN_AT", "due at 20", True),
    (sql("UPDATE executions SET status = 'PENDING'"), "WAITING_FOR_SCHEDULER", "no scheduler has queued it", False),
    (sql("SELECT 1"), "NEXT_IN_QUEUE", "next of its endpoint in the queue 'http'", False),
    (no_worker, "NO_WORKER", "no live worker serves the queue 'http'", False),
    (sql("UPDATE workers SET lease_expires_at = now()"), "NO_WORKER", "no live worker", False),
    (behind, "BEHIND_OTHERS", "waits behind 2 of its endpoint", False),
    (paused, "JOB_PAUSED", "paused", False),
    (paused_while_running, "JOB_PAUSED", "paused", False),
    (run_during_a_pause, "NEXT_IN_QUEUE", "next", False),
    (failing, "RETRYING_AFTER_ERROR", "Attempt 1 of 3 failed (HTTP_ERROR: answered 503)", True),
    (deferred_without_a_key, "SECRET_UNREADABLE", f"The worker {WORKER} could not decrypt a secret of its", True),
    (failing_after_a_deferral_without_a_key, "RETRYING_AFTER_ERROR", "Attempt 1 of 3 failed", True),
    (rescheduled_after_a_deferral_without_a_key, "WAITING_FOR_RUN_AT", "due at 20", True),
    (deferred_by_another_worker, "WAITING_FOR_RUN_AT", "due at 20", True),
    (to_be_aborted, "ABORT_REQUESTED", "Its abort was requested by test; its worker aborts attempt 1 of 3", False),
    (aborted, "CANCELLED", "Attempt 1 was aborted by test; it may have been delivered.", False),
    (ignored, "SUCCEEDED", "failed (HTTP_ERROR: answered 503), which its retry policy ignores.", False),
    (running, "RUNNING", f"Attempt 1 of 3 has been running on worker {WORKER}", False),
    (requested_to_end, "CANCEL_REQUESTED", "requested by test", False),
    (lost, "WORKER_LOST", f"{WORKER} was lost at 20", True),
    (lost_without_a_row, "WORKER_LOST", f"{WORKER} was lost at 20", True),
    (declared_dead, "WORKER_LOST", f"{WORKER} was lost at 20", True),
    (succeeded, "SUCCEEDED", "delivered by attempt 1 of 3", False),
    (failed, "FAILED_FOR_GOOD", "Attempt 1 of 3 failed (HTTP_ERROR: answered 503)", False),
    (expired, "EXPIRED", "It waited for longer than the max_age_ms of its retry policy allows; nothing was", False),
    (expired_as_a_retry, "EXPIRED", "It waited for longer than the max_age_ms of its retry policy allows after", False),
    (
        expired_then_failed_after_a_manual_retry,
        "FAILED_FOR_GOOD",
        "Attempt 1 of 3 failed (HTTP_ERROR: answered 503)",
        False,
    ),
    (
        exhausted_by_a_manual_edit,
        "ATTEMPTS_USED_UP",
        "It waited for another attempt, but has used all of its 3.",
        False,
    ),
    (used_up, "ATTEMPTS_USED_UP", "none is left", False),
    (cancelled, "CANCELLED", "cancelled by test after 0 attempt(s)", False),
    (cancelled_with_job, "JOB_CANCELLED", "cancelled by test, with its job", False),
    (cancelled_on_request, "CANCELLED", "requested by test while it was running", False),
]


@pytest.mark.parametrize(
    ("prepare", "reason", "words", "has_until"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_explanation_has_the_reason_and_words_of_each_state(
    api: Api, database: Database, execution_id: str, prepare: Prepare, reason: str, words: str, has_until: bool
) -> None:
    prepare(api, database, execution_id)
    found = explained(api, execution_id)
    assert (found["reason"], found["until"] is not None) == (reason, has_until)
    assert words in found["explanation"]


def test_executions_ahead_are_counted_up_to_a_bound(api: Api, database: Database, execution_id: str) -> None:
    rows.add_executions(database, MAX_AHEAD + 1, due_in=-timedelta(hours=1))
    rows.move_to_one_shard(database)
    found = explained(api, execution_id)
    assert f"more than {MAX_AHEAD} of its endpoint, earlier" in found["explanation"]
    assert (found["details"]["ahead"], found["details"]["ahead_is_exact"]) == (MAX_AHEAD, False)


def add_of_higher_priorities(database: Database, execution_id: str, *, due: int, later: int) -> None:
    rows.add_executions(database, due)
    rows.add_executions(database, later, due_in=timedelta(hours=1))
    rows.move_to_one_shard(database)
    above = "UPDATE executions SET priority = 200 + (ascii(substr(execution_id, 37)) - 48) WHERE execution_id <> :id"
    database.fetch(text(above), {"id": execution_id})


def test_executions_of_higher_priorities_are_counted_once_they_are_due(
    api: Api, database: Database, execution_id: str
) -> None:
    add_of_higher_priorities(database, execution_id, due=20, later=3)
    assert explained(api, execution_id)["details"]["ahead"] == 20


def test_place_behind_more_waiting_retries_than_are_read_is_unknown(
    api: Api, database: Database, execution_id: str
) -> None:
    """Executions of the highest priority are due, and it must not seem to be the next."""
    retries = rows.add_executions(database, MAX_ABOVE, due_in=timedelta(hours=1))
    rows.add_executions(database, 5)
    rows.move_to_one_shard(database)
    above = "UPDATE executions SET priority = CASE WHEN execution_id = ANY (CAST(:retries AS TEXT[])) THEN 200"
    above += " ELSE 255 END WHERE execution_id <> :id"
    database.fetch(text(above), {"id": execution_id, "retries": retries})
    found = explained(api, execution_id)
    assert (found["reason"], found["details"]["ahead_is_exact"]) == ("BEHIND_OTHERS", False)
    assert "waits behind an unknown number of its endpoint" in found["explanation"]
    (again,) = api.post("/explain", {"executions": [execution_id]}).json["items"]
    assert again.pop("execution_id") == execution_id
    assert again == found
    database.fetch(text("UPDATE executions SET priority = 201 WHERE priority = 255"))
    database.fetch(text("DELETE FROM executions WHERE execution_id = :id"), {"id": retries[0]})
    found = explained(api, execution_id)
    assert found["details"] | {"ahead": 1, "ahead_is_exact": False} == found["details"]
    assert "waits behind at least 1 of its endpoint" in found["explanation"]


def test_explanation_takes_three_statements(
    api: Api, database: Database, execution_id: str, statements: Statements
) -> None:
    """However many priorities are above it."""
    add_of_higher_priorities(database, execution_id, due=20, later=3)
    explained(api, execution_id)
    statements.clear()
    api.get(f"/executions/{execution_id}/explain")
    assert len(statements.texts) == 3


def test_explanation_of_a_failure_has_its_details(api: Api, database: Database, execution_id: str) -> None:
    failing(api, database, execution_id)
    details = explained(api, execution_id)["details"]
    assert (details["attempts"], details["max_attempts"], details["last_error"]["type"]) == (1, 3, "HTTP_ERROR")
