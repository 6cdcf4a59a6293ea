"""Partitions: results of polls and full scans, and claims from several partitions at once."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming import poll as polls
from app.queue.claiming.full_scan import FullScan
from app.queue.claiming.partition import Partition
from app.queue.claiming.poll import PROBED, Polled, poll
from app.queue.executions.watermark import SLACK
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import TARGET, add_to, take

ENDPOINTS = [f"e{number:02d}" for number in range(40)]


def polled(database: Database, shards: int = 1, *, since: datetime = EPOCH, horizon_ms: int = 60_000) -> Polled:
    return poll(database, queue="http", since=[since] * shards, horizon_ms=horizon_ms)


def scanned(
    database: Database, shards: int = 1, last: FullScan | None = None, **bounds: int
) -> tuple[FullScan, list[Partition], int]:
    """Run a full scan to its end; return the scan, the partitions found and the number of steps."""
    scan, found, steps = FullScan(shards, last, **bounds), list[Partition](), 0
    while not scan.is_over:
        batch, _ = scan.step(database, "http")
        found += [due.partition for due in batch]
        steps += 1
    return scan, found, steps


def test_claim_takes_the_oldest_row_of_each_given_partition_only(process: WorkerProcess) -> None:
    """Each partition differs from TARGET in one field."""
    named = [TARGET, Partition(0, "target", "=a", 128), Partition(0, "target", "", 129), Partition(0, "other", "", 128)]
    late = {partition: add_to(process.database, partition, due_in=-60)[0] for partition in named}
    for partition in (*named, Partition(1, "target", "", 128)):
        add_to(process.database, partition)
    taken = take(process.database, process.worker_id, 1, partitions=tuple(named[:3]))
    got = {claim.execution_id: (claim.shard, claim.endpoint, claim.limit_key, claim.priority) for claim in taken.claims}
    assert got == {late[partition]: partition for partition in named[:3]}
    assert rows.statuses(process.database) == {"QUEUED": 6, "RUNNING": 3}


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_claim_reports_the_rows_found_per_partition_and_the_time_read_up_to(process: WorkerProcess, count: int) -> None:
    """A drained partition is read up to now; any other partition is read up to the last claimed row."""
    partitions = [Partition(0, name, "", 128) for name in ENDPOINTS[:count]]
    for partition in partitions:
        add_to(process.database, partition, 2, due_in=-60)
    full = take(process.database, process.worker_id, 2, partitions=tuple(partitions))
    assert {partition: found.rows for partition, found in full.found.items()} == dict.fromkeys(partitions, 2)
    for claim in full.claims:
        run_at = claim.claimed_at + timedelta(seconds=claim.due_in_seconds)
        assert full.found[Partition(0, claim.endpoint, "", 128)].seen == run_at
    for left in (1, 0):
        if left:
            add_to(process.database, partitions[0], due_in=-60)
        drained = take(process.database, process.worker_id, 2, partitions=tuple(partitions))
        assert drained.found == dict.fromkeys(partitions, (0, drained.now)) | {partitions[0]: (left, drained.now)}


def test_poll_finds_each_partition_with_due_rows_and_their_instants(database: Database) -> None:
    low, far = Partition(0, "target", "=a\t,b", 3), Partition(2, "other", "", 128)
    for partition, due_in in ((TARGET, -60.0), (TARGET, -5.0), (low, -1.0), (far, 20.0), (far, 40.0)):
        add_to(database, partition, due_in=due_in)
    answer = polled(database, 3)
    instants = sorted((due.partition, round((due.run_at - answer.now).total_seconds())) for due in answer.due)
    assert instants == [(TARGET, -60), (low, -1), (far, 20), (far, 40)]
    assert not answer.is_full
    assert answer.known_until == answer.now + timedelta(seconds=60)
    recent = polled(database, 3, since=answer.now - timedelta(seconds=3), horizon_ms=0)
    assert [due.partition for due in recent.due] == [low]


@pytest.mark.parametrize("shards", [1, PROBED + 2])
def test_rows_due_at_nearly_the_same_instant_are_merged_into_the_last(database: Database, shards: int) -> None:
    """A claim that starts more than STEP_MS before the reported instant is early enough for all merged rows."""
    partition = Partition(shards - 1, "target", "", 128)
    for due_in in (30.0, 30.001, 30.003):
        add_to(database, partition, due_in=due_in)
    answer = polled(database, shards)
    bounds = database.fetch(text("SELECT min(run_at) AS first, max(run_at) AS last FROM executions"))[0]
    assert max(answer.due, key=lambda due: due.run_at) == (partition, bounds.last)
    step = timedelta(milliseconds=polls.STEP_MS)
    assert min(due.run_at for due in answer.due) <= bounds.first + step


def test_full_poll_returns_the_latest_due_rows_and_is_marked_full(database: Database) -> None:
    """A full poll prefers new rows to the start of a backlog, and may miss partitions between them."""
    fresh = Partition(0, "other", "", 128)
    add_to(database, TARGET, 9, due_in=-60)
    add_to(database, fresh, polls.MAX_ROWS, due_in=-0.2)
    add_to(database, TARGET, polls.MAX_ROWS + 1, due_in=30)
    answer = polled(database)
    assert {due.partition for due in answer.due if due.run_at <= answer.now} == {fresh}
    assert answer.is_full
    assert timedelta(seconds=29) < answer.known_until - answer.now <= timedelta(seconds=30)
    assert not polled(database, since=answer.now - SLACK + timedelta(seconds=2)).is_full, (
        "the poll is full although all other rows are before its start"
    )
    late = polls.poll(database, queue="http", since=[answer.now], horizon_ms=0, late_since=EPOCH)
    assert (late.is_full, late.is_cut) == (False, True), "older rows than those read are before the watermark"


def test_poll_accepts_its_rows_in_any_order(database: Database) -> None:
    """UNION ALL guarantees no order."""
    add_to(database, TARGET, 3, due_in=-60)
    add_to(database, Partition(0, "other", "", 128), due_in=20)
    expected = polled(database)
    assert len(expected.due) == 2
    backwards: Any = SimpleNamespace(fetch=lambda *query: database.fetch(*query)[::-1])
    answer = polled(backwards)
    assert sorted(answer.due) == sorted(expected.due)


def test_full_scan_finds_every_partition_once(database: Database) -> None:
    """Partitions may have any names. Each step reads sixteen partitions, also in the first full scan."""
    keys = ["", "=", "=Z", "=a", "=ä", "=\x01", "=~~~", "=" + "z" * 101]
    partitions = [Partition(0, name, key, 128) for name in ENDPOINTS[:10] for key in keys]
    partitions += [Partition(3, "z" * 128, "=zz", priority) for priority in (0, 1, 255)]
    for partition in partitions:
        add_to(database, partition)
    first, found, _ = scanned(database, 4)
    assert sorted(found) == sorted(partitions)
    second, found, _ = scanned(database, 4, first)
    assert sorted(found) == sorted(partitions)
    add_to(database, Partition(0, "e00", "=b", 128))
    assert len(scanned(database, 4, second)[1]) == len(partitions) + 1
    one_shard, found, steps = scanned(database)
    assert steps <= len(found) // 16 + 2
    assert scanned(database, 1, one_shard)[2] <= len(found) // 16 + 2


def test_full_scan_of_many_partitions_keeps_few_to_divide_the_next_scan(database: Database) -> None:
    rows.add_executions(database, 400)
    database.fetch(text("UPDATE executions SET limit_key = '=' || execution_id"))
    first, found, steps = scanned(database, max_kept=64)
    assert (len(set(found)), len(found), steps) == (400, 400, 400 // 16 + 1)
    assert len(first.partitions(0)) <= 64
    second, found, steps = scanned(database, 1, first, max_kept=64)
    assert (len(set(found)), len(found)) == (400, 400)
    assert steps <= 400 // 16 * 2
    assert len(second.partitions(0)) <= 64 * 16


def test_full_scan_ends_while_partitions_appear_and_disappear(process: WorkerProcess) -> None:
    for name in ENDPOINTS:
        add_to(process.database, Partition(0, name, "", 128))
    scan, _, _ = scanned(process.database)
    scan, found = FullScan(1, scan), set[str]()
    while not scan.is_over:
        batch, _ = scan.step(process.database, "http")
        found |= {due.partition.endpoint for due in batch}
        gone = tuple(Partition(0, name, "", 128) for name in ENDPOINTS[len(found) : len(found) + 3])
        if gone:
            take(process.database, process.worker_id, partitions=gone)
            add_to(process.database, Partition(0, f"{gone[0].endpoint}-more", "", 128))
    assert len(found) >= len(ENDPOINTS) // 2


def test_executions_that_cannot_be_claimed_are_in_no_partition(process: WorkerProcess) -> None:
    for status in ("PENDING", "RUNNING", "SUCCESS"):
        rows.set_status(
            process.database, rows.job_of(process.database, add_to(process.database, TARGET)[0]).job_id, status
        )
    assert (polled(process.database).due, scanned(process.database)[1]) == ([], [])
    assert take(process.database, process.worker_id).claims == []


def test_claim_takes_nothing_from_placeholder_partitions(process: WorkerProcess) -> None:
    """A claim of few partitions fills the other arms of its statement with placeholders."""
    for key in ("", "=a"):
        add_to(process.database, Partition(0, "", key, 0))
    add_to(process.database, TARGET, 2)
    wanted = [TARGET, Partition(0, "nothing-here", "", 128)]
    assert len(take(process.database, process.worker_id, 1, partitions=tuple(wanted)).claims) == 1
