"""Target: one breaker as a worker process knows it, with the results that the process has not written yet."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from math import inf

from app.features.breakers.rules import SLOT_SECONDS, BreakerSettings, Reason
from app.features.breakers.target_rows import Counted, Standing
from schema.states import BreakerState

MAX_NAMED = 50
"""Endpoints whose results are told apart in each slot; the results of all others count as those of one endpoint."""
RETRY_AFTER_SLACK_SECONDS = 0.5  # an answer takes time: a wait that ends little later is no reason to open again
TRY_SECONDS = 1.0  # between two executions that a process claims for the probe
YIELD_SECONDS = 1.0  # for which the endpoint that failed last leaves a probe to others

Results = defaultdict[str, list[int]]
"""Successes and failures by endpoint."""
_OUTCOMES = {None: Reason.PROBE_UNUSED, True: Reason.PROBE_FAILED, False: Reason.PROBE_SUCCEEDED}
_new_results = partial(Results, partial(list, (0, 0)))  # makes a pair without a call of Python


class Target:
    """Server to which endpoints lead, watched by one breaker.

    A success costs a delivery one increment in `results`, on the delivery loop. `failed` and `probed` are called there
    too, `reserve_probe` by the threads that prepare deliveries, `probe_at` by consumers. The rest is for `te-flow`, and
    thread-safe for them by the lock.
    """

    def __init__(
        self, key: str, settings: BreakerSettings, hurry: threading.Event, yield_seconds: float = YIELD_SECONDS
    ) -> None:
        self.key = key
        self.settings = settings
        self.timeout_ms = 0  # the longest of its endpoints
        self.endpoints = set[str]()  # that lead here
        self.reported = set[str]()  # endpoints that the database knows
        self.standing = Standing(key)
        self.is_open = False  # open or half open
        self.results = _new_results()  # of the present slot
        self.failures = 0  # since results were written last
        self.publish_at = 0.0  # on time.monotonic(), as all instants here
        self.wait_until = 0.0  # as a receiver asked
        self.probe: object | None = None  # the attempt that is the probe of this process
        self.outcome: Reason | None = None  # of that probe, until it is written
        self.prober = ""  # its endpoint
        self.try_at = 0.0  # when to claim the next execution for a probe
        self._earlier: list[tuple[float, Results]] = []
        self._began_at = time.monotonic()
        self._closed_at = -inf
        self._failed_last = ""
        self._hurry = hurry
        self._yield_seconds = yield_seconds
        self._lock = threading.Lock()

    def failed(self, endpoint: str, retry_after_ms: int | None = None) -> None:
        """Count a failure; wake `te-flow` when it may open the breaker."""
        if self.settings.is_off:
            return
        self.results[endpoint][1] += 1
        self.failures += 1
        self._failed_last = endpoint
        now = time.monotonic()
        if retry_after_ms:
            self.wait_until = max(self.wait_until, now + retry_after_ms / 1000)
        if retry_after_ms or (self.failures >= self.settings.min_results and now >= self.publish_at):
            self._hurry.set()

    def asked_to_wait_ms(self, least_ms: int = 0) -> int:
        """Return for how long a receiver wants to be left alone, if that is longer than the breaker is open."""
        now = time.monotonic()
        known = self.standing.until if self.standing.state is BreakerState.OPEN else now
        asked_ms = round((self.wait_until - now) * 1000) if self.wait_until > known + RETRY_AFTER_SLACK_SECONDS else 0
        return max(least_ms, asked_ms)

    def has_kept(self, due_since: float) -> bool:
        """Return whether an execution that has been due since an instant may have waited for the breaker."""
        return self.is_open or self._closed_at > due_since

    def probe_at(self, endpoint: str) -> float:
        """Return when this process may claim an execution of an endpoint for the probe of the open breaker."""
        yields = self._failed_last == endpoint and len(self.endpoints) > 1
        return max(self.standing.until + (self._yield_seconds if yields else 0.0), self.try_at)

    def reserve_probe(self, attempt: object, endpoint: str) -> bool:
        """Let an attempt ask for the right to be the probe, if it is time; one attempt of a process at once."""
        with self._lock:
            if self.probe is not None or time.monotonic() < self.standing.until:
                return False
            self.probe, self.prober, self.outcome = attempt, endpoint, None
            return True

    def drop_probe(self) -> None:
        """Note that another process has the right, or that nobody knows."""
        with self._lock:
            self.probe = self.outcome = None

    def lets(self, attempt: object) -> bool:
        """Return whether an attempt may begin to send although the breaker is open: it is the probe, and in time."""
        is_probe = self.probe is attempt and self.standing.state is BreakerState.HALF_OPEN
        return is_probe and time.monotonic() + self.timeout_ms / 1000 < self.standing.until

    def probed(self, attempt: object, failed: bool | None) -> None:
        """Note how an attempt ended, if it was the probe; None: it says nothing of the target."""
        with self._lock:
            if self.probe is not attempt or self.outcome is not None:
                return
            self.outcome = _OUTCOMES[failed]
        self._hurry.set()

    def learn(self, standing: Standing, worker_id: str) -> bool:
        """Take in the state that the row has; returns whether it has changed."""
        with self._lock:
            before, self.standing = self.standing, standing
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

    def turn(self, now: float) -> None:
        """Begin a new slot when it is time, and forget results that no window holds any more."""
        if self.is_open:
            self._forget_results()  # they are from before it opened
        elif now - self._began_at >= SLOT_SECONDS:
            oldest = now - self.settings.slots * SLOT_SECONDS
            kept = [*self._earlier, (self._began_at, self.results)]
            self._earlier = [(began, results) for began, results in kept if began > oldest and results]
            self.results, self._began_at = _new_results(), now

    def take(self, now: float) -> Iterator[Counted]:
        """Take the results that were not written yet."""
        taken = [*self._earlier, (self._began_at, self.results)]
        self._forget_results()
        for began, results in taken:
            ranked = sorted(((bad, ok, name) for name, (ok, bad) in results.items()), reverse=True)
            age, rest = int((now - began) // SLOT_SECONDS), ranked[MAX_NAMED:]
            yield from (Counted(self.key, age, name, ok, bad) for bad, ok, name in ranked[:MAX_NAMED])
            if rest:
                yield Counted(self.key, age, "", sum(ok for _, ok, _ in rest), sum(bad for bad, _, _ in rest))

    @property
    def has_results(self) -> bool:
        """Whether there are results that were not written yet."""
        return bool(self.results or self._earlier)

    def _forget_results(self) -> None:
        self.results, self._earlier, self.failures = _new_results(), [], 0
