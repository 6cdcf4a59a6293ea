"""Callbacks: each completion calls the named endpoint exactly once; impossible callbacks are logged."""

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
from app.queue.ending.outbox_processor import OutboxProcessor, OutboxResult
from app.queue.executions.execution_model import Claim
from app.queue.executions.repairs import fail_exhausted
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide
from schema.states import Followed
from tests import rows
from tests.claiming import TARGET, take
from tests.integration.client import Api, another_process
from tests.integration.executions.worker import ERROR, WORKER, end
from tests.integration.registered import created, cron, http_endpoint, one_shot, register
from tests.integration.statements import Statements
from tests.verdicts import success

CALLBACKS = {"on_success": "hook", "on_failure": "alarm", "on_attempt_failed": "watch"}
OUTCOMES = Draft202012Validator(OUTCOME_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)


@pytest.fixture(autouse=True)
def worker(database: Database) -> None:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


@pytest.fixture
def caller(api: Api) -> Api:
    """Register three callback endpoints, and the endpoint `target` that names them."""
    for name in CALLBACKS.values():
        register(api, name)
    register(api, callbacks=CALLBACKS, retry_policy={"max_attempts": 3})
    return api


def claim_due(database: Database) -> Claim:
    """Claim the due execution of the endpoint `target`."""
    rows.move_to_one_shard(database)
    return take(database, WORKER, 1, partitions=(TARGET,)).claims[0]


def handle_outbox(database: Database) -> int:
    """Run the handlers of the outbox, and run them again to check that the repetition changes nothing."""
    found = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    done = OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(found)
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(found).ends == 0
    return done.ends


def callback_jobs(api: Api) -> list[dict[str, Any]]:
    """Return the jobs of callbacks, oldest first."""
    found = [job for job in api.get("/jobs").json["items"] if job["callback_of"] is not None]
    for job in found:
        OUTCOMES.validate(job["input"])
    return sorted(found, key=lambda job: (job["created_at"], job["endpoint"]))


def callbacks_after(api: Api, database: Database, verdict: Verdict, **job: Any) -> list[tuple[str, str, str]]:
    """Complete the first attempt of a new job; return endpoint, event and status of each callback."""
    made = created(api, one_shot("first", **job))
    end(database, claim_due(database), verdict)
    handle_outbox(database)
    found = callback_jobs(api)
    assert {call["callback_of"] for call in found} <= {made["execution"]["execution_id"]}
    return [(call["endpoint"], call["input"]["event"], call["input"]["status"]) for call in found]


RETRIED, FAILED = Verdict.retry(ERROR, 60_000), Verdict.fail(ERROR)
REJECTED = decide(ERROR, RetryAction.REJECT, Tried("exec_1", 1, 3), RetryPolicy(), None)
IGNORED = decide(ERROR, RetryAction.IGNORE, Tried("exec_1", 1, 3), RetryPolicy(), None)
FAILURE_CALLBACKS = [("alarm", "on_failure", "FAILED"), ("watch", "on_attempt_failed", "FAILED")]


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (success({"status_code": 200}), [("hook", "on_success", "SUCCESS")]),
        (RETRIED, [("watch", "on_attempt_failed", "RETRYING")]),
        (FAILED, FAILURE_CALLBACKS),
        (REJECTED, FAILURE_CALLBACKS),
        (IGNORED, [("hook", "on_success", "SUCCESS")]),
    ],
    ids=["success", "retry", "failure", "rejected", "ignored"],
)
def test_each_completion_calls_the_endpoints_named_for_it(
    caller: Api, database: Database, verdict: Verdict, expected: list[tuple[str, str, str]]
) -> None:
    assert callbacks_after(caller, database, verdict) == expected


def test_callback_is_made_whatever_keys_other_jobs_of_its_endpoint_have(caller: Api, database: Database) -> None:
    created(caller, one_shot("first"))
    end(database, claim_due(database), success({}))
    (completion,) = database.fetch(text("SELECT end_id FROM execution_ends"))
    for prefix in ("", "te:"):
        key = f"{prefix}callback:on_success:{completion.end_id}"
        taken = created(caller, one_shot(f"x{key}", endpoint="hook"))
        for table in ("jobs", "executions"):
            change = f"UPDATE {table} SET idempotency_key = :key WHERE job_id = :job_id"
            database.fetch(text(change), {"key": key, "job_id": taken["job_id"]})
    assert handle_outbox(database) == 1
    assert [call["endpoint"] for call in callback_jobs(caller)] == ["hook"]


