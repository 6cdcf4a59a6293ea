"""The life of executions as a model: any order of steps, by two workers and two schedulers, ends where the model says.

Hypothesis chooses the steps. Nothing is simulated but time: a lease runs out because the test
moves it into the past. Workers crash and come back, keep claims that are no longer theirs, repeat what they wrote, and
schedulers act on what they read before anything of that happened.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from app import db, ids, workers
from app.db import Database
from app.errors import ExecutionNotCancellableError
from app.executions import reclaim
from app.executions.cancellation import cancel_execution
from app.executions.claim import claim_batch
from app.executions.conclusion import Conclusion, conclude
from app.executions.model import Claim, DeliveryError
from app.executions.promotion import promote
from app.executions.release import release
from app.executions.verdict import Verdict
from schema.states import FINAL, ExecutionStatus
from tests import rows

S = ExecutionStatus
ERROR = DeliveryError("HTTP_ERROR", "answered 503")
VERDICTS = [Verdict.success({}), Verdict.retry(ERROR, 0), Verdict.fail(ERROR)]
LEASE_MS = 600_000
OPEN = set(S) - FINAL
MOST_OPEN = 6
SLOTS = st.integers(0, 1)  # of the two workers, and of the two schedulers


@dataclass(slots=True)
class Row:
    """What the model knows of one execution."""

    status: S
    max_attempts: int
    attempt: int = 0
    worker: str | None = None
    asked_to_end: bool = False
    tried: list[tuple[int, str | None, str]] = field(default_factory=list)

    def end_attempt(self, outcome: S, error: str) -> None:
        """Record an attempt, and end or retry."""
        self.tried.append((self.attempt, self.worker, error))
        self.status = S.CANCELLED if outcome is S.RETRYING and self.asked_to_end else outcome


@dataclass(slots=True)
class Worker:
    """One boot of a worker process; claims stay in flight even when the database has given them to another."""

    worker_id: str
    leased: bool = True
    in_hand: list[Claim] = field(default_factory=list)
    written: list[tuple[Conclusion, bool]] = field(default_factory=list)
    handed_back: list[Claim] = field(default_factory=list)


class LeaseProtocol(RuleBasedStateMachine):
    """The rules; each does one thing to the database and the same to the model."""

    database: ClassVar[Database]

    @initialize()
    def begin(self) -> None:
        self.database.fetch(text("TRUNCATE jobs, workers CASCADE"))
        self.rows: dict[str, Row] = {}
        self.workers = [self._boot(), self._boot()]
        self.dead: list[Worker] = []
        self.read: list[list[reclaim.Candidate]] = [[], []]
        for max_attempts in (2, 5):
            self.create(pending=False, max_attempts=max_attempts)

    @precondition(lambda self: self._count(*OPEN) < MOST_OPEN)
    @rule(pending=st.booleans(), max_attempts=st.integers(1, 5))
    def create(self, pending: bool, max_attempts: int) -> None:
        status = S.PENDING if pending else S.QUEUED
        (execution_id,) = rows.add_executions(self.database, status=status, max_attempts=max_attempts)
        self.rows[execution_id] = Row(status, max_attempts)

    @precondition(lambda self: self._count(S.PENDING))
    @rule()
    def promote(self) -> None:
        promote(self.database, shard=0, ahead_ms=0, limit=100)
        for row in self.rows.values():
            if row.status is S.PENDING:
                row.status = S.QUEUED

    @precondition(lambda self: self._count(S.QUEUED, S.RETRYING))
    @rule(slot=SLOTS)
    def claim_all(self, slot: int) -> None:
        """The same as `claim`, and chosen as often: without claims there is little to get wrong."""
        self.claim(slot, MOST_OPEN)

    @precondition(lambda self: self._count(S.QUEUED, S.RETRYING))
    @rule(slot=SLOTS, limit=st.integers(1, 3))
    def claim(self, slot: int, limit: int) -> None:
        worker = self.workers[slot]
        free = [name for name, row in self.rows.items() if row.status in {S.QUEUED, S.RETRYING}]
        got = claim_batch(
            self.database, queue="http", shard=0, worker_id=worker.worker_id, limit=limit, ahead_ms=1000
        ).claims
        assert len(got) == (min(limit, len(free)) if worker.leased else 0)
        for one in got:
            assert one.execution_id in free
            row = self.rows[one.execution_id]
            row.status, row.worker, row.attempt = S.RUNNING, worker.worker_id, row.attempt + 1
            assert one.attempt == row.attempt
        worker.in_hand += got

    @rule(slot=SLOTS)
    def renew(self, slot: int) -> None:
        worker = self.workers[slot]
        renewed = workers.renew(self.database, worker_id=worker.worker_id, in_flight=1, lease_ms=LEASE_MS)
        assert renewed is worker.leased, "a lease that is over is never renewed, one that is not always"

    @precondition(lambda self: self._leased())
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """The living and the dead: a crash leaves a lease behind that goes on for a while."""
        worker = data.draw(st.sampled_from(self._leased()))
        past = "UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second' WHERE worker_id = :worker"
        self.database.fetch(text(past), {"worker": worker.worker_id})
        worker.leased = False

    @precondition(lambda self: self._worth_a_restart())
    @rule(data=st.data(), in_order=st.booleans())
    def restart(self, data: st.DataObject, in_order: bool) -> None:
        """Without its last heartbeat the old lease goes on: nobody may take the rows before it is over."""
        slot = data.draw(st.sampled_from(self._worth_a_restart()))
        worker = self.workers[slot]
        if in_order:
            workers.leave(self.database, worker.worker_id)
            worker.leased = False
        self.dead.append(worker)
        self.workers[slot] = self._boot()

    @precondition(lambda self: self._holders())
    @rule(data=st.data(), verdict=st.sampled_from(VERDICTS))
    def conclude(self, data: st.DataObject, verdict: Verdict) -> None:
        """Also by the dead: a frozen process may wake at any time and write what it has."""
        worker = data.draw(st.sampled_from(self._holders()))
        mine = worker.in_hand.pop(data.draw(st.integers(0, len(worker.in_hand) - 1)))
        row = self.rows[mine.execution_id]
        if verdict.status is S.RETRYING and mine.attempt >= row.max_attempts:
            verdict = Verdict.fail(ERROR)  # as app.executions.verdict.decide would
        ended = Conclusion(mine, ids.attempt_id(), verdict, mine.claimed_at, 5, ())
        holds = (row.status, row.worker, row.attempt) == (S.RUNNING, worker.worker_id, mine.attempt)
        if holds:
            row.end_attempt(verdict.status, "" if verdict.is_success else "HTTP_ERROR")
        assert (mine.execution_id in conclude(self.database, worker.worker_id, [ended])) is holds
        worker.written.append((ended, holds))

    @precondition(lambda self: any(worker.written for worker in self.workers))
    @rule(data=st.data())
    def conclude_again(self, data: st.DataObject) -> None:
        """The answer was lost, so it is written once more: nothing changes, and it counts as before."""
        worker = data.draw(st.sampled_from([worker for worker in self.workers if worker.written]))
        ended, held = data.draw(st.sampled_from(worker.written))
        assert bool(conclude(self.database, worker.worker_id, [ended])) is held

    @precondition(lambda self: self._holders())
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self._holders()))
        mine = worker.in_hand.pop(data.draw(st.integers(0, len(worker.in_hand) - 1)))
        row = self.rows[mine.execution_id]
        holds = (row.status, row.worker, row.attempt) == (S.RUNNING, worker.worker_id, mine.attempt)
        if holds:
            row.attempt -= 1
            row.status = S.CANCELLED if row.asked_to_end else S.RETRYING if row.attempt else S.QUEUED
        assert release(self.database, worker.worker_id, [mine.key]) == int(holds)
        worker.handed_back.append(mine)

    @precondition(lambda self: any(worker.handed_back for worker in self.workers))
    @rule(data=st.data())
    def hand_back_again(self, data: st.DataObject) -> None:
        """A repeat arrives late: by then the same worker may hold the row again, under the same number."""
        worker = data.draw(st.sampled_from([worker for worker in self.workers if worker.handed_back]))
        mine = worker.handed_back[-1]
        assert release(self.database, worker.worker_id, [mine.key]) == 0

    @precondition(lambda self: self._count(S.RUNNING))
    @rule()
    def take_back_the_stuck(self) -> None:
        """The safety net: whatever is RUNNING for long, here at all; its worker lives and may yet write."""
        for row in self.rows.values():
            if row.status is S.RUNNING:
                row.end_attempt(S.RETRYING if row.attempt < row.max_attempts else S.FAILED, "STUCK")
        reclaim.reclaim_stuck(self.database, reclaim.stuck(self.database, stuck_ms=0, limit=100), stuck_ms=0)

    @precondition(lambda self: self._count(S.RUNNING))
    @rule(scheduler=SLOTS)
    def look_for_the_lost(self, scheduler: int) -> None:
        found = reclaim.lost(self.database, limit=100)
        assert {one.tried.execution_id for one in found} == {
            name for name, row in self.rows.items() if self._is_lost(row)
        }
        self.read[scheduler] = found

    @precondition(lambda self: any(self.read))
    @rule(scheduler=SLOTS)
    def take_back(self, scheduler: int) -> None:
        """What was read may be long out of date."""
        taken = 0
        for tried in (candidate.tried for candidate in self.read[scheduler]):
            row = self.rows[tried.execution_id]
            is_as_read = (row.attempt, row.max_attempts) == (tried.attempt, tried.max_attempts)
            if self._is_lost(row) and is_as_read:
                row.end_attempt(S.RETRYING if row.attempt < row.max_attempts else S.FAILED, "WORKER_LOST")
                taken += 1
        done = reclaim.reclaim_lost(self.database, self.read[scheduler])
        assert done.retrying + done.failed + done.cancelled == taken

    @precondition(lambda self: self._count(*OPEN) > MOST_OPEN // 2)
    @rule(data=st.data(), ask_running=st.booleans())
    def cancel(self, data: st.DataObject, ask_running: bool) -> None:
        execution_id = data.draw(st.sampled_from(list(self.rows)))
        row = self.rows[execution_id]
        refused = row.status in {S.SUCCESS, S.FAILED} or (row.status is S.RUNNING and not ask_running)
        try:
            cancel_execution(self.database, execution_id, ask_running=ask_running, actor=None)
        except ExecutionNotCancellableError:
            assert refused
            return
        assert not refused
        if row.status is S.RUNNING:
            row.asked_to_end = True
        elif row.status not in FINAL:
            row.status = S.CANCELLED

    @invariant()
    def the_rows_are_as_the_model_says(self) -> None:
        if not hasattr(self, "rows"):
            return
        found = self.database.fetch(text("SELECT * FROM executions"))
        assert {row.execution_id: _shown(row) for row in found} == {
            name: (row.status, row.attempt, row.worker) for name, row in self.rows.items()
        }
        tried: dict[str, list[tuple[int, str | None, str]]] = {name: [] for name in self.rows}
        for one in self.database.fetch(text("SELECT * FROM attempts ORDER BY attempt_number")):
            tried[one.execution_id].append((one.attempt_number, one.worker_id, (one.error or {}).get("type", "")))
        assert tried == {name: row.tried for name, row in self.rows.items()}
        for row in self.rows.values():
            numbers = [number for number, *_ in row.tried]
            assert numbers == list(range(1, row.attempt + (row.status is not S.RUNNING)))

    @invariant()
    def a_job_is_retired_when_its_execution_is_over(self) -> None:
        wrong = """
            SELECT j.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
             WHERE (j.status = 'RETIRED') <> (e.completed_at IS NOT NULL)
        """
        assert self.database.fetch(text(wrong)) == []

    def _boot(self) -> Worker:
        worker_id = ids.worker_id()
        workers.register(
            self.database, worker_id=worker_id, host="h", pid=1, queues=["http"], capacity=9, lease_ms=LEASE_MS
        )
        return Worker(worker_id)

    def _count(self, *statuses: S) -> int:
        return sum(row.status in statuses for row in self.rows.values())

    def _leased(self) -> list[Worker]:
        """Those whose lease matters: a worker with nothing in flight may as well keep it."""
        return [worker for worker in [*self.workers, *self.dead] if worker.leased and worker.in_hand]

    def _worth_a_restart(self) -> list[int]:
        return [slot for slot, worker in enumerate(self.workers) if worker.in_hand or not worker.leased]

    def _holders(self) -> list[Worker]:
        return [worker for worker in [*self.workers, *self.dead] if worker.in_hand]

    def _is_lost(self, row: Row) -> bool:
        leased = {worker.worker_id for worker in [*self.workers, *self.dead] if worker.leased}
        return row.status is S.RUNNING and row.worker not in leased


def _shown(row: Any) -> tuple[S, int, str | None]:
    return S(row.status), row.attempt_count, row.worker_id


@pytest.fixture
def model_database(database_url: str) -> Iterator[Database]:
    database = db.connect(database_url, pool_size=1, application_name="te-test")
    rows.add_endpoint(database)
    yield database
    database.close()


def test_every_order_of_steps_ends_where_the_model_says(
    model_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some 4,000 steps."""
    # Rows of one instant are claimed in the order of their ids: by chance, if those were random.
    numbers = itertools.count()
    monkeypatch.setattr(ids, "execution_id", lambda: f"exec_{next(numbers):08}")
    monkeypatch.setattr(ids, "worker_id", lambda: f"wrk_{next(numbers):08}")
    LeaseProtocol.database = model_database
    checks = settings(
        max_examples=80,
        stateful_step_count=60,
        deadline=None,
        # Shrinking takes minutes; the steps of a failure are printed as they were.
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(LeaseProtocol, settings=checks)
