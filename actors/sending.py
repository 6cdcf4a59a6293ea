"""One delivery on the loop: sent and completed, or released; no exception leaves this module."""

import asyncio
import logging
import random
import time
from datetime import UTC, timedelta

from actors.dispatch import Dispatchers
from actors.dispatch.base import MAX_BODY_BYTES, NO_HISTORY, History, Identity
from actors.lateness import Dated, is_too_late, too_late
from app.catalog.loader import Prepared
from app.catalog.retry_policy import RetryPolicy
from app.kernel.tracing.context import trace_of
from app.queue.claiming.release import DUE_NOW_MS
from app.queue.executions.execution_model import Claim, DeliveryError, HandedOverError, NotSentError
from app.queue.executions.verdict import RetryAction, Tried, Verdict, decide, failure_line, outcome, refusal
from brokers.attempt import Attempt, Stage
from brokers.attempt_line import ids_of
from schema.states import ExecutionStatus

log = logging.getLogger(__name__)

MAX_MESSAGE_CHARACTERS = 2000
_SERVER_ERRORS = 500  # statuses from here on
_SENT_TOO_OFTEN = frozenset({408, 429})
_TARGET_ERRORS = frozenset({"TIMEOUT", "CONNECTION_ERROR", "BROKER_ERROR", "STREAM_ERROR"})
# librdkafka's names of errors of one endpoint's topic: the cluster serves other topics.
_TOPIC_ERRORS = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


async def fail(attempt: Attempt, error: DeliveryError) -> None:
    """Conclude an attempt that could not be prepared, by the default policy because its own is unknown."""
    attempt.counters.started[attempt.claim.endpoint_type, attempt.claim.endpoint][0] += 1
    complete(attempt, judge(error, None, attempt.claim, RetryPolicy()))


async def deliver(
    dispatchers: Dispatchers, attempt: Attempt, prepared: Prepared, history: History = NO_HISTORY
) -> None:
    """Send and complete an attempt, or release it unsent."""
    if not attempt.enter(Stage.STARTED):
        return
    claim, policy, target = attempt.claim, prepared.policy, attempt.target
    attempt.counters.started[claim.endpoint_type, claim.endpoint][0] += 1
    trace = None if attempt.spans is None else attempt.spans.begin(attempt)
    identity = Identity(
        claim.execution_id,
        claim.job_id,
        claim.attempt,
        claim.scheduled_at.astimezone(UTC),
        *(trace or trace_of(claim.execution_id, claim.trace_context))[:2],
        scrubber=prepared.scrubber,
        permission=attempt if claim.expires_at is None else Dated(attempt),
        history=history,
        soft_limit_ms=prepared.spec.get("soft_timeout_ms"),
    )
    try:
        if attempt.started_at > attempt.latest_at:
            # Checked again after a wait for a connection, but not before the first byte: connecting takes longer each
            # time with some hosts.
            attempt.begin()
        dispatcher = dispatchers.by_type[prepared.endpoint_type]
        output = await dispatcher.send(prepared.spec, identity)
        target.results[claim.endpoint][0] += 1  # without a call, for speed
        if target.probe is not None:
            target.probed(attempt, failed=False)
        # An expected answer is a success, unless the policy refuses its content.
        refused = refusal(output, policy) if policy.reads_answers else None
        if refused is None:
            kept = output and prepared.kept(output, dispatcher.max_text_bytes, failed=False)
            verdict = Verdict(ExecutionStatus.SUCCESS, output=kept)
        else:
            verdict = _verdict_on(*refused, claim, prepared)
    except HandedOverError:
        attempt.hand_over()
        return
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see the module docstring
        if (failed := _unsent_or_failed(attempt, prepared, error)) is None:
            return
        verdict = failed
    complete(attempt, verdict)


