"""States of jobs and executions, and the legal transitions between them.

`TRANSITIONS` is the single truth: ARCHITECTURE.md draws it, the statements in `app.queue` implement it, tests
compare both with it, and the CHECK constraints in `schema.tables` enforce a part of it.
"""

from enum import IntFlag, StrEnum


class ExecutionStatus(StrEnum):
    PENDING = "PENDING"  # waits for a run_at beyond the scheduler's look-ahead
    QUEUED = "QUEUED"  # may be claimed once run_at has come
    RUNNING = "RUNNING"  # claimed by `worker_id`; that worker and attempt number are the fence
    RETRYING = "RETRYING"  # an attempt failed; may be claimed again once run_at has come
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class JobStatus(StrEnum):
    """State of a job: a PAUSED job starts no executions until it is resumed, a RETIRED job never again."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    RETIRED = "RETIRED"


class AttemptStatus(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class Trigger(StrEnum):
    IMMEDIATE = "IMMEDIATE"
    DELAYED = "DELAYED"
    CRON = "CRON"
    INTERVAL = "INTERVAL"

    def __init__(self, value: str) -> None:
        self.repeats = value in {"CRON", "INTERVAL"}  # an attribute, since each job reads it


class KeepResponse(StrEnum):
    """Rule for storing the bodies of answers; status and sizes are always stored."""

    ALWAYS = "always"
    ON_ERROR = "on_error"  # of attempts that failed
    NEVER = "never"


class CatchUp(StrEnum):
    """Rule for ticks that no scheduler materialised in time."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


class Overlap(StrEnum):
    """Rule for a tick that is due while an execution of the same job is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"


class EndpointType(StrEnum):
    HTTP = "HTTP"
    KAFKA = "KAFKA"
    REDIS_STREAM = "REDIS_STREAM"
    NOTIFICATION = "NOTIFICATION"
    WORKFLOW = "WORKFLOW"
    ACTOR = "ACTOR"

    @property
    def queue(self) -> str:
        """Return the Dramatiq queue whose actor serves this transport."""
        return self.value.lower()


class LogLevel(StrEnum):
    """Severity of a line in `execution_logs`."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class WorkerStatus(StrEnum):
    """State of a worker process: DEAD after a clean shutdown; after a crash only its lease runs out."""

    ALIVE = "ALIVE"
    DEAD = "DEAD"


class BreakerState(StrEnum):
    """State of a circuit breaker: closed admits all deliveries, open none, half open a single probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class RouteSource(StrEnum):
    """Source of the routes from endpoints to queues: TE_ROUTES until routes are set through the API."""

    ENVIRONMENT = "environment"
    API = "api"


class CallbackEvent(StrEnum):
    """Event of a callback to another endpoint; the values are the names of the request fields."""

    ON_SUCCESS = "on_success"
    ON_FAILURE = "on_failure"  # any end in FAILED, with or without an attempt
    ON_ATTEMPT_FAILED = "on_attempt_failed"  # each failed attempt, the last included


class Followed(IntFlag):  # bits of `executions.followed`
    SUCCESS = 1
    FAILURE = 2  # also a rejection by the retry policy
    CANCELLATION = 4
    ATTEMPT_FAILED = 8  # each failed attempt, the last included
    NOTIFICATION = 16  # the execution delivers a notification, so its end causes no notification
    NODE = 32  # any end of an execution that belongs to a node of a workflow


FOLLOWED_BY = {
    CallbackEvent.ON_SUCCESS: Followed.SUCCESS,
    CallbackEvent.ON_FAILURE: Followed.FAILURE,
    CallbackEvent.ON_ATTEMPT_FAILED: Followed.ATTEMPT_FAILED,
}


class NotificationEvent(StrEnum):
    EXECUTION_FAILED = "execution.failed"
    JOB_FAILING = "job.failing"  # several failures of a repeating job in a row
    JOB_RECOVERED = "job.recovered"
    SCHEDULE_OVERDUE = "schedule.overdue"
    WORKER_LOST = "worker.lost"
    BREAKER_OPENED = "breaker.opened"
    QUEUE_LATE = "queue.late"
    WORKFLOW_FAILED = "workflow.failed"
    WORKFLOW_LATE = "workflow.late"  # its deadline is near
    TEST = "test"  # a test message, sent on request


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Resolution(StrEnum):
    RETRIED = "RETRIED"  # its execution was retried manually
    REDRIVEN = "REDRIVEN"  # its execution was retried, or a new job created, by a redrive of the dead letter
    ARCHIVED = "ARCHIVED"  # closed without another attempt


class BulkJobStatus(StrEnum):
    """State of a bulk job over all rows that match a filter: a redrive or a bulk operation."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"  # stopped finally, before its end
    DONE = "DONE"


