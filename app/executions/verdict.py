"""What an attempt's outcome means for its execution: decided in values, written by `app.executions.conclude`."""

from dataclasses import dataclass
from typing import Any

from app.executions.backoff import RetryPolicy, delay_ms
from app.executions.model import DeliveryError
from schema.states import ExecutionStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ends; made only by the constructors below, each of which is one legal transition."""

    status: ExecutionStatus
    delay_ms: int | None = None
    output: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    @classmethod
    def success(cls, output: dict[str, Any]) -> "Verdict":
        """RUNNING -> SUCCESS."""
        return cls(ExecutionStatus.SUCCESS, output=output)

    @classmethod
    def retry(cls, error: DeliveryError, delay_ms: int) -> "Verdict":
        """RUNNING -> RETRYING, claimable again after `delay_ms` by the database's clock."""
        return cls(ExecutionStatus.RETRYING, delay_ms=delay_ms, error=error.as_json(retryable=True))

    @classmethod
    def fail(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> FAILED; the error says whether another attempt could have helped."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=not error.permanent))

    @property
    def is_success(self) -> bool:
        """Tell whether the delivery succeeded."""
        return self.status is ExecutionStatus.SUCCESS


def decide(error: DeliveryError, *, attempt: int, max_attempts: int, policy: RetryPolicy, spread: float) -> Verdict:
    """Choose between another attempt and giving up; `spread` in [-1, 1] is the jitter."""
    if error.permanent or attempt >= max_attempts:
        return Verdict.fail(error)
    return Verdict.retry(error, delay_ms(policy, attempt, spread, error.retry_after_ms))
