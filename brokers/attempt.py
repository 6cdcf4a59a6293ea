"""One claimed execution inside a worker process, from the claim to its single conclusion."""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum, auto

from app import ids
from app.executions.conclusion import Conclusion
from app.executions.model import Claim, LogLine
from app.executions.verdict import Verdict


class Stage(Enum):
    """How far the process got with it."""

    CLAIMED = auto()  # in hand, nothing sent: may be handed back
    STARTED = auto()  # the delivery is under way: must be concluded
    ENDED = auto()  # concluded or handed back


class Attempt:
    """A claim plus, once, its end. The first end wins; later ones change nothing.

    It is the single argument of the actors, passed by identity. Its repr shows ids only, because Dramatiq logs
    the arguments of failed messages.
    """

    __slots__ = ("_conclude", "_lock", "_release", "_stage", "_started_at", "claim")

    def __init__(
        self,
        claim: Claim,
        *,
        conclude: Callable[["Attempt", Conclusion], None],
        release: Callable[["Attempt"], None],
    ) -> None:
        self.claim = claim
        self._conclude = conclude
        self._release = release
        self._lock = threading.Lock()
        self._stage = Stage.CLAIMED
        self._started_at = 0.0

    def __repr__(self) -> str:
        return f"Attempt({self.claim.execution_id}, attempt={self.claim.attempt})"

    @property
    def due_at(self) -> float:
        """The instant to start at, on `time.monotonic()`; never before run_at by the database's clock.

        The claim's answer arrived after the database read its clock, so counting from the arrival errs late.
        """
        return self.claim.received_at + self.claim.due_in_seconds

    @property
    def started(self) -> bool:
        """Tell whether the delivery was begun."""
        return self._stage is not Stage.CLAIMED

    def begin(self) -> bool:
        """Start the delivery; False when it was handed back or given up meanwhile."""
        with self._lock:
            if self._stage is not Stage.CLAIMED:
                return False
            self._stage = Stage.STARTED
            self._started_at = time.monotonic()
            return True

    def conclude(self, verdict: Verdict, *logs: LogLine) -> bool:
        """End with a verdict; False when it had ended before."""
        with self._lock:
            if self._stage is Stage.ENDED:
                return False
            now = time.monotonic()
            started = self._started_at if self._stage is Stage.STARTED else now
            self._stage = Stage.ENDED
        conclusion = Conclusion(
            claim=self.claim,
            attempt_id=ids.attempt_id(),
            verdict=verdict,
            started_at=self._database_time(started),
            duration_ms=round((now - started) * 1000),
            logs=logs,
        )
        self._conclude(self, conclusion)
        return True

    def release(self, *, even_if_started: bool = False) -> bool:
        """Hand it back with no attempt spent; only legal while nothing was sent.

        `even_if_started` is for a delivery that was begun but stopped before its first byte.
        """
        with self._lock:
            if self._stage is Stage.ENDED or (self._stage is Stage.STARTED and not even_if_started):
                return False
            self._stage = Stage.ENDED
        self._release(self)
        return True

    def _database_time(self, instant: float) -> datetime:
        return self.claim.claimed_at + timedelta(seconds=instant - self.claim.received_at)