class BulkAction(StrEnum):
    """Action of a bulk operation on each execution, dead letter or repeating job that matches its filter."""

    CANCEL = "cancel"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    ARCHIVE = "archive"  # of dead letters
    PAUSE = "pause"  # of repeating jobs
    RESUME = "resume"


class WorkflowStatus(StrEnum):
    """State of a workflow."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"  # starts no node; running nodes continue
    STOPPING = "STOPPING"  # a node failed, or the workflow was cancelled: starts handlers only, or nothing
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    COMPENSATING = "COMPENSATING"  # undoes succeeded nodes, one after the other
    COMPENSATED = "COMPENSATED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"  # a compensation failed, and none follows


class WorkflowReason(StrEnum):
    """Reason why a workflow stops before all its nodes have run."""

    NODE_FAILED = "NODE_FAILED"
    CANCELLED = "CANCELLED"
    DEADLINE = "DEADLINE"


class NodeState(StrEnum):
    """State of a node of a workflow, or of an item of a node."""

    WAITING = "WAITING"  # a parent is not through
    READY = "READY"  # may start; a pause or `max_parallel` can keep it back
    EXPANDING = "EXPANDING"  # has items that may start
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"  # its execution was cancelled
    SKIPPED = "SKIPPED"


class RunIf(StrEnum):
    """Condition under which a node starts once all its parents are through; otherwise it is skipped."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"
    ANY_FAILED = "any_failed"


class OnFailure(StrEnum):
    """Effect of a failed node on its workflow."""

    STOP = "stop"  # nodes with `all_succeeded` are not started, and the workflow fails
    CONTINUE = "continue"  # skips the nodes behind it only
    COMPENSATE = "compensate"  # as `stop`, and succeeded nodes are undone


_S = ExecutionStatus

FINAL = frozenset({_S.SUCCESS, _S.FAILED, _S.CANCELLED})
CANCELLABLE = frozenset({_S.PENDING, _S.QUEUED, _S.RETRYING})
_W = WorkflowStatus
_N = NodeState
FINAL_OF_NODE = frozenset({_N.SUCCEEDED, _N.FAILED, _N.CANCELLED, _N.SKIPPED})
FINAL_OF_WORKFLOW = frozenset({_W.SUCCEEDED, _W.FAILED, _W.CANCELLED, _W.COMPENSATED, _W.COMPENSATION_FAILED})

# (from, to): the operations that make the transition
TRANSITIONS: dict[tuple[ExecutionStatus | None, ExecutionStatus], str] = {
    (None, _S.PENDING): "create, due beyond the look-ahead",
    (None, _S.QUEUED): "create, due now or soon; materialize a cron tick",
    (_S.PENDING, _S.QUEUED): "promote; resume; run now; reschedule to soon",
    (_S.QUEUED, _S.PENDING): "pause: on hold; reschedule beyond the look-ahead",
    (_S.RETRYING, _S.PENDING): "pause: on hold",
    (_S.PENDING, _S.CANCELLED): "cancel",
    (_S.QUEUED, _S.CANCELLED): "cancel",
    (_S.RETRYING, _S.CANCELLED): "cancel",
    (_S.QUEUED, _S.RUNNING): "claim",
    (_S.RETRYING, _S.RUNNING): "claim",
    (_S.QUEUED, _S.FAILED): "expire: waited beyond max_age_ms; exhaust: no attempts left, after a manual edit",
    (_S.RETRYING, _S.FAILED): "expire: waited beyond max_age_ms; exhaust: no attempts left, after a manual edit",
    (_S.RUNNING, _S.SUCCESS): "complete",
    (_S.RUNNING, _S.FAILED): "complete or reclaim, attempts used up or a permanent error",
    (_S.RUNNING, _S.RETRYING): "complete or reclaim, attempts left; release of a later attempt",
    (_S.RUNNING, _S.QUEUED): "release of a first attempt that was never started",
    (_S.RUNNING, _S.PENDING): "release of an execution of a paused job: on hold",
    (_S.FAILED, _S.QUEUED): "manual retry",
    (_S.CANCELLED, _S.QUEUED): "manual retry",
    (_S.RUNNING, _S.CANCELLED): (
        "complete, reclaim or release after a request to cancel, instead of another attempt; complete an abort; "
        "release of a first attempt after its job was cancelled or replaced"
    ),
}


def may_become(before: ExecutionStatus | None, after: ExecutionStatus) -> bool:
    return (before, after) in TRANSITIONS
