"""One delivery on the loop: sent and concluded, or handed back; no exception leaves this module either."""

import asyncio
import logging
from functools import partial

from actors.blame import is_targets_fault
from actors.dispatch import Dispatchers
from actors.dispatch.base import MAX_BODY_BYTES, NO_HISTORY, History, Identity, SoftLimit
from actors.judge import judge, line, unexpected, verdict_on
from actors.lateness import comes_too_late, may_send, too_late
from app.catalog.loader import Prepared
from app.catalog.retry_policy import RetryPolicy
from app.queue.executions.execution_model import DeliveryError, NotSentError
from app.queue.executions.retry_outcome import outcome, refusal
from app.queue.executions.verdict import Verdict
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
    in_time = attempt.still_held if policy.max_age_ms is None else partial(may_send, attempt, policy)
    soft_ms = prepared.spec.get("soft_timeout_ms")
    soft_limit = None if soft_ms is None else SoftLimit(soft_ms, partial(attempt.pass_soft_limit, soft_ms))
    trace = None if attempt.spans is None else attempt.spans.begin(attempt)
    identity = Identity.of(claim, prepared.scrubber, in_time, history, soft_limit, begin=attempt.begin, trace=trace)
    try:
        if attempt.started_at > attempt.latest_at:
            # Asked again after a wait for a connection, but not before the first byte: to connect to some hosts takes
            # longer each time.
            attempt.begin()
        output = await dispatchers[prepared.endpoint_type].send(prepared.spec, identity)
        results = target.results
        results.tally[0] += 1  # without a call: each delivery comes by here
        results.by_endpoint[claim.endpoint][0] += 1
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
        case NotSentError() if comes_too_late(attempt, policy):
            return Verdict.fail(too_late(attempt, policy))
        case NotSentError():
            log.info("%s handed back: %s", claim.execution_id, error, extra=ids_of(claim))
            # What is due anew by that is as old as it was: its history has to tell.
            is_noted = error.is_noted and (error.put_off_ms > 0 or not attempt.target.is_shut)
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
        target.results.tally[0] += 1
        target.results.by_endpoint[endpoint][0] += 1
    target.probed(attempt, failed)
