"""Completions with jobs: the jobs that an attempt enqueues at its end exist if and only if it is completed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement
from app.queue.executions.completion import Completion, complete_in
from app.queue.executions.execution_model import DeliveryError, FollowingJob
from app.queue.jobs import job_insertion
from app.queue.jobs.endpoint_cache import read_targets
from app.queue.jobs.job_model import NewJob
from schema.states import EndpointType, Trigger

KEYED = statement(
    "jobs.keyed",
    """
    SELECT j.endpoint, j.idempotency_key FROM jobs AS j
      JOIN unnest(CAST(:endpoints AS TEXT[]), CAST(:keys AS TEXT[])) AS u (endpoint, idempotency_key)
        ON u.endpoint = j.endpoint AND u.idempotency_key = j.idempotency_key
    """,
)


class Placing(NamedTuple):
    """Number of shards for new executions, and the time within which a new job is queued at once."""

    shards: int
    look_ahead_ms: int


def complete_with_jobs(
    database: Database, holder: str, completion: Completion, placing: Placing, *, unless_locked: bool = False
) -> frozenset[str] | None:
    """Write a completion and create its jobs in one transaction.

    Returns the queues of the jobs; None if the holder has lost the attempt, or an earlier run of the transaction was
    committed. Raises DeliveryError, with nothing written, for a job that no endpoint takes. `unless_locked` fails fast
    on a locked row.
    """

    def body(connection: Connection) -> frozenset[str] | None:
        if not complete_in(connection, holder, completion):
            return None
        return _create(connection, completion.then, placing)

    transact = database.transact_unless_locked if unless_locked else database.transact
    return transact(body)


def _create(connection: Connection, jobs: Sequence[FollowingJob], placing: Placing) -> frozenset[str]:
    targets = read_targets(connection, {job.endpoint for job in jobs})
    each: dict[tuple[str, str], dict[str, Any]] = {}
    for job in jobs:
        target = targets.get(job.endpoint)
        if target is None:
            raise _refused(f"there is no endpoint named {job.endpoint!r}: start a process with its actor first")
        if target.type is not EndpointType.ACTOR:  # a process may not deliver anything else in the name of the service
            raise _refused(f"{job.endpoint!r} is no actor: actors enqueue messages of actors only")
        if faults := target.faults(job.input):
            raise _refused(f"the payload spec of {job.endpoint!r} refuses the input: {faults[0]['message']}")
        new = NewJob(
            endpoint=job.endpoint,
            trigger=Trigger.IMMEDIATE if job.delay_ms is None else Trigger.DELAYED,
            input=job.input,
            name=job.idempotency_key,  # the id of the message: its sender finds the job by it
            idempotency_key=job.idempotency_key,
            delay_ms=job.delay_ms,
            priority=job.priority,
        )
        params = job_insertion.params_of(new, target, ids.job_id(), placing.shards)
        each.setdefault((job.endpoint, job.idempotency_key), {**params, "look_ahead_ms": placing.look_ahead_ms})
    params_of_all = job_insertion.params_of_several(each.values())
    rows = connection.execute(job_insertion.ONE_SHOTS, params_of_all).all()
    if len(rows) < len(each):
        _check_known(connection, each, {row.job_id for row in rows})
    return frozenset(row.execution_queue for row in rows)


def _check_known(connection: Connection, each: dict[tuple[str, str], dict[str, Any]], created: set[str]) -> None:
    """Raise UnavailableError unless the jobs that were not created existed already."""
    missing = sorted(key for key, params in each.items() if params["job_id"] not in created)
    params = {"endpoints": [endpoint for endpoint, _ in missing], "keys": [key for _, key in missing]}
    if len(connection.execute(KEYED, params).all()) < len(missing):
        raise UnavailableError("An endpoint has changed while a job of it was created. Retry later.")


def _refused(reason: str) -> DeliveryError:
    return DeliveryError("THEN_REFUSED", f"a job that the attempt enqueued was refused: {reason}", permanent=True)
