"""Attempts that take longer than `soft_timeout_ms`: noted at once, and left to go on."""

import socket

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.db import Database
from app.queue.executions.execution_model import Claim
from app.queue.executions.soft_limit import SoftLimitPassed, note
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import catalog_of, claimed
from tests.contract.broker.finalizing import WORKER, Run
from tests.contract.broker.silence import add
from tests.waiting import eventually


def noted(database: Database) -> list[tuple[str, str, int, str]]:
    query = "SELECT from_status, to_status, attempt_number, reason FROM execution_events"
    return [tuple(row) for row in database.fetch(text(query))]


def warnings(database: Database) -> list[str]:
    return [row.message for row in database.fetch(text("SELECT message FROM execution_logs WHERE level = 'WARN'"))]


@pytest.mark.parametrize("type_", EndpointType)
def test_it_is_noted_while_the_attempt_goes_on(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, silent: socket.socket, type_: EndpointType
) -> None:
    execution_id = add(database, type_, silent, fields={"soft_timeout_ms": 1})
    attempt = claimed(process, type_.queue)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    eventually(lambda: noted(database))
    assert noted(database) == [("RUNNING", "RUNNING", 1, "SOFT_LIMIT")]
    assert warnings(database) == ["attempt 1 runs beyond its soft limit of 1 ms"]
    assert rows.execution(database, execution_id).status == "RUNNING"
    eventually(lambda: attempt.is_sent)
    attempt.abort()
    loop.stop()
    attempt.release(even_if_started=True)


def test_what_ends_within_it_leaves_nothing(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    spec = {"url": receiver.url("/ok"), "method": "POST", "timeout_ms": 250_000, "soft_timeout_ms": 200_000}
    rows.add_endpoint(database, "quick", spec=spec)
    (execution_id,) = rows.add_executions(database, endpoint="quick")
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
    assert (noted(database), warnings(database)) == ([], [])


def passed(claim: Claim) -> SoftLimitPassed:
    return SoftLimitPassed.now(claim.key, 5)


def test_it_is_written_before_the_end_of_the_attempt(database: Database, run: Run) -> None:
    """However soon after it the answer comes."""
    running = run(database)
    claims = running.claim(20)
    for claim in claims:
        running.finalizer.submit(passed(claim))
        running.end(claim)
    running.wait_for(*claims)
    assert len(noted(database)) == len(warnings(database)) == len(claims)


def test_of_an_attempt_that_has_ended_nothing_is_noted_and_of_another_once(database: Database, run: Run) -> None:
    running = run(database)
    over, goes_on = running.claim(2)
    running.end(over)
    running.wait_for(over)
    late = [passed(over), passed(goes_on), passed(goes_on)._replace(key=goes_on.key._replace(attempt=2))]
    assert [note(database, WORKER, late) for _ in range(2)] == [1, 1]
    assert noted(database) == [("RUNNING", "RUNNING", 1, "SOFT_LIMIT")]
    assert note(database, "wrk_other", [passed(goes_on)]) == 0
