"""Explanations of waiting: facts about an execution, and reasons why a due execution has not started.

All reads are bounded: executions ahead are counted up to MAX_AHEAD, by ranges of the index of partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Executable

from app.kernel.db.reads import Reads
from app.kernel.db.rows import RowValue
from app.kernel.formats import numbered, rfc3339
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import statement
from app.queue.claiming.arms import CLAIMABLE
from schema.states import EndpointType, ExecutionStatus, WorkerStatus

MAX_AHEAD = 1000
MAX_ABOVE = 4 * MAX_AHEAD  # executions of higher priorities that are read

# Joins the attempt that ended last; a running attempt has no row yet.
_FACTS = """
    SELECT now() AS now, e.execution_id, e.status, e.queue, e.shard, e.endpoint, e.limit_key, e.priority, e.run_at,
           e.attempt_count, e.max_attempts, e.worker_id, e.started_at, e.completed_at, e.created_at,
           e.cancel_requested_at, e.abort_requested_at, e.on_hold, e.idempotency_key, j.paused_at, j.name AS job_name,
           n.paused_at AS endpoint_paused_at, q.paused_at AS queue_paused_at, n.endpoint_type, n.limits,
           COALESCE(a.error, '{{}}') AS error, a.completed_at AS failed_at, w.lease_expires_at,
           w.status AS worker_status
      FROM executions AS e
      JOIN jobs AS j ON j.job_id = e.job_id
      JOIN endpoints AS n ON n.name = e.endpoint
      LEFT JOIN paused_queues AS q ON q.queue = e.queue
      LEFT JOIN workers AS w ON w.worker_id = e.worker_id
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE {which}
    """
FACTS = statement("executions.explain", _FACTS, which="e.execution_id = :execution_id")
FACTS_OF_SEVERAL = statement(
    "executions.explain_several", _FACTS, which="e.execution_id = ANY (CAST(:executions AS TEXT[]))"
)
PARTITION = "o.queue = :queue AND o.shard = :shard AND o.endpoint = :endpoint AND o.limit_key = :limit_key"
WORKERS = f"""(SELECT count(*) FROM workers AS w
             WHERE w.status = 'ALIVE' AND w.lease_expires_at > now() AND NOT {IS_DRAINING}
               AND w.queues @> jsonb_build_array(CAST(:queue AS TEXT)))"""  # noqa: S608 - a constant of this package
# Executions of higher priorities are counted among the first MAX_ABOVE, since retries among them may not be due yet.
# If as many were read, further executions may be due.
DUE_ABOVE = f"""(SELECT count(CASE WHEN o.run_at <= now() THEN 1 END) AS due, count(*) AS found FROM (
              SELECT o.run_at FROM executions AS o
               WHERE {PARTITION} AND o.priority > :priority AND {CLAIMABLE}
               ORDER BY o.priority, o.run_at, o.execution_id LIMIT :most_above) AS o) AS above"""  # noqa: S608 - as above
OF_PARTITION = f"{WORKERS} AS workers, above.due AS above, above.found AS found_above FROM {DUE_ABOVE}"
AHEAD = statement(
    "executions.explain_queue",
    """
    SELECT earlier.ahead, {of_partition}, (SELECT count(*) AS ahead FROM (
              SELECT o.execution_id FROM executions AS o
               WHERE {partition} AND o.priority = :priority AND {claimable}
                 AND (o.run_at, o.execution_id) < (CAST(:run_at AS TIMESTAMPTZ), CAST(:execution_id AS TEXT))
               ORDER BY o.run_at, o.execution_id LIMIT :most) AS o) AS earlier
    """,
    of_partition=OF_PARTITION,
    partition=PARTITION,
    claimable=CLAIMABLE,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a state: a reason code, a sentence, the start of the state, and its end if known."""

    status: ExecutionStatus
    reason: str
    explanation: str
    since: datetime
    until: datetime | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(RowValue):
    """Facts behind an explanation: the execution, its job, endpoint and worker, and its last attempt's error."""

    now: datetime
    execution_id: str
    status: ExecutionStatus
    queue: str
    shard: int
    endpoint: str
    limit_key: str
    priority: int
    run_at: datetime
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    started_at: datetime  # only read if RUNNING, then not NULL
    completed_at: datetime  # only read if ended, then not NULL
    created_at: datetime
    cancel_requested_at: datetime | None
    abort_requested_at: datetime | None
    on_hold: bool
    idempotency_key: str | None
    job_name: str | None
    paused_at: datetime | None
    endpoint_paused_at: datetime | None
    queue_paused_at: datetime | None
    endpoint_type: EndpointType
    limits: Mapping[str, Any] | None
    error: Mapping[str, Any]
    failed_at: datetime | None
    lease_expires_at: datetime | None
    worker_status: WorkerStatus | None


