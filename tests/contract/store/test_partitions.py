"""Known partitions: what a poll and a full scan find of them, and what a claim takes from several at once."""

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
    """FullScan to the end; returns the full scan, what it found and how many steps it took."""
    sweep, found, steps = FullScan(shards, last, **bounds), list[Partition](), 0
    while not sweep.is_over:
        due, _ = sweep.step(database, "http")
        found += [one.partition for one in due]
        steps += 1
    return sweep, found, steps


def test_a_claim_takes_the_oldest_of_each_partition_and_nothing_of_others(process: WorkerProcess) -> None:
    """Partitions differ in one part of their name each."""
    named = [TARGET, Partition(0, "target", "=a", 128), Partition(0, "target", "", 129), Partition(0, "other", "", 128)]
    late = {partition: add_to(process.database, partition, due_in=-60)[0] for partition in named}
    for partition in (*named, Partition(1, "target", "", 128)):
        add_to(process.database, partition)
    taken = take(process.database, process.worker_id, 1, partitions=tuple(named[:3]))
    got = {claim.execution_id: (claim.shard, claim.endpoint, claim.limit_key, claim.priority) for claim in taken.claims}
    assert got == {late[partition]: partition for partition in named[:3]}
    assert rows.statuses(process.database) == {"QUEUED": 6, "RUNNING": 3}


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_of_each_partition_it_is_told_how_much_was_found_and_how_far_that_reaches(
    process: WorkerProcess, count: int
) -> None:
    """Of a partition that had no more than was wanted, up to now; else no further than the last row."""
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


def test_a_poll_finds_each_partition_with_something_due_and_its_instants(database: Database) -> None:
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
def test_what_is_due_at_nearly_one_instant_is_found_as_its_last(database: Database, shards: int) -> None:
    """So whoever claims ahead of that, by more than such an instant is long, is early enough for all of it."""
    partition = Partition(shards - 1, "target", "", 128)
    for due_in in (30.0, 30.001, 30.003):
        add_to(database, partition, due_in=due_in)
    answer = polled(database, shards)
    all_of_it = database.fetch(text("SELECT min(run_at) AS first, max(run_at) AS last FROM executions"))[0]
    assert answer.due[-1] == (partition, all_of_it.last)
    step = timedelta(milliseconds=polls.STEP_MS)
    assert min(due.run_at for due in answer.due) <= all_of_it.first + step


def test_a_full_poll_has_the_latest_rows_and_says_so(database: Database) -> None:
    """The front of a backlog does not hide new rows; partitions between them and the last poll may be missed."""
    fresh = Partition(0, "other", "", 128)
    add_to(database, TARGET, 9, due_in=-60)
    add_to(database, fresh, polls.MAX_ROWS, due_in=-0.2)
    add_to(database, TARGET, polls.MAX_ROWS + 1, due_in=30)
    answer = polled(database)
    assert {due.partition for due in answer.due if due.run_at <= answer.now} == {fresh}
    assert answer.is_full
    assert timedelta(seconds=29) < answer.known_until - answer.now <= timedelta(seconds=30)
    assert not polled(database, since=answer.now - SLACK + timedelta(seconds=2)).is_full, "the last poll saw the others"


def test_a_poll_reads_its_rows_in_any_order(database: Database) -> None:
    """UNION ALL promises none, and a poll that mistakes a row for the clock's takes a count for a revision."""
    database.fetch(text("UPDATE catalog_revision SET revision = 41 WHERE id = 'flow'"))
    add_to(database, TARGET, 3, due_in=-60)
    add_to(database, Partition(0, "other", "", 128), due_in=20)
    expected = polled(database)
    assert (expected.flow_revision, len(expected.due)) == (41, 2)
    backwards: Any = SimpleNamespace(fetch=lambda *asked: database.fetch(*asked)[::-1])
    answer = polled(backwards)
    assert (answer.flow_revision, sorted(answer.due)) == (41, sorted(expected.due))


def test_a_full_scan_finds_every_partition_once(database: Database) -> None:
    """With any names, and however the last full scan divides them: sixteen in a step, at the first full scan too."""
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
    of_one, found, steps = scanned(database)
    assert steps <= len(found) // 16 + 2
    assert scanned(database, 1, of_one)[2] <= len(found) // 16 + 2


def test_of_very_many_partitions_a_full_scan_keeps_enough_to_divide_the_next_one(database: Database) -> None:
    rows.add_executions(database, 400)
    database.fetch(text("UPDATE executions SET limit_key = '=' || execution_id"))
    first, found, steps = scanned(database, max_kept=64)
    assert (len(set(found)), len(found), steps) == (400, 400, 400 // 16 + 1)
    assert len(first.partitions(0)) <= 64
    second, found, steps = scanned(database, 1, first, max_kept=64)
    assert (len(set(found)), len(found)) == (400, 400)
    assert steps <= 400 // 16 * 2
    assert len(second.partitions(0)) <= 64 * 16


def test_a_full_scan_that_runs_while_partitions_come_and_go_comes_to_its_end(process: WorkerProcess) -> None:
    for name in ENDPOINTS:
        add_to(process.database, Partition(0, name, "", 128))
    sweep, _, _ = scanned(process.database)
    sweep, found = FullScan(1, sweep), set[str]()
    while not sweep.is_over:
        due, _ = sweep.step(process.database, "http")
        found |= {one.partition.endpoint for one in due}
        gone = tuple(Partition(0, name, "", 128) for name in ENDPOINTS[len(found) : len(found) + 3])
        if gone:
            take(process.database, process.worker_id, partitions=gone)
            add_to(process.database, Partition(0, f"{gone[0].endpoint}-more", "", 128))
    assert len(found) >= len(ENDPOINTS) // 2


def test_what_cannot_be_claimed_is_in_no_partition(process: WorkerProcess) -> None:
    for status in ("PENDING", "RUNNING", "SUCCESS"):
        rows.set_status(
            process.database, rows.job_of(process.database, add_to(process.database, TARGET)[0]).job_id, status
        )
    assert (polled(process.database).due, scanned(process.database)[1]) == ([], [])
    assert take(process.database, process.worker_id).claims == []


def test_a_partition_from_which_nothing_is_wanted_gives_nothing(process: WorkerProcess) -> None:
    """The arms that a claim of few partitions has besides are such."""
    for key in ("", "=a"):
        add_to(process.database, Partition(0, "", key, 0))
    add_to(process.database, TARGET, 2)
    wanted = [TARGET, Partition(0, "nothing-here", "", 128)]
    assert len(take(process.database, process.worker_id, 1, partitions=tuple(wanted)).claims) == 1
