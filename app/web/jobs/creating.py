"""Creation of a job for a request, and the answer: the same answer for the same key."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

from flask import g, jsonify

from app.kernel.access.api_keys import Scope
from app.kernel.errors import ResultExpiredError
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import SCHEDULED
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_model import NewJob
from app.queue.jobs.job_queries import get_job
from app.queue.reading.execution_queries import get_result
from app.web.executions.executions_api import RETRY_AFTER, wait_for
from app.web.executions.result_schemas import MAX_WAIT_SECONDS, ResultSchema
from app.web.http import suspension
from app.web.http.authentication import require, require_creation
from app.web.http.conditions import actor
from app.web.http.idempotent_requests import REPLAYED
from app.web.http.request_log import note_execution, note_ids
from app.web.http.unproxied import current_request, current_values
from app.web.jobs.answer_schemas import CreatedJobSchema
from app.web.jobs.request_schemas import new_job
from app.web.services import services

PREFER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=10`: answer when the job's execution has ended, with its `result`, or with 202 after 10 "
    "seconds (60 at most); `respond-async`: answer 202 at once",
    "schema": {"type": "string", "example": "wait=10"},
}
_JOB, _RESULT = CreatedJobSchema(), ResultSchema()


class Preferences(NamedTuple):
    """Preferences of a client; None or false if absent or malformed."""

    wait_seconds: int | None
    responds_async: bool

    @classmethod
    def read(cls, header: str) -> "Preferences":
        """Parse a header's value; the first occurrence of a preference counts."""
        named: dict[str, str] = {}
        for part in header.split(","):
            name, _, value = part.partition(";")[0].partition("=")
            named.setdefault(name.strip().lower(), value.strip().strip('"'))
        wait = named.get("wait", "")
        is_number = wait.isascii() and wait.isdigit() and len(wait) < 10
        return cls(int(wait) if is_number else None, named.get("respond-async") == "")

    def applied(self, wait_seconds: int | None) -> dict[str, str]:
        """Return the Preference-Applied header, with the wait in effect."""
        words = ["respond-async"] if self.responds_async else []
        if wait_seconds is not None:
            words.append(f"wait={wait_seconds}")
        return {"Preference-Applied": ", ".join(words)} if words else {}


def permitted(body: dict[str, Any], trace: TraceContext | None) -> NewJob:
    """Return the job of a parsed body; raises ForbiddenError if the key lacks a scope for its targets."""
    if not current_values().api_key.allows(Scope.JOBS_WRITE):
        for endpoint in _endpoints_of(body):
            require_creation(endpoint)
    if "inline" not in body:
        return new_job(body, trace)
    require(Scope.JOBS_SEND)
    if body.get("idempotency_key") is None and not body["trigger"].repeats:
        body["idempotency_key"] = uuid4().hex
    return new_job(body, trace, actor())


def _endpoints_of(body: dict[str, Any]) -> Iterator[str]:
    """Yield the registered endpoints to which a job sends."""
    if "inline" not in body:
        yield body["endpoint"]
    yield from filter(None, (body.get("callbacks") or {}).values())


def create(new: NewJob) -> Any:
    """Store a job, or find the job with its key; answer 201 (new) or 200 (found), or as `Prefer` requests.

    A request that has waited for the result calls this a second time, which only answers.
    """
    created: Created | None = current_values().get("created")
    if created is None:
        created = services().creator.create(new, together=True)
        execution_id = None if created.job.execution is None else created.job.execution.execution_id
        note_ids(job_id=created.job.job_id, **({} if execution_id is None else {"execution_id": execution_id}))
        if new.trace is not None:
            note_execution(execution_id, created.job.job_id, created.job.endpoint)
        if created.is_new:
            PROCESS.add(SCHEDULED, created.job.trigger)
    preferred = current_request().headers.get("Prefer")
    if preferred is not None and created.job.execution is not None:
        return _preferred(created, created.job.execution.execution_id, Preferences.read(preferred))
    return (created.job, 201, {}) if created.is_new else (created.job, 200, REPLAYED)


def _preferred(created: Created, execution_id: str, preferred: Preferences) -> Any:
    """Return the answer with the result if it exists in time, or a suspended request.

    A preference is not a condition: if no more requests may wait, the wait is ignored.
    """
    seconds = None if preferred.wait_seconds is None else min(preferred.wait_seconds, MAX_WAIT_SECONDS)
    if seconds and not suspension.can_wait():
        seconds = None
    g.created = created
    headers = preferred.applied(seconds) | ({} if created.is_new else REPLAYED)
    if seconds and not suspension.has_waited():
        suspended = wait_for(execution_id, seconds)
        if suspended is not None:
            return suspended
    try:
        found = None if seconds is None else get_result(services().database, execution_id)
    except ResultExpiredError:
        return get_job(services().database, created.job.job_id), 200, headers
    status = 201 if created.is_new else 200
    if found is not None and found.is_over:
        job = _JOB.dump(get_job(services().database, created.job.job_id))
        return jsonify(job | {"result": _RESULT.dump(found)}), status, headers
    if seconds is not None or preferred.responds_async:
        where = {"Location": f"/executions/{execution_id}/result"} | RETRY_AFTER
        return created.job, 202, headers | where
    return created.job, status, headers
