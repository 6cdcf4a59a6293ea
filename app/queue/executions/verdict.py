"""Verdict: what an attempt's outcome means for its execution; `app.queue.executions.completion` writes it."""

from dataclasses import dataclass
from typing import Any

from app.catalog.retry_policy import RetryPolicy, delay_ms
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.retry_outcome import RetryAction
from schema.states import ExecutionStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ends; made only by the constructors below, each of which is one legal transition.

    `max_age_ms` is that of a retry: the latest start after the instant first planned.
    """

    status: ExecutionStatus
    delay_ms: int | None = None
    output: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    max_age_ms: int | None = None

    @property
    def is_rejected(self) -> bool:
        """Whether the retry policy said that nobody has to look at it."""
        return bool(self.error and self.error.get("rejected"))

    @classmethod
    def success(cls, output: dict[str, Any]) -> "Verdict":
        """RUNNING -> SUCCESS."""
        return cls(ExecutionStatus.SUCCESS, output=output)

    @classmethod
    def ignore(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> SUCCESS in spite of an error, which is kept: in the output without the receiver's answer to it."""
        kept = error.as_json(retryable=False)
        own = {name: value for name, value in kept.items() if name not in error.extra}
        return cls(ExecutionStatus.SUCCESS, output={**error.extra, "ignored_error": own}, error=own)

    @classmethod
    def retry(cls, error: DeliveryError, delay_ms: int, max_age_ms: int | None = None) -> "Verdict":
        """RUNNING -> RETRYING, claimable again after `delay_ms` by the database's clock."""
        kept = error.as_json(retryable=True)
        return cls(ExecutionStatus.RETRYING, delay_ms=delay_ms, error=kept, max_age_ms=max_age_ms)

    @classmethod
    def fail(cls, error: DeliveryError, *, is_final: bool = False) -> "Verdict":
        """RUNNING -> FAILED; the error says whether another attempt could succeed, as far as the policy allows any."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=not (error.permanent or is_final)))

    @classmethod
    def reject(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> FAILED for good, marked as what nobody has to look at."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=False) | {"rejected": True})

    @classmethod
    def abort(cls) -> "Verdict":
        """RUNNING -> CANCELLED: somebody asked for it after the first byte, and no answer has come."""
        message = "broken off on request, before an answer came"
        error = DeliveryError("ABORTED", message, permanent=True, may_have_been_delivered=True)
        return cls(ExecutionStatus.CANCELLED, error=error.as_json(retryable=False))


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


def decide(
    error: DeliveryError, action: RetryAction | None, tried: Tried, policy: RetryPolicy, spread: float | None
) -> Verdict:
    """Choose what follows an error of which the policy wants `action`.

    `spread` in [-1, 1] is the jitter of the wait before another attempt, None for no wait.
    """
    if action is RetryAction.IGNORE:
        return Verdict.ignore(error)
    if action is RetryAction.REJECT:
        return Verdict.reject(error)
    if action is RetryAction.FAIL:
        return Verdict.fail(error, is_final=True)
    if _is_hopeless(error, action) or tried.attempt >= tried.most_attempts:
        return Verdict.fail(error)
    wait = 0
    if spread is not None:
        wait = delay_ms(policy, tried.attempt, spread, error.retry_after_ms, seed=tried.execution_id)
    if policy.max_age_ms is not None and tried.age_ms + wait > policy.max_age_ms:
        return Verdict.fail(error)
    return Verdict.retry(error, wait, policy.max_age_ms)


def _is_hopeless(error: DeliveryError, action: RetryAction | None) -> bool:
    # Whoever names the answer in `retry_on` knows better than "410 Gone". What cannot even be sent, no policy helps.
    return error.permanent and not (action is RetryAction.RETRY and "status_code" in error.extra)
