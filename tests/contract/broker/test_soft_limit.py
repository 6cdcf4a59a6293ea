"""Attempts that take longer than `soft_timeout_ms` are recorded at once, and continue."""

import socket

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.db import Database
from app.queue.executions.attempt_notes import AttemptNote, note
from app.queue.executions.execution_model import Claim
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import catalog_of, claimed
from tests.contract.broker.finalizing import WORKER, Run
from tests.contract.broker.silence import TYPES, add_execution
from tests.waiting import eventually


def recorded(database: Database) -> list[tuple[str, str, int, str]]:
    query = "SELECT from_status, to_status, attempt_number, reason FROM execution_events"
    return [tuple(row) for row in database.fetch(text(query))]


def warnings(database: Database) -> list[str]:
    return [row.message for row in database.fetch(text("SELECT message FROM execution_logs WHERE level = 'WARN'"))]


@pytest.mark.parametrize("type_", TYPES)
def test_exceeded_soft_limit_is_recorded_while_the_attempt_continues(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, silent: socket.socket, type_: EndpointType
) -> None:
    execution_id = add_execution(database, type_, silent, fields={"soft_timeout_ms": 1})
    attempt = claimed(process, type_.queue)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    eventually(lambda: recorded(database))
    assert recorded(database) == [("RUNNING", "RUNNING", 1, "SOFT_LIMIT")]
    assert warnings(database) == ["attempt 1 runs beyond its soft limit of 1 ms"]
    assert rows.execution(database, execution_id).status == "RUNNING"
    attempt.abort()
    loop.stop()
    attempt.release(even_if_started=True)


def test_attempt_within_its_soft_limit_records_nothing(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    spec = {"url": receiver.url("/ok"), "method": "POST", "timeout_ms": 250_000, "soft_timeout_ms": 200_000}
    rows.add_endpoint(database, "quick", spec=spec)
    (execution_id,) = rows.add_executions(database, endpoint="quick")
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
    assert (recorded(database), warnings(database)) == ([], [])


def soft_limit_passed(claim: Claim) -> AttemptNote:
    return AttemptNote.of_soft_limit(claim.key, 5)


def test_exceeded_soft_limit_is_written_before_the_result(database: Database, run: Run) -> None:
    """The order is kept even if the answer arrives immediately afterwards."""
    running = run(database)
    claims = running.claim(20)
    for claim in claims:
        running.finalizer.submit(soft_limit_passed(claim))
        running.end(claim)
    running.wait_for(*claims)
    assert len(recorded(database)) == len(warnings(database)) == len(claims)


def test_soft_limit_is_recorded_once_and_never_for_a_completed_attempt(database: Database, run: Run) -> None:
    running = run(database)
    completed, unfinished = running.claim(2)
    running.end(completed)
    running.wait_for(completed)
    late = [
        soft_limit_passed(completed),
        soft_limit_passed(unfinished),
        soft_limit_passed(unfinished)._replace(key=unfinished.key._replace(attempt=2)),
    ]
    assert [note(database, WORKER, late) for _ in range(2)] == [{"SOFT_LIMIT": 1}] * 2
    assert recorded(database) == [("RUNNING", "RUNNING", 1, "SOFT_LIMIT")]
    assert note(database, "wrk_other", [soft_limit_passed(unfinished)]) == {}