def test_callbacks_of_a_notification_trigger_no_notification(caller: Api, database: Database) -> None:
    """Otherwise a rule would report a callback through the channel that caused the callback."""
    created(caller, one_shot("first"))
    database.fetch(text(f"UPDATE executions SET followed = followed | {int(Followed.NOTIFICATION)}"))
    end(database, claim_due(database), FAILED)
    handle_outbox(database)
    assert len(callback_jobs(caller)) == 2
    callback_rows = database.fetch(text("SELECT followed FROM executions WHERE endpoint <> 'target'"))
    assert [Followed(row.followed) for row in callback_rows] == [Followed.NOTIFICATION] * 2


def test_callbacks_of_a_job_override_callbacks_of_its_endpoint(caller: Api, database: Database) -> None:
    own = {"on_success": None, "on_failure": "hook"}
    assert callbacks_after(caller, database, FAILED, callbacks=own) == [
        ("hook", "on_failure", "FAILED"),
        FAILURE_CALLBACKS[1],
    ]


def test_input_of_a_callback_describes_the_completed_attempt(caller: Api, database: Database) -> None:
    trace = f"00-{'4' * 32}-{'5' * 16}-01"
    body = one_shot("first", name="Order", labels={"team": "a"})
    job = caller.post("/jobs", body, headers={"traceparent": trace}).json
    end(database, claim_due(database), success({"status_code": 200, "body": "ok"}))
    handle_outbox(database)
    (call,) = callback_jobs(caller)
    execution = caller.get(f"/executions/{job['execution']['execution_id']}").json
    (attempt,) = caller.get(f"/executions/{execution['execution_id']}/attempts").json["items"]
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
    job_rows = database.fetch(text("SELECT job_id, trace_context FROM jobs"))
    traces = {row.job_id: row.trace_context for row in job_rows}
    assert traces[call["job_id"]] == traces[job["job_id"]] is not None
    line, _ = caller.get(f"/executions/{execution['execution_id']}/logs").json["items"]
    assert line["message"] == f"on_success: 'hook' is called back by the job {call['job_id']}"


def test_execution_that_fails_without_an_attempt_calls_back(caller: Api, database: Database) -> None:
    """An execution without attempts left fails and calls back without a worker; a cancelled execution does not."""
    cancelled, exhausted = created(caller, one_shot("first")), created(caller, one_shot("second"))
    assert caller.post(f"/jobs/{cancelled['job_id']}/cancel").status_code == 200
    execution_id = exhausted["execution"]["execution_id"]
    changes = "status = 'RETRYING', attempt_count = max_attempts, run_at = now() - INTERVAL '1 hour'"
    database.fetch(text(f"UPDATE executions SET {changes} WHERE execution_id = :id"), {"id": execution_id})
    assert fail_exhausted(database, limit=10).number == 1
    handle_outbox(database)
    (call,) = callback_jobs(caller)
    outcome = call["input"]
    assert (outcome["event"], outcome["reason"], outcome["started_at"]) == ("on_failure", "NO_ATTEMPTS_LEFT", None)
    assert call["callback_of"] == execution_id


def test_completion_after_a_manual_retry_calls_back_again(caller: Api, database: Database) -> None:
    assert len(callbacks_after(caller, database, FAILED)) == 2
    execution_id = callback_jobs(caller)[0]["callback_of"]
    assert caller.post(f"/executions/{execution_id}/retry").status_code == 200
    end(database, claim_due(database), success({}))
    handle_outbox(database)
    assert [call["input"]["event"] for call in callback_jobs(caller)][2:] == ["on_success"]


def test_each_version_of_a_repeating_job_keeps_its_callbacks(caller: Api, database: Database) -> None:
    job = created(caller, cron(callbacks={"on_success": "alarm"}))
    assert job["callbacks"] == {"on_success": "alarm"}
    new = caller.put(f"/jobs/{job['job_id']}", {"input": {"user_id": "other"}}).json
    assert new["callbacks"] == {"on_success": "alarm"}
    caller.post(f"/jobs/{new['job_id']}/run")
    end(database, claim_due(database), success({}))
    handle_outbox(database)
    assert [call["endpoint"] for call in callback_jobs(caller)] == ["alarm"]
    newer = caller.put(f"/jobs/{new['job_id']}", {"callbacks": None}).json
    assert newer["callbacks"] is None


