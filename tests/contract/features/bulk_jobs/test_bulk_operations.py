"""Bulk operations: cancel, retry, reschedule or archive exactly the rows of a filter, each once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.bulk_jobs import store as bulk_jobs_store
from app.features.bulk_jobs.operation_job import OperationJob, selection_of
from app.features.bulk_jobs.store import BULK_OPERATIONS, OF_SCHEDULES, BulkFilter, BulkOperation, Parameters
from app.features.dead_letters import letter_list
from app.kernel.db import Database
from app.queue.bulk.bulk_job_kind import AT_ONCE, preview
from app.queue.bulk.bulk_job_runner import BulkCounts, BulkJobRunner
from app.queue.executions import manual_retry
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.jobs.job_creation import Creator
from schema.states import BulkAction, BulkJobStatus, ExecutionStatus
from tests import rows
from tests.contract.ending.following import dead_letters
from tests.contract.races.racing import WAYS, schedulers
from tests.racing import at_once

LOOK_AHEAD_MS = 60_000
HOUR = timedelta(hours=1)
TARGET_ONLY = BulkFilter(endpoint="target")


def kind(database: Database) -> OperationJob:
    return OperationJob(Creator(database, shards=1, look_ahead_ms=LOOK_AHEAD_MS))


def runner(
    database: Database,
    scheduler: str = "first",
    hint: Callable[[str], object] = lambda _queue: None,
    at_once: int = AT_ONCE,
) -> BulkJobRunner:
    return BulkJobRunner(
        database=database,
        kind=kind(database),
        scheduler_id=scheduler,
        hint=hint,
        stopping=lambda: False,
        at_once=at_once,
    )


def begin(
    database: Database, action: BulkAction, wanted: BulkFilter = TARGET_ONLY, *, rate: int = 1_000, **given: Any
) -> BulkOperation:
    return bulk_jobs_store.begin(database, action, wanted, Parameters(**given), rate=rate, actor="me")


def run_operation(
    database: Database, action: BulkAction, wanted: BulkFilter = TARGET_ONLY, at_once: int = AT_ONCE, **given: Any
) -> BulkCounts:
    """Begin a bulk operation and run it to its end."""
    operation = begin(database, action, wanted, **given)
    counts = runner(database, at_once=at_once).run()
    assert BULK_OPERATIONS.get(database, operation.operation_id).status is BulkJobStatus.DONE
    return counts


def set_column(database: Database, table: str, key: str, column: str, value: str) -> None:
    owner = "job_id" if table == "jobs" else "execution_id"
    database.fetch(text(f"UPDATE {table} SET {column} = {value} WHERE {owner} = :key"), {"key": key})


def set_status(database: Database, execution_id: str, status: str) -> None:
    rows.set_status(database, rows.job_of(database, execution_id).job_id, status)


def changes(database: Database) -> dict[str, tuple[str, str, str, str]]:
    found = database.fetch(text("SELECT * FROM execution_events ORDER BY event_id"))
    seen = {row.execution_id: (row.from_status, row.to_status, row.reason, row.actor) for row in found}
    assert len(seen) == len(found), "an execution was changed twice"
    return seen


def test_cancel_affects_executions_that_wait_at_its_creation_only(database: Database) -> None:
    rows.add_endpoint(database, "other")
    waiting = rows.add_executions(database, 3) + rows.add_executions(database, status="PENDING", due_in=HOUR)
    (retrying,), (running,) = rows.add_executions(database, max_attempts=2), rows.add_executions(database)
    set_status(database, retrying, "RETRYING")
    set_status(database, running, "RUNNING")
    elsewhere = rows.add_executions(database, 2, endpoint="other")
    operation = begin(database, BulkAction.CANCEL)
    later = rows.add_executions(database, 2)
    assert runner(database).run() == (5, 0)
    assert {rows.execution(database, each).status for each in (*waiting, retrying)} == {"CANCELLED"}
    assert {rows.job_of(database, each).status for each in waiting} == {"RETIRED"}
    assert {rows.execution(database, each).status for each in (*elsewhere, *later)} == {"QUEUED"}
    assert rows.execution(database, running).cancel_requested_at is None
    assert set(changes(database)) == {*waiting, retrying}
    assert changes(database)[waiting[0]] == ("QUEUED", "CANCELLED", "CANCELLED", "me")
    ended = BULK_OPERATIONS.get(database, operation.operation_id)
    assert (ended.status, ended.changed, ended.refused) == (BulkJobStatus.DONE, 5, 0)


def test_cancel_with_abort_requests_the_abort_of_running_executions(database: Database) -> None:
    (running,) = rows.add_executions(database)
    set_status(database, running, "RUNNING")
    assert run_operation(database, BulkAction.CANCEL, if_running=IfRunning.ABORT) == (1, 0)
    found = rows.execution(database, running)
    assert (found.status, found.abort_requested_at is None) == ("RUNNING", False)


def test_execution_with_an_earlier_cancellation_is_refused(database: Database) -> None:
    cancelled, requested, running, waiting = rows.add_executions(database, 4)
    for each in (requested, running):
        set_status(database, each, "RUNNING")
    for each in (cancelled, requested):
        cancel_execution(database, each, if_running=IfRunning.REQUEST, actor="you")
    operation = begin(database, BulkAction.CANCEL, if_running=IfRunning.REQUEST)
    refused = kind(database).process(operation, [cancelled, requested, running, waiting]).refused
    reasons = {each: error.message.partition("already ")[2] for each, error in refused.items()}
    assert reasons == {cancelled: "CANCELLED.", requested: "asked to end."}
    abort = begin(database, BulkAction.CANCEL, if_running=IfRunning.ABORT)
    assert requested not in kind(database).process(abort, [requested]).refused


def test_retry_affects_executions_that_had_failed_at_its_creation_only(database: Database) -> None:
    failed, (succeeded,) = rows.add_letters(database, 4), rows.add_executions(database)
    set_status(database, succeeded, "SUCCESS")
    (fails_later,) = rows.add_executions(database)
    paused = rows.job_of(database, failed[1]).job_id
    database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE job_id = :id"), {"id": paused})
    operation = begin(database, BulkAction.RETRY)
    set_status(database, fails_later, "FAILED")
    assert runner(database).run() == (3, 1)
    assert rows.statuses(database) == {"FAILED": 2, "QUEUED": 3, "SUCCESS": 1}
    resolved = database.fetch(text("SELECT execution_id FROM dead_letters WHERE resolution = 'RETRIED'"))
    assert {row.execution_id for row in resolved} == {*failed} - {failed[1]} == set(changes(database))
    ended = BULK_OPERATIONS.get(database, operation.operation_id)
    assert (ended.changed, ended.refused) == (3, 1)
    assert paused in (ended.last_refusal or "")
    queued = database.fetch(text("SELECT execution_id FROM executions WHERE status = 'QUEUED' ORDER BY run_at"))
    assert [row.execution_id for row in queued] == [each for each in failed if each != failed[1]]


def test_retry_refuses_archived_and_redriven_letters(database: Database) -> None:
    archived, redriven, retried, again = rows.add_letters(database, 4)
    for execution_id, column in (
        (archived, "resolution = 'ARCHIVED'"),
        (redriven, "resolution = 'REDRIVEN', redriven_as = 'exec_new'"),
    ):
        key = {"id": execution_id}
        database.fetch(text(f"UPDATE dead_letters SET {column}, resolved_at = now() WHERE execution_id = :id"), key)
    manual_retry.retry_execution(database, again, actor=None)
    rows.add_letter(
        database,
        again,
        resolution="REDRIVEN",
        redriven_as=again,
        failed_at=rows.database_now(database),
        resolved_at=rows.database_now(database),
    )
    operation = begin(database, BulkAction.RETRY)
    assert runner(database).run() == (2, 2)
    assert {rows.execution(database, each).status for each in (archived, redriven)} == {"FAILED"}
    assert {rows.execution(database, each).status for each in (retried, again)} == {"QUEUED"}
    refusal = BULK_OPERATIONS.get(database, operation.operation_id).last_refusal or ""
    assert refusal.endswith("look at its execution 'exec_new' instead.")


def test_reschedule_moves_waiting_executions_to_an_instant(database: Database) -> None:
    (soon,), (late,) = rows.add_executions(database), rows.add_executions(database, status="PENDING", due_in=HOUR)
    (retrying,), (held,) = (
        rows.add_executions(database, max_attempts=2),
        rows.add_executions(database, status="PENDING"),
    )
    set_status(database, retrying, "RETRYING")
    set_column(database, "executions", held, "on_hold", "true")
    tomorrow = rows.database_now(database) + timedelta(days=1)
    assert run_operation(database, BulkAction.RESCHEDULE, run_at=tomorrow) == (4, 0)
    found = [rows.execution(database, each) for each in (soon, late, retrying, held)]
    assert [row.status for row in found] == ["PENDING", "PENDING", "RETRYING", "PENDING"]
    assert {row.run_at for row in found} == {tomorrow}
    assert (found[0].scheduled_at, found[2].scheduled_at < tomorrow, found[3].on_hold) == (tomorrow, True, True)
    assert changes(database)[soon] == ("QUEUED", "PENDING", "RESCHEDULED", "me")
    database.fetch(text("DELETE FROM execution_events"))
    before = rows.database_now(database)
    assert run_operation(database, BulkAction.RESCHEDULE, delay_seconds=-10 * 86_400) == (4, 0), (
        "an instant in the past becomes now"
    )
    found = [rows.execution(database, each) for each in (soon, late, retrying, held)]
    assert [row.status for row in found] == ["QUEUED", "QUEUED", "RETRYING", "PENDING"]
    assert all(before < row.run_at < before + HOUR for row in found)


def test_spread_gives_each_execution_its_own_instant(database: Database) -> None:
    mine = rows.add_executions(database, 40)
    assert run_operation(database, BulkAction.RESCHEDULE, spread_seconds=3_600) == (40, 0)
    instants = sorted(rows.execution(database, each).run_at for each in mine)
    assert len(set(instants)) == 40
    assert timedelta(minutes=40) < instants[-1] - instants[0] < HOUR


def test_delay_is_added_once_to_each_execution_if_the_scheduler_dies(database: Database) -> None:
    mine = rows.add_executions(database, 10, status="PENDING", due_in=HOUR)
    before = {each: rows.execution(database, each).run_at for each in mine}
    operation = begin(database, BulkAction.RESCHEDULE, delay_seconds=-3_590)

    def die(_queue: str) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        runner(database, hint=die, at_once=4).run()
    assert BULK_OPERATIONS.get(database, operation.operation_id).changed == 4
    database.fetch(text("UPDATE bulk_operations SET held_until = now() - INTERVAL '1 second'"))
    assert runner(database, "other").run() == (6, 0)
    moved = {each: before[each] - rows.execution(database, each).run_at for each in mine}
    assert set(moved.values()) == {timedelta(seconds=3_590)}
    assert len(changes(database)) == 10


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
@pytest.mark.parametrize("action", [action for action in BulkAction if action not in OF_SCHEDULES])
def test_several_schedulers_process_each_row_once(
    database: Database, database_url: str, way: str, action: BulkAction
) -> None:
    has_failed = action in {BulkAction.RETRY, BulkAction.ARCHIVE}
    mine = rows.add_letters(database, 30) if has_failed else rows.add_executions(database, 30, due_in=HOUR)
    given = {BulkAction.RESCHEDULE: {"delay_seconds": 60}, BulkAction.ARCHIVE: {"note": "gone"}}.get(action, {})
    operation = begin(database, action, rate=20, **given)
    with schedulers(database_url, way, 3) as databases:
        counts = at_once(*(runner(each, str(number)).run for number, each in enumerate(databases)))
        assert sorted(counts) == [(0, 0), (0, 0), (20, 0)]
        for number, each in enumerate(databases):
            runner(each, str(number)).run()
    assert BULK_OPERATIONS.get(database, operation.operation_id).changed == 30
    if action is BulkAction.ARCHIVE:
        assert set(dead_letters(database).values()) == {"ARCHIVED"}
    else:
        assert set(changes(database)) == {*mine}


def test_archive_resolves_the_open_letters_of_its_filter_with_one_note(database: Database) -> None:
    rows.add_endpoint(database, "other")
    wanted = BulkFilter(error_type="TIMEOUT", labels={"team": "a"})
    matching: dict[str, Any] = {"error_type": "TIMEOUT", "labels": {"team": "a"}}
    mine = [rows.add_letter(database, **matching) for _ in range(5)]
    for given in ({"labels": {"team": "b"}}, {"error_type": "HTTP_ERROR"}):
        rows.add_letter(database, **matching | given)
    operation = begin(database, BulkAction.ARCHIVE, wanted, note="The customer was deleted.")
    rows.add_letter(database, **matching)
    first = kind(database).process(operation, [letter_list.get_letter(database, mine[0])])
    assert not first.refused
    again = kind(database).process(operation, [letter_list.get_letter(database, mine[0])])
    assert [*again.refused] == [mine[0]]
    assert runner(database, at_once=2).run() == (4, 0)
    ended = BULK_OPERATIONS.get(database, operation.operation_id)
    assert (ended.status, ended.changed, ended.refused) == (BulkJobStatus.DONE, 4, 0)
    found = database.fetch(text("SELECT * FROM dead_letters WHERE resolved_at IS NOT NULL ORDER BY failed_at"))
    assert [row.letter_id for row in found] == mine
    resolutions = {(row.resolution, row.resolved_by, row.note, row.redriven_as) for row in found}
    assert resolutions == {("ARCHIVED", "me", "The customer was deleted.", None)}
    assert rows.statuses(database) == {"FAILED": 8}


def test_chosen_executions_and_letters_alone_are_changed(database: Database) -> None:
    first, between, last = rows.add_executions(database, 3)
    assert run_operation(database, BulkAction.CANCEL, BulkFilter(execution_ids=(last, first)), at_once=1) == (2, 0)
    assert [rows.execution(database, each).status for each in (first, between, last)] == [
        "CANCELLED",
        "QUEUED",
        "CANCELLED",
    ]
    letters = [rows.add_letter(database) for _ in range(3)]
    chosen = BulkFilter(letter_ids=tuple(letters[1:]))
    assert run_operation(database, BulkAction.ARCHIVE, chosen, at_once=1, note="known") == (2, 0)
    assert [letter_list.get_letter(database, each).resolution for each in letters] == [None, "ARCHIVED", "ARCHIVED"]


def test_each_filter_matches_its_own_executions_only(database: Database) -> None:
    mine, other = rows.add_executions(database, 2, due_in=HOUR)
    job_id = rows.job_of(database, mine).job_id
    rows.add_executions(database, 1, endpoint=rows.add_endpoint(database, "elsewhere"))
    now = rows.database_now(database)
    set_column(database, "jobs", job_id, "labels", """'{"team": "a", "env": "x"}'""")
    set_column(database, "jobs", job_id, "name", "'report'")
    set_column(database, "jobs", job_id, "idempotency_key", "'order%1'")
    set_column(database, "executions", mine, "queue", "'bulk'")
    set_column(database, "executions", mine, "limit_key", "'=acme'")
    set_column(database, "executions", mine, "scheduled_at", "now() + INTERVAL '1 day'")
    set_column(database, "executions", other, "status", "'PENDING'")
    set_column(database, "executions", mine, "created_at", "now() - INTERVAL '1 day'")
    for wanted in (
        BulkFilter(labels={"team": "a"}),
        BulkFilter(name="report"),
        BulkFilter(idempotency_key_prefix="order%"),
        BulkFilter(queue="bulk"),
        BulkFilter(limit_key="acme"),
        BulkFilter(job_id=job_id),
        BulkFilter(scheduled_after=now + 2 * HOUR),
        BulkFilter(created_before=now - HOUR),
        BulkFilter(endpoint="target", statuses=(ExecutionStatus.QUEUED,)),
    ):
        assert found(database, wanted) == [mine], wanted
    assert found(database, BulkFilter(endpoint="target")) == [mine, other], "oldest first"
    assert found(database, BulkFilter(endpoint="target", created_after=now - HOUR)) == [other]
    assert found(database, BulkFilter(endpoint="target", scheduled_before=now + 2 * HOUR)) == [other]
    for wanted in (
        BulkFilter(idempotency_key_prefix="orderx"),
        BulkFilter(labels={"team": "b"}),
        BulkFilter(endpoint="nobody"),
    ):
        assert found(database, wanted) == []


def found(database: Database, wanted: BulkFilter) -> list[str]:
    chosen = selection_of(BulkAction.CANCEL, wanted, Parameters(), rows.database_now(database))
    return list(preview(database, kind(database), chosen).sample)


def test_preview_reads_a_bounded_number_of_rows(database: Database) -> None:
    rows.add_executions(database, 12)
    chosen = selection_of(BulkAction.CANCEL, TARGET_ONLY, Parameters(), rows.database_now(database))
    seen = preview(database, kind(database), chosen, at_once=5, most=10)
    assert (seen.count, len(seen.sample), seen.is_complete) == (10, 10, False)
    rows.add_executions(database, 3)
    chosen = selection_of(BulkAction.CANCEL, TARGET_ONLY, Parameters(), rows.database_now(database))
    assert preview(database, kind(database), chosen, at_once=5, most=15).is_complete, (
        "the bound equals the number of rows"
    )


def test_preview_counts_the_rows_behind_its_sample_as_a_read_of_all_rows_does(database: Database) -> None:
    for number, each in enumerate(rows.add_executions(database, 40)):
        set_column(database, "executions", each, "queue", "'bulk'" if number % 2 else "'http'")
    for wanted, matching in ((TARGET_ONLY, 40), (BulkFilter(queue="bulk"), 20), (BulkFilter(job_id="job_none"), 0)):
        chosen = selection_of(BulkAction.CANCEL, wanted, Parameters(), rows.database_now(database))
        seen = preview(database, kind(database), chosen)
        assert (seen.count, seen.is_complete) == (matching, True), wanted
        for size in (11, 20):
            assert preview(database, kind(database), chosen, at_once=size) == seen, wanted
        assert preview(database, kind(database), chosen, at_once=20, most=40) == seen, wanted
    chosen = selection_of(BulkAction.CANCEL, TARGET_ONLY, Parameters(), rows.database_now(database))
    bounded = preview(database, kind(database), chosen, at_once=11, most=39)
    assert (bounded.count, bounded.is_complete) == (39, False)


def test_rows_without_a_match_are_skipped(database: Database) -> None:
    """Some pages have no match at all."""
    (first,) = rows.add_executions(database)
    rows.add_executions(database, 10)
    (last,) = rows.add_executions(database)
    for each in (first, last):
        set_column(database, "executions", each, "queue", "'bulk'")
    assert run_operation(database, BulkAction.CANCEL, BulkFilter(queue="bulk"), at_once=3) == (2, 0)
    assert set(changes(database)) == {first, last}
