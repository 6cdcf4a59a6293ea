"""Several shards behave as one: none waits for its turn in an order that has nothing to do with what is due."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.kernel import db
from app.kernel.db import Database
from brokers import discovery
from brokers.attempt import Attempt, Stage
from brokers.consumer import ClaimConsumer
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import OK, Attempts
from tests.contract.conftest import SHARDS, worker_process

pytestmark = pytest.mark.parametrize("shards", SHARDS)
CAPACITY = 20
NEVER_MS = 3_600_000  # no poll that nothing asked for happens during a test


@pytest.fixture
def process(database_url: str, shards: int) -> Iterator[WorkerProcess]:
    """An open process that polls only when something is known to be due, or hinted at."""
    ours, lease = (db.connect(database_url, pool_size=size, application_name="te-test") for size in (5, 1))
    process = worker_process(ours, lease, shards=shards, capacity=CAPACITY, poll_interval_ms=NEVER_MS)
    process.open(["http"])
    yield process
    process.close()


def add_to(database: Database, shard: int, count: int = 1, **more: timedelta) -> list[str]:
    """Create executions in a shard."""
    executions = rows.add_executions(database, count, **more)  # type: ignore[arg-type]
    move = text("UPDATE executions SET shard = :shard WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"shard": shard, "ids": executions})
    return executions


def deliver(attempt: Attempt) -> str:
    attempt.enter(Stage.STARTED)
    attempt.conclude(OK)
    return attempt.claim.execution_id


def delivered(attempts: Attempts, count: int) -> list[str]:
    return [deliver(attempts.next()) for _ in range(count)]


def test_what_is_due_in_any_shard_is_claimed_when_it_is(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    """Twice in each shard, in the order in which they are due, and nothing but their instants asks for a poll."""
    for shard in range(shards):
        for wait in (2000 + 70 * shard, 3500 - 70 * shard):
            add_to(database, shard, due_in=timedelta(milliseconds=wait))
    expected = [row.execution_id for row in database.fetch(text("SELECT execution_id FROM executions ORDER BY run_at"))]
    assert delivered(Attempts(process), len(expected)) == expected


def test_a_deep_backlog_in_one_shard_holds_no_other_back(
    database: Database, process: WorkerProcess, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LONGEST_REST_SECONDS", 0.0)  # after a slow look many batches fit into it
    backlog = {execution for shard in (0, shards - 1) for execution in add_to(database, shard, 500)}
    attempts = Attempts(process)
    assert backlog.issuperset(delivered(attempts, 100))
    others = {execution for shard in range(1, shards - 1) for execution in add_to(database, shard)}
    process.inboxes.wake("http")
    # One batch of each deep shard may be in front of the look, and one of each between the look and the others.
    assert others <= set(delivered(attempts, len(others) + 4 * CAPACITY))


def test_hints_that_never_stop_keep_no_shard_waiting(database: Database, process: WorkerProcess, shards: int) -> None:
    """One arrives during every statement."""
    expected = {execution for shard in range(shards) for execution in add_to(database, shard, 3)}
    event.listen(process.database.engine, "after_cursor_execute", lambda *_: process.inboxes.wake("http"))
    assert set(delivered(Attempts(process), len(expected))) == expected


def test_a_hint_finds_what_is_due_in_whichever_shard(database: Database, process: WorkerProcess, shards: int) -> None:
    attempts = Attempts(process)
    assert next(ClaimConsumer(process, "http", 100)) is None
    for shard in range(shards):
        got: list[Attempt] = []
        thread = attempts.next_in_thread(got)
        (expected,) = add_to(database, shard)
        process.inboxes.wake("http")
        thread.join(timeout=60)
        assert [deliver(attempt) for attempt in got] == [expected]


def test_a_shard_beyond_the_own_number_is_served_and_said(
    database: Database, process: WorkerProcess, shards: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Left by a process with another TE_QUEUE_SHARDS."""
    expected = set(rows.add_executions(database, 3)) | set(add_to(database, shards + 5, 3))
    with caplog.at_level(logging.WARNING):
        attempts = Attempts(process)
        assert set(delivered(attempts, 6)) == expected
    said = [record.getMessage() for record in caplog.records if "TE_QUEUE_SHARDS" in record.getMessage()]
    assert len(said) == 1
    assert f"TE_QUEUE_SHARDS is {shards} here, but shard {shards + 5} holds executions" in said[0]


def handed_back(database: Database, shards: int) -> list[str]:
    """Put an execution into each shard that was due long ago, as one that was handed back."""
    return [add_to(database, shard, due_in=timedelta(hours=-1))[0] for shard in range(shards)]


def test_what_is_put_behind_the_mark_is_found_by_the_next_sweep(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    attempts = Attempts(process)
    recent = {execution for shard in range(shards) for execution in add_to(database, shard)}
    assert set(delivered(attempts, shards)) == recent, "which moves the marks"
    expected = set(handed_back(database, shards))
    process.inboxes.wake("http")
    assert set(delivered(attempts, shards)) == expected


def test_between_two_sweeps_nobody_reads_what_was_seen(database: Database, process: WorkerProcess, shards: int) -> None:
    attempts = Attempts(process)
    delivered_first = [add_to(database, shard) for shard in range(shards)]
    assert len(delivered(attempts, shards)) == len(delivered_first)
    handed_back(database, shards)
    expected = {execution for shard in range(shards) for execution in add_to(database, shard)}
    process.inboxes.wake("http")
    assert set(delivered(attempts, shards)) == expected
    assert rows.statuses(database)["QUEUED"] == shards


def test_a_backlog_is_taken_in_order_and_to_its_end(database: Database, process: WorkerProcess, shards: int) -> None:
    """However far its batches reach, and without a sweep."""
    for hours in range(1, 6):
        for shard in range(shards):
            add_to(database, shard, 4, due_in=timedelta(hours=-hours))
    got = delivered(Attempts(process), 20 * shards)
    due = {row.execution_id: row.run_at for row in database.fetch(text("SELECT execution_id, run_at FROM executions"))}
    assert len(set(got)) == 20 * shards
    if shards == 1:
        assert [due[execution] for execution in got] == sorted(due.values())
