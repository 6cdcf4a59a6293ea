"""The outbox: each end has each of its effects once, whoever dies, whoever else tries, whatever fails."""

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
from app.queue.ending.outbox_processor import Handled, OutboxProcessor
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
from tests.contract.ending.following import ALL, ERROR, claimed, counted, counting, end, ends, grow_old, letters
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.races.racing import WAYS, never, schedulers, strip_locks
from tests.contract.scheduler.conftest import chores
from tests.racing import at_once
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


def test_what_nobody_follows_is_written_by_the_statement_that_knows_of_no_outbox(
    database: Database, worker: str
) -> None:
    sent: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *call: sent.append(call[2]))
    end(database, claimed(database, worker, 3), Verdict.success({}))
    end(database, claimed(database, worker, 3), Verdict.retry(ERROR, 60_000))
    end(database, claimed(database, worker, 3), REJECTED)
    assert not any("execution_ends" in statement for statement in sent)
    end(database, claimed(database, worker, 1, followed=Followed.SUCCESS), Verdict.retry(ERROR, 60_000))
    end(database, claimed(database, worker, 2, followed=Followed.ATTEMPT_FAILED), Verdict.success({}))
    assert ends(database) == []
    assert len(end(database, claimed(database, worker, 2), Verdict.fail(ERROR))) == len(ends(database))


