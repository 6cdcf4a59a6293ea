"""One delivery on the loop: sent and concluded, or handed back; no exception leaves this module either."""

import asyncio
import logging

from actors.blame import is_targets_fault
from actors.dispatch import Dispatchers
from actors.dispatch.base import MAX_BODY_BYTES, NO_HISTORY, History, Identity
from actors.judge import judge, line, unexpected, verdict_on
from actors.lateness import Dated, is_too_late, too_late
from app.catalog.loader import Prepared
from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import DeliveryError, NotSentError
from app.queue.executions.verdict import Verdict, outcome, refusal
from brokers.attempt import Attempt, Stage
from brokers.attempt_line import ids_of

log = logging.getLogger(__name__)


async def fail(attempt: Attempt, error: DeliveryError) -> None:
    """Conclude an attempt that could not be prepared, so that only the default policy is known."""
    attempt.tally.started[attempt.claim.endpoint_type, attempt.claim.endpoint][0] += 1
    verdict = judge(error, None, attempt.claim, RetryPolicy())
    attempt.conclude(verdict, line(attempt.claim, verdict))


async def deliver(
    dispatchers: Dispatchers, attempt: Attempt, prepared: Prepared, history: History = NO_HISTORY
) -> None:
    """Send and conclude, or hand back what was not sent."""
    if not attempt.enter(Stage.STARTED):
        return
    claim, policy, target = attempt.claim, prepared.policy, attempt.target
    attempt.tally.started[claim.endpoint_type, claim.endpoint][0] += 1
    permission = attempt if claim.expires_at is None else Dated(attempt)
    soft_ms = prepared.spec.get("soft_timeout_ms")
    trace = None if attempt.spans is None else attempt.spans.begin(attempt)
    identity = Identity.of(claim, prepared.scrubber, permission, history, soft_limit_ms=soft_ms, trace=trace)
    try:
        if attempt.started_at > attempt.latest_at:
            # Asked again after a wait for a connection, but not before the first byte: to connect to some hosts takes
            # longer each time.
            attempt.begin()
        output = await dispatchers.by_type[prepared.endpoint_type].send(prepared.spec, identity)
        target.results[claim.endpoint][0] += 1  # without a call, for the sake of speed
        if target.probe is not None:
            target.probed(attempt, failed=False)
        # An answer that was expected is a success, unless the policy refuses what it says.
        refused = refusal(output, policy) if policy.reads_answers else None
        if refused is None:
            verdict = Verdict.success(prepared.kept(output, MAX_BODY_BYTES, failed=False))
        else:
            verdict = verdict_on(*refused, claim, prepared)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see the module docstring
        if (failed := _unsent_or_failed(attempt, prepared, error)) is None:
            return
        verdict = failed
    attempt.conclude(verdict, line(claim, verdict))


def _unsent_or_failed(attempt: Attempt, prepared: Prepared, error: BaseException) -> Verdict | None:
    """Return what an error in a delivery means; None when the attempt was handed back."""
    claim, policy = attempt.claim, prepared.policy
    match error:
        case NotSentError() if is_too_late(attempt):
            return Verdict.fail(too_late(attempt))
        case NotSentError():
            log.info("%s handed back: %s", claim.execution_id, error, extra=ids_of(claim))
            is_noted = error.is_noted and not attempt.target.is_open
            attempt.release(even_if_started=True, put_off_ms=error.put_off_ms, is_noted=is_noted)
            return None
        case asyncio.CancelledError():
            if not attempt.is_aborted:
                raise error  # the worker stops
            return _broken_off(attempt)
        case DeliveryError():
            _blame(attempt, error)
        case _:
            error = unexpected(error, claim, may_have_been_delivered=True)
    return verdict_on(error, outcome(error, error.extra, policy), claim, prepared)


def _broken_off(attempt: Attempt) -> Verdict | None:
    """Return how an attempt ends that somebody asked to abort; None where nothing was sent, and it was handed back."""
    if attempt.is_sent:
        return Verdict.abort()
    attempt.release(even_if_started=True)  # which ends it, because it was asked to end
    return None


def _blame(attempt: Attempt, error: DeliveryError) -> None:
    """Count a failure against the target, or for it where it has answered as one that works."""
    target, endpoint, failed = attempt.target, attempt.claim.endpoint, is_targets_fault(error)
    if failed:
        target.failed(endpoint, error.retry_after_ms)
    elif failed is not None:
        target.results[endpoint][0] += 1
    target.probed(attempt, failed)
