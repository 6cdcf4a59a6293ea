"""Steps of workers and schedulers in any order, and the invariants after each step.

Only time is simulated: a step moves the end of a lease into the past. Workers crash and restart, keep claims that they
have lost, and repeat writes. Schedulers act on reads that are out of date.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from sqlalchemy import text

from app.kernel import ids
from app.kernel.errors import ExecutionNotCancellableError
from app.kernel.processes import worker_lease
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.promotion import promote
from app.queue.executions.verdict import Verdict
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from schema.states import FINAL
from tests import rows
from tests.claiming import release, take
from tests.contract.races.lease_model import LEASE_MS, LeaseModel, Row, S
from tests.verdicts import success

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
VERDICTS = [success({}), Verdict.retry(ERROR, 0), Verdict.fail(ERROR), Verdict.abort()]
OPEN = set(S) - FINAL
MAX_OPEN = 6
SLOTS = st.integers(0, 1)  # index of a worker or a scheduler; there are two of each


class LeaseProtocol(LeaseModel):
    """Rules of the state machine: each changes the database and the model in the same way."""

    @initialize()
    def begin(self) -> None:
        self.database.fetch(text("TRUNCATE jobs, workers CASCADE"))
        self.rows = {}
        self.workers = [self.boot(), self.boot()]
        self.dead = []
        self.read: list[list[reclaim_candidates.Candidate]] = [[], []]
        for max_attempts in (2, 5):
            self.create(pending=False, max_attempts=max_attempts)

    @precondition(lambda self: self.count(*OPEN) < MAX_OPEN)
    @rule(pending=st.booleans(), max_attempts=st.integers(1, 5))
    def create(self, pending: bool, max_attempts: int) -> None:
        status = S.PENDING if pending else S.QUEUED
        (execution_id,) = rows.add_executions(self.database, status=status, max_attempts=max_attempts)
        self.rows[execution_id] = Row(status, max_attempts)

    @precondition(lambda self: self.count(S.PENDING))
    @rule()
    def promote(self) -> None:
        promote(self.database, shard=0, ahead_ms=0, limit=100)
        for row in self.rows.values():
            if row.status is S.PENDING:
                row.status = S.QUEUED

    @precondition(lambda self: self.count(S.QUEUED, S.RETRYING))
    @rule(slot=SLOTS)
    def claim_all(self, slot: int) -> None:
        """Claim all; this rule makes claims more frequent, because most errors need a claim."""
        self.claim(slot, MAX_OPEN)

    @precondition(lambda self: self.count(S.QUEUED, S.RETRYING))
    @rule(slot=SLOTS, limit=st.integers(1, 3))
    def claim(self, slot: int, limit: int) -> None:
        worker = self.workers[slot]
        free = [name for name, row in self.rows.items() if row.status in {S.QUEUED, S.RETRYING}]
        got = take(self.database, worker.worker_id, limit, ahead_ms=1000).claims
        assert len(got) == (min(limit, len(free)) if worker.leased else 0)
        for claimed in got:
            assert claimed.execution_id in free
            row = self.rows[claimed.execution_id]
            row.status, row.worker, row.attempt = S.RUNNING, worker.worker_id, row.attempt + 1
            assert claimed.attempt == row.attempt
        worker.in_hand += got

    @rule(slot=SLOTS)
    def renew(self, slot: int) -> None:
        worker = self.workers[slot]
        renewed = worker_lease.renew(self.database, worker_id=worker.worker_id, in_flight=1, lease_ms=LEASE_MS)
        assert renewed is worker.leased, "exactly the unexpired leases are renewed"

    @precondition(lambda self: self.leased())
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """End the lease of a living or a dead worker: after a crash, the lease is valid for a while."""
        worker = data.draw(st.sampled_from(self.leased()))
        past = "UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second' WHERE worker_id = :worker"
        self.database.fetch(text(past), {"worker": worker.worker_id})
        worker.leased = False

    @precondition(lambda self: self.worth_a_restart())
    @rule(data=st.data(), in_order=st.booleans())
    def restart(self, data: st.DataObject, in_order: bool) -> None:
        """Restart a worker; unless it leaves `in_order`, its old lease stays valid and protects its rows."""
        slot = data.draw(st.sampled_from(self.worth_a_restart()))
        worker = self.workers[slot]
        if in_order:
            worker_lease.leave(self.database, worker.worker_id)
            worker.leased = False
        self.dead.append(worker)
        self.workers[slot] = self.boot()

    @precondition(lambda self: self.holders())
    @rule(data=st.data(), verdict=st.sampled_from(VERDICTS))
    def complete(self, data: st.DataObject, verdict: Verdict) -> None:
        """Conclude a claim of any worker: a frozen process may wake at any time and write its results."""
        worker = data.draw(st.sampled_from(self.holders()))
        mine = worker.in_hand.pop(data.draw(st.integers(0, len(worker.in_hand) - 1)))
        row = self.rows[mine.execution_id]
        if verdict.status is S.RETRYING and mine.attempt >= row.max_attempts:
            verdict = Verdict.fail(ERROR)  # as app.queue.executions.verdict.decide would
        ended = Completion(mine, ids.attempt_id(), verdict, mine.claimed_at, 5, ())
        holds = (row.status, row.worker, row.attempt) == (S.RUNNING, worker.worker_id, mine.attempt)
        if holds:
            row.end_attempt(verdict.status, (verdict.error or {}).get("type", ""))
        assert (mine.execution_id in complete(self.database, worker.worker_id, [ended])) is holds
        worker.written.append((ended, holds))

    @precondition(lambda self: any(worker.written for worker in self.workers))
    @rule(data=st.data())
    def complete_again(self, data: st.DataObject) -> None:
        """Repeat a write whose answer was lost: no row changes, and the result is the same."""
        worker = data.draw(st.sampled_from([worker for worker in self.workers if worker.written]))
        ended, held = data.draw(st.sampled_from(worker.written))
        assert bool(complete(self.database, worker.worker_id, [ended])) is held

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.holders()))
        mine = worker.in_hand.pop(data.draw(st.integers(0, len(worker.in_hand) - 1)))
        row = self.rows[mine.execution_id]
        holds = (row.status, row.worker, row.attempt) == (S.RUNNING, worker.worker_id, mine.attempt)
        if holds:
            row.attempt -= 1
            row.status = S.CANCELLED if row.is_to_be_cancelled else S.RETRYING if row.attempt else S.QUEUED
        assert release(self.database, worker.worker_id, [mine.key]) == int(holds)
        worker.released.append(mine)

    @precondition(lambda self: any(worker.released for worker in self.workers))
    @rule(data=st.data())
    def release_again(self, data: st.DataObject) -> None:
        """Repeat a release late: the same worker may have claimed the row again, with the same attempt number."""
        worker = data.draw(st.sampled_from([worker for worker in self.workers if worker.released]))
        mine = worker.released[-1]
        assert release(self.database, worker.worker_id, [mine.key]) == 0

    @precondition(lambda self: self.count(S.RUNNING))
    @rule()
    def reclaim_stuck(self) -> None:
        """Reclaim all RUNNING rows as stuck, while their workers live and may still write."""
        for row in self.rows.values():
            if row.status is S.RUNNING:
                row.lose("STUCK")
        reclaim.reclaim(self.database, reclaim_candidates.candidates(self.database, stuck_ms=0, limit=100), stuck_ms=0)

    @precondition(lambda self: self.count(S.RUNNING))
    @rule(scheduler=SLOTS)
    def read_lost(self, scheduler: int) -> None:
        found = reclaim_candidates.candidates(self.database, limit=100)
        assert {each.tried.execution_id for each in found} == {
            name for name, row in self.rows.items() if self.is_lost(row)
        }
        self.read[scheduler] = found

    @precondition(lambda self: any(self.read))
    @rule(scheduler=SLOTS)
    def reclaim_lost(self, scheduler: int) -> None:
        """Reclaim the rows of an earlier read, which may be out of date."""
        expected = 0
        for tried in (candidate.tried for candidate in self.read[scheduler]):
            row = self.rows[tried.execution_id]
            is_as_read = (row.attempt, row.max_attempts) == (tried.attempt, tried.max_attempts)
            if self.is_lost(row) and is_as_read:
                row.lose()
                expected += 1
        done = reclaim.reclaim(self.database, self.read[scheduler])
        assert done.retrying + done.failed + done.cancelled + done.ignored == expected

    @precondition(lambda self: self.count(*OPEN) > MAX_OPEN // 2)
    @rule(data=st.data(), if_running=st.sampled_from([None, *IfRunning]))
    def cancel(self, data: st.DataObject, if_running: IfRunning | None) -> None:
        execution_id = data.draw(st.sampled_from(list(self.rows)))
        row = self.rows[execution_id]
        refused = row.status in {S.SUCCESS, S.FAILED} or (row.status is S.RUNNING and if_running is None)
        try:
            cancel_execution(self.database, execution_id, if_running=if_running, actor=None)
        except ExecutionNotCancellableError:
            assert refused
            return
        assert not refused
        if row.status is S.RUNNING:
            row.is_to_be_cancelled = True
            row.is_to_be_aborted |= if_running is IfRunning.ABORT
        elif row.status not in FINAL:
            row.status = S.CANCELLED

    @invariant()
    def rows_equal_the_model(self) -> None:
        if not hasattr(self, "rows"):
            return
        found = self.database.fetch(text("SELECT * FROM executions"))
        assert {row.execution_id: _shown(row) for row in found} == {
            name: (row.status, row.attempt, row.max_attempts, row.worker) for name, row in self.rows.items()
        }
        tried: dict[str, list[tuple[int, str | None, str]]] = {name: [] for name in self.rows}
        for each in self.database.fetch(text(f"SELECT * FROM {ALL_ATTEMPTS} AS tried ORDER BY attempt_number")):
            tried[each.execution_id].append((each.attempt_number, each.worker_id, (each.error or {}).get("type", "")))
        assert tried == {name: row.tried for name, row in self.rows.items()}
        for row in self.rows.values():
            numbers = [number for number, *_ in row.tried]
            assert numbers == list(range(1, row.attempt + (row.status is not S.RUNNING)))

    @invariant()
    def job_is_retired_when_its_execution_is_complete(self) -> None:
        wrong = """
            SELECT j.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
             WHERE (j.status = 'RETIRED') <> (e.completed_at IS NOT NULL)
        """
        assert self.database.fetch(text(wrong)) == []


def _shown(row: Any) -> tuple[S, int, int, str | None]:
    return S(row.status), row.attempt_count, row.max_attempts, row.worker_id
