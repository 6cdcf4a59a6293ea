"""Rules of breakers: settings, reasons, and the decision to open; pure.

A breaker is closed (everything is sent), open (nothing is sent) or half open (one delivery is sent, the probe). Results
are counted by endpoint in slots of ten seconds of the database's clock, over all worker processes.
"""

import hashlib
import logging
from collections.abc import Mapping
from enum import StrEnum
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, Self

from app.kernel.formats import duration_ms
from schema.states import BreakerState

log = logging.getLogger(__name__)

SLOT_SECONDS = 10
PROBE_SLACK_MS = 5_000  # beyond the time limit of the probe, to connect and to send its first byte


class Reason(StrEnum):
    """Reason of a change of state."""

    FAILURES = "FAILURES"  # more of the deliveries in its window failed than its settings allow
    RETRY_AFTER = "RETRY_AFTER"  # the receiver asked for it
    PROBE = "PROBE"  # the open time is over
    PROBE_SUCCEEDED = "PROBE_SUCCEEDED"
    PROBE_FAILED = "PROBE_FAILED"
    PROBE_UNUSED = "PROBE_UNUSED"  # the probe was released, or its result does not concern the target
    CLOSED_BY_HAND = "CLOSED_BY_HAND"
    FORGOTTEN = "FORGOTTEN"  # no delivery to the target for long


# State changes that workers make.
TRANSITIONS = (
    (BreakerState.OPEN, Reason.FAILURES),
    (BreakerState.OPEN, Reason.RETRY_AFTER),
    (BreakerState.HALF_OPEN, Reason.PROBE),
    (BreakerState.CLOSED, Reason.PROBE_SUCCEEDED),
    (BreakerState.OPEN, Reason.PROBE_FAILED),
    (BreakerState.OPEN, Reason.PROBE_UNUSED),
)


class Transition(NamedTuple):
    """Change of state, its duration (open time, or deadline of the probe), and the counts that caused it."""

    to: BreakerState
    reason: Reason
    for_ms: int = 0
    failed: int | None = None
    results: int | None = None


class Counts(NamedTuple):
    ok: int
    failed: int


class StoredBreaker(NamedTuple):
    """Stored state of a breaker, which may be probed from `until` (on `time.monotonic()`) on.

    For an open breaker, over all processes: `failing` is the endpoint with most failures; `is_shared` is true if
    several endpoints resolve to the target.
    """

    target: str
    state: BreakerState = BreakerState.CLOSED
    revision: int = 0
    until: float = 0.0
    probe_worker: str | None = None
    failing: str | None = None
    is_shared: bool = False


class Counted(NamedTuple):
    """Results of an endpoint at a target in a slot; `age` counts back from the current slot."""

    target: str
    age: int
    endpoint: str
    ok: int
    failed: int


class BreakerSettings(NamedTuple):
    """An endpoint's `breaker`, with its defaults."""

    failure_ratio: float = 0.5
    min_results: int = 10
    window_ms: int = 60_000
    open_for_ms: int = 30_000
    is_off: bool = False

    @classmethod
    def of(cls, endpoint: str, stored: Any) -> Self:
        """Read an endpoint's stored settings: None means the defaults, an invalid row too, with an error in the log."""
        try:
            known = {"is_off": True} if stored == "off" else dict(stored or {})
            for name in ("window", "open_for"):
                if name in known and (milliseconds := duration_ms(known.pop(name))) is not None:
                    known[f"{name}_ms"] = milliseconds
            return cls(**known)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = type(error).__name__
            log.error(  # noqa: TRY400
                "invalid breaker settings of endpoint %s: %s; using the defaults; set them again", endpoint, reason
            )
            return cls()

    @property
    def slots(self) -> int:
        """Return the number of slots that cover a window beginning anywhere in its first slot."""
        return ceil(self.window_ms / (SLOT_SECONDS * 1000)) + 1

    def key_of(self, target: str, *, is_inline: bool = False) -> str:
        """Return the key of the breaker of a target.

        Endpoints with equal custom settings share a separate breaker, and so do inline endpoints: whoever may send to
        any URL must not open the breaker of a registered endpoint.
        """
        key = f"{target}~inline" if is_inline else target
        if self == _DEFAULTS:
            return key
        digest = hashlib.blake2b(repr(self).encode(), digest_size=4).hexdigest()
        return f"{key}~{digest}"

    def opened_by(self, by_endpoint: Mapping[str, Counts]) -> Transition | None:
        """Return the change to open if the results of a window demand it.

        A single failing endpoint does not prove a failing target. So if other endpoints have results, more than the
        ratio must have failed without the endpoint that failed most, too.
        """
        counts = by_endpoint.values()
        ok, failed = sum(each.ok for each in counts), sum(each.failed for each in counts)
        if ok + failed < self.min_results or not self._is_exceeded(ok, failed):
            return None
        worst = max(sorted(counts), key=attrgetter("failed"))  # of a tie, the endpoint with fewest successes
        others = Counts(ok - worst.ok, failed - worst.failed)
        if any(others) and not self._is_exceeded(*others):
            return None
        return Transition(BreakerState.OPEN, Reason.FAILURES, self.open_for_ms, failed, ok + failed)

    def _is_exceeded(self, ok: int, failed: int) -> bool:
        # More than a ratio of 1 is impossible: then all must have failed.
        return failed > 0 and (failed > self.failure_ratio * (ok + failed) or not ok)


_DEFAULTS = BreakerSettings()
