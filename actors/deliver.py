"""Delivery of claimed attempts: prepare, send, conclude.

An actor only prepares deliveries; the loop starts each at its instant, and its completion concludes the attempt. No
exception leaves this module, because Dramatiq would acknowledge the message as done.
"""

import asyncio
import logging
import random
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from actors.blame import is_targets_fault
from actors.dispatch import Dispatchers
from actors.dispatch.base import MAX_BODY_BYTES, NO_HISTORY, History, Identity, SoftLimit
from actors.loop import Delivery, DeliveryLoop
from app.catalog.loader import Catalog, Prepared, SecretUnreadableError
from app.catalog.retry_policy import RetryPolicy
from app.db import Database
from app.db.retry import explained
from app.errors import TemplateError, UnavailableError
from app.executions.model import Claim, DeliveryError, LogLine, NotSentError
from app.executions.policy import Action, outcome, refusal
from app.executions.reading.queries import uncertain_for
from app.executions.verdict import Tried, Verdict, decide, is_too_late
from brokers.attempt import Attempt, Stage
from brokers.rules import FlowRules
from brokers.targets import Bound, Targets
from schema.states import EndpointType, ExecutionStatus, LogLevel

log = logging.getLogger(__name__)

MOST_MESSAGE_CHARACTERS = 2000


class Deliveries:
    """Starts the delivery of attempts on the process's event loop."""

    def __init__(
        self,
        catalog: Catalog,
        loop: DeliveryLoop,
        database: Database,
        targets: Targets | None = None,
        rules: FlowRules | None = None,
    ) -> None:
        self._catalog = catalog
        self._loop = loop
        self._database = database
        self._targets = targets or Targets()
        self._rules = rules or FlowRules(database)

    def start(self, attempts: Iterable[Attempt]) -> None:
        """Prepare attempts on the calling thread and pass them to the loop."""
        prepared = [self._prepare(attempt) for attempt in attempts if attempt.enter(Stage.TAKEN)]
        self._loop.submit([delivery for delivery in prepared if delivery is not None])

    def _prepare(self, attempt: Attempt) -> Delivery | None:
        """Prepare an attempt, or its failure; None when it was handed back."""
        claim = attempt.claim
        try:
            prepared = self._catalog.prepare(claim.endpoint, claim.endpoint_version, claim.input, claim.config_revision)
            history = NO_HISTORY
            if prepared.endpoint_type is EndpointType.REDIS_STREAM:
                history = self._history(claim, prepared.policy)
        except TemplateError as error:
            failure = DeliveryError("TEMPLATE_RESOLUTION_FAILED", error.message, permanent=True)
            return Delivery(attempt, lambda _: fail(attempt, failure))
        except SecretUnreadableError:
            # The catalogue has told the operator once; all that meet this secret would fill the log.
            attempt.put_off()
        except (UnavailableError, SQLAlchemyError) as error:
            # Nothing was sent: the attempt is not spent.
            log.warning("%s handed back: %s", claim.execution_id, explained(error))
            attempt.put_off(briefly=isinstance(error, UnavailableError))
        except Exception as error:  # noqa: BLE001 - one odd row must not end the worker thread
            unexpected = _unexpected(error, may_have_been_delivered=False)
            return Delivery(attempt, lambda _: fail(attempt, unexpected))
        else:
            bound = self._targets.bound.get(claim.endpoint)
            is_longer = bound is None or prepared.spec["timeout_ms"] > bound.target.timeout_ms
            if bound is None or is_longer or bound.name != prepared.target:
                bound = self._bind(claim.endpoint, prepared)
            attempt.target = bound.target
            if prepared.policy.max_age_ms is not None:
                # Behind a limit or a breaker a first attempt may have waited as well.
                rules = self._rules.of(claim.endpoint)
                is_limited = rules is not None and rules.limits is not None
                attempt.has_waited = is_limited or bound.target.has_kept(claim.claimed_here - claim.late_seconds)
            if attempt.target.is_shut and not self._is_probe(attempt, prepared):
                return None
            # It is in the prepared request now, and an attempt may wait long for its answer.
            attempt.claim = claim._replace(input=None)
            return Delivery(attempt, lambda dispatchers: deliver(dispatchers, attempt, prepared, history))
        return None

    def _is_probe(self, attempt: Attempt, prepared: Prepared) -> bool:
        """Let an attempt be the probe of its target, or hand it back."""
        claim, target = attempt.claim, attempt.target
        leads_elsewhere = self._leads_elsewhere(claim, prepared)
        if target.take_probe(attempt):
            return True
        target.want_probe()
        # What the newest version leads to must not wait behind what an earlier one does.
        put_off_ms = target.put_off_ms(claim.claimed_at - claim.scheduled_at) if leads_elsewhere else 0
        attempt.release(put_off_ms=put_off_ms, is_noted=False)
        return False

    def _leads_elsewhere(self, claim: Claim, prepared: Prepared) -> bool:
        """Return whether the newest version of an endpoint leads to another target, which is not shut."""
        bound = self._targets.bound[claim.endpoint]
        self._targets.followed(claim.endpoint)
        try:
            if bound.name == prepared.target:
                newest = self._catalog.prepare_newest(claim.endpoint, claim.config_revision)
                if newest.target != bound.name or newest.spec["timeout_ms"] > bound.target.timeout_ms:
                    bound = self._bind(claim.endpoint, newest)
        except Exception:  # noqa: BLE001 - whatever the newest version is like, this one is only handed back
            return False  # the next one that is claimed asks again
        return bound.name != prepared.target and not bound.target.is_shut

    def _bind(self, endpoint: str, prepared: Prepared) -> Bound:
        """Note where an endpoint leads."""
        # Records to the same brokers share their connections.
        has_turns = prepared.endpoint_type is not EndpointType.KAFKA
        timeout_ms = prepared.spec["timeout_ms"]
        return self._targets.bind(endpoint, prepared.target, timeout_ms, has_turns=has_turns)

    def _history(self, claim: Claim, policy: RetryPolicy) -> History:
        """Read what the dispatcher of Redis Streams has to know."""
        doubt = uncertain_for(self._database, claim.execution_id) if claim.attempt > 1 else None
        since = None if doubt is None else time.monotonic() - doubt.total_seconds()
        return History(policy.longest_wait_ms / 1000, since)


