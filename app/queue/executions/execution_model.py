"""Executions as values: stored records, and what travels from the claim of an attempt to its conclusion."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from sqlalchemy import Row

from app.kernel.db.rows import columns_of
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, LogLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A stored execution: one run of a job; `last_error` is that of its latest attempt that ended, if it failed."""

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_type: EndpointType
    endpoint_version: int
    idempotency_key: str | None
    queue: str
    priority: int
    limit_key: str
    status: ExecutionStatus
    output: dict[str, Any] | None
    last_error: dict[str, Any] | None
    attempt_count: int
    max_attempts: int
    worker_id: str | None
    scheduled_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    cancel_requested_at: datetime | None
    abort_requested_at: datetime | None
    created_at: datetime

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Take the fields out of a row that has a column for each."""
        enums = {"endpoint_type": EndpointType(row.endpoint_type), "status": ExecutionStatus(row.status)}
        return cls(**columns_of(cls, row) | enums)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionWithInput(Execution):
    """An execution with the input of its job, which lists leave out."""

    input: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """A stored attempt: one try within an execution."""

    attempt_id: str
    execution_id: str
    attempt_number: int
    status: AttemptStatus
    worker_id: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    output: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Take the fields out of a row that has a column for each."""
        return cls(**columns_of(cls, row) | {"status": AttemptStatus(row.status)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A stored line of an execution's log."""

    log_id: str
    execution_id: str
    attempt_number: int
    level: LogLevel
    message: str
    logged_at: datetime

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Take the fields out of a row that has a column for each."""
        return cls(**columns_of(cls, row) | {"level": LogLevel(row.level)})


class ClaimKey(NamedTuple):
    """The identity of a claim: an attempt number can repeat after a release, the instant of the claim cannot."""

    execution_id: str
    attempt: int
    claimed_at: datetime


class Claim(NamedTuple):
    """A claimed execution; `execution_id`, `worker_id` and `attempt` together are the fence."""

    key: ClaimKey
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    endpoint_type: str  # for log lines only: the endpoint version decides how it is sent
    worker_id: str
    attempt: int
    max_attempts: int
    config_revision: int  # the catalogue revision whose configs all attempts use
    scheduled_at: datetime
    claimed_at: datetime  # the database's clock
    due_in_seconds: float  # until it may start, by the database's clock at the claim; negative when late
    late_seconds: float  # since run_at, whatever it has waited for; 0 before that
    claimed_here: float  # claimed_at on time.monotonic(), or a little later (app.queue.executions.database_clock)
    input: Any = None
    queue: str = ""
    shard: int = 0
    limit_key: str = ""
    priority: int = 128
    # The gates that count it in a sliding window, and how wide the window's hundredths are, in nanoseconds.
    windows: tuple[tuple[str, int], ...] = ()
    trace_context: str | None = None  # of the request that asked for it by hand, else of its job
    followed: int = 0  # app.queue.ending.subscriptions.Followed
    expires_at: datetime | None = None  # the latest start that `max_age_ms` allows, by the database's clock

    def __repr__(self) -> str:
        return f"Claim({self.execution_id}, attempt={self.attempt})"


class DeliveryError(Exception):
    """An attempt that failed; with NotSentError one of the two exceptions that a dispatcher raises.

    `permanent` rules out a retry, `retry_after_ms` is what the receiver asked for, and `may_have_been_delivered` is
    true when the message was sent and no answer came. `quote` ends the message with what a receiver may have worded,
    and begins with what divides the two.
    """

    def __init__(
        self,
        type_: str,
        message: str,
        *,
        quote: str = "",
        permanent: bool = False,
        retry_after_ms: int | None = None,
        may_have_been_delivered: bool = False,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message + quote)
        self.type = type_
        self.message = message + quote
        self.own_message = message
        self.permanent = permanent
        self.retry_after_ms = retry_after_ms
        self.may_have_been_delivered = may_have_been_delivered
        self.extra = dict(extra or {})

    def as_json(self, *, retryable: bool) -> dict[str, object]:
        """Return the error as it is stored with its attempt and shown by the API."""
        return {
            "type": self.type,
            "message": self.message,
            **self.extra,
            "retryable": retryable,
            "may_have_been_delivered": self.may_have_been_delivered,
        }


class NotSentError(Exception):
    """Nothing was sent, and this attempt may send nothing: its claim is handed back, and no attempt is spent.

    It is due again after `put_off_ms`, else it keeps its place. Without `is_noted` its history does not tell of it.
    """

    def __init__(self, reason: str, put_off_ms: int = 0, *, is_noted: bool = True) -> None:
        super().__init__(reason)
        self.put_off_ms = put_off_ms
        self.is_noted = is_noted


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line to write to `execution_logs`."""

    level: LogLevel
    message: str
