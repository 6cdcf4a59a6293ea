"""Verdict: effect of an attempt's outcome on its execution; `app.queue.executions.completion` writes it."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from app.catalog.retry_policy import RetryPolicy, delay_ms
from app.catalog.retry_policy.matchers import AttemptOutcome
from app.queue.executions.execution_model import DeliveryError, LogLine
from schema.states import ExecutionStatus, LogLevel


class RetryAction(Enum):
    """Action of a retry policy; the values are the lists of matchers, in the order of comparison."""

    FAIL = "fail_on"  # no further attempt
    REJECT = "reject_on"  # no further attempt, and no dead letter
    IGNORE = "ignore_on"  # success
    RETRY = "retry_on"  # another attempt, if any is left


def outcome(error: DeliveryError | None, answer: Mapping[str, Any], policy: RetryPolicy) -> RetryAction | None:
    """Return the action of the first list that matches; None if no list does.

    `answer` may have a `status_code` and a `body`, which is the received body, neither scrubbed nor clipped. Without an
    error, only the matchers of the answer apply. An error that a `retry_on` omits fails.
    """
    seen = AttemptOutcome(error.type if error else None, answer.get("status_code"), answer.get("body"))
    for action in RetryAction:
        if seen.is_named_by(getattr(policy, action.value)):
            return action
    return RetryAction.FAIL if error is not None and policy.retry_on else None


def refusal(answer: Mapping[str, Any], policy: RetryPolicy) -> tuple[DeliveryError, RetryAction] | None:
    """Return the error and the action if the policy refuses a successful answer; None for a success."""
    action = outcome(None, answer, policy)
    if action is None or action is RetryAction.IGNORE:
        return None
    message = f"the endpoint answered {answer.get('status_code')}, and the content of the answer matches {action.value}"
    kept = {name: answer[name] for name in ("status_code", "body") if name in answer}
    return DeliveryError("ANSWER_REFUSED", message, extra=kept), action


class Verdict(NamedTuple):
    """End of an attempt, made by the constructors only; a retry starts within `max_age_ms` of the planned time."""

    status: ExecutionStatus
    delay_ms: int | None = None
    output: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    max_age_ms: int | None = None

    @property
    def is_rejected(self) -> bool:
        """True if the retry policy rejected the error, so that no dead letter is written."""
        return bool(self.error and self.error.get("rejected"))

    @property
    def is_plain_success(self) -> bool:
        """True for a success without an ignored error, which leaves no row in `attempts`."""
        return self.status is ExecutionStatus.SUCCESS and self.error is None

    @classmethod
    def ignore(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> SUCCESS despite an error; the output has the answer, and the error without the answer."""
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
        """RUNNING -> FAILED; `retryable` in the error is true if another attempt could succeed."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=not (error.permanent or is_final)))

    @classmethod
    def reject(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> FAILED for good, without a dead letter."""
        return cls(ExecutionStatus.FAILED, error=error.as_json(retryable=False) | {"rejected": True})

    @classmethod
    def cancel(cls, error: DeliveryError) -> "Verdict":
        """RUNNING -> CANCELLED: the work of the attempt was cancelled."""
        return cls(ExecutionStatus.CANCELLED, error=error.as_json(retryable=False))

    @classmethod
    def abort(cls) -> "Verdict":
        """RUNNING -> CANCELLED: aborted on request after the first byte was sent and before an answer."""
        message = "aborted on request, before an answer came"
        error = DeliveryError("ABORTED", message, permanent=True, may_have_been_delivered=True)
        return cls(ExecutionStatus.CANCELLED, error=error.as_json(retryable=False))


class Tried(NamedTuple):
    """Facts about an attempt that decide its verdict.

    `age_ms` is the time since the first planned time. `first_loss` is true for the first attempt of an execution that
    its worker did not end: the worker was lost or got stuck.
    """

    execution_id: str
    attempt: int
    max_attempts: int
    age_ms: float = 0.0
    first_loss: bool = False

    @property
    def most_attempts(self) -> int:
        """Maximum number of attempts: one more after the first loss, because nothing may have been sent."""
        return self.max_attempts + int(self.first_loss)


def decide(
    error: DeliveryError, action: RetryAction | None, tried: Tried, policy: RetryPolicy, spread: float | None
) -> Verdict:
    """Decide the verdict on an error; `spread` in [-1, 1] is the jitter of the wait before a retry, None for none."""
    if action is RetryAction.IGNORE:
        return Verdict.ignore(error)
    if action is RetryAction.REJECT:
        return Verdict.reject(error)
    if action is RetryAction.FAIL:
        return Verdict.fail(error, is_final=True)
    # A `retry_on` that matches the answer overrides a permanent status such as 410. An unsendable message stays final.
    is_hopeless = error.permanent and not (action is RetryAction.RETRY and "status_code" in error.extra)
    is_over = is_hopeless or tried.attempt >= tried.most_attempts
    if is_over and error.again_ms is None:
        return Verdict.fail(error)
    wait = error.again_ms or 0
    if spread is not None and error.again_ms is None:
        wait = delay_ms(policy, tried.attempt, spread, error.retry_after_ms, seed=tried.execution_id)
    if policy.max_age_ms is not None and tried.age_ms + wait > policy.max_age_ms:
        return Verdict.fail(error)
    return Verdict.retry(error, wait, policy.max_age_ms)


def failure_line(verdict: Verdict, attempt: int, max_attempts: int) -> LogLine:
    """Return the line in the log of an execution about an attempt that was not delivered."""
    error, label = verdict.error or {}, f"attempt {attempt} of {max_attempts}"
    reason = f"{error.get('type')}: {error.get('message')}"
    match verdict.status:
        case ExecutionStatus.SUCCESS:
            return LogLine(LogLevel.WARN, f"{label} failed, which its retry policy ignores: {reason}")
        case ExecutionStatus.CANCELLED:
            return LogLine(LogLevel.INFO, f"{label} {error.get('message')}")
        case ExecutionStatus.RETRYING:
            return LogLine(LogLevel.WARN, f"{label} failed, next in {verdict.delay_ms} ms: {reason}")
    return LogLine(LogLevel.ERROR, f"{label} failed for good: {reason}")
