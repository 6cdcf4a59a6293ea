"""Trial: the job that tries out an endpoint."""

import secrets
from datetime import UTC, datetime

from app.features.notifications.message import sample_message
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_model import NewJob
from schema.states import Trigger


def trial_of(endpoint: str, key: str | None = None, trace: TraceContext | None = None) -> NewJob:
    """Return a job that sends a test message, the same for the same key."""
    return NewJob(
        endpoint=endpoint,
        trigger=Trigger.IMMEDIATE,
        input=sample_message(endpoint, datetime.now(UTC)),
        idempotency_key=f"test:{key or secrets.token_hex(16)}",
        trace=trace,
    )
