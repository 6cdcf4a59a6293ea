"""The values that travel between the claim and the conclusion of one attempt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from schema.states import LogLevel


class ClaimKey(NamedTuple):
    """Names one claim for good: an attempt number can come again after a hand-back, this instant cannot."""

    execution_id: str
    attempt: int
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """One execution as it was claimed: `execution_id`, `worker_id` and `attempt` together are the fence."""

    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    endpoint_type: str  # for people: the endpoint version says how it is sent, and this row may be odd
    worker_id: str
    attempt: int
    max_attempts: int
    scheduled_at: datetime
    claimed_at: datetime  # the database's clock
    due_in_seconds: float  # until run_at, by the database's clock at the claim; negative when late
    received_at: float  # time.monotonic() when the claim's answer was in hand
    input: Any = field(repr=False, default=None)

    @property
    def key(self) -> ClaimKey:
        """The claim by name."""
        return ClaimKey(self.execution_id, self.attempt, self.claimed_at)


class DeliveryError(Exception):
    """An attempt that failed; the one exception that a dispatcher raises.

    `permanent` forbids a retry, `retry_after_ms` is the receiver's own wish, and `may_have_been_delivered` is true
    when the message was sent and no answer came.
    """

    def __init__(
        self,
        type_: str,
        message: str,
        *,
        permanent: bool = False,
        retry_after_ms: int | None = None,
        may_have_been_delivered: bool = False,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type_
        self.message = message
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


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line for `execution_logs`."""

    level: LogLevel
    message: str
