"""Attempt: one claimed execution inside a worker process, from the claim to its single end."""

import logging
import math
import random
import threading
import time
from bisect import bisect_left
from dataclasses import replace
from datetime import timedelta
from enum import IntEnum, auto
from functools import partial
from typing import TYPE_CHECKING

from app.kernel import ids
from app.kernel.metrics.series import LATENESS
from app.queue.claiming.release import SHORTEST_PUT_OFF_MS, Release, put_off_ms
from app.queue.executions.completion import Conclusion
from app.queue.executions.execution_model import Claim, LogLine, NotSentError
from app.queue.executions.soft_limit import SoftLimitPassed
from app.queue.executions.verdict import Verdict
from brokers.attempt_line import fields_of
from brokers.finalizer import Finalizer
from brokers.sharing.fair_shares import Shares
from brokers.target_state import NO_TARGET

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

log = logging.getLogger(__name__)

# A window counts a start at its claim, and for one hundredth more. That of a short one is too little
# for a worker that is busy.
LATEST_SECONDS = 0.25
# For which a process that was too late for a window leaves its endpoint to others: it would be late again at once.
LATE_REST_SECONDS = 1.0


class Stage(IntEnum):
    """How far an attempt has come in this process."""

    CLAIMED = auto()  # nobody has taken it up yet
    TAKEN = auto()  # an actor sees to its end; nothing was sent: it may be handed back
    STARTED = auto()  # the delivery is under way: it must be concluded
    ENDED = auto()  # concluded or handed back


