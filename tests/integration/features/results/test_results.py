"""Results of executions through the test client, which waits in a thread, so waits are short."""

from sqlalchemy import text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.executions.verdict import Verdict
from app.scheduler.chore import ChoreContext
from schema.states import ExecutionStatus
from tests.cases import each_case
from tests.chores import chores_of
from tests.integration.client import Api, pointers, problem
from tests.integration.executions.worker import claim, end
from tests.integration.registered import created, one_shot

ERROR = {"type": "HTTP_ERROR", "message": "answered 500", "status_code": 500, "body": "all of it", "retryable": False}


def test_result_belongs_to_the_last_attempt(api: Api, database: Database, execution_id: str) -> None:
    path = f"/executions/{execution_id}/result"
    waiting = api.get(path, wait="10ms")
    assert (waiting.status_code, waiting.json["status"], waiting.headers["Retry-After"]) == (202, "QUEUED", "1")
    end(database, claim(database), Verdict(ExecutionStatus.RETRYING, 0, None, ERROR))
    again = api.get(path)
    assert (again.status_code, again.json["status"], again.json["error"]) == (202, "RETRYING", None)
    end(database, claim(database), Verdict(ExecutionStatus.FAILED, None, None, ERROR))
    final = api.get(path, wait="60s")
    assert (final.status_code, final.json["status"], final.json["output"]) == (200, "FAILED", None)
    assert (final.json["error"], final.json["attempt_count"]) == (ERROR, 2)
    assert final.json["completed_at"] is not None


def test_result_of_a_completed_execution_is_returned_at_once(api: Api, database: Database, execution_id: str) -> None:
    end(database, claim(database), Verdict(ExecutionStatus.SUCCESS, None, {"status_code": 204}, None))
    assert api.get(f"/executions/{execution_id}/result", wait="1m").json["output"] == {"status_code": 204}


@each_case("wait", ["61s", "2m", "1h", "5", "-1s", "", "1.5s", "soon"])
def test_wait_longer_than_a_minute_or_invalid_is_refused(api: Api, execution_id: str, wait: str) -> None:
    error = problem(api.get(f"/executions/{execution_id}/result", wait=wait), 400, "INVALID_REQUEST")
    assert pointers(error) == ["wait"]
    assert "60s" in error["details"][0]["message"]


def test_prefer_header_chooses_an_asynchronous_answer(api: Api, execution_id: str) -> None:
    assert execution_id
    first = api.post("/jobs", one_shot("async"), headers={"Prefer": "respond-async"})
    assert (first.status_code, first.headers["Preference-Applied"]) == (202, "respond-async")
    assert api.get(first.headers["Location"]).status_code == 202
    again = api.post("/jobs", one_shot("async"), headers={"Prefer": "wait=0"})
    assert (again.status_code, again.headers["Preference-Applied"]) == (202, "wait=0")
    assert (again.headers["Idempotency-Replayed"], again.json["job_id"]) == ("true", first.json["job_id"])
    for unknown in ("wait=soon", "wait=-1", "return=minimal", "", "handling=lenient; wait=5"):
        answer = api.post("/jobs", one_shot(f"unknown {unknown}"), headers={"Prefer": unknown})
        assert (answer.status_code, answer.headers.get("Preference-Applied")) == (201, None)
    later = api.post("/jobs", one_shot("r", trigger="INTERVAL", every="1h"), headers={"Prefer": "wait=1"})
    assert (later.status_code, later.headers.get("Preference-Applied")) == (201, None)
    assert created(api, one_shot("plain"))["execution"]["status"] == "QUEUED"


def test_result_is_deleted_after_its_retention_and_a_manual_retry_creates_a_new_result(
    api: Api, database: Database, execution_id: str
) -> None:
    kept = api.send("PATCH", "/endpoints/target", json={"result_retention": "168h"})
    assert (kept.status_code, kept.json["result_retention"]) == (200, "7d")
    first, second = (created(api, one_shot(key))["execution"]["execution_id"] for key in ("short", "again"))
    for _ in range(3):
        taken = claim(database)
        failed = taken.execution_id == second
        status = ExecutionStatus.FAILED if failed else ExecutionStatus.SUCCESS
        end(database, taken, Verdict(status, None, None if failed else {"status_code": 200, "body": "b"}, ERROR))
    prune = chores_of(
        ChoreContext(database, Settings(queue_shards=1), hint=lambda _queue: None, stopping=lambda: False)
    ).prune_results
    assert prune()["results"] == 0
    assert api.get(f"/executions/{first}/result").json["kept_until"] is not None
    assert api.get(f"/executions/{execution_id}/result").json["kept_until"] is None
    database.fetch(text("UPDATE executions SET completed_at = completed_at - INTERVAL '8 days'"))
    problem(api.get(f"/executions/{first}/result"), 410, "RESULT_EXPIRED")
    assert prune()["results"] == 2
    assert prune()["results"] == 0
    for gone in (first, second):
        problem(api.get(f"/executions/{gone}/result", wait="1s"), 410, "RESULT_EXPIRED")
        (attempt,) = api.get(f"/executions/{gone}/attempts").json["items"]
        assert (attempt["output"], "body" in attempt["error"], attempt["error"]["status_code"]) == (None, False, 500)
    assert api.get(f"/executions/{first}").json["output"] is None
    assert api.get(f"/executions/{execution_id}/result").json["output"] == {"status_code": 200, "body": "b"}
    again = api.post("/jobs", one_shot("short"), headers={"Prefer": "wait=1"})
    assert (again.status_code, "result" in again.json) == (200, False)
    assert api.post(f"/executions/{second}/retry").status_code == 200
    end(database, claim(database), Verdict(ExecutionStatus.SUCCESS, None, {"status_code": 200}, None))
    assert api.get(f"/executions/{second}/result").json["output"] == {"status_code": 200}
    assert api.send("PATCH", "/endpoints/target", json={"result_retention": None}).json["result_retention"] is None


@each_case("retention", ["59s", "366d", "0s", "week", 7, ""])
def test_retention_must_be_between_a_minute_and_a_year(api: Api, execution_id: str, retention: object) -> None:
    assert execution_id
    error = problem(
        api.send("PATCH", "/endpoints/target", json={"result_retention": retention}), 400, "INVALID_REQUEST"
    )
    assert pointers(error) == ["/result_retention"]
