"""Creation of a job for a request, and the answer to it: as the client prefers, and the same to the same key."""

from typing import Any

from flask import g, request

from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import SCHEDULED
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_model import NewJob
from app.web.http import preferences, request_traces
from app.web.http.idempotency_keys import REPLAYED
from app.web.http.preferences import Preferences
from app.web.http.request_ids import note_ids
from app.web.jobs import created_outcome
from app.web.jobs.answer_schemas import shape_job
from app.web.services import services


def create(new: NewJob, trace: TraceContext | None) -> Created:
    """Store a job, or find the one with its key, and note it with the request."""
    created = services().creator.create(new, together=True)
    note_ids(job_id=created.job.job_id)
    if created.job.execution is not None:
        note_ids(execution_id=created.job.execution.execution_id)
    if trace is not None:
        request_traces.note_created(created.job)
    if created.is_new:
        PROCESS.add(SCHEDULED, created.job.trigger)
    return created


def earlier() -> Created | None:
    """Return what the first run of this request created, which has waited for the result since."""
    created: Created | None = g.get("created")
    return created


def answer(created: Created) -> tuple[Any, int, dict[str, str]]:
    """Answer 201 with a new job and 200 with an earlier one, or as `Prefer` asks for."""
    preferred = request.headers.get(preferences.HEADER)
    if preferred is not None and created.job.execution is not None:
        return created_outcome.answer(created, created.job.execution.execution_id, Preferences.read(preferred))
    shown = shape_job(created.job)
    return (shown, 201, {}) if created.is_new else (shown, 200, REPLAYED)
