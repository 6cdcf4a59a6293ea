"""POST /jobs/batch: one result for each job, one statement for all jobs."""

from typing import Any

from sqlalchemy import text

from app.kernel.db import Database
from tests.integration.client import Api, another_process, pointers, problem
from tests.integration.registered import created, cron, http_endpoint, interval, one_shot, register, register_all
from tests.integration.statements import Statements


def batch(api: Api, *jobs: Any) -> list[Any]:
    response = api.post("/jobs/batch", {"jobs": list(jobs)})
    assert response.status_code == 200, response.get_data(as_text=True)
    items: list[Any] = response.json["items"]
    assert len(items) == len(jobs)
    return items


def test_each_job_of_a_batch_equals_the_stored_job(api: Api) -> None:
    register_all(api)
    late = one_shot("late", trigger="DELAYED", run_at="2090-01-01T00:00:00Z")
    items = batch(api, one_shot("now"), late, cron(), interval())
    assert [item["status"] for item in items] == [201] * 4
    for item in items:
        assert api.get(f"/jobs/{item['job']['job_id']}").json == item["job"]
    assert [item["job"].get("execution", {}).get("status") for item in items] == ["QUEUED", "PENDING", None, None]


def test_invalid_job_does_not_affect_the_other_jobs(api: Api) -> None:
    register_all(api)
    first = created(api, one_shot("taken"))
    items = batch(
        api,
        one_shot("good"),
        one_shot("taken", input={}),
        one_shot("good", input={"user_id": "other"}),
        one_shot("x", endpoint="nowhere"),
        one_shot("y", input={"user_id": 7}),
        one_shot("z", surprise=1),
        cron(cron="61 * * * *"),
        {"endpoint": "target", "trigger": "IMMEDIATE"},
        {},
    )
    assert [item["status"] for item in items] == [201, 200, 200, 404, 422, 400, 422, 400, 400]
    assert items[1]["job"]["job_id"] == first["job_id"]
    assert items[2]["job"] == items[0]["job"]
    codes = [item["error"]["code"] for item in items[3:]]
    assert codes[:4] == ["ENDPOINT_NOT_FOUND", "INPUT_VALIDATION_FAILED", "INVALID_REQUEST", "INVALID_CRON"]
    assert pointers(items[4]["error"]) == ["/input/user_id"]
    assert pointers(items[7]["error"]) == ["/idempotency_key"]
    assert len(api.get("/jobs").json["items"]) == 2


def test_invalid_job_does_not_reserve_its_key(api: Api) -> None:
    register_all(api)
    items = batch(api, one_shot("k", input={"user_id": 7}), one_shot("k"))
    assert [item["status"] for item in items] == [422, 201]


def test_batch_of_500_jobs_is_one_statement(api: Api, database: Database, statements: Statements) -> None:
    register_all(api)
    created(api, one_shot("warm-up"))
    statements.clear()
    items = batch(api, *(one_shot(f"k{number}") for number in range(500)))
    assert {item["status"] for item in items} == {201}
    assert len(statements.texts) == 1, [sql[:80] for sql in statements.texts]
    keys = [item["job"]["idempotency_key"] for item in items]
    assert keys == [f"k{number}" for number in range(500)]
    (count,) = database.fetch(
        text("SELECT count(*) AS jobs, (SELECT count(*) FROM executions) AS executions FROM jobs")
    )
    assert (count.jobs, count.executions) == (501, 501)


def test_repeated_batch_of_1000_jobs_returns_the_same_jobs(api: Api) -> None:
    register_all(api)
    jobs = [one_shot(f"k{number}") for number in range(1000)]
    first, again = batch(api, *jobs), batch(api, *jobs)
    assert {item["status"] for item in first} == {201}
    assert {item["status"] for item in again} == {200}
    assert [item["job"]["job_id"] for item in again] == [item["job"]["job_id"] for item in first]


def test_batch_uses_the_current_version_of_an_endpoint_changed_by_another_process(api: Api) -> None:
    for name in ("target", "other", "third"):
        register(api, name)
        created(api, one_shot("warm-up", endpoint=name))
    with another_process(api) as other:
        assert other.put("/endpoints/target", http_endpoint()).status_code == 200
    expected = [("target", 2), ("other", 1), ("third", 1)]
    items = batch(
        api,
        *(one_shot(key, endpoint=name) for key in "ab" for name, _ in expected),
        *(cron(endpoint=name) for name, _ in expected * 2),
    )
    assert [item["status"] for item in items] == [201] * 12
    assert [(item["job"]["endpoint"], item["job"]["endpoint_version"]) for item in items] == expected * 4
    for item in items:
        assert api.get(f"/jobs/{item['job']['job_id']}").json == item["job"]


def test_invalid_batch_is_refused(api: Api) -> None:
    for body, pointer in (
        ({}, "/jobs"),
        ({"jobs": []}, "/jobs"),
        ({"jobs": [one_shot("k")] * 1001}, "/jobs"),
        ({"jobs": ["x"]}, "/jobs/0"),
        ({"jobs": {}}, "/jobs"),
    ):
        assert pointers(problem(api.post("/jobs/batch", body), 400, "INVALID_REQUEST")) == [pointer]
