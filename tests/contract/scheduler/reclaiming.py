"""Claims and completions for the tests of reclaim, and the kinds of death of a worker."""

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim
from tests import rows
from tests.claiming import take
from tests.verdicts import success

UNTIL_NOW = "SET lease_expires_at = now() - INTERVAL '1 second'"
DEATHS = {
    "lease expired": f"UPDATE workers {UNTIL_NOW}",
    "worker shut down": "UPDATE workers SET status = 'DEAD'",
    "worker row is missing": "DELETE FROM workers",
}


def claimed(database: Database, count: int = 1, *, max_attempts: int = 2, worker: str = "wrk_1") -> list[Claim]:
    """Create executions and claim them for a worker with a valid lease."""
    worker_lease.register(database, worker_id=worker, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    rows.add_executions(database, count, max_attempts=max_attempts)
    return take(database, worker, count).claims


def completed(claim: Claim) -> Completion:
    return Completion(claim, ids.attempt_id(), success({"status_code": 200}), claim.claimed_at, 5, ())
