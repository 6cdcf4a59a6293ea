"""Lateness: whether an attempt may still start before `expires_at`, by the rules of app/features/expiry/README.md."""

import math
import time
from typing import NamedTuple

from app.kernel.function_types import Written
from app.queue.claiming.release import MIN_DEFERRAL_MS
from app.queue.executions.execution_model import Claim, DeliveryError, FollowingJob
from brokers.attempt import Attempt


def expires_here(claim: Claim) -> float:
    """Return the `expires_at` of a claim on time.monotonic(); infinity if it has none."""
    if claim.expires_at is None:
        return math.inf
    return claim.claimed_here + (claim.expires_at - claim.claimed_at).total_seconds()


def is_too_late(attempt: Attempt) -> bool:
    """Return whether a start now is too late; a first attempt is too late only if it had to wait for a rule."""
    is_bound = attempt.claim.attempt > 1 or attempt.has_waited
    return is_bound and time.monotonic() > expires_here(attempt.claim)


def waited_too_long(attempt: Attempt) -> bool:
    """Return whether an attempt that cannot start now, and would be deferred, is already too late."""
    attempt.has_waited = True
    return is_too_late(attempt)


class Dated(NamedTuple):
    """Permission of an attempt with an `expires_at`."""

    attempt: Attempt

    def may_send(self) -> bool:
        return self.attempt.may_send() and not is_too_late(self.attempt)

    def begin(self) -> None:
        self.attempt.begin()

    def pass_soft_limit(self, limit_ms: int) -> None:
        self.attempt.pass_soft_limit(limit_ms)

    def note_start(self) -> None:
        self.attempt.note_start()

    def conclude_with(self, then: tuple[FollowingJob, ...], on_written: Written) -> None:
        self.attempt.conclude_with(then, on_written)


def too_late(attempt: Attempt) -> DeliveryError:
    """Return the error of an attempt that was too late to send."""
    late_ms = (time.monotonic() - expires_here(attempt.claim)) * 1000
    message = f"it would have started {late_ms:.0f} ms after max_age_ms, so nothing was sent"
    return DeliveryError("RETRY_TOO_LATE", message, permanent=True)


def rest_ms(attempt: Attempt) -> float:
    """Return the longest deferral in milliseconds after which an attempt still ends soon after its `expires_at`."""
    return max(MIN_DEFERRAL_MS, (expires_here(attempt.claim) - time.monotonic()) * 1000)
