"""Callbacks: what ends calls another endpoint back, once, and whom nobody can call back any more is told."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import text

from app.catalog.callback_outcome import OUTCOME_SCHEMA
from app.catalog.retry_policy import RetryPolicy
from app.feature import completion_handlers
from app.features import FEATURES
from app.features.callbacks import handlers as callbacks_handlers
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.ending.outbox_processor import Handled, OutboxProcessor
from app.queue.executions.execution_model import Claim
from app.queue.executions.repairs import fail_exhausted
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide
from schema.states import Followed
from tests.claiming import TARGET, take
from tests.integration.client import Api, another_process
from tests.integration.executions.worker import ERROR, WORKER, end
from tests.integration.registered import created, cron, http_endpoint, one_shot, register
from tests.integration.statements import Statements

ALL = {"on_success": "hook", "on_failure": "alarm", "on_attempt_failed": "watch"}
OUTCOMES = Draft202012Validator(OUTCOME_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)


@pytest.fixture(autouse=True)
def worker(database: Database) -> None:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


@pytest.fixture
def called(api: Api) -> Api:
    """Three endpoints to be called back, and one that does."""
    for name in ALL.values():
        register(api, name)
    register(api, callbacks=ALL, retry_policy={"max_attempts": 3})
    return api


def claimed(database: Database) -> Claim:
    """Claim what is due at the endpoint that calls others back."""
    return take(database, WORKER, 1, partitions=(TARGET,)).claims[0]


def handled(database: Database) -> int:
    """Handle what is in the outbox, and then all of it again, which changes nothing."""
    found = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    done = OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(found)
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(found).ends == 0
    return done.ends


def calls(api: Api) -> list[dict[str, Any]]:
    """Return the jobs that call somebody back, the oldest first."""
    found = [job for job in api.get("/jobs").json["items"] if job["callback_of"] is not None]
    for job in found:
        OUTCOMES.validate(job["input"])
    return sorted(found, key=lambda job: (job["created_at"], job["endpoint"]))


def ended(api: Api, database: Database, verdict: Verdict, **job: Any) -> list[tuple[str, str, str]]:
    """Create a job and let its first attempt end in this way; who is called back, on what, with which status."""
    made = created(api, one_shot("first", **job))
    end(database, claimed(database), verdict)
    handled(database)
    found = calls(api)
    assert {call["callback_of"] for call in found} <= {made["execution"]["execution_id"]}
    return [(call["endpoint"], call["input"]["event"], call["input"]["status"]) for call in found]


RETRIED, FAILED = Verdict.retry(ERROR, 60_000), Verdict.fail(ERROR)
REJECTED = decide(ERROR, RetryAction.REJECT, Tried("exec_1", 1, 3), RetryPolicy(), None)
IGNORED = decide(ERROR, RetryAction.IGNORE, Tried("exec_1", 1, 3), RetryPolicy(), None)
OF_FAILURE = [("alarm", "on_failure", "FAILED"), ("watch", "on_attempt_failed", "FAILED")]


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        (Verdict.success({"status_code": 200}), [("hook", "on_success", "SUCCESS")]),
        (RETRIED, [("watch", "on_attempt_failed", "RETRYING")]),
        (FAILED, OF_FAILURE),
        (REJECTED, OF_FAILURE),
        (IGNORED, [("hook", "on_success", "SUCCESS")]),
    ],
    ids=["success", "retry", "failure", "rejected", "ignored"],
)
def test_each_end_calls_back_whom_its_endpoint_names(
    called: Api, database: Database, verdict: Verdict, wanted: list[tuple[str, str, str]]
) -> None:
    assert ended(called, database, verdict) == wanted


def test_what_is_called_back_of_a_notification_is_none_to_tell_of(called: Api, database: Database) -> None:
    """Or a rule would tell of it through the channel that has called it back."""
    created(called, one_shot("first"))
    database.fetch(text(f"UPDATE executions SET followed = followed | {int(Followed.NOTIFICATION)}"))
    end(database, claimed(database), FAILED)
    handled(database)
    assert len(calls(called)) == 2
    mine = database.fetch(text("SELECT followed FROM executions WHERE endpoint <> 'target'"))
    assert [Followed(row.followed) for row in mine] == [Followed.NOTIFICATION] * 2


def test_a_jobs_own_callbacks_go_before_those_of_its_endpoint(called: Api, database: Database) -> None:
    own = {"on_success": None, "on_failure": "hook"}
    assert ended(called, database, FAILED, callbacks=own) == [("hook", "on_failure", "FAILED"), OF_FAILURE[1]]


def test_what_a_callback_is_told(called: Api, database: Database) -> None:
    trace = f"00-{'4' * 32}-{'5' * 16}-01"
    body = one_shot("first", name="Order", labels={"team": "a"})
    job = called.post("/jobs", body, headers={"traceparent": trace}).json
    end(database, claimed(database), Verdict.success({"status_code": 200, "body": "ok"}))
    handled(database)
    (call,) = calls(called)
    execution = called.get(f"/executions/{job['execution']['execution_id']}").json
    (attempt,) = called.get(f"/executions/{execution['execution_id']}/attempts").json["items"]
    assert call["input"] == {
        "event": "on_success",
        "job_id": job["job_id"],
        "job_name": "Order",
        "labels": {"team": "a"},
        "execution_id": execution["execution_id"],
        "endpoint": "target",
        "endpoint_type": "HTTP",
        "endpoint_version": 1,
        "status": "SUCCESS",
        "attempt": 1,
        "max_attempts": 3,
        "scheduled_at": execution["scheduled_at"],
        "started_at": attempt["started_at"],
        "ended_at": execution["completed_at"],
        "duration_ms": attempt["duration_ms"],
        "reason": None,
        "output": {"status_code": 200, "body": "ok"},
        "error": None,
    }
    rows_of = database.fetch(text("SELECT job_id, trace_context FROM jobs"))
    traces = {row.job_id: row.trace_context for row in rows_of}
    assert traces[call["job_id"]] == traces[job["job_id"]] is not None
    (line,) = called.get(f"/executions/{execution['execution_id']}/logs").json["items"]
    assert line["message"] == f"on_success: 'hook' is called back by the job {call['job_id']}"


def test_an_end_without_an_attempt_calls_back_too(called: Api, database: Database) -> None:
    """An execution without attempts left fails by itself; one that is cancelled calls nobody."""
    cancelled, exhausted = created(called, one_shot("first")), created(called, one_shot("second"))
    assert called.post(f"/jobs/{cancelled['job_id']}/cancel").status_code == 200
    execution_id = exhausted["execution"]["execution_id"]
    changes = "status = 'RETRYING', attempt_count = max_attempts, run_at = now() - INTERVAL '1 hour'"
    database.fetch(text(f"UPDATE executions SET {changes} WHERE execution_id = :id"), {"id": execution_id})
    assert fail_exhausted(database, limit=10) == 1
    handled(database)
    (call,) = calls(called)
    told = call["input"]
    assert (told["event"], told["reason"], told["started_at"]) == ("on_failure", "NO_ATTEMPTS_LEFT", None)
    assert call["callback_of"] == execution_id


def test_a_manual_retry_calls_back_again(called: Api, database: Database) -> None:
    assert len(ended(called, database, FAILED)) == 2
    execution_id = calls(called)[0]["callback_of"]
    assert called.post(f"/executions/{execution_id}/retry").status_code == 200
    end(database, claimed(database), Verdict.success({}))
    handled(database)
    assert [call["input"]["event"] for call in calls(called)][2:] == ["on_success"]


def test_each_version_of_a_repeating_job_keeps_its_callbacks(called: Api, database: Database) -> None:
    job = created(called, cron(callbacks={"on_success": "alarm"}))
    assert job["callbacks"] == {"on_success": "alarm"}
    new = called.put(f"/jobs/{job['job_id']}", {"input": {"user_id": "other"}}).json
    assert new["callbacks"] == {"on_success": "alarm"}
    called.post(f"/jobs/{new['job_id']}/run")
    end(database, claimed(database), Verdict.success({}))
    handled(database)
    assert [call["endpoint"] for call in calls(called)] == ["alarm"]
    newer = called.put(f"/jobs/{new['job_id']}", {"callbacks": None}).json
    assert newer["callbacks"] is None


def test_what_is_not_called_back_is_told(called: Api, database: Database) -> None:
    """An endpoint that only a job names can be deleted, and a payload spec can change."""
    register(called, "gone")
    own = {"on_success": "gone", "on_attempt_failed": "watch"}
    execution = created(called, one_shot("first", callbacks=own))["execution"]["execution_id"]
    assert called.delete("/endpoints/gone").status_code == 204
    end(database, claimed(database), Verdict.success({}))
    assert handled(database) == 1
    assert calls(called) == []
    (line,) = called.get(f"/executions/{execution}/logs").json["items"]
    assert (line["level"], line["message"]) == (
        "WARN",
        "on_success: skipped the callback to 'gone': the endpoint was deleted",
    )
    called.post("/payload-specs", {"name": "outcome", "schema": {"type": "object"}})
    register(called, "strict", payload_spec="outcome")
    created(called, one_shot("second", callbacks={"on_success": "strict"}))
    called.put("/payload-specs/outcome", {"schema": {"type": "object", "required": ["nothing"]}})
    end(database, claimed(database), Verdict.success({}))
    assert handled(database) == 1
    assert calls(called) == []


def test_an_endpoint_that_changes_meanwhile_is_read_again(
    called: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(called, one_shot("first"))
    end(database, claimed(database), Verdict.success({}))
    read, times = callbacks_handlers.read_targets, 0

    def changed_once(*args: Any) -> Any:
        nonlocal times
        found, times = read(*args), times + 1
        if times == 1:
            with another_process(called) as other:
                assert other.put("/endpoints/hook", http_endpoint("hook")).status_code == 200
        return found

    monkeypatch.setattr(callbacks_handlers, "read_targets", changed_once)
    assert handled(database) == 1
    (call,) = calls(called)
    assert (call["endpoint_version"], times) == (2, 2)


def test_an_endpoint_that_somebody_has_locked_holds_up_only_its_callbacks(called: Api, database: Database) -> None:
    created(called, one_shot("first"))
    end(database, claimed(database), FAILED)
    (found,) = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM endpoints WHERE name = 'alarm' FOR UPDATE"))
        assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(found) == Handled(0, 1)
    (letter,) = called.get("/dead-letters").json["items"]
    assert (letter["letter_id"], calls(called)) == (found, [])
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(found).ends == 1
    assert [call["endpoint"] for call in calls(called)] == ["alarm", "watch"]


def test_the_callbacks_that_jobs_of_a_batch_have_in_common_are_checked_once(
    called: Api, statements: Statements
) -> None:
    jobs = [one_shot(f"key {number}", callbacks={"on_failure": "hook"}) for number in range(20)]
    answer = called.post("/jobs/batch", {"jobs": jobs}).json
    assert {item["job"]["callbacks"]["on_failure"] for item in answer["items"]} == {"hook"}
    assert sum("e.spec, p.schema_json FROM endpoints AS e" in sql for sql in statements.texts) == 1
