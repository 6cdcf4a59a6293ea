"""Bulk jobs, tested with redrives: each row is processed once if schedulers die, stall or run concurrently."""

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from app.features.dead_letters.letter_list import DeadLetter, LetterFilter
from app.features.dead_letters.redrives import REDRIVES, Redrive, RedriveJob
from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.errors import ConflictError, UnavailableError
from app.kernel.sql import REGISTRY
from app.queue.bulk.bulk_job_kind import FilteredRow
from app.queue.ending.letters import archive
from app.queue.executions.execution_model import OperationResult
from app.queue.jobs.job_creation import Creator
from schema.states import BulkJobStatus
from tests import rows
from tests.contract.features.dead_letters.redriving import EVENTS, add_letters, begin, creator, runner
from tests.contract.races.racing import WAYS, schedulers
from tests.racing import at_once


def test_bulk_job_of_a_dead_scheduler_continues_behind_its_last_row(database: Database) -> None:
    execution_ids = add_letters(database, 12)
    redrive = begin(database, rate=100)

    def die(_queue: str) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        runner(database, hint=die, at_once=5).run()
    other = runner(database, "other", at_once=5)
    assert other.run() == (0, 0), "the dead scheduler's hold has not expired yet"
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 5
    database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
    assert other.run() == (7, 0)
    assert [row.execution_id for row in database.fetch(EVENTS)] == execution_ids
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 12


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_several_schedulers_process_each_row_once(database: Database, database_url: str, way: str) -> None:
    execution_ids = add_letters(database, 30)
    rows.add_endpoint(database, "other")
    redrive = begin(database, rate=20, to="other")
    with schedulers(database_url, way, 3) as databases:
        done = at_once(*(runner(each, str(number)).run for number, each in enumerate(databases)))
        assert sorted(done) == [(0, 0), (0, 0), (20, 0)]
        for number, each in enumerate(databases):
            runner(each, str(number)).run()
    assert REDRIVES.get(database, redrive.redrive_id).redriven == 30
    new = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE endpoint = 'other'"))
    assert new[0].n == len(execution_ids)


def test_redrive_is_paused_resumed_and_stopped(database: Database) -> None:
    add_letters(database, 10)
    redrive_id = begin(database).redrive_id
    first = runner(database)
    assert first.run() == (4, 0)
    assert REDRIVES.change(database, redrive_id, BulkJobStatus.PAUSED).status is BulkJobStatus.PAUSED
    assert first.run() == (0, 0)
    REDRIVES.change(database, redrive_id, BulkJobStatus.RUNNING)
    assert runner(database, "other").run() == (4, 0)
    for _ in range(2):
        stopped = REDRIVES.change(database, redrive_id, BulkJobStatus.STOPPED)
        assert (stopped.status, stopped.redriven, stopped.ended_at is None) == (BulkJobStatus.STOPPED, 8, False)
    assert first.run() == (0, 0)
    with pytest.raises(ConflictError):
        REDRIVES.change(database, redrive_id, BulkJobStatus.RUNNING)


def test_redrives_beyond_the_maximum_per_round_take_turns_and_report_that_they_wait(database: Database) -> None:
    filters = [LetterFilter(error_type="TIMEOUT"), LetterFilter(error_type="HTTP_ERROR")]
    for wanted in filters:
        add_letters(database, 3, error_type=wanted.error_type)
    redrive_ids = [begin(database, wanted, rate=1).redrive_id for wanted in filters]

    def progress() -> list[tuple[int, bool]]:
        found = [REDRIVES.get(database, each) for each in redrive_ids]
        return sorted((each.redriven, each.waits_for_turn) for each in found)

    assert progress() == [(0, True), (0, True)]
    assert runner(database, max_running=1).run() == (1, 0)
    assert progress() == [(0, True), (1, False)]
    for _ in range(3):
        runner(database, max_running=1).run()
    assert progress() == [(2, False), (2, False)]
    for status in (BulkJobStatus.PAUSED, BulkJobStatus.RUNNING):
        assert REDRIVES.change(database, redrive_ids[0], status).waits_for_turn is (status is BulkJobStatus.RUNNING)


