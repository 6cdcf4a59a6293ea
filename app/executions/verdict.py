"""Verdict: what an attempt's outcome means for its execution; `app.executions.conclusion` writes it."""

from dataclasses import dataclass
from typing import Any

from app.catalog.retry_policy import RetryPolicy, delay_ms
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
    def fail(cls, error: DeliveryError, *, is_final: bool = False) -> "Verdict":
        """RUNNING -> FAILED; the error says whether another attempt could succeed, as far as the policy allows any."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=not (error.permanent or is_final)))


@dataclass(frozen=True, slots=True)
class Tried:
    """The facts that the verdict on an attempt depends on.

    `age_ms` is the time since the instant first planned. `first_loss` says that this attempt ends because its worker
    was lost, as no earlier one of the execution did.
    """

    execution_id: str
    attempt: int
    max_attempts: int
    age_ms: float = 0.0
    first_loss: bool = False

    @property
    def most_attempts(self) -> int:
        """The attempts that it may have: one more for the first lost worker, which may have sent nothing."""
        return self.max_attempts + int(self.first_loss)


def decide(error: DeliveryError, tried: Tried, policy: RetryPolicy, spread: float | None) -> Verdict:
    """Choose between another attempt and giving up; `spread` in [-1, 1] is the jitter of the wait, None for no wait."""
    if is_final(error, policy):
        return Verdict.fail(error, is_final=True)
    if error.permanent or tried.attempt >= tried.most_attempts:
        return Verdict.fail(error)
    wait = 0
    if spread is not None:
        wait = delay_ms(policy, tried.attempt, spread, error.retry_after_ms, seed=tried.execution_id)
    if policy.max_age_ms is not None and tried.age_ms + wait > policy.max_age_ms:
        return Verdict.fail(error)
    return Verdict.retry(error, wait)


def is_too_late(tried: Tried, policy: RetryPolicy) -> bool:
    """Return whether `max_age_ms` rules out that the attempt starts; never for the first one, or after a manual retry.

    A manual retry gives the execution as many attempts more as its policy has, so the first of them can be told.
    """
    first = max(1, tried.max_attempts - policy.max_attempts + 1)
    return tried.attempt > first and policy.max_age_ms is not None and tried.age_ms > policy.max_age_ms


def is_final(error: DeliveryError, policy: RetryPolicy) -> bool:
    """Return whether the policy's `fail_on` names the error's type or the status that the receiver answered."""
    return error.type in policy.fail_on or error.extra.get("status_code") in policy.fail_on
