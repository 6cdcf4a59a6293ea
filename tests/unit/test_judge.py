"""Maximum age of an execution: measured by the database's clock up to the claim, and by the local clock since."""

import time
from datetime import UTC, datetime, timedelta

import pytest

import tests.worker_environment  # noqa: F401
from actors.sending import judge
from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import Claim, ClaimKey, DeliveryError
from schema.states import EndpointType, ExecutionStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("planned_ago", "claimed_ago", "status"),
    [(0, 0, ExecutionStatus.RETRYING), (3600, 0, ExecutionStatus.FAILED), (0, 3600, ExecutionStatus.FAILED)],
)
def test_age_counts_from_the_first_planned_time(
    planned_ago: float, claimed_ago: float, status: ExecutionStatus
) -> None:
    claim = Claim(
        key=ClaimKey("exec_1", 1, NOW),
        execution_id="exec_1",
        job_id="job_1",
        endpoint="target",
        endpoint_version=1,
        endpoint_type=EndpointType.HTTP,
        worker_id="wrk_1",
        attempt=1,
        max_attempts=3,
        config_revision=0,
        scheduled_at=NOW - timedelta(seconds=planned_ago),
        claimed_at=NOW,
        due_in_seconds=0,
        late_seconds=0,
        claimed_here=time.monotonic() - claimed_ago,
    )
    policy = RetryPolicy(max_attempts=3, initial_delay_ms=1000, max_age_ms=60_000)
    assert judge(DeliveryError("TIMEOUT", "no answer"), None, claim, policy).status is status
