"""The outcome of a job that was just created, for clients that wait for it (`Prefer: wait`)."""

from typing import Any

from flask import g

from app.kernel.errors import ResultExpiredError
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_queries import get_job
from app.queue.reading.results import get_result
from app.web.executions.result_schemas import LONGEST_WAIT_SECONDS, ResultSchema
from app.web.executions.results_api import RETRY_AFTER, shape_result, wait_for
from app.web.http import suspension
from app.web.http.idempotency_keys import REPLAYED
from app.web.http.preferences import Preferences
from app.web.jobs.answer_schemas import shape_job
from app.web.services import services

_RESULT = ResultSchema()


def answer(created: Created, execution_id: str, preferred: Preferences) -> tuple[Any, int, dict[str, str]]:
    """Answer as the client prefers, with the result where it is there in time; after a wait in a second run.

    A preference is no condition: where no more requests may wait, the answer is that without one.
    """
    seconds = None if preferred.wait_seconds is None else min(preferred.wait_seconds, LONGEST_WAIT_SECONDS)
    if seconds and not suspension.can_wait():
        seconds = None
    g.created = created
    headers = preferred.applied(seconds) | ({} if created.is_new else REPLAYED)
    if seconds:
        wait_for(execution_id, seconds)
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
