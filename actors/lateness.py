"""Lateness: whether `expires_at` rules out that an attempt starts, by the rules of app/features/expiry/README.md."""

import math
import time
from dataclasses import dataclass

from app.queue.claiming.release import SHORTEST_PUT_OFF_MS
from app.queue.executions.execution_model import Claim, DeliveryError
from brokers.attempt import Attempt


def expires_here(claim: Claim) -> float:
    """Return the `expires_at` of a claim on time.monotonic(), infinity where it has none."""
    if claim.expires_at is None:
        return math.inf
    return claim.claimed_here + (claim.expires_at - claim.claimed_at).total_seconds()


def is_too_late(attempt: Attempt) -> bool:
    """Return whether an attempt that starts now starts too late; a first one only where it has waited for a rule."""
    is_bound = attempt.claim.attempt > 1 or attempt.has_waited
    return is_bound and time.monotonic() > expires_here(attempt.claim)


def waited_too_long(attempt: Attempt) -> bool:
    """Return whether an attempt that cannot start now, and would be deferred, is too late already."""
    attempt.has_waited = True
    return is_too_late(attempt)


@dataclass(frozen=True, slots=True)
class Dated:
    """Permission of an attempt that has an `expires_at`."""

    attempt: Attempt

    def may_send(self) -> bool:
        """Return whether the claim is held, and the attempt in time."""
        return self.attempt.may_send() and not is_too_late(self.attempt)

    def begin(self) -> None:
        """Begin the attempt."""
        self.attempt.begin()

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Record the soft limit of the attempt."""
        self.attempt.pass_soft_limit(limit_ms)


def too_late(attempt: Attempt) -> DeliveryError:
    """Return the error of an attempt that was not sent because it was too late."""
    late_ms = (time.monotonic() - expires_here(attempt.claim)) * 1000
    message = f"it would have started {late_ms:.0f} ms after max_age_ms, so nothing was sent"
    return DeliveryError("RETRY_TOO_LATE", message, permanent=True)


def rest_ms(attempt: Attempt) -> float:
    """Return for how many milliseconds at most to defer an attempt, so that it ends soon after its `expires_at`."""
    return max(SHORTEST_PUT_OFF_MS, (expires_here(attempt.claim) - time.monotonic()) * 1000)