def test_redrive_paused_during_a_run_leaves_the_remaining_letters_open(database: Database) -> None:
    add_letters(database, 10)
    redrive_id = begin(database, rate=100).redrive_id

    def pause(_queue: str) -> None:
        REDRIVES.change(database, redrive_id, BulkJobStatus.PAUSED)

    assert runner(database, hint=pause, at_once=3).run() == (3, 0)
    assert rows.statuses(database) == {"FAILED": 7, "QUEUED": 3}


def test_locked_execution_is_refused_and_delays_no_other(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    locked = add_letters(database, 5)[2]
    redrive_id = begin(database, rate=100).redrive_id
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": locked})
        assert runner(database).run() == (4, 1)
    redrive = REDRIVES.get(database, redrive_id)
    assert redrive.status is BulkJobStatus.DONE
    assert "Another transaction holds a lock on the row" in (redrive.last_refusal or "")
    (letter,) = database.fetch(text("SELECT letter_id FROM dead_letters WHERE execution_id = :id"), {"id": locked})
    assert f"cannot process {letter.letter_id}" in caplog.text
    begin(database)
    assert runner(database).run() == (1, 0)


def test_locked_bulk_job_stops_no_other(database: Database) -> None:
    add_letters(database, 1, error_type="TIMEOUT")
    add_letters(database, 2, error_type="HTTP_ERROR")
    locked = begin(database, LetterFilter(error_type="TIMEOUT")).redrive_id
    free = begin(database, LetterFilter(error_type="HTTP_ERROR")).redrive_id
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM redrives WHERE redrive_id = :id FOR UPDATE"), {"id": locked})
        with pytest.raises(UnavailableError):
            runner(database).run()
    assert REDRIVES.get(database, free).status is BulkJobStatus.DONE
    assert runner(database).run() == (1, 0)


class FailingRedriveJob(RedriveJob):
    """Redrives that fail at the letters of some executions."""

    def __init__(self, creator: Creator, failing: Collection[str]) -> None:
        super().__init__(creator)
        self._failing = failing

    def process(self, bulk_job: Redrive, items: Sequence[DeadLetter]) -> OperationResult:
        """Redrive letters."""
        if any(item.execution_id in self._failing for item in items):
            raise OSError("the disk is full")
        return super().process(bulk_job, items)


def test_error_that_no_letter_caused_refuses_no_letter_and_keeps_finished_batches(database: Database) -> None:
    execution_ids = add_letters(database, 6)
    redrive = begin(database, rate=100)
    counts = Counter[str]()
    with pytest.raises(OSError, match="full"):
        runner(database, kind=FailingRedriveJob(creator(database), execution_ids[4:]), at_once=2).run(counts)
    assert counts == {"processed": 4, "refused": 0}
    found = REDRIVES.get(database, redrive.redrive_id)
    assert (found.status, found.redriven, found.refused) == (BulkJobStatus.RUNNING, 4, 0)
    assert runner(database).run() == (2, 0)


def test_redrive_stops_at_a_letter_that_crashes_the_code_and_logs_its_id(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A manual edit of the row and a bug in the code cause the same error, so the letter is not refused."""
    execution_ids = add_letters(database, 6)
    its_job = "(SELECT job_id FROM executions WHERE execution_id = :id)"
    edit = text(f"UPDATE jobs SET callbacks = '[1]' WHERE job_id = {its_job}")
    database.fetch(edit, {"id": execution_ids[3]})
    redrive = begin(database, rate=100, to=rows.add_endpoint(database, "other"))
    (odd,) = database.fetch(
        text("SELECT letter_id FROM dead_letters WHERE execution_id = :id"), {"id": execution_ids[3]}
    )
    for _ in range(2):
        with pytest.raises(AttributeError):
            runner(database).run()
    assert f"could not continue redrive {redrive.redrive_id}: AttributeError at {odd.letter_id}" in caplog.text
    found = REDRIVES.get(database, redrive.redrive_id)
    assert (found.status, found.redriven, found.refused) == (BulkJobStatus.RUNNING, 3, 0)
    archive(database, odd.letter_id, note="it is odd", actor="me")
    assert runner(database).run() == (2, 0)


class Stalled(RedriveJob):
    """Redrives that stall once: after they have read a page, or in the transaction before they write."""

    def __init__(self, creator: Creator, where: str) -> None:
        super().__init__(creator)
        self.where = where
        self.is_stalled, self.may_go = threading.Event(), threading.Event()

    def next(
        self, database: Database, wanted: LetterFilter, after: Position, limit: int
    ) -> list[FilteredRow[DeadLetter]]:
        """Read the next letters."""
        found = super().next(database, wanted, after, limit)
        self._stop_at("read")
        return found

    def process(self, bulk_job: Redrive, items: Sequence[DeadLetter]) -> OperationResult:
        """Redrive letters."""
        self._stop_at("write")
        return super().process(bulk_job, items)

    def _stop_at(self, where: str) -> None:
        if where == self.where and not self.is_stalled.is_set():
            self.is_stalled.set()
            assert self.may_go.wait(60)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rate", [4, 100])
def test_scheduler_stalled_past_its_hold_changes_nothing(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str, rate: int
) -> None:
    """The other scheduler has finished (rate 100) or not (rate 4); without locks, both transactions run at once."""
    execution_ids = add_letters(database, 10)
    where = "write" if "without" in way else "read"
    if where == "write":
        unlocked = text(REGISTRY["redrives.lock"].text.replace("FOR UPDATE", ""))
        monkeypatch.setattr(REDRIVES, "statements", REDRIVES.statements._replace(lock=unlocked))
    redrive = begin(database, rate=rate, to=rows.add_endpoint(database, "other"))
    with schedulers(database_url, way) as (slow, quick), ThreadPoolExecutor(1) as thread:
        stalled = Stalled(creator(slow), where)
        counts = thread.submit(runner(slow, "slow", kind=stalled).run)
        try:
            assert stalled.is_stalled.wait(60)
            database.fetch(text("UPDATE redrives SET held_until = now() - INTERVAL '1 second'"))
            assert runner(quick, "quick").run() == (min(rate, 10), 0)
        finally:
            stalled.may_go.set()
        assert counts.result(60) == (0, 0)
        for _ in range(3):
            runner(quick, "quick").run()
    done = REDRIVES.get(database, redrive.redrive_id)
    assert (done.status, done.redriven, done.refused) == (BulkJobStatus.DONE, len(execution_ids), 0)
    new = database.fetch(text("SELECT count(*) AS n FROM jobs WHERE endpoint = 'other'"))
    assert new[0].n == len(execution_ids)


def test_slow_readers_take_no_bulk_job_from_each_other(database: Database) -> None:
    """A scheduler whose hold expired during a read continues if no other scheduler has moved the cursor."""
    add_letters(database, 10)
    redrive = begin(database, rate=100)
    stalled = Stalled(creator(database), "read")
    with ThreadPoolExecutor(1) as thread:
        counts = thread.submit(runner(database, "slow", kind=stalled).run)
        try:
            assert stalled.is_stalled.wait(60)
            hold_by_another = "UPDATE redrives SET holder = 'another', held_until = now() + INTERVAL '5 seconds'"
            database.fetch(text(hold_by_another))
        finally:
            stalled.may_go.set()
        assert counts.result(60) == (10, 0)
    assert REDRIVES.get(database, redrive.redrive_id).status is BulkJobStatus.DONE
