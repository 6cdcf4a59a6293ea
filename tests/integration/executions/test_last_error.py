"""Last error of an execution, in its own answer and in every list of executions."""

from typing import Any

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.verdict import Verdict
from tests.integration.client import Api
from tests.integration.executions.worker import WORKER, claim, end
from tests.verdicts import success

REFUSED = DeliveryError("HTTP_ERROR", "answered 503", extra={"status_code": 503, "body": "x" * 16_000})
TIMEOUT = DeliveryError("TIMEOUT", "no answer within 5000 ms")
FIRST = {name: value for name, value in REFUSED.as_json(retryable=True).items() if name != "body"}
SECOND = TIMEOUT.as_json(retryable=True)


def last_error(api: Api, execution_id: str) -> Any:
    """Return the last error of the execution, and check that each list shows the same execution."""
    execution = api.get(f"/executions/{execution_id}").json
    for path in ("/executions", f"/jobs/{execution['job_id']}/executions"):
        (listed,) = api.get(path).json["items"]
        assert listed == {name: value for name, value in execution.items() if name != "input"}
    return execution["last_error"]


def test_last_error_belongs_to_the_latest_completed_attempt(api: Api, database: Database, execution_id: str) -> None:
    assert last_error(api, execution_id) is None
    first = claim(database)
    assert last_error(api, execution_id) is None
    end(database, first, Verdict.retry(REFUSED, 0))
    assert last_error(api, execution_id) == FIRST
    second = claim(database)
    assert last_error(api, execution_id) == FIRST
    end(database, second, Verdict.fail(TIMEOUT))
    assert last_error(api, execution_id) == SECOND
    assert api.post(f"/executions/{execution_id}/retry").json["last_error"] == SECOND
    end(database, claim(database), success({"status_code": 200, "body": ""}))
    assert last_error(api, execution_id) is None


def test_last_error_after_a_lost_worker_is_worker_lost(api: Api, database: Database, execution_id: str) -> None:
    claim(database)
    worker_lease.leave(database, WORKER)
    reclaim.reclaim(database, reclaim_candidates.candidates(database, limit=10))
    assert last_error(api, execution_id)["type"] == "WORKER_LOST"


def test_cancelled_retry_keeps_the_last_error(api: Api, database: Database, execution_id: str) -> None:
    end(database, claim(database), Verdict.retry(REFUSED, 60_000))
    assert api.post(f"/executions/{execution_id}/cancel").json["last_error"] == FIRST
