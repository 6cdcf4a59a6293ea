"""Request to abort during each kind of end of an attempt, in every interleaving of their statements."""

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from app.queue.jobs.job_cancellation import cancel_job
from tests import rows
from tests.claiming import release
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.scheduler.reclaiming import claimed
from tests.verdicts import success

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
CLEAR = text(
    "DELETE FROM attempts; DELETE FROM execution_logs; DELETE FROM execution_events; DELETE FROM executions; "
    "DELETE FROM jobs; DELETE FROM workers"
)

End = Callable[[Database, Claim], object]


def completing(verdict: Verdict) -> End:
    def body(side: Database, claim: Claim) -> object:
        return complete(side, claim.worker_id, [Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ())])

    return body


def reclaiming(side: Database, _claim: Claim) -> object:
    return reclaim.reclaim(side, reclaim_candidates.candidates(side, stuck_ms=0, limit=9), stuck_ms=0)


# Each kind of end, and the final statuses that it may lead to.
ENDS: dict[str, tuple[End, set[str]]] = {
    "success": (completing(success({})), {"SUCCESS"}),
    "retryable failure": (completing(Verdict.retry(ERROR, 0)), {"CANCELLED"}),
    "final failure": (completing(Verdict.fail(ERROR)), {"FAILED"}),
    "abort": (completing(Verdict.abort()), {"CANCELLED"}),
    "release": (lambda side, claim: release(side, claim.worker_id, [claim.key]), {"CANCELLED"}),
    "reclaim": (reclaiming, {"CANCELLED"}),
}


@pytest.mark.parametrize("level", ["read committed", "serializable"])
def test_execution_with_an_abort_request_ends_in_any_order(database: Database, database_url: str, level: str) -> None:
    if database.is_cockroach:
        pytest.skip("reads pg_blocking_pids to find which transaction waits for a lock")
    with pair(database_url, level) as sides:
        for name, (end, ends) in ENDS.items():
            found: list[Claim] = []

            def run(choices: Sequence[int], end: End = end, found: list[Claim] = found) -> list[int]:
                database.fetch(CLEAR)
                (claim,) = claimed(database)
                found[:] = [claim]
                job_id = rows.job_of(database, claim.execution_id).job_id
                return sides.run(
                    [
                        lambda side: cancel_job(side, job_id, if_running=IfRunning.ABORT),
                        lambda side: end(side, claim),
                    ],
                    choices,
                )

            for _ in interleavings(run):
                row = rows.execution(database, found[0].execution_id)
                assert row.status in ends, f"{name}: {sides.taken}"
                assert row.attempt_count == len(rows.attempts(database, row.execution_id)), f"{name}: {sides.taken}"
                assert rows.job_of(database, row.execution_id).status == "RETIRED", f"{name}: {sides.taken}"