def test_a_worker_writes_no_end_by_the_statement_without_an_outbox(database: Database) -> None:
    """What Python says before the statement runs, and what the statement says of each row."""
    attempt = is_followed("e", by_attempt=True, rejected="CAST(:rejected AS BOOLEAN)")
    ask = text(
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
                (row,) = database.fetch(ask, {"status": status.value, "bits": bits or None, "rejected": rejected})
                assert row.put <= may_be_followed(status, bits, is_rejected=rejected), (status, bits, rejected)
                if status is ExecutionStatus.RETRYING and not bits & Followed.CANCELLATION:
                    assert row.put == may_be_followed(status, bits, is_rejected=rejected)


def test_a_failure_leaves_a_letter_unless_the_policy_rejected_it(database: Database, worker: str) -> None:
    database.fetch(text('UPDATE jobs SET labels = \'{"team": "a"}\''))
    failed, rejected = claimed(database, worker, 1), claimed(database, worker, 1, followed=ALL)
    found = [*end(database, failed), *end(database, rejected, REJECTED)]
    handled = OutboxProcessor(database, handlers=HANDLERS).handle(found)
    assert handled.ends == 2
    assert letters(database) == {failed[0].execution_id: None}
    (letter,) = database.fetch(text("SELECT * FROM dead_letters"))
    assert (letter.letter_id, letter.error_type, letter.message) == (found[0], "HTTP_ERROR", "answered 503")
    assert (letter.endpoint, letter.attempt_count) == ("target", 1)
    assert letter.failed_at == rows.execution(database, failed[0].execution_id).completed_at
    assert ends(database) == []
    assert OutboxProcessor(database, handlers=HANDLERS).handle(found) == Handled()


@pytest.mark.parametrize("way", WAYS)
def test_of_several_handlers_one_brings_about_each_effect(
    database: Database, database_url: str, worker: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, way, outbox_rows, "TAKE", "LOCK_ONE")
    found = end(database, claimed(database, worker, 60))
    effect = counting(database)
    failed_before = text("UPDATE execution_ends SET tries = 1 WHERE end_id = ANY (:ids)")
    database.fetch(failed_before, {"ids": found[:10]})
    with schedulers(database_url, way, 3) as others:

        def one_by_one(other: Database) -> int:
            return sum(OutboxProcessor(other, handlers=[effect]).handle_alone(end_id).ends for end_id in found[:10])

        assert sum(at_once(*(partial(one_by_one, other) for other in others))) == 10
        at_once(
            *(
                partial(OutboxProcessor(other, handlers=[effect]).handle, found[n:] + found[:n])
                for n, other in enumerate(others)
            )
        )
        for other in others:  # what one was undone for, it had left to somebody
            OutboxProcessor(other, handlers=[effect]).handle(found)
    assert counted(database) == found
    assert ends(database) == []


def test_an_effect_that_fails_holds_up_no_other_end_and_no_other_effect(database: Database, worker: str) -> None:
    claims = claimed(database, worker, 9)
    odd = {claims[3].execution_id}
    found = end(database, claims)
    values = Values()
    effects = [counting(database, "failing", lambda: odd), counting(database, "other")]
    handler = OutboxProcessor(database, handlers=effects, values=values)
    assert handler.handle(found) == Handled(8, 1, frozenset({"http"}))
    assert len(counted(database, "failing")) == 8
    assert counted(database, "other") == found
    (left,) = database.fetch(text("SELECT end_id, tries, effects_left, due_at > now() AS waits FROM execution_ends"))
    assert (left.tries, left.effects_left, left.waits) == (1, ["failing"], True)
    assert values.totals() == {"outbox_ends_handled_total": 8, "outbox_effects_failed_total": 1}

    assert handler.handle(found) == Handled(), "what has failed is left to who tries it alone"
    odd.clear()
    assert handler.handle_alone(left.end_id) == Handled(1, 0, frozenset({"http"}))
    assert counted(database, "failing") == found
    assert counted(database, "other") == found
    assert ends(database) == []


def test_what_others_have_locked_holds_up_no_other_end(database: Database, database_url: str, worker: str) -> None:
    hasty = db.connect(database_url, pool_size=2, application_name="te-hasty", statement_timeout_seconds=0.6)
    # A run is shorter than the wait for one lock, and long enough for a busy machine.
    claims = claimed(database, worker, 3)
    found = end(database, claims)
    with locked(database, claims[1]):
        assert OutboxProcessor(hasty, handlers=HANDLERS).handle(found) == Handled(2, 1)
    assert set(letters(database)) == {claims[0].execution_id, claims[2].execution_id}
    with database.engine.connect() as other, other.begin():
        other.execute(text("SELECT 1 FROM execution_ends FOR UPDATE"))
        assert OutboxProcessor(hasty, handlers=HANDLERS).handle_alone(found[1]) == Handled(), "somebody is handling it"
    hasty.close()


def test_what_is_locked_in_one_shard_holds_up_no_other_shard(
    database: Database, database_url: str, worker: str
) -> None:
    hasty = db.connect(database_url, pool_size=2, application_name="te-hasty", statement_timeout_seconds=0.6)
    # A run is shorter than the wait for one lock, and long enough for a busy machine.
    stuck, fresh = claimed(database, worker, 2)
    end(database, [stuck, fresh])
    grow_old(database)
    move = text("UPDATE execution_ends SET shard = :shard, tries = :tries WHERE execution_id = :id")
    database.fetch(move, {"shard": 3, "tries": 1, "id": stuck.execution_id})
    database.fetch(move, {"shard": 4, "tries": 0, "id": fresh.execution_id})
    with locked(database, stuck):
        done = outbox_chore(hasty, run_seconds=0.5).handle()
    hasty.close()
    assert (done["ends"], done["put_off"]) == (1, 1)
    assert set(letters(database)) == {fresh.execution_id}


def test_what_a_later_release_has_left_stays_for_it(database: Database, worker: str) -> None:
    (claim,) = claimed(database, worker)
    found = end(database, [claim])
    database.fetch(text("UPDATE execution_ends SET reason = 'LATER'"))
    assert OutboxProcessor(database, handlers=HANDLERS).handle(found) == Handled(1)
    (letter,) = database.fetch(text("SELECT error_type FROM dead_letters"))
    assert letter.error_type == "LATER"

    (other,) = end(database, claimed(database, worker))
    database.fetch(text('UPDATE execution_ends SET tries = 1, effects_left = \'["dead_letters", "later"]\''))
    assert OutboxProcessor(database, handlers=HANDLERS).handle_alone(other) == Handled(0, 1)
    assert len(letters(database)) == 2
    (left,) = database.fetch(text("SELECT tries, effects_left FROM execution_ends"))
    assert (left.tries, left.effects_left) == (2, ["later"])


def test_a_scheduler_that_tries_many_alone_asks_before_each_whether_it_stops(database: Database, worker: str) -> None:
    """That it asks is its sign of life: what somebody has locked may take ten seconds each."""
    claims = claimed(database, worker, 5)
    found = end(database, claims)
    asked, odd = iter([False] * 3), {claim.execution_id for claim in claims}
    effects = [counting(database, odd=lambda: odd)]
    handler = OutboxProcessor(database, handlers=effects, stopping=lambda: next(asked, True))
    assert handler.handle(found).put_off == 2, "after the batch together"
    assert len(ends(database)) == 5


def test_a_scheduler_handles_what_its_writers_did_not(database: Database, worker: str) -> None:
    found = end(database, claimed(database, worker, 250))
    database.fetch(text("UPDATE execution_ends SET shard = 40 WHERE end_id = :id"), {"id": found[7]})
    chore = outbox_chore(database)
    assert chore.handle().total() == 0, "its writer has a second"
    grow_old(database)
    assert chore.handle()["ends"] == 250
    assert len(letters(database)) == 250


def test_a_scheduler_tries_alone_what_has_failed_once_its_wait_is_over(database: Database, worker: str) -> None:
    found = end(database, claimed(database, worker, 2))
    database.fetch(text("UPDATE execution_ends SET tries = 3, due_at = now() + INTERVAL '1 minute'"))
    chore = outbox_chore(database)
    assert chore.handle().total() == 0
    grow_old(database)
    assert chore.handle()["ends"] == len(found)


def test_without_a_database_ends_stay_for_later(
    database: Database, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = end(database, claimed(database, worker, 3))
    unreachable = db.connect("postgresql+psycopg2://x@127.0.0.1:9/x", pool_size=1, application_name="te-none")
    with pytest.raises(UnavailableError):
        OutboxProcessor(unreachable, handlers=HANDLERS).handle(found)
    unreachable.close()
    assert ends(database) == found


def test_a_worker_handles_its_ends_at_once_and_a_scheduler_those_that_it_takes_back(
    database: Database, process: WorkerProcess
) -> None:
    (failed,) = claimed(database, process.worker_id)
    for conclusion in following.conclusions([failed], Verdict.fail(ERROR)):
        process.finalizer.submit(conclusion)
    eventually(lambda: letters(database) == {failed.execution_id: None}, what="the letter")

    worker_lease.register(database, worker_id="wrk_gone", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    (lost,) = claimed(database, "wrk_gone", max_attempts=1)
    change = "max_attempts = 2, attempt_count = 2"
    database.fetch(text(f"UPDATE executions SET {change} WHERE execution_id = :id"), {"id": lost.execution_id})
    rows.add_attempt(database, lost.execution_id, 1, "FAILED", error={"type": "WORKER_LOST"})
    database.fetch(text("DELETE FROM workers WHERE worker_id = 'wrk_gone'"))
    assert chores(database).reclaim_from_dead_workers()["ends"] == 1
    assert lost.execution_id in letters(database)


def test_a_manual_retry_sees_to_the_letter_whichever_comes_first(
    database: Database, database_url: str, worker: str
) -> None:
    """In every interleaving of the two an open letter belongs to a failed execution."""
    if database.is_cockroach:
        pytest.skip("needs to see who waits for whose lock")
    for level in ("read committed", "serializable"):
        with pair(database_url, level) as sides:

            def run(choices: list[int], sides: object = sides) -> list[int]:
                (claim,) = claimed(database, worker)
                found = end(database, [claim])
                bodies: list[Callable[[Database], object]] = [
                    lambda one: OutboxProcessor(one, handlers=HANDLERS).handle(found),
                    lambda one: retry_execution(one, claim.execution_id, actor="me"),
                ]
                return list(sides.run(bodies, choices))  # type: ignore[attr-defined]

            for _ in interleavings(run):  # type: ignore[arg-type]
                (found,) = set(letters(database).values())
                assert found == "RETRIED", sides.taken
                database.fetch(text("DELETE FROM dead_letters"))


def test_each_failure_of_an_execution_has_a_letter_of_its_own(database: Database, worker: str) -> None:
    (claim,) = claimed(database, worker)
    OutboxProcessor(database, handlers=HANDLERS).handle(end(database, [claim]))
    retry_execution(database, claim.execution_id, actor="me")
    (letter,) = database.fetch(text("SELECT * FROM dead_letters"))
    assert (letter.resolution, letter.resolved_by, letter.redriven_as) == ("RETRIED", "me", claim.execution_id)
    (again,) = following.take(database, worker, 1).claims
    OutboxProcessor(database, handlers=HANDLERS).handle(end(database, [again]))
    found = database.fetch(text("SELECT attempt_count, resolution FROM dead_letters ORDER BY failed_at"))
    assert [tuple(row) for row in found] == [(1, "RETRIED"), (2, None)]


def test_the_totals_are_counted(worker: str, database: Database) -> None:
    values = Values()
    OutboxProcessor(database, handlers=HANDLERS, values=values).handle(end(database, claimed(database, worker, 4)))
    assert values.total(series.ENDS_HANDLED) == 4
