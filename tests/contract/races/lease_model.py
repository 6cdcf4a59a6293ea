"""Model of leases: all executions, and the workers that hold or held their claims."""

from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes import worker_lease as workers
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim
from schema.states import ExecutionStatus

S = ExecutionStatus
LEASE_MS = 600_000


@dataclass(slots=True)
class Row:
    """State of one execution in the model."""

    status: S
    max_attempts: int
    attempt: int = 0
    worker: str | None = None
    is_to_be_cancelled: bool = False
    is_to_be_aborted: bool = False
    tried: list[tuple[int, str | None, str]] = field(default_factory=list)

    def end_attempt(self, outcome: S, error: str) -> None:
        """Record an attempt and its outcome."""
        self.tried.append((self.attempt, self.worker, error))
        self.status = S.CANCELLED if outcome is S.RETRYING and self.is_to_be_cancelled else outcome

    def lose(self, error: str = "WORKER_LOST") -> None:
        """End the attempt of a lost or stuck worker; the first such attempt is always retried."""
        is_first = not any(each in {"WORKER_LOST", "STUCK"} for _, _, each in self.tried)
        outcome = S.RETRYING if is_first or self.attempt < self.max_attempts else S.FAILED
        self.end_attempt(S.CANCELLED if self.is_to_be_aborted else outcome, error)
        if self.status is S.RETRYING:
            self.max_attempts = max(self.max_attempts, self.attempt + 1)


@dataclass(slots=True)
class Worker:
    """One boot of a worker process; it keeps its claims after another worker has claimed their executions."""

    worker_id: str
    leased: bool = True
    in_hand: list[Claim] = field(default_factory=list)
    written: list[tuple[Completion, bool]] = field(default_factory=list)
    released: list[Claim] = field(default_factory=list)


class LeaseModel(RuleBasedStateMachine):
    """Expected rows of the database, and the claims of each worker."""

    database: ClassVar[Database]
    rows: dict[str, Row]
    workers: list[Worker]
    dead: list[Worker]

    def boot(self) -> Worker:
        worker_id = ids.worker_id()
        workers.register(
            self.database, worker_id=worker_id, host="h", pid=1, queues=["http"], capacity=9, lease_ms=LEASE_MS
        )
        return Worker(worker_id)

    def count(self, *statuses: S) -> int:
        return sum(row.status in statuses for row in self.rows.values())

    def leased(self) -> list[Worker]:
        """Return the workers with a valid lease and claims; the lease of a worker without claims has no effect."""
        return [worker for worker in [*self.workers, *self.dead] if worker.leased and worker.in_hand]

    def worth_a_restart(self) -> list[int]:
        return [slot for slot, worker in enumerate(self.workers) if worker.in_hand or not worker.leased]

    def holders(self) -> list[Worker]:
        return [worker for worker in [*self.workers, *self.dead] if worker.in_hand]

    def is_lost(self, row: Row) -> bool:
        leased = {worker.worker_id for worker in [*self.workers, *self.dead] if worker.leased}
        return row.status is S.RUNNING and row.worker not in leased
