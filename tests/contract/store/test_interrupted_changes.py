"""Job changes interrupted between two batches of executions by the death of the process: a scheduler finishes them."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import TextClause, event, text

from app.kernel.db import Database
from app.queue.executions import execution_cancellation
from app.queue.executions import on_hold as holding
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.jobs.job_update import update_job
from tests.contract.blocks import blocks
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_interval_job, job
from tests.many_open import counts, put

COUNT = 1200
NOTES = text("SELECT change FROM unfinished_changes")
A_MINUTE_LATER = text("UPDATE unfinished_changes SET began_at = began_at - INTERVAL '61 seconds'")
Change = Callable[[Database, str], object]


def update(database: Database, job_id: str) -> object:
    return update_job(Creator(database, shards=1, look_ahead_ms=0), job_id, {"input": {}})


def resume(database: Database, job_id: str) -> object:
    return resume_job(database, job_id, 0)


def cancel_all(database: Database, job_id: str) -> object:
    return cancel_job(database, job_id, if_running=execution_cancellation.IfRunning.REQUEST)


CANCELLED_500, REST = ("CANCELLED", False, 500), ("QUEUED", False, 700)
# Change, statement of its batches, whether the job was paused, states after the interruption, final state.
CHANGES: list[tuple[Change, TextClause, bool, list[tuple[str, bool, int]], tuple[str, bool]]] = [
    (cancel_job, execution_cancellation.LOCK_OF_JOB, False, [CANCELLED_500, REST], ("CANCELLED", False)),
    (
        cancel_all,
        execution_cancellation.LOCK_OF_JOB,
        True,
        [CANCELLED_500, ("PENDING", True, 700)],
        ("CANCELLED", False),
    ),
    (update, execution_cancellation.LOCK_OF_JOB, False, [CANCELLED_500, REST], ("CANCELLED", False)),
    (pause_job, holding.HOLD, False, [("PENDING", True, 500), REST], ("PENDING", True)),
    (resume, holding.LET_GO, True, [("PENDING", True, 700), ("QUEUED", False, 500)], ("QUEUED", False)),
]


@pytest.fixture
def job_id(database: Database) -> str:
    return add_interval_job(database, timedelta(hours=1), missed=timedelta(minutes=-30))


def interrupt(database: Database, change: Change, job_id: str, statement: TextClause) -> None:
    """Make a change and interrupt it before its second batch."""
    batches = []

    def kill(_connection: object, _cursor: object, sql: str, *_more: object) -> None:
        if sql == str(statement.compile(database.engine)):
            batches.append(sql)
            if len(batches) == 2:
                raise KeyboardInterrupt

    event.listen(database.engine, "before_cursor_execute", kill)
    with pytest.raises(KeyboardInterrupt):
        change(database, job_id)
    event.remove(database.engine, "before_cursor_execute", kill)


@pytest.mark.parametrize(
    ("change", "statement", "held", "cut", "end"), CHANGES, ids=[change.__name__ for change, *_ in CHANGES]
)
def test_scheduler_finishes_an_interrupted_change(
    database: Database,
    job_id: str,
    change: Change,
    statement: TextClause,
    held: bool,
    cut: list[tuple[str, bool, int]],
    end: tuple[str, bool],
) -> None:
    put(database, job_id, held=held, count=COUNT)
    interrupt(database, change, job_id, statement)
    assert counts(database) == cut
    assert chores(database).finish()["finished"] == 0, (
        "the scheduler finished a change whose request can still be running"
    )
    database.fetch(A_MINUTE_LATER)
    assert chores(database).finish()["finished"] == 1
    assert counts(database) == [(*end, COUNT)]
    assert database.fetch(NOTES) == []


@pytest.mark.own_faults
@pytest.mark.parametrize(
    ("change", "statement", "held", "cut", "end"), CHANGES, ids=[change.__name__ for change, *_ in CHANGES]
)
def test_stopping_scheduler_interrupts_a_change_between_two_batches(
    database: Database,
    job_id: str,
    change: Change,
    statement: TextClause,
    held: bool,
    cut: list[tuple[str, bool, int]],
    end: tuple[str, bool],
) -> None:
    """The check for a stop before each batch is also the heartbeat of a chore with many batches."""
    put(database, job_id, held=held, count=COUNT)
    interrupt(database, change, job_id, statement)
    database.fetch(A_MINUTE_LATER)
    answers = iter([False, False])
    assert chores(database, stopping=lambda: next(answers, True)).finish()["finished"] == 0
    done = {(status, on_hold): number for status, on_hold, number in counts(database)}
    assert 500 < done[end] < COUNT
    assert len(database.fetch(NOTES)) == 1
    assert chores(database).finish()["finished"] == 1
    assert counts(database) == [(*end, COUNT)]


@pytest.mark.parametrize("change", [cancel_job, update, pause_job], ids=lambda change: change.__name__)
def test_finished_change_leaves_no_record_of_an_unfinished_change(
    database: Database, job_id: str, change: Change
) -> None:
    put(database, job_id, held=False, count=COUNT)
    change(database, job_id)
    assert database.fetch(NOTES) == []


def test_scheduler_finishes_the_latest_of_two_interrupted_changes(database: Database, job_id: str) -> None:
    put(database, job_id, held=False, count=COUNT)
    interrupt(database, pause_job, job_id, holding.HOLD)
    interrupt(database, cancel_all, job_id, execution_cancellation.LOCK_OF_JOB)
    assert [row.change for row in database.fetch(NOTES)] == ["CANCEL"]
    database.fetch(A_MINUTE_LATER)
    assert chores(database).finish()["finished"] == 1
    assert counts(database) == [("CANCELLED", False, COUNT)]


def test_resume_after_an_interrupted_pause_leaves_nothing_on_hold(database: Database, job_id: str) -> None:
    put(database, job_id, held=False, count=COUNT)
    interrupt(database, pause_job, job_id, holding.HOLD)
    database.fetch(
        text("UPDATE executions SET status = 'SUCCESS', completed_at = now(), on_hold = false WHERE on_hold")
    )
    resume(database, job_id)
    database.fetch(A_MINUTE_LATER)
    chores(database).finish()
    assert counts(database) == [("QUEUED", False, 700), ("SUCCESS", False, 500)]
    assert (job(database, job_id).status, database.fetch(NOTES)) == ("ACTIVE", [])


@pytest.mark.parametrize(
    ("statement", "held"), [(holding.HOLD, False), (holding.LET_GO, True)], ids=["hold", "release"]
)
def test_batch_reads_no_rows_of_earlier_batches(
    database: Database, job_id: str, statement: TextClause, held: bool
) -> None:
    if database.is_cockroach:
        pytest.skip("counts blocks, which only PostgreSQL reports")
    put(database, job_id, held=held, count=10_000)
    done = "UPDATE executions SET status = 'PENDING', on_hold = NOT on_hold WHERE execution_id <= :last"
    ids = [
        row.execution_id for row in database.fetch(text("SELECT execution_id FROM executions ORDER BY execution_id"))
    ]
    database.fetch(text(done), {"last": ids[-11]})
    database.fetch(text("ANALYZE executions"))
    params = {"job_id": job_id, "limit": 500, "ahead_ms": 0, "begun_only": False}
    first, again = (blocks(database, statement, params | {"after": after}) for after in (ids[-11], ""))
    assert first * 2 < again


def test_retries_of_paused_jobs_are_found_by_few_blocks_among_many_on_hold(database: Database, job_id: str) -> None:
    if database.is_cockroach:
        pytest.skip("counts blocks, which only PostgreSQL reports")
    put(database, job_id, held=True, count=10_000)
    assert blocks(database, holding.RETRIES, {}) < 20


def test_repeated_request_finishes_an_interrupted_cancellation(database: Database, job_id: str) -> None:
    """A request that exceeds its deadline also leaves its committed batches."""
    put(database, job_id, held=False, count=COUNT)
    interrupt(database, cancel_job, job_id, execution_cancellation.LOCK_OF_JOB)
    assert job(database, job_id).status == "RETIRED"
    assert counts(database) == [CANCELLED_500, REST]
    cancel_job(database, job_id)
    assert counts(database) == [("CANCELLED", False, COUNT)]
