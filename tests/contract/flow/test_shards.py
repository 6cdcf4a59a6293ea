"""Several shards behave like a single shard: executions are claimed by due time, not by shard."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.kernel import db
from app.kernel.db import Database
from app.queue.executions.watermark import ScanPace
from brokers.attempt import Attempt, Stage
from brokers.consumer import ClaimConsumer
from brokers.discovery import DiscoveryTimes
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import OK, Attempts
from tests.contract.conftest import SHARDS, worker_process

pytestmark = pytest.mark.parametrize("shards", SHARDS)
CAPACITY = 20
ROOMY = 64 * CAPACITY  # the fair shares of all shards hold all executions of a test
NEVER_MS = 3_600_000  # no periodic poll during a test


@pytest.fixture
def capacity() -> int:
    return CAPACITY


@pytest.fixture
def process(database_url: str, shards: int, capacity: int) -> Iterator[WorkerProcess]:
    """An open process that polls only for a known due time or after a hint."""
    ours, lease = (db.connect(database_url, pool_size=size, application_name="te-test") for size in (5, 1))
    process = worker_process(ours, lease, shards=shards, capacity=capacity, poll_interval_ms=NEVER_MS)
    process.open(["http"])
    yield process
    process.close()


def add_to(database: Database, shard: int, count: int = 1, **more: timedelta) -> list[str]:
    """Create executions in a shard; returns their ids."""
    executions = rows.add_executions(database, count, **more)  # type: ignore[arg-type]
    move = text("UPDATE executions SET shard = :shard WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"shard": shard, "ids": executions})
    return executions


def deliver(attempt: Attempt) -> str:
    attempt.enter(Stage.STARTED)
    attempt.complete(OK)
    return attempt.claim.execution_id


def delivered(attempts: Attempts, count: int) -> list[str]:
    return [deliver(attempts.next()) for _ in range(count)]


DUE = text(
    """
    UPDATE executions SET run_at = now() + wait_ms * INTERVAL '1 millisecond'
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:waits AS BIGINT[])) AS given (id, wait_ms) WHERE execution_id = id
    """
)


def add_twice(database: Database, shards: int, first_ms: int) -> list[str]:
    """Add two executions to each shard, with mixed due times, 30 ms apart or more; returns their ids in that order."""
    waits: dict[str, int] = {}
    for shard in range(shards):
        for wait in (first_ms + 70 * shard, first_ms + 1500 - 70 * shard):
            waits |= dict.fromkeys(add_to(database, shard), wait)
    database.fetch(DUE, {"ids": [*waits], "waits": [*waits.values()]})
    return sorted(waits, key=waits.__getitem__)


@pytest.mark.parametrize("capacity", [ROOMY])
def test_executions_of_all_shards_are_claimed_in_the_order_of_their_due_times(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    expected = add_twice(database, shards, -6000)
    assert delivered(Attempts(process), len(expected)) == expected


def test_due_times_alone_start_polls_of_all_shards(database: Database, process: WorkerProcess, shards: int) -> None:
    """A stall between a poll and a claim may change the order of executions that become due meanwhile."""
    expected = add_twice(database, shards, 2000)
    assert set(delivered(Attempts(process), len(expected))) == set(expected)


def test_deep_backlog_in_one_shard_delays_no_other_shard(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    backlog = {execution for shard in (0, shards - 1) for execution in add_to(database, shard, 500)}
    # Otherwise many batches would fit into the rest after a slow poll.
    attempts = Attempts(process, times=DiscoveryTimes(longest_rest_seconds=0.0))
    assert backlog.issuperset(delivered(attempts, 100))
    others = {execution for shard in range(1, shards - 1) for execution in add_to(database, shard)}
    process.inboxes.wake("http")
    # One batch of each deep shard may precede the poll, and one more may precede the executions that the poll finds.
    assert others <= set(delivered(attempts, len(others) + 4 * CAPACITY))


def test_permanent_hints_delay_no_shard(database: Database, process: WorkerProcess, shards: int) -> None:
    """A hint arrives during every statement."""
    expected = {execution for shard in range(shards) for execution in add_to(database, shard, 3)}
    event.listen(process.database.engine, "after_cursor_execute", lambda *_: process.inboxes.wake("http"))
    assert set(delivered(Attempts(process), len(expected))) == expected


def test_hint_finds_due_executions_in_each_shard(database: Database, process: WorkerProcess, shards: int) -> None:
    attempts = Attempts(process)
    assert next(ClaimConsumer(process, "http", 100)) is None
    for shard in range(shards):
        got: list[Attempt] = []
        thread = attempts.next_in_thread(got)
        (expected,) = add_to(database, shard)
        process.inboxes.wake("http")
        thread.join(timeout=60)
        assert [deliver(attempt) for attempt in got] == [expected]


def test_shard_beyond_the_configured_number_is_served_and_logged(
    database: Database, process: WorkerProcess, shards: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A process with a larger TE_QUEUE_SHARDS has left executions in this shard."""
    expected = set(rows.add_executions(database, 3)) | set(add_to(database, shards + 5, 3))
    with caplog.at_level(logging.WARNING):
        attempts = Attempts(process)
        assert set(delivered(attempts, 6)) == expected
    warnings = [record.getMessage() for record in caplog.records if "TE_QUEUE_SHARDS" in record.getMessage()]
    assert len(warnings) == 1
    assert f"TE_QUEUE_SHARDS is {shards} here, but shard {shards + 5} holds executions" in warnings[0]


def add_released(database: Database, shards: int) -> list[str]:
    """Add an execution to each shard that has been due for an hour, like a released claim."""
    return [add_to(database, shard, due_in=timedelta(hours=-1))[0] for shard in range(shards)]


def test_released_execution_behind_the_mark_is_found_by_the_next_full_scan(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    attempts = Attempts(process, times=DiscoveryTimes(scan_pace=ScanPace(longest_seconds=0.2)))
    recent = {execution for shard in range(shards) for execution in add_to(database, shard)}
    assert set(delivered(attempts, shards)) == recent, "these claims move the marks"
    expected = set(add_released(database, shards))
    process.inboxes.wake("http")
    assert set(delivered(attempts, shards)) == expected


def test_polls_do_not_read_behind_the_mark_between_two_full_scans(
    database: Database, process: WorkerProcess, shards: int
) -> None:
    attempts = Attempts(process)
    delivered_first = [add_to(database, shard) for shard in range(shards)]
    assert len(delivered(attempts, shards)) == len(delivered_first)
    add_released(database, shards)
    expected = {execution for shard in range(shards) for execution in add_to(database, shard)}
    process.inboxes.wake("http")
    assert set(delivered(attempts, shards)) == expected
    assert rows.statuses(database)["QUEUED"] == shards


def test_backlog_is_claimed_in_order_and_completely(database: Database, process: WorkerProcess, shards: int) -> None:
    """The due times span five hours, and no full scan is needed."""
    for hours in range(1, 6):
        for shard in range(shards):
            add_to(database, shard, 4, due_in=timedelta(hours=-hours))
    got = delivered(Attempts(process), 20 * shards)
    due = {row.execution_id: row.run_at for row in database.fetch(text("SELECT execution_id, run_at FROM executions"))}
    assert len(set(got)) == 20 * shards
    if shards == 1:
        assert [due[execution] for execution in got] == sorted(due.values())
