"""Lateness: whether `max_age_ms` rules out that an attempt starts, whatever it had to wait for."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError

from app.catalog.retry_policy import RetryPolicy
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.queue.claiming.release import SHORTEST_PUT_OFF_MS
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.planned_instants import Planned, planned
from app.queue.executions.verdict import Tried, is_too_late
from brokers.attempt import Attempt

MS = timedelta(milliseconds=1)


@dataclass(slots=True)
class Ages:
    """Since when the executions of one message have been due, which is read for all of them once one has to know."""

    database: Database
    attempts: Sequence[Attempt]
    found: dict[str, Planned] | None = None

    def of(self, claim: Claim) -> Planned | None:
        """Return it for a first attempt; None where its execution is gone."""
        if self.found is None:
            first = [attempt.claim.execution_id for attempt in self.attempts if attempt.claim.attempt == 1]
            self.found = planned(self.database, first)
        return self.found.get(claim.execution_id)


def tried(claim: Claim) -> Tried:
    """Return what the verdict on an attempt depends on, as of now."""
    # By the database's clock, as of the claim, and by ours since then.
    now = claim.claimed_at + timedelta(seconds=time.monotonic() - claim.claimed_here)
    return Tried(claim.execution_id, claim.attempt, claim.max_attempts, (now - claim.scheduled_at) / MS)


def may_send(attempt: Attempt, policy: RetryPolicy) -> bool:
    """Return whether a claim is held, and its attempt in time by its policy."""
    return attempt.still_held() and not comes_too_late(attempt, policy)


def comes_too_late(attempt: Attempt, policy: RetryPolicy) -> bool:
    """Return whether an attempt that begins now does so after the time that its policy gives it."""
    return is_too_late(_starting(attempt.claim), policy, waits=attempt.has_waited)


def too_late(attempt: Attempt, policy: RetryPolicy) -> DeliveryError:
    """Return the error of an attempt that was not sent because its time was over."""
    late_ms = _starting(attempt.claim).age_ms - (policy.max_age_ms or 0)
    message = f"it would have started {late_ms:.0f} ms after max_age_ms, so nothing was sent"
    return DeliveryError("RETRY_TOO_LATE", message, permanent=True)


def aged(ages: Ages, claim: Claim, policy: RetryPolicy, *, is_put_off: bool = False) -> Claim:
    """Return a claim with the lateness that it had before it was handed back and put off.

    Only a first attempt that its age would rule out and its `run_at` does not is asked for. `is_put_off` says that it
    is put off now, so that its `run_at` says nothing, whether anybody noted that or not.
    """
    limit = policy.max_age_ms
    if limit is None or claim.attempt > 1 or not claim.late_seconds * 1000 <= limit < tried(claim).age_ms:
        return claim
    found = ages.of(claim)
    if found is None or not (found.was_handed_back or is_put_off):
        return claim
    return claim._replace(late_seconds=max(claim.late_seconds, (claim.claimed_at - found.since).total_seconds()))


def waited_too_long(ages: Ages, attempt: Attempt, policy: RetryPolicy) -> bool:
    """Return whether an attempt that is about to be put off has waited for too long already."""
    try:
        attempt.claim = aged(ages, attempt.claim, policy, is_put_off=True)
    except (UnavailableError, SQLAlchemyError):
        return False  # the next claim asks again
    attempt.has_waited = True
    return comes_too_late(attempt, policy)


def is_news(ages: Ages, claim: Claim, policy: RetryPolicy) -> bool:
    """Return whether the history must tell that an execution is put off: else nobody knows later how old it is."""
    if policy.max_age_ms is None or claim.attempt > 1:
        return False
    try:
        found = ages.of(claim)
    except (UnavailableError, SQLAlchemyError):
        return True
    return found is not None and not found.was_handed_back


def rest_ms(attempt: Attempt, policy: RetryPolicy) -> float:
    """Return for how long to put off an attempt at most, so that it ends in time once it is too late."""
    rest = math.inf if policy.max_age_ms is None else policy.max_age_ms - _starting(attempt.claim).age_ms
    # Where it is over already, and that did not rule it out, it has no end: a manual retry.
    return max(SHORTEST_PUT_OFF_MS, rest) if rest > 0 else math.inf


def _starting(claim: Claim) -> Tried:
    if claim.attempt > 1:
        return tried(claim)
    # By how long it has been due: a tick that is made up for and a manual retry are due anew.
    due_since = claim.claimed_here - claim.late_seconds
    return replace(tried(claim), age_ms=(time.monotonic() - due_since) * 1000)
