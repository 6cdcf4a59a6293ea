"""Attempt: one claimed execution in a worker process, from the claim to its end."""

import logging
import math
import random
import threading
import time
from bisect import bisect_left
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum, auto
from typing import TYPE_CHECKING

from app.kernel import ids
from app.kernel.function_types import Written
from app.kernel.gathered_log import log_line
from app.kernel.log import LineKind
from app.kernel.metrics.series import LATENESS
from app.queue.claiming.release import MIN_DEFERRAL_MS, Release, defer_ms
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.attempt_notes import AttemptNote
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim, FollowingJob, LogLine, NotSentError
from app.queue.executions.verdict import Verdict
from brokers.attempt_line import fields_of
from brokers.finalizer import Finalizer
from brokers.sharing.fair_shares import Shares
from brokers.target_state import NO_TARGET

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

log = logging.getLogger(__name__)

# A window counts a start in the hundredth of its claim and in the next hundredth: too short for a busy worker if the
# window is short.
LATEST_SECONDS = 0.25
LATE_REST_SECONDS = 1.0  # for which a process skips an endpoint after a late start: it would be late again at once


class Stage(IntEnum):
    """Progress of an attempt in this process."""

    CLAIMED = auto()
    TAKEN = auto()  # by an actor; nothing was sent, so it may be released
    STARTED = auto()  # the delivery runs, so it must be completed
    ENDED = auto()  # completed or released


