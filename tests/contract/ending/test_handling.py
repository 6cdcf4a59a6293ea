"""The outbox: each handler handles each completion event once, with concurrent processes, crashes and failures."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import event, text

from app.catalog.retry_policy import RetryPolicy
from app.feature import completion_handlers
from app.features import FEATURES
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease
from app.queue.ending import outbox_rows
from app.queue.ending.outbox_processor import OutboxProcessor, OutboxResult
from app.queue.ending.subscriptions import is_followed, may_be_followed
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide
from app.scheduler.chore import ChoreContext
from app.scheduler.outbox_chore import Outbox
from brokers.worker_process import WorkerProcess
from schema.states import ExecutionStatus, Followed
from tests import rows
from tests.contract.broker.finalizing import locked
from tests.contract.ending import following
from tests.contract.ending.following import (
    ALL,
    ERROR,
    claimed,
    complete_claims,
    counted_events,
    counting_handler,
    dead_letters,
    make_due,
    outbox_events,
)
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.races.racing import WAYS, never, schedulers, strip_locks
from tests.contract.scheduler.conftest import chores
from tests.racing import at_once
from tests.verdicts import success
from tests.waiting import eventually

HANDLERS = completion_handlers(FEATURES)

WORKER = "wrk_1"
REJECTED = decide(ERROR, RetryAction.REJECT, Tried("exec_1", 1, 3), RetryPolicy(), None)


@pytest.fixture
def worker(database: Database) -> str:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    return WORKER


def outbox_chore(database: Database, **bounds: float) -> Outbox:
    context = ChoreContext(database, Settings(), hint=lambda _queue: None, stopping=never)
    return Outbox(context, HANDLERS, **bounds)


@pytest.mark.parametrize("is_handled", [False, True])
def test_execution_is_not_pruned_before_its_dead_letter_exists(
    database: Database, worker: str, *, is_handled: bool
) -> None:
    """With TE_RETENTION_DAYS=0, an outbox that is behind would lose the letter and the callbacks."""
    complete_claims(database, claimed(database, worker))
    make_due(database)
    if is_handled:
        outbox_chore(database).handle()
        database.fetch(text("UPDATE dead_letters SET resolution = 'ARCHIVED', resolved_at = now()"))
    chores(database, retention_days=0).prune()
    assert len(outbox_events(database)) == (not is_handled)
    assert database.fetch(text("SELECT count(*) AS n FROM executions"))[0].n == (not is_handled)
    outbox_chore(database).handle()
    assert len(dead_letters(database)) == (not is_handled)


def test_completion_without_a_subscription_is_written_by_the_statement_without_outbox(
    database: Database, worker: str
) -> None:
    sent: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: sent.append(call[2]))
    complete_claims(database, claimed(database, worker, 3), success({}))
    complete_claims(database, claimed(database, worker, 3), Verdict.retry(ERROR, 60_000))
    complete_claims(database, claimed(database, worker, 3), REJECTED)
    assert not any("execution_ends" in statement for statement in sent)
    complete_claims(database, claimed(database, worker, 1, followed=Followed.SUCCESS), Verdict.retry(ERROR, 60_000))
    complete_claims(database, claimed(database, worker, 2, followed=Followed.ATTEMPT_FAILED), success({}))
    assert outbox_events(database) == []
    assert len(complete_claims(database, claimed(database, worker, 2), Verdict.fail(ERROR))) == len(
        outbox_events(database)
    )


def test_statement_without_outbox_is_used_only_if_no_event_would_be_stored(database: Database) -> None:
    """`may_be_followed` chooses the statement; `is_followed` is the SQL condition under which an event is stored."""
    attempt = is_followed("e", by_attempt=True, rejected="CAST(:rejected AS BOOLEAN)")
    query = text(
        f"SELECT {attempt} AS put FROM (SELECT CAST(:status AS TEXT) AS status, CAST(:bits AS BIGINT) AS followed) AS e"
    )
    for status in (
        ExecutionStatus.SUCCESS,
        ExecutionStatus.RETRYING,
        ExecutionStatus.FAILED,
        ExecutionStatus.CANCELLED,
    ):
        for bits in range(16):
            for rejected in (False, True):
                (row,) = database.fetch(query, {"status": status.value, "bits": bits or None, "rejected": rejected})
                assert row.put <= may_be_followed(status, bits, is_rejected=rejected), (status, bits, rejected)
                if status is ExecutionStatus.RETRYING and not bits & Followed.CANCELLATION:
                    assert row.put == may_be_followed(status, bits, is_rejected=rejected)


def test_failure_leaves_a_dead_letter_unless_the_policy_rejected_it(database: Database, worker: str) -> None:
    database.fetch(text('UPDATE jobs SET labels = \'{"team": "a"}\''))
    failed, rejected = claimed(database, worker, 1), claimed(database, worker, 1, followed=ALL)
    event_ids = [*complete_claims(database, failed), *complete_claims(database, rejected, REJECTED)]
    handled = OutboxProcessor(database, handlers=HANDLERS).handle(event_ids)
    assert handled.ends == 2
    assert dead_letters(database) == {failed[0].execution_id: None}
    (letter,) = database.fetch(text("SELECT * FROM dead_letters"))
    assert (letter.letter_id, letter.error_type, letter.message) == (event_ids[0], "HTTP_ERROR", "answered 503")
    assert (letter.endpoint, letter.attempt_count) == ("target", 1)
    assert letter.failed_at == rows.execution(database, failed[0].execution_id).completed_at
    assert outbox_events(database) == []
    assert OutboxProcessor(database, handlers=HANDLERS).handle(event_ids) == OutboxResult()


@pytest.mark.parametrize("way", WAYS)
def test_concurrent_processes_handle_each_event_once(
    database: Database, database_url: str, worker: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, way, outbox_rows, "TAKE", "LOCK_ONE")
    event_ids = complete_claims(database, claimed(database, worker, 60))
    handler = counting_handler(database)
    failed_before = text("UPDATE execution_ends SET tries = 1 WHERE end_id = ANY (:ids)")
    database.fetch(failed_before, {"ids": event_ids[:10]})
    with schedulers(database_url, way, 3) as databases:
        processors = [OutboxProcessor(own, handlers=[handler]) for own in databases]

        def handle_each_alone(processor: OutboxProcessor) -> int:
            return sum(processor.handle_alone(event_id).ends for event_id in event_ids[:10])

        # A process whose answer is lost does not report its event: only the recorded events prove the number.
        assert sum(at_once(*(partial(handle_each_alone, processor) for processor in processors))) <= 10
        assert counted_events(database) == event_ids[:10]
        at_once(*(partial(processor.handle, event_ids[n:] + event_ids[:n]) for n, processor in enumerate(processors)))
        for processor in processors:  # events of a rolled-back transaction are still in the outbox
            processor.handle(event_ids)
    assert counted_events(database) == event_ids
    assert outbox_events(database) == []


def test_failing_handler_delays_no_other_event_and_no_other_handler(database: Database, worker: str) -> None:
    claims = claimed(database, worker, 9)
    failing = {claims[3].execution_id}
    event_ids = complete_claims(database, claims)
    values = Values()
    handlers = [counting_handler(database, "failing", lambda: failing), counting_handler(database, "other")]
    processor = OutboxProcessor(database, handlers=handlers, values=values)
    assert processor.handle(event_ids) == OutboxResult(8, 1, Counter(http=8 + 9))
    assert len(counted_events(database, "failing")) == 8
    assert counted_events(database, "other") == event_ids
    (left,) = database.fetch(text("SELECT end_id, tries, effects_left, due_at > now() AS waits FROM execution_ends"))
    assert (left.tries, left.effects_left, left.waits) == (1, ["failing"], True)
    assert values.totals() == {"outbox_ends_handled_total": 8, "outbox_effects_failed_total": 1}

    assert processor.handle(event_ids) == OutboxResult(), "a failed event is handled alone from now on"
    failing.clear()
    assert processor.handle_alone(left.end_id) == OutboxResult(1, 0, Counter(http=1))
    assert counted_events(database, "failing") == event_ids
    assert counted_events(database, "other") == event_ids
    assert outbox_events(database) == []


def test_locked_execution_delays_no_other_event(database: Database, database_url: str, worker: str) -> None:
    hasty = db.connect(database_url, pool_size=2, application_name="te-hasty", statement_timeout_seconds=0.6)
    # A run is shorter than the wait for one lock, and long enough for a busy machine.
    claims = claimed(database, worker, 3)
    event_ids = complete_claims(database, claims)
    with locked(database, claims[1]):
        assert OutboxProcessor(hasty, handlers=HANDLERS).handle(event_ids) == OutboxResult(2, 1)
    assert set(dead_letters(database)) == {claims[0].execution_id, claims[2].execution_id}
    with database.engine.connect() as locking, locking.begin():
        locking.execute(text("SELECT 1 FROM execution_ends FOR UPDATE"))
        assert OutboxProcessor(hasty, handlers=HANDLERS).handle_alone(event_ids[1]) == OutboxResult(), (
            "another process is handling the event"
        )
    hasty.close()


def test_locked_execution_in_one_shard_delays_no_other_shard(
    database: Database, database_url: str, worker: str
) -> None:
    hasty = db.connect(database_url, pool_size=2, application_name="te-hasty", statement_timeout_seconds=0.6)
    # A run is shorter than the wait for one lock, and long enough for a busy machine.
    locked_claim, free_claim = claimed(database, worker, 2)
    complete_claims(database, [locked_claim, free_claim])
    make_due(database)
    move = text("UPDATE execution_ends SET shard = :shard, tries = :tries WHERE execution_id = :id")
    database.fetch(move, {"shard": 3, "tries": 1, "id": locked_claim.execution_id})
    database.fetch(move, {"shard": 4, "tries": 0, "id": free_claim.execution_id})
    with locked(database, locked_claim):
        done = outbox_chore(hasty, run_seconds=0.5).handle()
    hasty.close()
    assert (done["ends"], done["defer"]) == (1, 1)
    assert set(dead_letters(database)) == {free_claim.execution_id}


def test_handler_of_a_later_release_stays_pending(database: Database, worker: str) -> None:
    (claim,) = claimed(database, worker)
    event_ids = complete_claims(database, [claim])
    database.fetch(text("UPDATE execution_ends SET reason = 'LATER'"))
    assert OutboxProcessor(database, handlers=HANDLERS).handle(event_ids) == OutboxResult(1)
    (letter,) = database.fetch(text("SELECT error_type FROM dead_letters"))
    assert letter.error_type == "LATER"

    (other,) = complete_claims(database, claimed(database, worker))
    database.fetch(text('UPDATE execution_ends SET tries = 1, effects_left = \'["dead_letters", "later"]\''))
    assert OutboxProcessor(database, handlers=HANDLERS).handle_alone(other) == OutboxResult(0, 1)
    assert len(dead_letters(database)) == 2
    (left,) = database.fetch(text("SELECT tries, effects_left FROM execution_ends"))
    assert (left.tries, left.effects_left) == (2, ["later"])


def test_scheduler_checks_before_each_single_event_whether_to_stop(database: Database, worker: str) -> None:
    """The check is also the heartbeat of the chore, because each locked event can take ten seconds."""
    claims = claimed(database, worker, 5)
    event_ids = complete_claims(database, claims)
    answers, failing = iter([False] * 3), {claim.execution_id for claim in claims}
    handlers = [counting_handler(database, failing=lambda: failing)]
    processor = OutboxProcessor(database, handlers=handlers, stopping=lambda: next(answers, True))
    assert processor.handle(event_ids).defer == 2, "two events were tried alone, after the failed batch"
    assert len(outbox_events(database)) == 5


def test_scheduler_handles_events_left_by_workers(database: Database, worker: str) -> None:
    event_ids = complete_claims(database, claimed(database, worker, 250))
    database.fetch(text("UPDATE execution_ends SET shard = 40 WHERE end_id = :id"), {"id": event_ids[7]})
    chore = outbox_chore(database)
    assert chore.handle().total() == 0, "the first second belongs to the worker that wrote the event"
    make_due(database)
    assert chore.handle()["ends"] == 250
    assert len(dead_letters(database)) == 250


def test_scheduler_handles_a_failed_event_once_it_is_due_again(database: Database, worker: str) -> None:
    event_ids = complete_claims(database, claimed(database, worker, 2))
    database.fetch(text("UPDATE execution_ends SET tries = 3, due_at = now() + INTERVAL '1 minute'"))
    chore = outbox_chore(database)
    assert chore.handle().total() == 0
    make_due(database)
    assert chore.handle()["ends"] == len(event_ids)


def test_events_stay_in_the_outbox_while_the_database_is_unreachable(
    database: Database, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_ids = complete_claims(database, claimed(database, worker, 3))
    unreachable = db.connect("postgresql+psycopg2://x@127.0.0.1:9/x", pool_size=1, application_name="te-none")
    with pytest.raises(UnavailableError):
        OutboxProcessor(unreachable, handlers=HANDLERS).handle(event_ids)
    unreachable.close()
    assert outbox_events(database) == event_ids


def test_worker_handles_its_events_at_once_and_scheduler_handles_events_of_reclaimed_executions(
    database: Database, process: WorkerProcess
) -> None:
    (failed,) = claimed(database, process.worker_id)
    for completion in following.completions([failed], Verdict.fail(ERROR)):
        process.finalizer.submit(completion)
    eventually(lambda: dead_letters(database) == {failed.execution_id: None}, what="the dead letter")

    worker_lease.register(database, worker_id="wrk_gone", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    (lost,) = claimed(database, "wrk_gone", max_attempts=1)
    change = "max_attempts = 2, attempt_count = 2"
    database.fetch(text(f"UPDATE executions SET {change} WHERE execution_id = :id"), {"id": lost.execution_id})
    rows.add_attempt(database, lost.execution_id, 1, "FAILED", error={"type": "WORKER_LOST"})
    database.fetch(text("DELETE FROM workers WHERE worker_id = 'wrk_gone'"))
    assert chores(database).reclaim_from_dead_workers()["ends"] == 1
    assert lost.execution_id in dead_letters(database)


def test_manual_retry_resolves_the_dead_letter_in_every_order_of_statements(
    database: Database, database_url: str, worker: str
) -> None:
    """In every interleaving of retry and handler, an open dead letter belongs to a failed execution."""
    if database.is_cockroach:
        pytest.skip("needs a view of the sessions that wait for a lock")
    for level in ("read committed", "serializable"):
        with pair(database_url, level) as sides:

            def run(choices: list[int], sides: object = sides) -> list[int]:
                (claim,) = claimed(database, worker)
                event_ids = complete_claims(database, [claim])
                bodies: list[Callable[[Database], object]] = [
                    lambda side: OutboxProcessor(side, handlers=HANDLERS).handle(event_ids),
                    lambda side: retry_execution(side, claim.execution_id, actor="me"),
                ]
                return list(sides.run(bodies, choices))  # type: ignore[attr-defined]

            for _ in interleavings(run):  # type: ignore[arg-type]
                (resolution,) = set(dead_letters(database).values())
                assert resolution == "RETRIED", sides.taken
                database.fetch(text("DELETE FROM dead_letters"))


def test_each_failure_of_an_execution_has_its_own_dead_letter(database: Database, worker: str) -> None:
    (claim,) = claimed(database, worker)
    OutboxProcessor(database, handlers=HANDLERS).handle(complete_claims(database, [claim]))
    retry_execution(database, claim.execution_id, actor="me")
    (letter,) = database.fetch(text("SELECT * FROM dead_letters"))
    assert (letter.resolution, letter.resolved_by, letter.redriven_as) == ("RETRIED", "me", claim.execution_id)
    (again,) = following.take(database, worker, 1).claims
    OutboxProcessor(database, handlers=HANDLERS).handle(complete_claims(database, [again]))
    stored = database.fetch(text("SELECT attempt_count, resolution FROM dead_letters ORDER BY failed_at"))
    assert [tuple(row) for row in stored] == [(1, "RETRIED"), (2, None)]


def test_handled_events_are_counted(worker: str, database: Database) -> None:
    values = Values()
    OutboxProcessor(database, handlers=HANDLERS, values=values).handle(
        complete_claims(database, claimed(database, worker, 4))
    )
    assert values.total(series.ENDS_HANDLED) == 4
