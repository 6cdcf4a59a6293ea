"""Creation of a job for a request, and the answer: the same answer for the same key."""

from collections.abc import Mapping
from typing import Any

from flask import request

from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import SCHEDULED
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_model import NewJob
from app.web.http import preferences, request_spans
from app.web.http.body import invalid
from app.web.http.idempotency_keys import HEADER, PARAMETER, REPLAYED, key_in_header
from app.web.http.preferences import Preferences
from app.web.http.request_log import note_ids
from app.web.jobs import created_outcome
from app.web.jobs.answer_schemas import shape_job
from app.web.services import services

KEY_PARAMETER = PARAMETER | {"description": "instead of `idempotency_key` in the body"}


def key_of(body: Mapping[str, Any]) -> str | None:
    """Return the key of a new job from its body or the header.

    Raises InvalidRequestError if the two differ, or if a one-shot job has no key.
    """
    own, header = body.get("idempotency_key"), key_in_header()
    if own is not None and header is not None and own != header:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Differs from the {HEADER} header."}])
    key: str | None = own if own is not None else header
    if key is None and not body["trigger"].repeats:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Required here or in the {HEADER} header."}])
    return key


def create(new: NewJob, trace: TraceContext | None) -> Created:
    """Store a job, or find the job with its key; adds its ids to the log and the span of the request."""
    created = services().creator.create(new, together=True)
    execution = created.job.execution
    note_ids(job_id=created.job.job_id, **({} if execution is None else {"execution_id": execution.execution_id}))
    if trace is not None:
        request_spans.note_created(created.job)
    if created.is_new:
        PROCESS.add(SCHEDULED, created.job.trigger)
    return created


def answer(created: Created) -> Any:
    """Answer 201 with a new job, 200 with an earlier job, or as `Prefer` requests."""
    preferred = request.headers.get(preferences.HEADER)
    if preferred is not None and created.job.execution is not None:
        return created_outcome.answer(created, created.job.execution.execution_id, Preferences.read(preferred))
    shown = shape_job(created.job)
    return (shown, 201, {}) if created.is_new else (shown, 200, REPLAYED)