def test_skipped_callback_is_logged(caller: Api, database: Database) -> None:
    """A callback becomes impossible if the endpoint is deleted, or if its payload spec no longer fits outcomes."""
    register(caller, "gone")
    own = {"on_success": "gone", "on_attempt_failed": "watch"}
    execution = created(caller, one_shot("first", callbacks=own))["execution"]["execution_id"]
    assert caller.delete("/endpoints/gone").status_code == 204
    end(database, claim_due(database), success({}))
    assert handle_outbox(database) == 1
    assert callback_jobs(caller) == []
    line, _ = caller.get(f"/executions/{execution}/logs").json["items"]
    assert (line["level"], line["message"]) == (
        "WARN",
        "on_success: skipped the callback to 'gone': the endpoint was deleted",
    )
    caller.post("/payload-specs", {"name": "outcome", "schema": {"type": "object"}})
    register(caller, "strict", payload_spec="outcome")
    created(caller, one_shot("second", callbacks={"on_success": "strict"}))
    caller.put("/payload-specs/outcome", {"schema": {"type": "object", "required": ["nothing"]}})
    end(database, claim_due(database), success({}))
    assert handle_outbox(database) == 1
    assert callback_jobs(caller) == []


def test_no_word_of_a_receiver_is_in_the_log_of_a_process(
    caller: Api, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The execution's own log lines may quote the answer: a reader of both may read the answer."""
    short = {"properties": {"output": {"properties": {"body": {"maxLength": 9}}}}}
    assert caller.post("/payload-specs", {"name": "short", "schema": short}).status_code == 201
    register(caller, "strict", payload_spec="short")
    execution = created(caller, one_shot("first", callbacks={"on_success": "strict"}))["execution"]["execution_id"]
    end(database, claim_due(database), success({"status_code": 200, "body": "customer Jane Doe"}))
    assert handle_outbox(database) == 1
    assert "skipped the callback on_success of execution " in caplog.text
    assert "Jane" not in caplog.text
    line, _ = caller.get(f"/executions/{execution}/logs").json["items"]
    assert "/output/body" in line["message"]


def test_callback_uses_the_version_of_a_concurrent_change(
    caller: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(caller, one_shot("first"))
    end(database, claim_due(database), success({}))
    read, times = callbacks_handlers.read_targets, 0

    def changed_once(*args: Any) -> Any:
        nonlocal times
        found, times = read(*args), times + 1
        if times == 1:
            with another_process(caller) as other:
                assert other.put("/endpoints/hook", http_endpoint("hook")).status_code == 200
        return found

    monkeypatch.setattr(callbacks_handlers, "read_targets", changed_once)
    assert handle_outbox(database) == 1
    (call,) = callback_jobs(caller)
    assert (call["endpoint_version"], times) == (2, 2)


def test_locked_callback_endpoint_delays_callbacks_but_not_the_dead_letter(caller: Api, database: Database) -> None:
    created(caller, one_shot("first"))
    end(database, claim_due(database), FAILED)
    (found,) = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM endpoints WHERE name = 'alarm' FOR UPDATE"))
        assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(found) == OutboxResult(
            0, 1
        )
    (letter,) = caller.get("/dead-letters").json["items"]
    assert (letter["letter_id"], callback_jobs(caller)) == (found, [])
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(found).ends == 1
    assert [call["endpoint"] for call in callback_jobs(caller)] == ["alarm", "watch"]


def test_equal_callbacks_in_a_batch_are_checked_once(caller: Api, statements: Statements) -> None:
    jobs = [one_shot(f"key {number}", callbacks={"on_failure": "hook"}) for number in range(20)]
    answer = caller.post("/jobs/batch", {"jobs": jobs}).json
    assert {item["job"]["callbacks"]["on_failure"] for item in answer["items"]} == {"hook"}
    assert sum("e.spec, p.schema_json FROM endpoints AS e" in sql for sql in statements.texts) == 1