def at(instant: datetime) -> str:
    return rfc3339(instant, "milliseconds")


class QueuePosition(NamedTuple):
    """Number of workers that serve the queue, and of executions ahead in the same partition.

    `is_whole` is false if executions of higher priorities were left out, so `ahead` is the least number.
    """

    workers: int
    ahead: int
    is_whole: bool = True

    @property
    def is_exact(self) -> bool:
        return self.is_whole and self.ahead <= MAX_AHEAD

    @property
    def counted(self) -> int:
        return min(self.ahead, MAX_AHEAD)

    @property
    def before(self) -> str:
        """The number of executions ahead in words."""
        if self.ahead > MAX_AHEAD:
            return f"more than {MAX_AHEAD}"
        if self.is_whole:
            return str(self.ahead)
        return f"at least {self.ahead}" if self.ahead else "an unknown number"


class WaitingReason:
    """Port of features: a reason why a due execution waits although workers serve its queue."""

    statements: ClassVar[Sequence[Executable]] = ()
    """Statements that `explain` runs, in order; for a list of executions, `read_together` makes one of each."""

    def explain(self, reads: Reads, facts: Facts, line: QueuePosition, details: dict[str, Any]) -> Explanation | None:
        """Return an explanation if the reason applies to the execution; adds facts to `details`."""
        raise NotImplementedError


def explain_due(reads: Reads, facts: Facts, details: dict[str, Any], reasons: Iterable[WaitingReason]) -> Explanation:
    """Explain why a due execution has not started, by the first of `reasons` that applies."""
    status, since = facts.status, facts.run_at
    if facts.endpoint_paused_at is not None:
        text = f"It is due, but its endpoint {facts.endpoint!r} is paused; it starts after the endpoint is resumed."
        return Explanation(status, "ENDPOINT_PAUSED", text, max(since, facts.endpoint_paused_at), None, details)
    if facts.queue_paused_at is not None:
        details["queue"] = facts.queue
        text = f"It is due, but its queue {facts.queue!r} is paused; it starts after the queue is resumed."
        return Explanation(status, "QUEUE_PAUSED", text, max(since, facts.queue_paused_at), None, details)
    line = _line(reads, facts)
    details |= {"queue": facts.queue, "workers": line.workers, "ahead": line.counted}
    details["ahead_is_exact"] = line.is_exact
    if not line.workers:
        text = f"It has been due since {at(since)}, and no live worker serves the queue {facts.queue!r}."
        return Explanation(status, "NO_WORKER", text, since, None, details)
    for reason in reasons:
        held = reason.explain(reads, facts, line, details)
        if held is not None:
            return held
    if line.ahead or not line.is_whole:
        ahead = f"waits behind {line.before} of its endpoint, earlier or of a higher priority,"
        served = f"which {numbered(line.workers, 'live worker', 'serve')}"
        text = f"It is due, and {ahead} in the queue {facts.queue!r}, {served}."
        return Explanation(status, "BEHIND_OTHERS", text, since, None, details)
    text = f"It is due and the next of its endpoint in the queue {facts.queue!r}; a worker with capacity claims it."
    return Explanation(status, "NEXT_IN_QUEUE", text, since, None, details)


def partition_of(facts: Facts) -> dict[str, Any]:
    """Return the partition that an execution waits in, by parameter."""
    return {
        "queue": facts.queue,
        "shard": facts.shard,
        "endpoint": facts.endpoint,
        "limit_key": facts.limit_key,
        "priority": facts.priority,
    }


def _line(reads: Reads, facts: Facts) -> QueuePosition:
    own = {"run_at": facts.run_at, "execution_id": facts.execution_id, "most": MAX_AHEAD + 1, "most_above": MAX_ABOVE}
    (found,) = reads.fetch(AHEAD, partition_of(facts) | own)
    return QueuePosition(found.workers, found.ahead + found.above, is_whole=found.found_above < MAX_ABOVE)
