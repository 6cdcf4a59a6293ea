"""Manually edited rows: each fails with a clear reason, other rows are delivered, and the worker continues."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests import rows
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

PATH = "/ok/poison"
GOOD = 40


def change_execution(assignment: str, **params: Any) -> Callable[[Database, str], None]:
    def change(database: Database, execution_id: str) -> None:
        sql = f"UPDATE executions SET {assignment} WHERE execution_id = :id"
        database.fetch(text(sql), {"id": execution_id} | params)

    return change


def change_input(value: Any) -> Callable[[Database, str], None]:
    return store_input(json.dumps(value))


def store_input(json_text: str) -> Callable[[Database, str], None]:
    def change(database: Database, execution_id: str) -> None:
        sql = (
            "UPDATE jobs SET input = CAST(:input AS JSONB) FROM executions AS e "
            "WHERE e.job_id = jobs.job_id AND e.execution_id = :id"
        )
        database.fetch(text(sql), {"id": execution_id, "input": json_text})

    return change


def change_version(assignment: str) -> Callable[[Database, str], None]:
    """Give the execution a separate, edited version of its endpoint."""

    def change(database: Database, execution_id: str) -> None:
        number = database.fetch(text("SELECT max(version) + 1 AS n FROM endpoint_versions"))[0].n
        database.fetch(
            text(
                "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec) "
                "SELECT endpoint, :n, endpoint_type, spec FROM endpoint_versions WHERE version = 1"
            ),
            {"n": number},
        )
        database.fetch(text(f"UPDATE endpoint_versions SET {assignment} WHERE version = :n"), {"n": number})
        change_execution("endpoint_version = :n", n=number)(database, execution_id)

    return change


def refuse_input_by_schema(database: Database, execution_id: str) -> None:
    """Let a later payload spec refuse the input; an accepted job is still delivered."""
    schema = json.dumps({"type": "object", "required": ["never"]})
    insert = "INSERT INTO payload_specs (name, schema_json) VALUES ('strict', CAST(:schema AS JSONB))"
    database.fetch(text(insert), {"schema": schema})
    change_version("payload_spec_ref = 'strict'")(database, execution_id)


SPEC = "spec = CAST('{}' AS JSONB)"
WITH_SECRET = SPEC.format('{"url": "http://127.0.0.1:9/{{secret.sealed}}", "method": "POST", "timeout_ms": 500}')
WITH_INPUT = SPEC.format('{"url": "http://127.0.0.1:9/", "method": "POST", "body_template": "{{input.a}}"}')

# The change of the row, and the error type of its only attempt.
POISON: dict[str, tuple[Callable[[Database, str], None], str]] = {
    "an unknown version": (change_execution("endpoint_version = 999"), "TEMPLATE_RESOLUTION_FAILED"),
    "an unknown endpoint": (change_execution("endpoint = 'nowhere'"), "TEMPLATE_RESOLUTION_FAILED"),
    "a deleted config": (change_version("config_ref = 'gone'"), "TEMPLATE_RESOLUTION_FAILED"),
    "an input without the field": (change_version(WITH_INPUT), "TEMPLATE_RESOLUTION_FAILED"),
    "an input nested too deep to parse": (store_input('{"a":' * 3000 + "1" + "}" * 3000), "TEMPLATE_RESOLUTION_FAILED"),
    "a spec that is a list": (change_version(SPEC.format("[1]")), "INTERNAL_ERROR"),
    "a spec without its fields": (change_version(SPEC.format("{}")), "INTERNAL_ERROR"),
    "a URL that is a number": (change_version(SPEC.format('{"url": 5, "method": "POST"}')), "INTERNAL_ERROR"),
    "a policy that is a text": (change_version("""retry_policy = CAST('"often"' AS JSONB)"""), "INTERNAL_ERROR"),
}
# Rows that wait, because another process, or this process with another key, could deliver them.
WAITING = {"an undecryptable secret": change_version(WITH_SECRET)}
# Unusual rows that can still be delivered.
HARMLESS: dict[str, Callable[[Database, str], None]] = {
    # The last attempt belongs to a lost worker, so one more attempt follows.
    "an unknown worker": change_execution(
        "status = 'RUNNING', worker_id = 'wrk_0', started_at = now(), attempt_count = 1"
    ),
    "five megabytes": change_input({"a": "x" * 5_000_000}),
    "an input that a later schema refuses": refuse_input_by_schema,
    "an input that is a text": change_input("text"),
    "an input that is null": change_input(None),
    "an input that is deep": change_input(json.loads('{"a":' * 400 + "1" + "}" * 400)),
    "a transport that does not exist": change_execution("endpoint_type = 'FAX'"),
    "another transport's name": change_execution("endpoint_type = 'KAFKA'"),
    "a date before the calendar": change_execution("scheduled_at = '0001-01-01T00:00:00Z'"),
    "a date after the calendar": change_execution("scheduled_at = '9999-12-31T23:59:59Z'"),
}


@pytest.fixture
def poisoned(database: Database, receiver: Receiver) -> dict[str, str]:
    """Add good rows with an edited row after every few; return the edited executions by the kind of edit."""
    spec = {"url": f"{receiver.base_url}{PATH}", "method": "POST"}
    rows.add_endpoint(database, spec=spec)
    sealed = Fernet(Fernet.generate_key()).encrypt(b"for another key")
    insert = "INSERT INTO secrets (name, encrypted_value) VALUES ('sealed', :value)"
    database.fetch(text(insert), {"value": sealed})
    edits = {name: change for name, (change, _type) in POISON.items()} | WAITING | HARMLESS
    found = {}
    for number, (name, change) in enumerate(edits.items()):
        rows.add_executions(database, GOOD // len(edits) + (number < GOOD % len(edits)))
        (found[name],) = rows.add_executions(database)
        change(database, found[name])
    return found


def test_each_edited_row_fails_with_its_reason_and_the_batch_is_delivered(
    database: Database, stack: Stack, receiver: Receiver, poisoned: dict[str, str]
) -> None:
    worker = stack.worker(threads=2)
    stack.scheduler(TE_RECLAIM_INTERVAL_SEC="0.5")
    expected = {"SUCCESS": GOOD + len(HARMLESS), "FAILED": len(POISON)}

    def finished() -> bool:
        # Waiting rows are claimed and released repeatedly.
        unfinished = database.fetch(text("SELECT execution_id, status FROM executions WHERE completed_at IS NULL"))
        return {tuple(row) for row in unfinished} == {(poisoned[name], "QUEUED") for name in WAITING}

    eventually(finished, timeout=120, what="the final status of every execution")
    found = {name: [attempt.error for attempt in rows.attempts(database, poisoned[name])] for name in POISON}
    assert {name: [(error or {}).get("type") for error in errors] for name, errors in found.items()} == {
        name: [type_] for name, (_change, type_) in POISON.items()
    }
    assert all(errors[0]["message"] for errors in found.values())
    assert all(not rows.attempts(database, poisoned[name]) for name in WAITING), (
        "a missing key costs the job an attempt"
    )
    assert {status: number for status, number in rows.statuses(database).items() if status in expected} == expected
    assert worker.is_running, worker.tail()
    claimed = database.fetch(text("SELECT count(*) AS n FROM workers"))
    assert claimed[0].n == 1, "the worker process was replaced"


def test_result_that_cannot_be_written_delays_no_other_result(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """The failed attempt is recorded already, as after a manual reset of the count; a later attempt succeeds."""
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{PATH}", "method": "POST"})
    good = rows.add_executions(database, GOOD)
    flaky = rows.add_endpoint(database, "flaky", spec={"url": f"{receiver.base_url}/flaky/1/poison", "method": "POST"})
    (edited,) = rows.add_executions(database, endpoint=flaky)
    insert = (
        "INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at) "
        "VALUES ('att_odd', :id, 1, 'FAILED', now())"
    )
    database.fetch(text(insert), {"id": edited})
    worker = stack.worker(threads=2)
    eventually(lambda: rows.statuses(database).get("SUCCESS") == len(good), what="the results of all other executions")
    stack.wait_for_line(worker, f"the outcome of {edited} could not be written")
    stack.scheduler(TE_RECLAIM_INTERVAL_SEC="0.5", TE_STUCK_EXECUTION_TIMEOUT_SEC="1")
    eventually(lambda: rows.execution(database, edited).status == "SUCCESS", what="the success of the edited execution")
    logged = database.fetch(text("SELECT message FROM execution_logs WHERE execution_id = :id"), {"id": edited})
    assert sum("no result was written within the stuck timeout" in line.message for line in logged) == 1
    assert worker.is_running, worker.tail()
