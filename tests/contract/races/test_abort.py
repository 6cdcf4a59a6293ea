"""A request to abort beside every end of the attempt, in every interleaving of their statements."""

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.executions import reclaim
from app.queue.executions.completion import Conclusion, conclude
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from app.queue.jobs.job_cancellation import cancel_job
from tests import rows
from tests.claiming import release
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.scheduler.reclaiming import claimed

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
CLEAR = text(
    "DELETE FROM attempts; DELETE FROM execution_logs; DELETE FROM execution_events; DELETE FROM executions; "
    "DELETE FROM jobs; DELETE FROM workers"
)

End = Callable[[Database, Claim], object]


def concluding(verdict: Verdict) -> End:
    def body(one: Database, claim: Claim) -> object:
        return conclude(one, claim.worker_id, [Conclusion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ())])

    return body


def reclaiming(one: Database, _claim: Claim) -> object:
    return reclaim.reclaim(one, reclaim.candidates(one, stuck_ms=0, limit=9), stuck_ms=0)


# Each end, and what may come of it: it depends on who is first where the end itself would leave another attempt.
ENDS: dict[str, tuple[End, set[str]]] = {
    "the answer comes": (concluding(Verdict.success({})), {"SUCCESS"}),
    "it fails for now": (concluding(Verdict.retry(ERROR, 0)), {"CANCELLED"}),
    "it fails for good": (concluding(Verdict.fail(ERROR)), {"FAILED"}),
    "it is broken off": (concluding(Verdict.abort()), {"CANCELLED"}),
    "it was not sent": (lambda one, claim: release(one, claim.worker_id, [claim.key]), {"CANCELLED"}),
    "it is reclaimed": (reclaiming, {"CANCELLED"}),
}


@pytest.mark.parametrize("level", ["read committed", "serializable"])
def test_whoever_comes_first_it_ends(database: Database, database_url: str, level: str) -> None:
    if database.is_cockroach:
        pytest.skip("needs to see who waits for whose lock")
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
                        lambda one: cancel_job(one, job_id, if_running=IfRunning.ABORT),
                        lambda one: end(one, claim),
                    ],
                    choices,
                )

            for _ in interleavings(run):
                row = rows.execution(database, found[0].execution_id)
                assert row.status in ends, f"{name}: {sides.taken}"
                assert row.attempt_count == len(rows.attempts(database, row.execution_id)), f"{name}: {sides.taken}"
                assert rows.job_of(database, row.execution_id).status == "RETIRED", f"{name}: {sides.taken}"
