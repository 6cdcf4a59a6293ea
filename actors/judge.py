"""Judge: what the end of an attempt means: which verdict follows, and what the log says."""

import logging
import random
import time
from datetime import timedelta

from actors.dispatch.base import MAX_BODY_BYTES
from app.catalog.loader import Prepared
from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import Claim, DeliveryError, LogLine
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide
from brokers.attempt_line import ids_of
from schema.states import ExecutionStatus, LogLevel

log = logging.getLogger(__name__)

MOST_MESSAGE_CHARACTERS = 2000


def verdict_on(error: DeliveryError, action: RetryAction | None, claim: Claim, prepared: Prepared) -> Verdict:
    """Decide what a failed attempt means, and what is stored of its error."""
    # The policy has looked at the answer as it came. What is stored of it is scrubbed.
    return judge(_scrubbed(error, prepared), action, claim, prepared.policy)


def judge(error: DeliveryError, action: RetryAction | None, claim: Claim, policy: RetryPolicy) -> Verdict:
    """Decide what a failed attempt means, now."""
    # By the database's clock, as of the claim, and by ours since then.
    now = claim.claimed_at + timedelta(seconds=time.monotonic() - claim.claimed_here)
    age_ms = (now - claim.scheduled_at) / timedelta(milliseconds=1)
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts, age_ms)
    return decide(error, action, tried, policy, random.uniform(-1, 1))


def unexpected(error: BaseException, claim: Claim, *, may_have_been_delivered: bool) -> DeliveryError:
    """Return the error of an attempt that met an exception which nobody has foreseen."""
    # The text of an unforeseen exception may contain anything, even a secret: only its type is shown.
    log.error("unexpected %s in a delivery of %s", type(error).__name__, claim.execution_id, extra=ids_of(claim))
    return DeliveryError(
        "INTERNAL_ERROR",
        f"unexpected {type(error).__name__} in the worker",
        may_have_been_delivered=may_have_been_delivered,
    )


def line(claim: Claim, verdict: Verdict) -> LogLine:
    """Return what the log of an execution says of an attempt that has ended."""
    label = f"attempt {claim.attempt} of {claim.max_attempts}"
    if verdict.error is None:
        return LogLine(LogLevel.INFO, f"{label} delivered over {claim.endpoint_type}")
    reason = f"{verdict.error.get('type')}: {verdict.error.get('message')}"
    if verdict.status is ExecutionStatus.SUCCESS:
        return LogLine(LogLevel.WARN, f"{label} failed, which its retry policy ignores: {reason}")
    if verdict.status is ExecutionStatus.CANCELLED:
        return LogLine(LogLevel.INFO, f"{label} {verdict.error.get('message')}")
    if verdict.status is ExecutionStatus.RETRYING:
        return LogLine(LogLevel.WARN, f"{label} failed, next in {verdict.delay_ms} ms: {reason}")
    return LogLine(LogLevel.ERROR, f"{label} failed for good: {reason}")


def _scrubbed(error: DeliveryError, prepared: Prepared) -> DeliveryError:
    message = error.message if prepared.keeps_answer(failed=True) else error.own_message
    return DeliveryError(
        error.type,
        prepared.scrubber.text(message)[:MOST_MESSAGE_CHARACTERS],
        permanent=error.permanent,
        retry_after_ms=error.retry_after_ms,
        may_have_been_delivered=error.may_have_been_delivered,
        extra=prepared.kept(error.extra, MAX_BODY_BYTES, failed=True),
    )