class Attempt:
    """One try of an execution, which this process owns from the claim until it ends.

    An actor prepares it, it starts at `due_at`, and it ends exactly once: completed with a verdict, or released unsent,
    with no attempt spent. The delivery, a failing actor and a shutdown may try to end it at the same time, on different
    threads: the first wins, the others get False and change nothing. The end gives the slot in `shares` back at once;
    the finalizer writes it, by a statement that checks the fence.

    The single argument of an actor is a list of attempts, passed by identity. The repr shows ids only, because Dramatiq
    logs the arguments of failed messages. Instants are on `time.monotonic()`.
    """

    __slots__ = (
        *("_finalizer", "_lock", "_shares"),
        *("began_at", "claim", "due_at", "has_waited", "held_until", "is_aborted", "is_sent", "latest_at", "stage"),
        *("claim_span", "span", "spans", "started_at", "counters", "target", "then", "on_written"),
    )

    def __init__(self, claim: Claim, finalizer: Finalizer, shares: Shares) -> None:
        self.claim = claim
        # Never before run_at by the database's clock: `claimed_here` errs late.
        self.due_at = claim.claimed_here + claim.due_in_seconds
        # A later start may exceed the sliding windows, which count the start at its claim; most claims have none.
        bucket_seconds = min(bucket_ns for _, bucket_ns in claim.windows) / 1e9 if claim.windows else math.inf
        self.latest_at = self.due_at + max(LATEST_SECONDS, bucket_seconds)
        self.held_until = -math.inf  # set by the shares
        self.stage = Stage.CLAIMED
        self.target = NO_TARGET  # until it is prepared
        self._finalizer = finalizer
        self._shares = shares
        self.counters = finalizer.outcomes.counters
        self.spans = finalizer.outcomes.spans
        self.span: Span | None = None  # while it is sent
        self.claim_span: SpanContext | None = None
        self._lock = threading.Lock()
        self.started_at = 0.0  # when its delivery started
        self.began_at = 0.0  # when a delivery got the connection for which it had waited
        self.has_waited = False  # maybe for a limit, a pause or a breaker
        self.is_aborted = False
        self.is_sent = False  # a byte may have been sent
        self.then: tuple[FollowingJob, ...] = ()
        self.on_written: Written | None = None

    def __repr__(self) -> str:
        return f"Attempt({self.claim.execution_id}, attempt={self.claim.attempt})"

    def enter(self, stage: Stage) -> bool:
        """Go on to a later stage; False when the attempt is past it already, or was released."""
        with self._lock:
            if stage <= self.stage:
                return False
            self.stage = stage
            if stage is Stage.STARTED:
                self.started_at = time.monotonic()
            return True

    def begin(self) -> None:
        """Begin after a wait for a connection; raises NotSentError when that is too late for its sliding windows.

        It counts as started now. If too late, it keeps its place, and this process skips the endpoint for a while.
        """
        self.began_at = time.monotonic()
        if self.began_at > self.latest_at:
            self._shares.rest(self.claim.endpoint, LATE_REST_SECONDS)
            raise NotSentError("its windows count it no longer", is_noted=False)

    def may_send(self) -> bool:
        """Return whether it may be sent: it is started, no other worker can have claimed it, and the breaker allows it.

        Other workers cannot while the lease holds and the claim is too young to be reclaimed as stuck.
        """
        now = time.monotonic()
        if self.stage is not Stage.STARTED or now >= self.held_until or now >= self._shares.lease.valid_until:
            return False
        if self.target.is_open and not self.target.lets(self):
            return False
        if not self.is_sent:
            self.is_sent, claim = True, self.claim
            # Since run_at, which a limit may have delayed.
            late = max(0.0, now - (claim.claimed_here - claim.late_seconds if claim.late_seconds else self.due_at))
            cell = self.counters.lateness[claim.endpoint_type,]
            cell[bisect_left(LATENESS.buckets, late) + 1] += 1
            cell[0] += late
        return True

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Record that its delivery exceeds its soft limit."""
        self._finalizer.submit(AttemptNote.of_soft_limit(self.claim.key, limit_ms))

    def note_start(self) -> None:
        """Record that the actor of an attempt begins, after an attempt that was lost with its worker."""
        self._finalizer.submit(AttemptNote.of_start(self.claim.key))

    def conclude_with(self, then: tuple[FollowingJob, ...], on_written: Written) -> None:
        """Create jobs in the transaction of its completion, and call a function after the commit."""
        self.then, self.on_written = then, on_written

    def abort(self) -> bool:
        """Mark its delivery as aborted; False when no delivery runs, or it is marked already."""
        with self._lock:
            if self.is_aborted or self.stage is not Stage.STARTED:
                return False
            self.is_aborted = True
            return True

    def complete(self, verdict: Verdict, *logs: LogLine) -> bool:
        """End with a verdict; False when it had ended before."""
        with self._lock:
            if self.stage is Stage.ENDED:
                return False
            now = time.monotonic()
            started = self.began_at or self.started_at or now
            self.stage = Stage.ENDED
        claim = self.claim
        completion = Completion(
            claim=claim,
            attempt_id=ids.attempt_id(),
            verdict=verdict,
            # The database's clock at the claim, plus the time since then in this process.
            started_at=claim.claimed_at + timedelta(seconds=started - claim.claimed_here),
            duration_ms=round((now - started) * 1000),
            logs=logs,
            ended_at=now,
            then=self.then,
            on_written=self.on_written,
        )
        if self.spans is not None:
            completion = replace(completion, span=self.spans.end(self, completion))
        self._finalizer.submit(completion)
        self._shares.remove(claim.key, now - self.started_at if self.started_at else None)
        if self.target.probe is not None:
            self.target.probed(self, None)
        if log.isEnabledFor(logging.INFO):
            log_line(LINE, completion)
        return True

    def hand_over(self) -> None:
        """End in this process only: the execution continues under another holder, which writes its result."""
        with self._lock:
            if self.stage is Stage.ENDED:
                return
            self.stage = Stage.ENDED
        self._shares.remove(self.claim.key)
        if self.target.probe is not None:
            self.target.probed(self, failed=False)

    def defer(
        self,
        *,
        briefly: bool = False,
        most_ms: float = math.inf,
        is_noted: bool = True,
        reason: ChangeReason = ChangeReason.HANDED_BACK,
    ) -> bool:
        """Defer a delivery that was stopped before its first byte, for a later try or another worker.

        The wait grows with the age of the execution; `briefly` keeps it short.
        """
        delay = MIN_DEFERRAL_MS if briefly else defer_ms(self.claim.claimed_at - self.claim.scheduled_at)
        # Spread, or all that failed together would come back together.
        spread = min(delay * random.uniform(0.8, 1.2), most_ms)
        return self.release(even_if_started=True, defer_ms=round(spread), is_noted=is_noted, reason=reason)

    def release(
        self,
        *,
        even_if_started: bool = False,
        defer_ms: int = 0,
        is_noted: bool = True,
        reason: ChangeReason = ChangeReason.HANDED_BACK,
    ) -> bool:
        """Return the execution with no attempt spent; only legal while nothing was sent.

        `even_if_started` is for a delivery that was stopped before its first byte. The execution keeps its place, or
        is due `defer_ms` from now. Without `is_noted` its history does not show the claim.
        """
        with self._lock:
            if self.stage is Stage.ENDED or (self.stage is Stage.STARTED and not even_if_started):
                return False
            self.stage = Stage.ENDED
        self._finalizer.submit(Release(self.claim.key, defer_ms, is_noted, self.claim.windows, reason))
        self._shares.remove(self.claim.key)
        if self.target.probe is not None:
            self.target.probed(self, None)
        return True


def _message_of(completion: Completion) -> str:
    """Return the line of an ended attempt, without payloads and answers, which may contain secrets."""
    claim, verdict = completion.claim, completion.verdict
    told = verdict.output or verdict.error or {}
    outcome = [verdict.status, told.get("type"), told.get("status_code")]
    return (
        f"{claim.execution_id} of {claim.job_id}, attempt {claim.attempt} of {claim.max_attempts} to {claim.endpoint} "
        f"over {claim.endpoint_type} by {claim.worker_id}: "
        f"{' '.join([str(part) for part in outcome if part is not None])} in {completion.duration_ms} ms"
    )


LINE = LineKind(log, _message_of, fields_of)
