"""A commit whose answer is lost, or an error: the client gets the status that matches the database."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from app.kernel.config import Settings
from app.kernel.db import Database
from tests import rows
from tests.integration.client import SECRET_KEY, Api, administrator, running, services
from tests.integration.registered import created, cron, http_endpoint, one_shot, register
from tests.pg_proxy import FAULTS, Fault, PgProxy

pytestmark = [pytest.mark.own_faults, pytest.mark.parametrize("fault", FAULTS, ids=str)]

INSERT_JOB = "INSERT INTO jobs"


def settings_of(database_url: str) -> Settings:
    return Settings(database_url=database_url, secret_encryption_key=SECRET_KEY, db_pool_size=5)


@pytest.fixture(scope="module")
def shared(module_database_url: str) -> Iterator[tuple[Api, PgProxy]]:
    """Run an application whose database is behind the proxy; yield its client and the proxy."""
    url = module_database_url
    with PgProxy(urlsplit(url).port or 5432) as proxy, running(settings_of(proxy.url(url))) as app:
        yield administrator(app), proxy


@pytest.fixture
def api(shared: tuple[Api, PgProxy]) -> Iterator[Api]:
    """Yield the shared client, with an endpoint `target` at version 1 and without jobs."""
    api, _proxy = shared
    register(api)
    yield api
    rows.delete_all(services(api.app).database)


@pytest.fixture
def proxy(shared: tuple[Api, PgProxy]) -> PgProxy:
    _api, proxy = shared
    proxy.fired = 0
    return proxy


@pytest.fixture
def database(api: Api) -> Database:
    return services(api.app).database


def counts(database: Database) -> tuple[int, int]:
    (row,) = database.fetch(
        text("SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM executions) AS executions")
    )
    return row.jobs, row.executions


@pytest.mark.parametrize(
    ("body", "stored"),
    [(one_shot("k"), (1, 1)), (cron(idempotency_key="k"), (1, 0)), (cron(), (1, 0))],
    ids=["one-shot", "cron", "cron without a key"],
)
def test_created_job_is_answered_with_201(
    api: Api, database: Database, proxy: PgProxy, fault: Fault, body: dict[str, Any], stored: tuple[int, int]
) -> None:
    proxy.arm(INSERT_JOB, fault)
    answer = api.post("/jobs", body)
    assert proxy.fired == 1
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert "Idempotency-Replayed" not in answer.headers
    assert api.get(f"/jobs/{answer.json['job_id']}").status_code == 200
    assert counts(database) == stored


def test_replay_is_answered_with_200_and_the_first_job(
    api: Api, database: Database, proxy: PgProxy, fault: Fault
) -> None:
    first = created(api, one_shot("k"))
    proxy.arm(INSERT_JOB, fault)
    answer = api.post("/jobs", one_shot("k"))
    assert proxy.fired == 1
    assert (answer.status_code, answer.json["job_id"]) == (200, first["job_id"])
    assert answer.headers["Idempotency-Replayed"] == "true"
    assert counts(database) == (1, 1)


@pytest.mark.parametrize("resource", ["execution", "job"])
def test_cancel_is_answered_with_200_and_cancels(
    api: Api, database: Database, proxy: PgProxy, fault: Fault, resource: str
) -> None:
    job = created(api, one_shot("k", trigger="DELAYED", run_at="2199-01-01T00:00:00Z"))
    execution_id = job["execution"]["execution_id"]
    path = f"/executions/{execution_id}/cancel" if resource == "execution" else f"/jobs/{job['job_id']}/cancel"
    proxy.arm("'CANCELLED'", fault)
    answer = api.post(path)
    assert proxy.fired == 1
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert api.get(f"/executions/{execution_id}").json["status"] == "CANCELLED"
    assert api.get(f"/jobs/{job['job_id']}").json["status"] == "RETIRED"


def test_request_to_cancel_is_answered_with_202(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    claim_everything(database)
    proxy.arm("SET cancel_requested_at", fault)
    answer = api.post(f"/executions/{execution_id}/cancel?if_running=request")
    assert proxy.fired == 1
    assert answer.status_code == 202, answer.get_data(as_text=True)
    assert reasons(api, execution_id) == ["CREATED", "CLAIMED", "CANCEL_REQUESTED"]


def claim_everything(database: Database) -> None:
    """Set each due execution RUNNING, as the claim of a worker does."""
    database.fetch(
        text(
            "UPDATE executions SET status = 'RUNNING', attempt_count = attempt_count + 1, worker_id = 'wrk_1', "
            "started_at = now() WHERE status IN ('QUEUED', 'RETRYING') AND run_at <= now()"
        )
    )


def reasons(api: Api, execution_id: str) -> list[str]:
    return [item["reason"] for item in api.get(f"/executions/{execution_id}/history").json["items"]]


@pytest.mark.parametrize("is_claimed", [False, True], ids=["", "claimed before the answer"])
def test_manual_retry_happens_once(
    api: Api, database: Database, proxy: PgProxy, fault: Fault, is_claimed: bool
) -> None:
    execution_id = created(api, one_shot("k"))["execution"]["execution_id"]
    api.post(f"/executions/{execution_id}/cancel")
    proxy.arm(
        "max_attempts = e.attempt_count +",
        fault,
        after_commit=partial(claim_everything, database) if is_claimed else None,
    )
    answer = api.post(f"/executions/{execution_id}/retry")
    assert proxy.fired == 1
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert reasons(api, execution_id)[:3] == ["CREATED", "CANCELLED", "RETRIED_BY_HAND"]
    assert reasons(api, execution_id)[3:] in ([], ["CLAIMED"])


@pytest.mark.parametrize("is_claimed", [False, True], ids=["", "claimed before the answer"])
def test_job_is_brought_forward_once(
    api: Api, database: Database, proxy: PgProxy, fault: Fault, is_claimed: bool
) -> None:
    job = created(api, one_shot("k", trigger="DELAYED", run_at="2199-01-01T00:00:00Z"))
    execution_id = job["execution"]["execution_id"]
    proxy.arm(
        "SET run_at = now(), on_hold = false",
        fault,
        after_commit=partial(claim_everything, database) if is_claimed else None,
    )
    answer = api.post(f"/jobs/{job['job_id']}/run")
    assert proxy.fired == 1
    assert (answer.status_code, answer.json["execution_id"]) == (200, execution_id), answer.get_data(as_text=True)
    assert reasons(api, execution_id)[:2] == ["CREATED", "RUN_BY_HAND"]
    assert reasons(api, execution_id)[2:] in ([], ["CLAIMED"])


def test_update_of_an_endpoint_creates_one_version(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    proxy.arm("UPDATE endpoints", fault)
    changed = http_endpoint(retry_policy={"max_attempts": 7})
    answer = api.put("/endpoints/target", changed)
    assert proxy.fired == 1
    assert answer.status_code == 200, answer.get_data(as_text=True)
    versions = database.fetch(text("SELECT version FROM endpoint_versions ORDER BY version"))
    assert [row.version for row in versions] == [1, 2]
    assert api.get("/endpoints/target").json["retry_policy"]["max_attempts"] == 7


def test_delete_is_answered_with_204(api: Api, proxy: PgProxy, fault: Fault) -> None:
    proxy.arm("UPDATE endpoints", fault)
    answer = api.delete("/endpoints/target")
    assert proxy.fired == 1
    assert answer.status_code == 204, answer.get_data(as_text=True)
    assert api.get("/endpoints/target").status_code == 404


def test_registration_is_answered_with_201(api: Api, proxy: PgProxy, fault: Fault) -> None:
    proxy.arm("INSERT INTO endpoints", fault)
    answer = api.post("/endpoints", http_endpoint("other"))
    assert proxy.fired == 1
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert api.get("/endpoints/other").json["version"] == 1


def test_update_of_a_job_creates_one_version(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    job = created(api, cron())
    proxy.arm("replaced_by_id =", fault)
    answer = api.put(f"/jobs/{job['job_id']}", {"cron": "0 10 * * *"})
    assert proxy.fired == 1
    assert (answer.status_code, answer.json["version"]) == (200, 2), answer.get_data(as_text=True)
    assert api.get(f"/jobs/{job['job_id']}").json["replaced_by_id"] == answer.json["job_id"]
    assert counts(database) == (2, 0)


def test_pause_and_resume_are_recorded_once(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    job = created(api, one_shot("k"))
    for verb, words, status in (("pause", "SET status = 'PAUSED'", "PAUSED"), ("resume", "paused_at = NULL", "ACTIVE")):
        proxy.arm(words, fault)
        answer = api.post(f"/jobs/{job['job_id']}/{verb}")
        assert (answer.status_code, answer.json["status"]) == (200, status), answer.get_data(as_text=True)
    assert proxy.fired == 2
    history = api.get(f"/executions/{job['execution']['execution_id']}/history").json["items"]
    assert [item["reason"] for item in history] == ["CREATED", "JOB_PAUSED", "JOB_RESUMED"]


def test_manual_run_creates_one_execution(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    job = created(api, cron())
    proxy.arm("INSERT INTO executions", fault)
    answer = api.post(f"/jobs/{job['job_id']}/run")
    assert proxy.fired == 1
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert counts(database) == (1, 1)


def test_key_effect_and_answer_are_one_commit(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    """Key, effect and answer are one commit: a failed commit loses all three, so the retry runs the request again."""
    job = created(api, cron())
    headers = {"Idempotency-Key": "k"}
    proxy.arm("INSERT INTO idempotency_keys", fault)
    answer = api.post(f"/jobs/{job['job_id']}/run", headers=headers)
    assert proxy.fired == 1
    assert answer.status_code == 201, answer.get_data(as_text=True)
    assert "Idempotency-Replayed" not in answer.headers
    assert api.post(f"/jobs/{job['job_id']}/run", headers=headers).json == answer.json
    assert counts(database) == (1, 1)


def test_batch_creates_each_job_once(api: Api, database: Database, proxy: PgProxy, fault: Fault) -> None:
    created(api, one_shot("first"))
    proxy.arm(INSERT_JOB, fault)
    answer = api.post("/jobs/batch", {"jobs": [one_shot("first"), one_shot("k"), cron(), cron()]})
    assert proxy.fired == 1
    assert [item["status"] for item in answer.json["items"]] == [200, 201, 201, 201]
    assert counts(database) == (4, 2)
