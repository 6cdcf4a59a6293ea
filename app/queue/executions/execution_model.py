"""Executions as values: claims, and the errors of attempts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.kernel.errors import TaskExecutorError
from app.kernel.formats import EPOCH
from schema.states import LogLevel


class ClaimKey(NamedTuple):
    """Identity of a claim; an attempt number can repeat after a release, so the time of the claim is part of it."""

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
    endpoint_type: str  # for log lines only; the endpoint version decides the transport
    worker_id: str
    attempt: int
    max_attempts: int
    config_revision: int  # catalog revision of the configs of all attempts
    scheduled_at: datetime
    claimed_at: datetime  # the database's clock
    due_in_seconds: float  # until run_at, by the database's clock at the claim; negative if late
    late_seconds: float  # since run_at, whatever the reason of the wait; 0 before run_at
    claimed_here: float  # claimed_at on time.monotonic(), or a little later (app.queue.executions.database_clock)
    input: Any = None
    queue: str = ""
    shard: int = 0
    limit_key: str = ""
    priority: int = 128
    # Limiters that count the claim in a sliding window, each with a hundredth of the window's width in nanoseconds.
    windows: tuple[tuple[str, int], ...] = ()
    trace_context: str | None = None  # of the manual request, else of the job
    followed: int = 0  # app.queue.ending.subscriptions.Followed
    due_at: datetime | None = None  # run_at of the row; None if unknown
    expires_at: datetime | None = None  # the latest start that `max_age_ms` allows, by the database's clock

    def __repr__(self) -> str:
        return f"Claim({self.execution_id}, attempt={self.attempt})"


class DeliveryError(Exception):
    """A failed attempt; a dispatcher raises this or NotSentError.

    `permanent` rules out a retry, `retry_after_ms` is the receiver's request, and `may_have_been_delivered` is true if
    the message was sent and no answer came. `quote` is appended to the message, with its own separator; it may contain
    the receiver's words. With `again_ms` the receiver asks for another attempt after so long, however many there were.
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
        again_ms: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message + quote)
        self.type = type_
        self.message = message + quote
        self.own_message = message
        self.permanent = permanent
        self.retry_after_ms = retry_after_ms
        self.may_have_been_delivered = may_have_been_delivered
        self.again_ms = again_ms
        self.extra = dict(extra or {})

    def as_json(self, *, retryable: bool) -> dict[str, object]:
        """Return the error as stored with its attempt and returned by the API."""
        return {
            "type": self.type,
            "message": self.message,
            **self.extra,
            "retryable": retryable,
            "may_have_been_delivered": self.may_have_been_delivered,
        }


class FollowingJob(NamedTuple):
    """Job that an attempt creates with its completion; due `delay_ms` milliseconds after it."""

    endpoint: str
    input: dict[str, Any]
    idempotency_key: str
    delay_ms: int | None = None
    priority: int | None = None


class HandedOverError(Exception):
    """The attempt continues without its worker, which writes no result of it (app.queue.executions.handover)."""


class NotSentError(Exception):
    """Nothing was sent, and nothing may be sent: the claim is released, and no attempt is used.

    The execution is due again after `defer_ms`; 0 keeps its due time. `is_noted` records the release in the history.
    """

    def __init__(self, reason: str, defer_ms: int = 0, *, is_noted: bool = True) -> None:
        super().__init__(reason)
        self.defer_ms = defer_ms
        self.is_noted = is_noted


class LogLine(NamedTuple):
    level: LogLevel
    message: str


@dataclass(frozen=True, slots=True)
class OperationResult:
    """Result of an operation on several executions: the number due now by queue, and errors by id."""

    queues: Counter[str] = field(default_factory=Counter)
    refused: Mapping[str, TaskExecutorError] = field(default_factory=dict)


def key_of_tick(job_id: str, tick: datetime) -> str:
    """Return the idempotency key of the execution of a tick; the keys of a job are in the order of its ticks."""
    return f"{job_id}_{(tick - EPOCH) // timedelta(milliseconds=1)}"
