"""Answer to the creation of a job for clients that send `Prefer`: with the result, if it is there in time."""

from typing import Any

from flask import g

from app.kernel.errors import ResultExpiredError
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_queries import get_job
from app.queue.reading.execution_queries import get_result
from app.web.executions.result_schemas import MAX_WAIT_SECONDS, ResultSchema
from app.web.executions.results_api import RETRY_AFTER, shape_result, wait_for
from app.web.http import suspension
from app.web.http.idempotency_keys import REPLAYED
from app.web.http.preferences import Preferences
from app.web.jobs.answer_schemas import shape_job
from app.web.services import services

_RESULT = ResultSchema()


def answer(created: Created, execution_id: str, preferred: Preferences) -> Any:
    """Return the answer, or a suspended request; a request that has waited calls this a second time.

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
        return shape_job(get_job(services().database, created.job.job_id)), 200, headers
    if found is not None and found.is_over:
        job = shape_job(get_job(services().database, created.job.job_id))
        return job | {"result": _RESULT.dump(shape_result(found))}, 201 if created.is_new else 200, headers
    if seconds is not None or preferred.responds_async:
        where = {"Location": f"/executions/{execution_id}/result"} | RETRY_AFTER
        return shape_job(created.job), 202, headers | where
    return shape_job(created.job), 201 if created.is_new else 200, headers
