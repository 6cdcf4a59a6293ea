"""Target: one breaker in the memory of a worker process, with the results that the process has not written yet."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import partial
from math import inf

from app.features.breakers.rules import SLOT_SECONDS, BreakerSettings, Counted, Reason, StoredBreaker
from schema.states import BreakerState

MAX_NAMED = 50  # endpoints of a slot with a row each; all further endpoints share a row
RETRY_AFTER_SLACK_SECONDS = 0.5  # responses take time: a wait that ends little later does not open the breaker again
TRY_SECONDS = 1.0  # between two executions that a process claims for the probe
YIELD_SECONDS = 1.0  # for which the endpoint that fails most, and the last to fail, leave a probe to other endpoints

Results = defaultdict[str, list[int]]  # successes and failures by endpoint
_OUTCOMES = {None: Reason.PROBE_UNUSED, True: Reason.PROBE_FAILED, False: Reason.PROBE_SUCCEEDED}
_new_results = partial(Results, partial(list, (0, 0)))  # makes a pair without a call of Python


class Target:
    """Server that endpoints resolve to, protected by one breaker. Instants are on `time.monotonic()`.

    The delivery loop increments `results`, and calls `failed` and `probed`. Threads that prepare deliveries call
    `reserve_probe`, consumers call `probe_at`, and `te-flow` the rest. The lock guards the probe and the state.
    """

    def __init__(
        self, key: str, settings: BreakerSettings, hurry: threading.Event, yield_seconds: float = YIELD_SECONDS
    ) -> None:
        self.key = key
        self.settings = settings
        self.timeout_ms = 0  # the longest of its endpoints
        self.endpoints = set[str]()
        self.reported = set[str]()  # endpoints that the database knows
        self.standing = StoredBreaker(key)
        self.is_open = False  # open or half open
        self.failures = 0  # since results were last written
        self.publish_at = 0.0
        self.wait_until = 0.0  # as a receiver asked by Retry-After
        self.probe: object | None = None  # attempt that is the probe of this process
        self.outcome: Reason | None = None  # of the probe, until it is written
        self.prober = ""  # endpoint of the probe
        self.try_at = 0.0  # when to claim the next execution for a probe
        self._slots = deque[tuple[float, Results]](maxlen=settings.slots)  # with their beginnings; the last is current
        self._closed_at = -inf
        self._failed_last = ""
        self._hurry = hurry
        self._yield_seconds = yield_seconds
        self._lock = threading.Lock()
        self._begin_slot(time.monotonic())

    def failed(self, endpoint: str, retry_after_ms: int | None = None) -> None:
        """Count a failure; wake `te-flow` if it may open the breaker."""
        if self.settings.is_off:
            return
        self.results[endpoint][1] += 1
        self.failures += 1
        self._failed_last = endpoint
        now = time.monotonic()
        if retry_after_ms:
            with self._lock:
                self.wait_until = max(self.wait_until, now + retry_after_ms / 1000)
        if retry_after_ms or (self.failures >= self.settings.min_results and now >= self.publish_at):
            self._hurry.set()

    def asked_to_wait_ms(self) -> int:
        """Return the remaining wait that a receiver asked for; 0 if the breaker is open for as long already."""
        now = time.monotonic()
        known = self.standing.until if self.standing.state is BreakerState.OPEN else now
        return round((self.wait_until - now) * 1000) if self.wait_until > known + RETRY_AFTER_SLACK_SECONDS else 0

    def has_kept(self, due_since: float) -> bool:
        """Return whether an execution that has been due since an instant may have waited for the breaker."""
        return self.is_open or self._closed_at > due_since

    def probe_at(self, endpoint: str) -> float:
        """Return when this process may claim an execution of an endpoint for the probe of the open breaker."""
        is_failing = endpoint in {self._failed_last, self.standing.failing}
        yields = is_failing and (self.standing.is_shared or len(self.endpoints) > 1)
        return max(self.standing.until + (self._yield_seconds if yields else 0.0), self.try_at)

    def reserve_probe(self, attempt: object, endpoint: str) -> bool:
        """Reserve the probe for an attempt, if a probe is due and no other attempt of this process has it."""
        with self._lock:
            if self.probe is not None or time.monotonic() < self.standing.until:
                return False
            self.probe, self.prober, self.outcome = attempt, endpoint, None
            return True

    def drop_probe(self) -> None:
        """Give up the reservation: another process probes, or the database did not answer."""
        with self._lock:
            self.probe = self.outcome = None

    def lets(self, attempt: object) -> bool:
        """Return whether an attempt may be sent although the breaker is open: it is the probe, and will end in time."""
        is_probe = self.probe is attempt and self.standing.state is BreakerState.HALF_OPEN
        return is_probe and time.monotonic() + self.timeout_ms / 1000 < self.standing.until

    def probed(self, attempt: object, failed: bool | None) -> None:
        """Keep the outcome of an attempt if it was the probe; None: the result does not concern the target."""
        with self._lock:
            if self.probe is not attempt or self.outcome is not None:
                return
            self.outcome = _OUTCOMES[failed]
        self._hurry.set()

    def learn(self, standing: StoredBreaker, worker_id: str) -> bool:
        """Apply the state of the row; returns whether it has changed."""
        with self._lock:
            before, self.standing = self.standing, standing
            if standing.state is BreakerState.OPEN and self.wait_until <= standing.until + RETRY_AFTER_SLACK_SECONDS:
                self.wait_until = 0.0  # the row holds it, by the database's clock
            if (standing.state, standing.revision) == (before.state, before.revision):
                return False
            self.is_open = standing.state is not BreakerState.CLOSED
            if standing.state is not BreakerState.HALF_OPEN or standing.probe_worker != worker_id:
                self.probe = self.outcome = None
            if before.state is not BreakerState.CLOSED and not self.is_open:
                self._closed_at = time.monotonic()
                self.wait_until = 0.0  # or a breaker that was closed manually would open again at once
                self._forget_results()
            return True

    def forget(self) -> None:
        """Forget the results that are not written, and for how long the receiver asked to wait."""
        with self._lock:
            self.wait_until = 0.0
            self._forget_results()

    def turn(self, now: float) -> None:
        """Begin a new slot when the current slot is over."""
        if self.is_open:
            self._forget_results()  # counted before it opened
        elif now - self._slots[-1][0] >= SLOT_SECONDS:
            self._begin_slot(now)

    def take(self) -> Iterator[Counted]:
        """Take the results that are not written yet."""
        now, taken = time.monotonic(), list(self._slots)
        self._forget_results()
        for began, results in taken:
            ranked = sorted(((bad, ok, name) for name, (ok, bad) in results.items()), reverse=True)
            age, rest = int((now - began) // SLOT_SECONDS), ranked[MAX_NAMED:]
            yield from (Counted(self.key, age, name, ok, bad) for bad, ok, name in ranked[:MAX_NAMED])
            if rest:
                yield Counted(self.key, age, "", sum(ok for _, ok, _ in rest), sum(bad for bad, _, _ in rest))

    @property
    def has_results(self) -> bool:
        """Whether there are results that are not written yet."""
        return any(results for _, results in self._slots)

    def _begin_slot(self, now: float) -> None:
        self.results = _new_results()
        self._slots.append((now, self.results))

    def _forget_results(self) -> None:
        self._slots.clear()
        self.failures = 0
        self._begin_slot(time.monotonic())


# For attempts without a breaker, or before their target is known.
NO_TARGET = Target("", BreakerSettings(is_off=True), threading.Event())