class Attempt:
    """One try of an execution, which this process owns from the claim until it ends.

    An actor takes it up and prepares it, it is started at `due_at`, and it ends exactly once: concluded with a verdict,
    or released (handed back, with no attempt spent) while nothing has been sent. The completion of the delivery, an
    actor that fails and a shutdown may all try to end it, each on a thread of its own: the first one wins, the others
    get False and change nothing. The end gives the slot in `shares` back at once and leaves the writing to the
    finalizer, whose statement finds out whether the claim is still this process's.

    A list of attempts is the single argument of an actor, passed by identity. The repr shows ids only, because Dramatiq
    logs the arguments of failed messages.
    """

    __slots__ = (
        *("_finalizer", "_lock", "_shares"),
        *("began_at", "claim", "due_at", "has_waited", "is_aborted", "is_sent", "latest_at", "stage", "started_at"),
        *("claim_span", "span", "spans", "tally", "target"),
    )

    def __init__(self, claim: Claim, finalizer: Finalizer, shares: Shares) -> None:
        self.claim = claim
        # On time.monotonic(), and not before run_at by the database's clock: `claimed_here` errs late.
        self.due_at = claim.claimed_here + claim.due_in_seconds
        # If it starts later than this, on time.monotonic(), something else may have started in its place.
        self.latest_at = self.due_at + _longest_delay(claim) if claim.windows else math.inf
        self.stage = Stage.CLAIMED
        self.target = NO_TARGET  # until it is prepared
        self._finalizer = finalizer
        self._shares = shares
        self.tally = finalizer.outcomes.tally
        self.spans = finalizer.outcomes.spans
        self.span: Span | None = None  # while it is sent
        self.claim_span: SpanContext | None = None
        self._lock = threading.Lock()
        self.started_at = 0.0  # when its delivery started, on time.monotonic()
        self.began_at = 0.0  # when it began nevertheless, if it had to wait for a connection from then on
        self.has_waited = False  # maybe behind a limit, a pause or a breaker, even if it is the first
        self.is_aborted = False
        self.is_sent = False  # whether a byte of it may have left

    def __repr__(self) -> str:
        return f"Attempt({self.claim.execution_id}, attempt={self.claim.attempt})"

    def enter(self, stage: Stage) -> bool:
        """Go on to a stage; False when it is not further on: the attempt was handed back or given up meanwhile."""
        with self._lock:
            if stage <= self.stage:
                return False
            self.stage = stage
            if stage is Stage.STARTED:
                self.started_at = time.monotonic()
            return True

    def begin(self) -> None:
        """Begin now, after a wait for a connection; raises NotSentError when that is too late for its windows.

        It counts as started from now on. Too late, it keeps its place, and this process claims no other for a while.
        """
        self.began_at = time.monotonic()
        if self.began_at > self.latest_at:
            self._shares.rest(self.claim.endpoint, LATE_REST_SECONDS)
            raise NotSentError("its windows count it no longer", is_noted=False)

    def may_send(self) -> bool:
        """Return whether the claim is certainly still this process's, so that it may be sent; false once it has ended.

        False too while the breaker of its target is open, unless this is the probe.
        """
        if self.target.is_open and not self.target.lets(self):
            return False
        is_held = self.stage is Stage.STARTED and self._shares.holds(self.claim.key)
        if is_held and not self.is_sent:
            self.is_sent, claim = True, self.claim
            # A limit may have put off what was due before: what counts is how long it has been due.
            due_at = claim.claimed_here - claim.late_seconds if claim.late_seconds else self.due_at
            late = max(0.0, time.monotonic() - due_at)
            cell = self.tally.lateness[claim.endpoint_type,]
            cell[bisect_left(LATENESS.buckets, late) + 1] += 1
            cell[0] += late
        return is_held

    def pass_soft_limit(self, limit_ms: int) -> None:
        """Have it noted that its delivery goes on beyond its soft limit."""
        self._finalizer.submit(SoftLimitPassed.now(self.claim.key, limit_ms))

    def abort(self) -> bool:
        """Note that its delivery is to be broken off; False where none is under way, or that was noted before."""
        with self._lock:
            if self.is_aborted or self.stage is not Stage.STARTED:
                return False
            self.is_aborted = True
            return True

    def conclude(self, verdict: Verdict, *logs: LogLine) -> bool:
        """End with a verdict; False when it had ended before."""
        with self._lock:
            if self.stage is Stage.ENDED:
                return False
            now = time.monotonic()
            started = self.began_at or self.started_at or now
            self.stage = Stage.ENDED
        claim = self.claim
        conclusion = Conclusion(
            claim=claim,
            attempt_id=ids.attempt_id(),
            verdict=verdict,
            # The database's clock at the claim, plus what has passed here since.
            started_at=claim.claimed_at + timedelta(seconds=started - claim.claimed_here),
            duration_ms=round((now - started) * 1000),
            logs=logs,
            ended_at=now,
        )
        if self.spans is not None:
            conclusion = replace(conclusion, span=self.spans.end(self, conclusion))
        self._finalizer.submit(conclusion)
        self._shares.remove(claim.key, now - self.started_at if self.started_at else None)
        if self.target.probe is not None:
            self.target.probed(self, None)
        if log.isEnabledFor(logging.INFO):
            _tell(conclusion)
        return True

    def put_off(self, *, briefly: bool = False, most_ms: float = math.inf, is_noted: bool = True) -> bool:
        """Hand back, for later or for another worker, a delivery that was begun but stopped before its first byte.

        The longer it has waited the longer it is put off, unless what stopped it is likely to pass.
        """
        delay = SHORTEST_PUT_OFF_MS if briefly else put_off_ms(self.claim.claimed_at - self.claim.scheduled_at)
        # Spread, because what failed together would otherwise come back together.
        spread = min(delay * random.uniform(0.8, 1.2), most_ms)
        return self.release(even_if_started=True, put_off_ms=round(spread), is_noted=is_noted)

    def release(self, *, even_if_started: bool = False, put_off_ms: int = 0, is_noted: bool = True) -> bool:
        """Hand the execution back with no attempt spent; only legal while nothing was sent.

        `even_if_started` is for a delivery that was begun but stopped before its first byte. With `put_off_ms` nobody
        claims it again before that has passed; else it keeps its place. Without `is_noted` its history says nothing.
        """
        with self._lock:
            if self.stage is Stage.ENDED or (self.stage is Stage.STARTED and not even_if_started):
                return False
            self.stage = Stage.ENDED
        self._finalizer.submit(Release(self.claim.key, put_off_ms, is_noted, self.claim.windows))
        self._shares.remove(self.claim.key)
        if self.target.probe is not None:
            self.target.probed(self, None)
        return True


def _tell(conclusion: Conclusion) -> None:
    """Log how an attempt ended: ids, names of ours and numbers, no payloads nor what a receiver said, maybe secrets."""
    claim, verdict = conclusion.claim, conclusion.verdict
    told = verdict.output or verdict.error or {}
    outcome = [verdict.status, told.get("type"), told.get("status_code")]
    log.info(
        "%s of %s, attempt %d of %d to %s over %s by %s: %s in %d ms",
        claim.execution_id,
        claim.job_id,
        claim.attempt,
        claim.max_attempts,
        claim.endpoint,
        claim.endpoint_type,
        claim.worker_id,
        " ".join(str(part) for part in outcome if part is not None),
        conclusion.duration_ms,
        extra={"fields": partial(fields_of, conclusion)},
    )


def _longest_delay(claim: Claim) -> float:
    """Return how many seconds after its instant the start of a claim still belongs to where its windows count it."""
    return max(LATEST_SECONDS, min(bucket_ns for _, bucket_ns in claim.windows) / 1e9)
