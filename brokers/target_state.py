"""Target: what a worker process knows of one breaker: its own results, the state, and who of it may probe."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from app.features.breakers.result_counts import Clock, Results
from app.features.breakers.rules import (
    PROBE_SLACK_MS,
    BreakerSettings,
    Counts,
    Source,
    Standing,
    Transition,
    decide_together,
    slot_at,
)
from app.features.breakers.target_rows import Noted
from app.kernel.formats import EPOCH
from app.queue.claiming.release import SHORTEST_PUT_OFF_MS, put_off_ms
from schema.states import BreakerState

WAIT_SLACK_SECONDS = 0.5
SHUT_SECONDS = 0.5
LONGEST_SURE_PUT_OFF_MS = 30_000  # somebody may close the breaker by hand long before its time
NEXT_SECONDS = SHORTEST_PUT_OFF_MS / 1000
PROBE_WAIT_SECONDS = 0.05
KNOWN_SECONDS = 3600.0
YIELD_SECONDS = 1.0  # for which the endpoint that failed last leaves a probe to the others


class Probe:
    """The right of this process to send one delivery to a target that is shut."""

    __slots__ = ("attempt", "endpoint", "failed", "held", "is_over", "until")

    def __init__(self, until: float) -> None:
        self.until = until  # on time.monotonic(): from then on the right may be somebody else's
        self.attempt: object | None = None
        self.endpoint = ""
        self.held: dict[str, int] = {}  # by endpoint: how many were in flight already when it was asked for room
        self.is_over = False
        self.failed: bool | None = None  # None: nothing was sent


class Target:
    """What one breaker watches, as this process knows it.

    While all is well a delivery costs two increments in `results`, on the delivery loop. `failed` and `probed` are
    called there too, `take_probe` by whoever prepares a delivery; the rest is for `te-flow`.
    """

    __slots__ = (
        "_clock", "_failed_last", "_lock", "_next_at", "_open_until", "_shut_last", "_wake", "endpoints", "has_failed",
        "is_shut", "is_wanted", "key", "note", "probe", "quiet_until", "results", "settings", "since_slot",
        "timeout_ms", "until", "wait_until", "wants_from",
    )  # fmt: skip

    def __init__(self, key: str, settings: BreakerSettings, clock: Clock, wake: Callable[[], None]) -> None:
        self.key = key
        self.settings = settings
        self.timeout_ms = 0  # the longest of its endpoints
        self.results = Results(slot_at(clock.now()))
        self.endpoints = set[str]()  # that lead here, or did
        self._failed_last = ""
        self._open_until = 0.0  # on time.monotonic()
        self.has_failed = False  # since others were told last
        self.quiet_until = 0.0  # on time.monotonic(): all were asked a moment ago, and did not find it failing
        self.wait_until = 0.0  # on time.monotonic(): as a receiver asked for it
        self.note = Noted(key, BreakerState.CLOSED, 0, EPOCH, None, None)  # as the database has it
        self.since_slot = 0  # what was counted before it is from before the breaker was closed
        self.is_shut = False
        self.until = 0.0  # on time.monotonic(): when it may be probed
        self.is_wanted = False  # something is due, and it may be probed
        self.wants_from = 0.0  # on time.monotonic(): a process that could not use its right leaves the next to others
        self.probe: Probe | None = None
        self._shut_last = 0.0  # on time.monotonic()
        self._next_at = 0.0  # on time.monotonic(): when another one may be kept at hand for the probe
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()

    def failed(self, endpoint: str, retry_after_ms: int | None = None) -> None:
        """Count a failure of an endpoint.

        Tells `te-flow` at once where our own are enough, or the receiver wants to be left alone.
        """
        if self.settings.is_off:
            return
        self.results.tally[1] += 1
        self.results.by_endpoint[endpoint][1] += 1
        self._failed_last = endpoint
        self.has_failed = True
        if retry_after_ms:
            self.wait_until = max(self.wait_until, time.monotonic() + retry_after_ms / 1000)
        if retry_after_ms or self._is_enough():
            self._wake()

    def probed(self, attempt: object, failed: bool | None) -> None:
        """Note how an attempt ended, if it was the probe; None: it says nothing of the target."""
        with self._lock:
            probe = self.probe
            if probe is None or probe.attempt is not attempt or probe.is_over:
                return
            probe.failed, probe.is_over = failed, True
        self._wake()

    def lets(self, attempt: object) -> bool:
        """Return whether an attempt may begin to send although the target is shut: it is the probe."""
        probe = self.probe
        return probe is not None and probe.attempt is attempt and self._in_time(probe)

    def has_kept(self, due_since: float) -> bool:
        """Return whether what is due since an instant, on `time.monotonic()`, may have waited for it."""
        return self.is_shut or self._shut_last > due_since

    def take_probe(self, attempt: object, endpoint: str) -> bool:
        """Let an attempt be the probe, if this process may send one and none is."""
        with self._lock:
            if self.probe is None or not self.may_probe(endpoint):
                return False
            self.probe.attempt, self.probe.endpoint = attempt, endpoint
            return True

    def may_probe(self, endpoint: str) -> bool:
        """Return whether this process may send a delivery of an endpoint, and has none for it yet."""
        probe = self.probe
        is_free = probe is not None and probe.attempt is None and self._in_time(probe)
        return is_free and time.monotonic() >= self._yields_until(endpoint)

    def want_probe(self, endpoint: str) -> None:
        """Ask for the right to send a probe, if it is time for one: something is due that waits for it."""
        if not self.is_wanted and time.monotonic() >= max(self.until, self._yields_until(endpoint), self.wants_from):
            self.is_wanted = True
            self._wake()

    def turn_to(self, slot: int) -> None:
        """Count in another slot from now on, and forget those that no window holds any more."""
        self.results.turn_to(slot, self.settings.slots)

    def give_up_probe(self) -> None:
        """End a probe that nobody took in time."""
        with self._lock:
            probe = self.probe
            if probe is not None and probe.attempt is None and not self._in_time(probe):
                probe.is_over = True

    def learn(self, note: Noted, until: float, worker_id: str) -> bool:
        """Take in what the database says, and until when it holds; returns whether the state has changed."""
        before, self.note = self.note, note
        if note.state is not BreakerState.CLOSED:
            self.until = until
        if note.state is BreakerState.OPEN:
            self._open_until = until
        if (note.state, note.revision) == (before.state, before.revision):
            return False
        self.is_shut = note.state is not BreakerState.CLOSED
        self.is_wanted = False
        proved = "" if self.probe is None or self.probe.failed is not False else self.probe.endpoint
        self.probe = None
        if note.state is BreakerState.CLOSED:
            if before.state is not BreakerState.CLOSED:
                self._shut_last = time.monotonic()
                self.wait_until = 0.0  # or whoever closed it by hand would see it open again at once
            self.since_slot = slot_at((note.changed_at - EPOCH).total_seconds())
            self.results.begin(slot_at(self._clock.now()))
            if proved:
                self.results.prove(self.since_slot - 1, proved)
        elif note.state is BreakerState.HALF_OPEN and note.probe_worker == worker_id:
            self.probe = Probe(self.until)
        return True

    def is_pressing(self) -> bool:
        """Return whether others should be told at once: it will open, or our own results are enough."""
        return bool(self.asked_to_wait_ms()) or self._is_enough()

    def asked_to_wait_ms(self) -> int:
        """Return for how much longer a receiver wants to be left alone than the breaker is open."""
        now = time.monotonic()
        known = self.until if self.note.state is BreakerState.OPEN else now
        # A little less is the time that the answer took.
        return round((self.wait_until - now) * 1000) if self.wait_until > known + WAIT_SLACK_SECONDS else 0

    def first_slot(self) -> int:
        """Return the first slot of the window."""
        return max(slot_at(self._clock.now()) - self.settings.slots + 1, self.since_slot)

    def shut_until(self, now: float, endpoint: str) -> float:
        """Return when to ask again whether something may be claimed: soon, since others may close or probe it."""
        if not self.is_shut or self.may_probe(endpoint):
            return now
        asks_from = max(self.until, self._yields_until(endpoint))
        if now >= asks_from:
            self.want_probe(endpoint)
            return now + (PROBE_WAIT_SECONDS if now >= self.wants_from else SHUT_SECONDS)
        return min(asks_from, now + SHUT_SECONDS)

    def put_off_ms(self, age: timedelta) -> int:
        """Return for how long to put off what is not to stand in the way of others meanwhile, in milliseconds.

        By its age: of what goes on waiting, however much it is, ever less is claimed in vain. Once the target may be
        probed, one a second comes back at once: somebody has to be the probe.
        """
        now = time.monotonic()
        is_time = now >= self.until or self.note.state is BreakerState.HALF_OPEN
        if is_time and now >= self._next_at:
            self._next_at = now + NEXT_SECONDS
            return round(SHORTEST_PUT_OFF_MS)
        left_ms = min((self.until - now) * 1000, LONGEST_SURE_PUT_OFF_MS)
        # Spread, because what is put off together would otherwise come back together.
        return round(max(put_off_ms(age), left_ms) * random.uniform(1.0, 1.4))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is known of it that a new one would not know, of the last hour."""
        return not (self.has_failed or self.results.total() or self.has_kept(time.monotonic() - KNOWN_SECONDS))

    @property
    def probe_ms(self) -> int:
        """How long a probe may take, from the claim to its end."""
        return self.timeout_ms + PROBE_SLACK_MS

    def decide(self, each: Mapping[Source, Counts]) -> Transition | None:
        """Return what the breaker changes to, by the counts of each process and of endpoints."""
        standing = Standing(self.note.state, self.until + self._clock.offset, self.since_slot)
        return decide_together(standing, each, self.settings, self._clock.now())

    def fails_here(self) -> bool:
        """Return whether a change is due by our own results alone, whosever they are."""
        return self.decide({Source(""): self.results.total()}) is not None

    def _yields_until(self, endpoint: str) -> float:
        """Return until when an endpoint leaves a probe to others, which may find that the target works for them."""
        return self._open_until + YIELD_SECONDS if self._failed_last == endpoint and len(self.endpoints) > 1 else 0.0

    def _is_enough(self) -> bool:
        """Return whether our own results are enough to ask what all have counted."""
        return not self.is_shut and time.monotonic() >= self.quiet_until and self.fails_here()

    def _in_time(self, probe: Probe) -> bool:
        """Return whether a probe that begins now ends before the right to it does."""
        return time.monotonic() + self.timeout_ms / 1000 < probe.until
