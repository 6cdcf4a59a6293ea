"""Cancellation of jobs and executions: waiting executions are cancelled, running executions only on request."""

import threading
from typing import Any

import pytest

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.claiming.claim import CLAIM_1
from app.queue.executions.execution_cancellation import CANCEL
from tests import rows
from tests.claiming import asking, partitions_of, take
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, one_shot, register
from tests.waiting import eventually


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "RETRYING"])
def test_waiting_execution_is_cancelled(api: Api, database: Database, status: str) -> None:
    register(api)
    for path in ("job", "execution"):
        job = created(api, one_shot(path))
        rows.set_status(database, job["job_id"], status)
        execution_id = job["execution"]["execution_id"]
        target = f"/jobs/{job['job_id']}" if path == "job" else f"/executions/{execution_id}"
        for _ in range(2):  # a repeated cancel changes nothing
            response = api.post(f"{target}/cancel")
            assert response.status_code == 200
            assert response.json == api.get(target).json
        execution = api.get(f"/executions/{execution_id}").json
        assert execution["status"] == "CANCELLED"
        assert execution["completed_at"] is not None
        stored = api.get(f"/jobs/{job['job_id']}").json
        assert (stored["status"], stored["execution"]["status"]) == ("RETIRED", "CANCELLED")
        assert stored["retired_at"] is not None


@pytest.mark.parametrize("status", ["RUNNING", "SUCCESS", "FAILED"])
def test_cancel_of_a_running_or_completed_execution_is_409(api: Api, database: Database, status: str) -> None:
    register(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], status)
    execution_id = job["execution"]["execution_id"]
    for path in (f"/jobs/{job['job_id']}/cancel", f"/executions/{execution_id}/cancel"):
        error = problem(api.post(path), 409, "EXECUTION_NOT_CANCELLABLE")
        assert execution_id in error["message"]
        assert status in error["message"]
    assert api.get(f"/executions/{execution_id}").json["status"] == status
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "ACTIVE"


STATUSES = ("PENDING", "QUEUED", "RETRYING", "RUNNING", "SUCCESS", "FAILED")


@pytest.mark.parametrize(
    ("query", "cancelled"), [("", {"PENDING", "QUEUED"}), ("?if_running=request", {"PENDING", "QUEUED", "RETRYING"})]
)
def test_cancel_of_a_cron_job_keeps_executions_with_attempts_unless_requested(
    api: Api, database: Database, query: str, cancelled: set[str]
) -> None:
    register(api)
    job = created(api, cron())
    before = {rows.add_tick(database, job["job_id"], status): status for status in STATUSES}
    for _ in range(2):
        response = api.post(f"/jobs/{job['job_id']}/cancel{query}")
        assert response.status_code == (202 if query else 200)
        assert (response.json["status"], response.json["next_run_at"]) == ("RETIRED", None)
    retired_at = response.json["retired_at"]
    executions = api.get(f"/jobs/{job['job_id']}/executions").json["items"]
    assert {item["execution_id"]: item["status"] for item in executions} == {
        key: "CANCELLED" if status in cancelled else status for key, status in before.items()
    }
    assert api.post(f"/jobs/{job['job_id']}/cancel").json["retired_at"] == retired_at


@pytest.mark.parametrize("change", ["cancel", "update"])
def test_held_retry_is_queued_when_its_job_is_retired(api: Api, database: Database, change: str) -> None:
    register(api)
    job = created(api, cron())
    begun, later = (rows.add_tick(database, job["job_id"], status) for status in ("RETRYING", "QUEUED"))
    api.post(f"/jobs/{job['job_id']}/pause")
    assert rows.execution(database, begun).on_hold
    response = (
        api.put(f"/jobs/{job['job_id']}", {}) if change == "update" else api.post(f"/jobs/{job['job_id']}/cancel")
    )
    assert response.status_code == 200
    assert [rows.execution(database, each).status for each in (begun, later)] == ["QUEUED", "CANCELLED"]
    assert not rows.execution(database, begun).on_hold
    assert api.get(f"/executions/{begun}/history").json["items"][-1]["reason"] == (
        "JOB_UPDATED" if change == "update" else "JOB_CANCELLED"
    )