async def deliver(
    dispatchers: Dispatchers, attempt: Attempt, prepared: Prepared, history: History = NO_HISTORY
) -> None:
    """Send and conclude, or hand back what was not sent."""
    if not attempt.enter(Stage.STARTED):
        return
    claim, policy, target = attempt.claim, prepared.policy, attempt.target
    may_send = attempt.still_held if policy.max_age_ms is None else partial(_may_send, attempt, policy)
    soft_ms = prepared.spec.get("soft_timeout_ms")
    soft_limit = None if soft_ms is None else SoftLimit(soft_ms, partial(attempt.pass_soft_limit, soft_ms))
    identity = Identity.of(claim, prepared.scrubber, may_send, history, soft_limit)
    try:
        output = await dispatchers[prepared.endpoint_type].send(prepared.spec, identity)
        target.tally[0] += 1  # without a call: each delivery comes by here
        if target.probe is not None:
            target.probed(attempt, failed=False)
        # An answer that was expected is a success, unless the policy refuses what it says.
        refused = refusal(output, policy) if policy.reads_answers else None
        if refused is None:
            verdict = Verdict.success(prepared.kept(output, MAX_BODY_BYTES, failed=False))
        else:
            verdict = _verdict_on(*refused, claim, prepared)
    except NotSentError as error:
        if not _is_too_late(attempt, policy):
            log.info("%s handed back: %s", claim.execution_id, error)
            attempt.release(
                even_if_started=True, put_off_ms=error.put_off_ms, is_noted=error.is_noted and not target.is_shut
            )
            return
        verdict = Verdict.fail(_too_late(claim, policy))
    except DeliveryError as error:
        _blame(attempt, error)
        verdict = _verdict_on(error, outcome(error, error.extra, policy), claim, prepared)
    except Exception as error:  # noqa: BLE001 - see the module docstring
        unexpected = _unexpected(error, may_have_been_delivered=True)
        verdict = _verdict_on(unexpected, outcome(unexpected, {}, policy), claim, prepared)
    except asyncio.CancelledError:
        if not attempt.is_aborted:
            raise  # the worker stops
        _break_off(attempt)
        return
    attempt.conclude(verdict, _line(claim, verdict))


