"""Manual retry: a failed or cancelled execution is queued again with new attempts."""

from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from app.kernel.db import Database
from app.queue.executions.manual_retry import RETRY
from tests import rows
from tests.integration.client import Api, problem, services
from tests.integration.registered import created, cron, one_shot, register


def completed(api: Api, database: Database, status: str = "FAILED", **endpoint: object) -> str:
    """Create a one-shot execution that completed after three attempts of four."""
    register(api, **endpoint)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], status)
    database.fetch(text("UPDATE executions SET attempt_count = 3, max_attempts = 4, cancel_requested_at = now()"))
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    execution_id: str = job["execution"]["execution_id"]
    return execution_id


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
def test_completed_execution_is_queued_again_with_new_attempts(api: Api, database: Database, status: str) -> None:
    execution_id = completed(api, database, status, retry_policy={"max_attempts": 5})
    hints: list[str] = []
    services(api.app).notifier.hint = lambda queue, _place: hints.append(queue)  # type: ignore[method-assign]
    before = api.get(f"/executions/{execution_id}").json
    response = api.post(f"/executions/{execution_id}/retry")
    assert response.status_code == 200
    assert response.json == api.get(f"/executions/{execution_id}").json
    after = response.json
    assert (after["status"], after["attempt_count"], after["max_attempts"]) == ("QUEUED", 3, 8)
    assert (after["completed_at"], after["cancel_requested_at"]) == (None, None)
    assert after["run_at"] > before["run_at"]
    assert after["scheduled_at"] == before["scheduled_at"]
    job = api.get(f"/jobs/{after['job_id']}").json
    assert (job["status"], job["retired_at"]) == ("ACTIVE", None)
    assert hints == ["http"]
    (recorded,) = database.fetch(text("SELECT * FROM execution_events"))
    assert (recorded.from_status, recorded.to_status, recorded.attempt_number) == (status, "QUEUED", 3)
    assert (recorded.actor, recorded.reason) == ("test", "RETRIED_BY_HAND")


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "RUNNING", "RETRYING", "SUCCESS"])
def test_retry_of_an_execution_in_another_status_is_409(api: Api, database: Database, status: str) -> None:
    register(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], status)
    path = f"/executions/{job['execution']['execution_id']}"
    before = api.get(path).json
    assert status in problem(api.post(f"{path}/retry"), 409, "CONFLICT")["message"]
    assert api.get(path).json == before


def test_retry_of_an_unknown_execution_is_404(api: Api) -> None:
    problem(api.post("/executions/exec_0/retry"), 404, "EXECUTION_NOT_FOUND")


def test_retry_with_a_deleted_endpoint_is_409(api: Api, database: Database) -> None:
    execution_id = completed(api, database)
    assert api.delete("/endpoints/target").status_code == 204
    assert "target" in problem(api.post(f"/executions/{execution_id}/retry"), 409, "CONFLICT")["message"]
    assert api.get(f"/executions/{execution_id}").json["status"] == "FAILED"


def test_endpoint_of_a_retried_execution_is_not_deleted(api: Api, database: Database) -> None:
    execution_id = completed(api, database)
    api.post(f"/executions/{execution_id}/retry")
    problem(api.delete("/endpoints/target"), 409, "CONFLICT")


def test_retry_of_a_paused_job_is_409(api: Api, database: Database) -> None:
    execution_id = completed(api, database)
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now(), retired_at = NULL"))
    assert "PAUSED" in problem(api.post(f"/executions/{execution_id}/retry"), 409, "CONFLICT")["message"]


def test_retry_keeps_a_retired_cron_job_retired(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    tick = rows.add_tick(database, job["job_id"], "FAILED")
    api.post(f"/jobs/{job['job_id']}/cancel")
    assert api.post(f"/executions/{tick}/retry").json["status"] == "QUEUED"
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "RETIRED"


def test_commit_with_a_lost_answer_is_recognised(api: Api, database: Database) -> None:
    """The connection breaks right after the first commit, and a worker claims the execution before the second try."""
    execution_id = completed(api, database)
    lost: list[object] = []

    def lose_the_answer(connection: Any) -> None:
        if lost:
            return
        lost.append(connection)
        connection.connection.dbapi_connection.commit()
        database.fetch(
            text("UPDATE executions SET status = 'RUNNING', attempt_count = 4, worker_id = 'w', started_at = now()")
        )
        raise OperationalError("COMMIT", {}, Exception("the connection broke"), connection_invalidated=True)

    event.listen(database.engine, "commit", lose_the_answer)
    response = api.post(f"/executions/{execution_id}/retry")
    event.remove(database.engine, "commit", lose_the_answer)
    assert lost
    assert (response.status_code, response.json["status"]) == (200, "RUNNING")
    assert len(database.fetch(text("SELECT 1 FROM execution_events"))) == 1


def test_retry_statement_checks_the_status_again(api: Api, database: Database) -> None:
    execution_id = completed(api, database, "SUCCESS")
    params = {"ids": [execution_id], "more": [1], "places": [0], "trace": None}
    assert database.fetch(RETRY, params) == []
