"""History of an execution: every change of state, by every actor."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.attempt_notes import AttemptNote, note
from app.queue.executions.promotion import promote
from app.queue.executions.verdict import Verdict
from app.queue.reading.execution_history import history_of
from tests import rows
from tests.claiming import release
from tests.integration.client import Api, problem
from tests.integration.executions.worker import ERROR, WORKER, claim, end
from tests.integration.registered import created, one_shot, register
from tests.verdicts import success

Change = tuple[str | None, str, int, str | None, str]


def history_over_http(api: Api, execution_id: str) -> list[dict[str, Any]]:
    response = api.get(f"/executions/{execution_id}/history")
    assert response.status_code == 200
    items: list[dict[str, Any]] = response.json["items"]
    assert [item["at"] for item in items] == sorted(item["at"] for item in items)
    assert [item["from"] for item in items[1:]] == [item["to"] for item in items[:-1]]
    assert items[-1]["to"] == api.get(f"/executions/{execution_id}").json["status"]
    return items


def changes(api: Api, execution_id: str) -> list[Change]:
    return [
        (item["from"], item["to"], item["attempt"], item["actor"], item["reason"])
        for item in history_over_http(api, execution_id)
    ]


def test_history_of_six_attempts_is_complete(api: Api, database: Database, execution_id: str) -> None:
    path = f"/executions/{execution_id}"
    release(database, WORKER, [claim(database).key])
    end(database, claim(database), Verdict.retry(ERROR, 1000))
    second = claim(database)
    api.post(f"{path}/cancel?if_running=request")
    end(database, second, Verdict.retry(ERROR, 1000))
    api.post(f"{path}/retry")
    end(database, claim(database), Verdict.retry(ERROR, 1000))
    api.post(f"{path}/cancel")
    api.post(f"{path}/retry")
    end(database, claim(database), Verdict.fail(ERROR))
    api.post(f"{path}/retry")
    fifth = claim(database)
    note(database, WORKER, [AttemptNote.of_soft_limit(fifth.key, 5)])
    api.post(f"{path}/cancel?if_running=abort")
    end(database, fifth, Verdict.abort())
    api.post(f"{path}/retry")
    end(database, claim(database), success({"status_code": 200, "body": ""}))
    assert changes(api, execution_id) == [
        (None, "QUEUED", 0, None, "CREATED"),
        ("QUEUED", "RUNNING", 1, WORKER, "CLAIMED"),
        ("RUNNING", "QUEUED", 1, WORKER, "HANDED_BACK"),
        ("QUEUED", "RUNNING", 1, WORKER, "CLAIMED"),
        ("RUNNING", "RETRYING", 1, WORKER, "HTTP_ERROR"),
        ("RETRYING", "RUNNING", 2, WORKER, "CLAIMED"),
        ("RUNNING", "RUNNING", 2, "test", "CANCEL_REQUESTED"),
        ("RUNNING", "CANCELLED", 2, WORKER, "CANCEL_REQUESTED"),
        ("CANCELLED", "QUEUED", 2, "test", "RETRIED_BY_HAND"),
        ("QUEUED", "RUNNING", 3, WORKER, "CLAIMED"),
        ("RUNNING", "RETRYING", 3, WORKER, "HTTP_ERROR"),
        ("RETRYING", "CANCELLED", 3, "test", "CANCELLED"),
        ("CANCELLED", "QUEUED", 3, "test", "RETRIED_BY_HAND"),
        ("QUEUED", "RUNNING", 4, WORKER, "CLAIMED"),
        ("RUNNING", "FAILED", 4, WORKER, "HTTP_ERROR"),
        ("FAILED", "QUEUED", 4, "test", "RETRIED_BY_HAND"),
        ("QUEUED", "RUNNING", 5, WORKER, "CLAIMED"),
        ("RUNNING", "RUNNING", 5, WORKER, "SOFT_LIMIT"),
        ("RUNNING", "RUNNING", 5, "test", "ABORT_REQUESTED"),
        ("RUNNING", "CANCELLED", 5, WORKER, "ABORTED"),
        ("CANCELLED", "QUEUED", 5, "test", "RETRIED_BY_HAND"),
        ("QUEUED", "RUNNING", 6, WORKER, "CLAIMED"),
        ("RUNNING", "SUCCESS", 6, WORKER, "DELIVERED"),
    ]
    assert not any(item["estimated"] for item in history_over_http(api, execution_id))


def test_history_covers_running_and_retrying_executions(api: Api, database: Database, execution_id: str) -> None:
    assert changes(api, execution_id) == [(None, "QUEUED", 0, None, "CREATED")]
    first = claim(database)
    assert changes(api, execution_id)[1:] == [("QUEUED", "RUNNING", 1, WORKER, "CLAIMED")]
    end(database, first, Verdict.retry(ERROR, 1000))
    assert changes(api, execution_id)[2:] == [("RUNNING", "RETRYING", 1, WORKER, "HTTP_ERROR")]
    claim(database)
    assert changes(api, execution_id)[3:] == [("RETRYING", "RUNNING", 2, WORKER, "CLAIMED")]


def test_history_has_pause_resume_and_promotion(api: Api, database: Database, execution_id: str) -> None:
    job = f"/jobs/{api.get(f'/executions/{execution_id}').json['job_id']}"
    for verb in ("pause", "resume"):
        assert api.post(f"{job}/{verb}").status_code == 200
    assert changes(api, execution_id)[1:] == [
        ("QUEUED", "PENDING", 0, "test", "JOB_PAUSED"),
        ("PENDING", "QUEUED", 0, "test", "JOB_RESUMED"),
    ]
    end(database, claim(database), Verdict.retry(ERROR, 60_000))
    api.post(f"{job}/pause")
    assert changes(api, execution_id)[3:] == [
        ("QUEUED", "RUNNING", 1, WORKER, "CLAIMED"),
        ("RUNNING", "RETRYING", 1, WORKER, "HTTP_ERROR"),
        ("RETRYING", "PENDING", 1, "test", "JOB_PAUSED"),
    ]
    api.post(f"{job}/resume")
    rows.move_to_one_shard(database)
    promote(database, shard=0, ahead_ms=120_000, limit=10)
    claim(database)
    assert changes(api, execution_id)[6:] == [
        ("PENDING", "PENDING", 1, "test", "JOB_RESUMED"),
        ("PENDING", "QUEUED", 1, "scheduler", "PROMOTED"),
        ("QUEUED", "RUNNING", 2, WORKER, "CLAIMED"),
    ]


def test_history_has_the_reclaim_from_a_lost_worker(api: Api, database: Database, execution_id: str) -> None:
    claim(database)
    worker_lease.leave(database, WORKER)
    reclaim.reclaim(database, reclaim_candidates.candidates(database, limit=10))
    assert changes(api, execution_id)[2:] == [("RUNNING", "RETRYING", 1, "scheduler", "WORKER_LOST")]


def test_promotion_is_inferred_and_marked_as_estimated(api: Api, database: Database, execution_id: str) -> None:
    api.post(f"/executions/{execution_id}/cancel")
    later = (rows.database_now(database) + timedelta(hours=1)).isoformat()
    body = one_shot("later", trigger="DELAYED", run_at=later)
    delayed: str = created(api, body)["execution"]["execution_id"]
    assert changes(api, delayed) == [(None, "PENDING", 0, None, "CREATED")]
    move = "UPDATE executions SET {0} = {0} - INTERVAL '1 hour' WHERE execution_id = :id"
    for column in ("created_at", "run_at", "scheduled_at"):
        database.fetch(text(move.format(column)), {"id": delayed})
    rows.move_to_one_shard(database)
    promote(database, shard=0, ahead_ms=5000, limit=10)
    queued = ("PENDING", "QUEUED", 0, "scheduler", "PROMOTED")
    assert changes(api, delayed)[1:] == [queued]
    end(database, claim(database), success({"status_code": 200, "body": ""}))
    assert changes(api, delayed)[1:3] == [queued, ("QUEUED", "RUNNING", 1, WORKER, "CLAIMED")]
    assert [item["estimated"] for item in history_over_http(api, delayed)] == [False, True, False, False]


def test_cancelled_delayed_execution_has_no_promotion(api: Api, execution_id: str) -> None:
    body = one_shot("later", trigger="DELAYED", run_at="2090-01-01T00:00:00Z")
    job = created(api, body)
    api.post(f"/jobs/{job['job_id']}/cancel")
    assert changes(api, job["execution"]["execution_id"])[1:] == [("PENDING", "CANCELLED", 0, "test", "JOB_CANCELLED")]


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED", "CANCELLED", "RETRYING"])
def test_execution_without_events_ends_in_its_current_state(api: Api, database: Database, status: str) -> None:
    """Such rows are older than the table of events, or were edited manually."""
    register(api)
    job = created(api, one_shot("k"))
    tick = rows.add_tick(database, job["job_id"], status)
    assert changes(api, tick)[-1] == ("QUEUED", status, 0, None, "UNRECORDED")


def fail_twice(api: Api, database: Database, execution_id: str) -> None:
    end(database, claim(database), Verdict.retry(ERROR, 1000))
    end(database, claim(database), Verdict.fail(ERROR))


def cancel_and_retry(api: Api, database: Database, execution_id: str) -> None:
    for verb in ("cancel", "retry"):
        assert api.post(f"/executions/{execution_id}/{verb}").status_code == 200


@pytest.mark.parametrize("change", [fail_twice, cancel_and_retry], ids=["attempts", "other changes"])
def test_long_history_is_marked_as_truncated(
    api: Api,
    database: Database,
    execution_id: str,
    change: Callable[[Api, Database, str], None],
) -> None:
    change(api, database, execution_id)
    whole = changes(api, execution_id)
    for most, is_truncated in ((2, False), (1, True)):
        found = history_of(database, execution_id, look_ahead=timedelta(0), most=most)
        assert found.is_truncated is is_truncated
    kept = [(step.before, step.after, step.attempt, step.actor, step.reason) for step in found.steps]
    assert (kept[0], kept[-1]) == (whole[0], whole[-1])


def test_history_and_explanation_of_an_unknown_execution_are_404(api: Api) -> None:
    problem(api.get("/executions/exec_0/history"), 404, "EXECUTION_NOT_FOUND")
    problem(api.get("/executions/exec_0/explain"), 404, "EXECUTION_NOT_FOUND")