def _break_off(attempt: Attempt) -> None:
    """End an attempt that somebody asked to abort."""
    if attempt.is_sent:
        verdict = Verdict.abort()
        attempt.conclude(verdict, _line(attempt.claim, verdict))
    else:
        attempt.release(even_if_started=True)  # which ends it, because it was asked to end


def _blame(attempt: Attempt, error: DeliveryError) -> None:
    """Count a failure against the target, or for it where it has answered as one that works."""
    failed = is_targets_fault(error)
    if failed:
        attempt.target.failed(error.retry_after_ms)
    elif failed is not None:
        attempt.target.tally[0] += 1
    attempt.target.probed(attempt, failed)


def _may_send(attempt: Attempt, policy: RetryPolicy) -> bool:
    return attempt.still_held() and not _is_too_late(attempt, policy)


def _is_too_late(attempt: Attempt, policy: RetryPolicy) -> bool:
    claim = attempt.claim
    tried = _tried(claim)
    if claim.attempt == 1:
        # By how long it has been due: a tick that is made up for and a manual retry are due anew.
        due_since = claim.claimed_here - claim.late_seconds
        tried = replace(tried, age_ms=(time.monotonic() - due_since) * 1000)
    return is_too_late(tried, policy, waits=attempt.has_waited)


def _verdict_on(error: DeliveryError, action: Action | None, claim: Claim, prepared: Prepared) -> Verdict:
    # The policy has looked at the answer as it came. What is stored of it is scrubbed.
    return judge(_scrubbed(error, prepared), action, claim, prepared.policy)


def judge(error: DeliveryError, action: Action | None, claim: Claim, policy: RetryPolicy) -> Verdict:
    """Decide what a failed attempt means, now."""
    return decide(error, action, _tried(claim), policy, random.uniform(-1, 1))


def _tried(claim: Claim) -> Tried:
    # By the database's clock, as of the claim, and by ours since then.
    now = claim.claimed_at + timedelta(seconds=time.monotonic() - claim.claimed_here)
    age_ms = (now - claim.scheduled_at) / timedelta(milliseconds=1)
    return Tried(claim.execution_id, claim.attempt, claim.max_attempts, age_ms)


def _too_late(claim: Claim, policy: RetryPolicy) -> DeliveryError:
    late_ms = _tried(claim).age_ms - (policy.max_age_ms or 0)
    message = f"it would have started {late_ms:.0f} ms after max_age_ms, so nothing was sent"
    return DeliveryError("RETRY_TOO_LATE", message, permanent=True)


async def fail(attempt: Attempt, error: DeliveryError) -> None:
    """Conclude an attempt that could not be prepared, so that only the default policy is known."""
    verdict = judge(error, None, attempt.claim, RetryPolicy())
    attempt.conclude(verdict, _line(attempt.claim, verdict))


def _line(claim: Claim, verdict: Verdict) -> LogLine:
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


def _unexpected(error: Exception, *, may_have_been_delivered: bool) -> DeliveryError:
    # The text of an unforeseen exception may contain anything, even a secret: only its type is shown.
    log.error("unexpected %s in a delivery", type(error).__name__)
    return DeliveryError(
        "INTERNAL_ERROR",
        f"unexpected {type(error).__name__} in the worker",
        may_have_been_delivered=may_have_been_delivered,
    )