def _unsent_or_failed(attempt: Attempt, prepared: Prepared, error: BaseException) -> Verdict | None:
    """Return the verdict after an error of a delivery; None if the attempt was released."""
    claim, policy = attempt.claim, prepared.policy
    match error:
        case NotSentError() if is_too_late(attempt):
            return Verdict.fail(too_late(attempt))
        case NotSentError():
            log.info("execution %s released unsent: %s", claim.execution_id, error, extra=ids_of(claim))
            is_noted = error.is_noted and not attempt.target.is_open
            attempt.release(even_if_started=True, defer_ms=error.defer_ms, is_noted=is_noted)
            return None
        case asyncio.CancelledError() if not attempt.is_aborted and attempt.is_sent:
            raise error  # the worker stops, and a scheduler reclaims the attempt
        case asyncio.CancelledError() if not attempt.is_aborted:
            attempt.release(even_if_started=True, defer_ms=DUE_NOW_MS)
            return None
        case asyncio.CancelledError() if attempt.is_sent:
            return Verdict.abort()
        case asyncio.CancelledError():
            attempt.release(even_if_started=True)  # which ends the execution, because its abort was requested
            return None
        case DeliveryError():
            _blame(attempt, error)
        case _:
            error = unexpected(error, claim, may_have_been_delivered=True)
    return _verdict_on(error, outcome(error, error.extra, policy), claim, prepared)


def _blame(attempt: Attempt, error: DeliveryError) -> None:
    """Count a failure of the target, or a success if the target answered and works."""
    target, endpoint, failed = attempt.target, attempt.claim.endpoint, is_targets_fault(error)
    if failed:
        target.failed(endpoint, error.retry_after_ms)
    elif failed is not None:
        target.results[endpoint][0] += 1
    target.probed(attempt, failed)


def is_targets_fault(error: DeliveryError) -> bool | None:
    """Return whether the target failed: false if it answered and works, None if the error does not show it.

    Each HTTP answer except 5xx, 408 and 429 shows that the host works. With other transports, a permanent error is the
    endpoint's fault: its credentials, its stream, its topic.
    """
    status = error.extra.get("status_code")
    if isinstance(status, int):
        return status >= _SERVER_ERRORS or status in _SENT_TOO_OFTEN
    if error.type not in _TARGET_ERRORS or error.permanent or error.own_message in _TOPIC_ERRORS:
        return None
    return True


def _verdict_on(error: DeliveryError, action: RetryAction | None, claim: Claim, prepared: Prepared) -> Verdict:
    """Return the verdict on a failed attempt; its stored error is scrubbed, unlike the answer that the policy reads."""
    message = error.message if prepared.keeps_answer(failed=True) else error.own_message
    scrubbed = DeliveryError(
        error.type,
        prepared.scrubber.text(message)[:MAX_MESSAGE_CHARACTERS],
        permanent=error.permanent,
        retry_after_ms=error.retry_after_ms,
        may_have_been_delivered=error.may_have_been_delivered,
        again_ms=error.again_ms,
        extra=prepared.kept(error.extra, MAX_BODY_BYTES, failed=True),
    )
    return judge(scrubbed, action, claim, prepared.policy)


def judge(error: DeliveryError, action: RetryAction | None, claim: Claim, policy: RetryPolicy) -> Verdict:
    """Return the verdict on an attempt that fails now: by the database's clock at the claim, and by ours since then."""
    now = claim.claimed_at + timedelta(seconds=time.monotonic() - claim.claimed_here)
    age_ms = (now - claim.scheduled_at) / timedelta(milliseconds=1)
    tried = Tried(claim.execution_id, claim.attempt, claim.max_attempts, age_ms)
    return decide(error, action, tried, policy, random.uniform(-1, 1))


def unexpected(error: BaseException, claim: Claim, *, may_have_been_delivered: bool) -> DeliveryError:
    """Return the error of an attempt that met an unforeseen exception."""
    # The text of an unforeseen exception may contain anything, even a secret: only its type is shown.
    log.error(
        "unexpected %s in a delivery of execution %s; the attempt fails",
        type(error).__name__,
        claim.execution_id,
        extra=ids_of(claim),
    )
    return DeliveryError(
        "INTERNAL_ERROR",
        f"unexpected {type(error).__name__} in the worker",
        may_have_been_delivered=may_have_been_delivered,
    )


def complete(attempt: Attempt, verdict: Verdict) -> None:
    """End an attempt with a verdict, and with a line in the log of its execution unless it was delivered.

    The line of a delivered attempt follows from its row (`app.queue.reading.log_lines`).
    """
    if verdict.error is None:
        attempt.complete(verdict)
    else:
        claim = attempt.claim
        attempt.complete(verdict, failure_line(verdict, claim.attempt, claim.max_attempts))
