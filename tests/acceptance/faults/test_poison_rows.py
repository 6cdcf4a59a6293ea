"""Rows that somebody edited manually: each fails with a clear reason, those around it go on, the worker lives."""

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
    """Give the execution an endpoint version of its own that was tampered with."""

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


def make_its_schema_strict(database: Database, execution_id: str) -> None:
    """As a change of the payload spec does: what was accepted before it is delivered."""
    schema = json.dumps({"type": "object", "required": ["never"]})
    insert = "INSERT INTO payload_specs (name, schema_json) VALUES ('strict', CAST(:schema AS JSONB))"
    database.fetch(text(insert), {"schema": schema})
    change_version("payload_spec_ref = 'strict'")(database, execution_id)


SPEC = "spec = CAST('{}' AS JSONB)"
WITH_SECRET = SPEC.format('{"url": "http://127.0.0.1:9/{{secret.sealed}}", "method": "POST", "timeout_ms": 500}')
WITH_INPUT = SPEC.format('{"url": "http://127.0.0.1:9/", "method": "POST", "body_template": "{{input.a}}"}')

# What is done to the row, and the type of error that its only attempt ends with.
POISON: dict[str, tuple[Callable[[Database, str], None], str]] = {
    "an unknown version": (change_execution("endpoint_version = 999"), "TEMPLATE_RESOLUTION_FAILED"),
    "an unknown endpoint": (change_execution("endpoint = 'nowhere'"), "TEMPLATE_RESOLUTION_FAILED"),
    "a config that is gone": (change_version("config_ref = 'gone'"), "TEMPLATE_RESOLUTION_FAILED"),
    "an input without the field": (change_version(WITH_INPUT), "TEMPLATE_RESOLUTION_FAILED"),
    "an input that no process reads": (store_input('{"a":' * 3000 + "1" + "}" * 3000), "TEMPLATE_RESOLUTION_FAILED"),
    "a spec that is a list": (change_version(SPEC.format("[1]")), "INTERNAL_ERROR"),
    "a spec without its fields": (change_version(SPEC.format("{}")), "INTERNAL_ERROR"),
    "a URL that is a number": (change_version(SPEC.format('{"url": 5, "method": "POST"}')), "INTERNAL_ERROR"),
    "a policy that is a text": (change_version("""retry_policy = CAST('"often"' AS JSONB)"""), "INTERNAL_ERROR"),
}
# What another process might deliver, or this one after a restart with another key.
WAITING = {"an undecryptable secret": change_version(WITH_SECRET)}
# What is odd and can be delivered all the same.
HARMLESS: dict[str, Callable[[Database, str], None]] = {
    # Its attempt was the last one, but that of a lost worker: one more follows.
    "a worker that never was": change_execution(
        "status = 'RUNNING', worker_id = 'wrk_0', started_at = now(), attempt_count = 1"
    ),
    "five megabytes": change_input({"a": "x" * 5_000_000}),
    "an input that its schema refuses by now": make_its_schema_strict,
    "an input that is a text": change_input("text"),
    "an input that is null": change_input(None),
    "an input that is deep": change_input(json.loads('{"a":' * 400 + "1" + "}" * 400)),
    "a transport that does not exist": change_execution("endpoint_type = 'FAX'"),
    "another transport's name": change_execution("endpoint_type = 'KAFKA'"),
    "a date before the calendar": change_execution("scheduled_at = '0001-01-01T00:00:00Z'"),
    "a date after it": change_execution("scheduled_at = '9999-12-31T23:59:59Z'"),
}


@pytest.fixture
def poisoned(database: Database, receiver: Receiver) -> dict[str, str]:
    """Good rows with a bad one after every few of them; returns the bad ones by what is odd about them."""
    spec = {"url": f"{receiver.base_url}{PATH}", "method": "POST"}
    rows.add_endpoint(database, spec=spec)
    sealed = Fernet(Fernet.generate_key()).encrypt(b"for another key")
    insert = "INSERT INTO secrets (name, encrypted_value) VALUES ('sealed', :value)"
    database.fetch(text(insert), {"value": sealed})
    odd = {name: change for name, (change, _type) in POISON.items()} | WAITING | HARMLESS
    found = {}
    for number, (name, change) in enumerate(odd.items()):
        rows.add_executions(database, GOOD // len(odd) + (number < GOOD % len(odd)))
        (found[name],) = rows.add_executions(database)
        change(database, found[name])
    return found


def test_each_fails_with_its_reason_and_the_batch_goes_on(
    database: Database, stack: Stack, receiver: Receiver, poisoned: dict[str, str]
) -> None:
    worker = stack.worker(threads=2)
    stack.scheduler(TE_RECLAIM_INTERVAL_SEC="0.5")
    expected = {"SUCCESS": GOOD + len(HARMLESS), "FAILED": len(POISON)}

    def finished() -> bool:
        # What waits is claimed and handed back again and again.
        unfinished = database.fetch(text("SELECT execution_id, status FROM executions WHERE completed_at IS NULL"))
        return {tuple(row) for row in unfinished} == {(poisoned[name], "QUEUED") for name in WAITING}

    eventually(finished, timeout=120, what="the end of every execution")
    found = {name: [one.error for one in rows.attempts(database, poisoned[name])] for name in POISON}
    assert {name: [(error or {}).get("type") for error in errors] for name, errors in found.items()} == {
        name: [type_] for name, (_change, type_) in POISON.items()
    }
    assert all(errors[0]["message"] for errors in found.values())
    assert all(not rows.attempts(database, poisoned[name]) for name in WAITING), "it is no fault of the job's"
    assert {status: number for status, number in rows.statuses(database).items() if status in expected} == expected
    assert worker.is_running, worker.tail()
    claimed = database.fetch(text("SELECT count(*) AS n FROM workers"))
    assert claimed[0].n == 1, "the same process from beginning to end"


def test_a_result_that_cannot_be_written_holds_up_no_other(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """Its attempt is on record already, as if the count had been set back manually; the safety net ends it."""
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{PATH}", "method": "POST"})
    good = rows.add_executions(database, GOOD)
    (odd,) = rows.add_executions(database)
    insert = (
        "INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at) "
        "VALUES ('att_odd', :id, 1, 'FAILED', now())"
    )
    database.fetch(text(insert), {"id": odd})
    worker = stack.worker(threads=2)
    eventually(lambda: rows.statuses(database).get("SUCCESS") == len(good), what="the results around it")
    stack.wait_for_line(worker, f"the outcome of {odd} could not be written")
    stack.scheduler(TE_RECLAIM_INTERVAL_SEC="0.5", TE_STUCK_EXECUTION_TIMEOUT_SEC="1")
    eventually(lambda: rows.execution(database, odd).status == "FAILED", what="the end of the odd one")
    logged = database.fetch(text("SELECT message FROM execution_logs WHERE execution_id = :id"), {"id": odd})
    assert ["no result was written within the stuck timeout" in line.message for line in logged] == [True]
    assert worker.is_running, worker.tail()