def test_cancel_of_one_tick_keeps_the_other_ticks(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    one, two = rows.add_tick(database, job["job_id"], "QUEUED"), rows.add_tick(database, job["job_id"], "QUEUED")
    assert api.post(f"/executions/{one}/cancel").json["status"] == "CANCELLED"
    assert api.get(f"/executions/{two}").json["status"] == "QUEUED"
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "ACTIVE"


@pytest.fixture
def worker(database: Database) -> str:
    """Register a worker and return its id."""
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    return "wrk_1"


@pytest.mark.postgresql_only
@pytest.mark.parametrize("path", ["job", "execution"])
def test_cancel_that_waits_for_a_claim_is_409(api: Api, database: Database, worker: str, path: str) -> None:
    """The claim holds the row lock when the cancel arrives; the cancel checks the status again under the lock."""
    register(api)
    job = created(api, one_shot("k"))
    execution_id = job["execution"]["execution_id"]
    target = f"/jobs/{job['job_id']}" if path == "job" else f"/executions/{execution_id}"
    answers: list[Any] = []
    with database.engine.begin() as claimer:
        (partition,) = partitions_of(database)
        claimer.execute(CLAIM_1, asking(worker, 1, partition=partition))
        thread = threading.Thread(target=lambda: answers.append(api.post(f"{target}/cancel")))
        thread.start()
        eventually(lambda: rows.is_a_lock_waited_for(database), what="the wait for the lock")
    thread.join(20)
    problem(answers[0], 409, "EXECUTION_NOT_CANCELLABLE")
    assert api.get(f"/executions/{execution_id}").json["status"] == "RUNNING"


def test_claim_skips_an_execution_that_is_being_cancelled(api: Api, database: Database, worker: str) -> None:
    """The claim skips the locked row. tests/contract/races/test_lost_locks covers claims without a row lock."""
    register(api)
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    partitions = tuple(partitions_of(database))
    with database.engine.begin() as canceller:
        canceller.execute(CANCEL, {"ids": [execution_id], "begun": False})
        assert take(database, worker, partitions=partitions).claims == []
    assert take(database, worker, partitions=partitions).claims == []
    assert api.get(f"/executions/{execution_id}").json["status"] == "CANCELLED"


@pytest.mark.parametrize("path", ["job", "execution"])
@pytest.mark.parametrize("if_running", ["request", "abort"])
def test_running_execution_can_be_requested_to_end(api: Api, database: Database, path: str, if_running: str) -> None:
    register(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], "RUNNING")
    execution_id = job["execution"]["execution_id"]
    target = f"/jobs/{job['job_id']}" if path == "job" else f"/executions/{execution_id}"
    for _ in range(2):
        response = api.post(f"{target}/cancel?if_running={if_running}")
        assert response.status_code == 202
        assert response.json == api.get(target).json
    execution = api.get(f"/executions/{execution_id}").json
    assert (execution["status"], execution["cancel_requested_at"] is None) == ("RUNNING", False)
    assert (execution["abort_requested_at"] is None) is (if_running == "request")
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "ACTIVE"
    problem(api.post(f"{target}/cancel"), 409, "EXECUTION_NOT_CANCELLABLE")


@pytest.mark.parametrize("path", ["job", "execution"])
def test_request_to_end_has_no_effect_on_executions_that_are_not_running(
    api: Api, database: Database, path: str
) -> None:
    register(api)
    for status, expected in (("QUEUED", 200), ("CANCELLED", 200), ("SUCCESS", 409), ("FAILED", 409)):
        job = created(api, one_shot(status))
        rows.set_status(database, job["job_id"], status)
        execution_id = job["execution"]["execution_id"]
        target = f"/jobs/{job['job_id']}" if path == "job" else f"/executions/{execution_id}"
        assert api.post(f"{target}/cancel?if_running=request").status_code == expected
        assert api.get(f"/executions/{execution_id}").json["cancel_requested_at"] is None
    error = problem(api.post(f"{target}/cancel?if_running=stop"), 400, "INVALID_REQUEST")
    assert pointers(error) == ["if_running"]


def test_cancel_of_a_cron_job_ends_running_executions_only_on_request(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    tick = rows.add_tick(database, job["job_id"], "RUNNING")
    assert api.post(f"/jobs/{job['job_id']}/cancel").status_code == 200
    assert api.get(f"/executions/{tick}").json["cancel_requested_at"] is None
    assert api.post(f"/jobs/{job['job_id']}/cancel?if_running=request").status_code == 202
    requested = api.get(f"/executions/{tick}").json
    assert (requested["cancel_requested_at"] is None, requested["abort_requested_at"]) == (False, None)
    assert api.post(f"/jobs/{job['job_id']}/cancel?if_running=abort").status_code == 202
    aborting = api.get(f"/executions/{tick}").json
    assert (aborting["cancel_requested_at"], aborting["abort_requested_at"] is None) == (
        requested["cancel_requested_at"],
        False,
    )
