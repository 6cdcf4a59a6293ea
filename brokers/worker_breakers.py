"""Breakers of a worker process: the targets of its endpoints, the results it writes, and the changes that follow."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from app.catalog.endpoints.inline_names import is_inline
from app.features.breakers import store
from app.features.breakers.rules import PROBE_SLACK_MS, BreakerSettings, Counted, Reason, StoredBreaker, Transition
from app.kernel.db import Database
from app.kernel.formats import numbered
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from brokers.target_state import NO_TARGET, YIELD_SECONDS, Target
from schema.states import BreakerState

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0  # between two writes of a target's results; the first failures are written at once
KNOWN_SECONDS = 3600.0
_EXPECTED = {Reason.PROBE, Reason.PROBE_UNUSED, Reason.PROBE_SUCCEEDED}


class WorkerBreakers:
    """Breakers of a worker process: a breaker for each target that its endpoints resolve to.

    `of` may be called by any thread, `probe` by threads that prepare deliveries; the rest belongs to `te-flow`;
    `hurry` ends its wait. Nothing is written while no delivery to a target fails, in any process.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        values: Values,
        *,
        publish_seconds: float = PUBLISH_SECONDS,
        yield_seconds: float = YIELD_SECONDS,
    ) -> None:
        self.change: object = None  # a new object after each change that opens or closes an endpoint
        self._database = database
        self._worker_id = worker_id
        self._values = values
        self.hurry = threading.Event()  # set by any thread: `te-flow` polls at once
        self._publish_seconds = publish_seconds
        self._yield_seconds = yield_seconds
        self._targets: dict[str, Target] = {}
        self._standings: Mapping[str, StoredBreaker] = {}  # open, half-open and watched breakers, as last read
        self._lock = threading.Lock()
        self._updating = threading.Lock()

    def of(self, endpoint: str, name: str, stored: Any) -> Target:
        """Return the target of that name with the breaker for an endpoint's stored settings."""
        settings = BreakerSettings.of(endpoint, stored)
        if settings.is_off or not name:
            return NO_TARGET
        key = settings.key_of(name, is_inline=is_inline(endpoint))
        with self._lock:
            target = self._targets.get(key)
            if target is None:
                target = Target(key, settings, self.hurry, self._yield_seconds)
                if key in self._standings:
                    target.learn(self._standings[key], worker_id="")
                # Added with its state: a delivery that finds a target may be sent.
                self._targets[key] = target
            return target

    def forget(self, now: float) -> None:
        """Forget targets without endpoints, unless they have results, or were open or watched lately."""
        with self._lock:
            for key, target in list(self._targets.items()):
                is_known = key in self._standings or target.has_results or target.has_kept(now - KNOWN_SECONDS)
                if not target.endpoints and not is_known:
                    del self._targets[key]

    def learn(self, breakers: Sequence[StoredBreaker]) -> None:
        """Apply the states of all open, half-open and watched breakers, just read; other breakers are closed."""
        standings = {standing.target: standing for standing in breakers}
        with self._lock:
            self._standings = standings
            for key, target in self._targets.items():
                if key not in standings:
                    target.reported.clear()  # the rows may be deleted
                standing = standings.get(key) or StoredBreaker(key, revision=target.standing.revision)
                if target.learn(standing, self._worker_id):
                    self.change = object()

    def forget_results(self) -> None:
        """Forget the results of this process that are not written, and for how long receivers asked it to wait."""
        with self._updating, self._lock:
            for target in self._targets.values():
                target.forget()

    def update(self) -> None:
        """Write results and change breakers, after `learn`; after UnavailableError results may be lost."""
        with self._updating:
            self._update()

    def _update(self) -> None:
        now = time.monotonic()
        with self._lock:
            targets = list(self._targets.values())
        for target in (NO_TARGET, *targets):
            target.turn(now)
            if target.outcome is not None:
                self._end_probe(target, target.outcome)
        failing = self._publish(targets, now)
        slots = {key: target.settings.slots for key, target in failing.items()}
        counted = store.counted(self._database, slots) if slots else {}
        closed = {standing.target: standing for standing in counted}  # `learn` gets no closed breakers
        for target in targets:
            if asked_ms := target.asked_to_wait_ms():
                standing = closed.get(target.key, target.standing)
                self._change(target, standing, Transition(BreakerState.OPEN, Reason.RETRY_AFTER, asked_ms))
        for standing, counts in counted.items():
            target = failing[standing.target]
            if (transition := target.settings.opened_by(counts)) is not None:
                self._change(target, standing, transition)

    def probe(self, target: Target, attempt: object, endpoint: str) -> bool:
        """Make an attempt the probe if it is time and no other process probes; raises UnavailableError."""
        is_granted = False
        if target.reserve_probe(attempt, endpoint):
            try:
                transition = Transition(BreakerState.HALF_OPEN, Reason.PROBE, target.timeout_ms + PROBE_SLACK_MS)
                is_granted = self._change(target, target.standing, transition)
            finally:
                if not is_granted:
                    target.drop_probe()
        return is_granted

    def _end_probe(self, target: Target, outcome: Reason) -> None:
        """Change a breaker by the outcome of its probe."""
        if outcome is Reason.PROBE_SUCCEEDED:
            prober = target.prober
            if self._change(target, target.standing, Transition(BreakerState.CLOSED, outcome)):
                # Written at once: otherwise another endpoint that fails would open it again.
                target.results[prober][0] += 1
                target.publish_at = 0.0
            return
        for_ms = target.settings.open_for_ms
        if outcome is Reason.PROBE_UNUSED:
            target.try_at = time.monotonic() + for_ms / 1000  # another process may have something to send
            for_ms = 0
        for_ms = max(for_ms, target.asked_to_wait_ms())
        self._change(target, target.standing, Transition(BreakerState.OPEN, outcome, for_ms))

    def _publish(self, targets: Sequence[Target], now: float) -> dict[str, Target]:
        """Write the results of targets that fail here or elsewhere; return the targets that fail here."""
        failing, results, resolved = dict[str, Target](), list[Counted](), list[tuple[Target, str]]()
        for target in targets:
            is_due = now >= target.publish_at or target.asked_to_wait_ms()
            if is_due and (target.failures or target.key in self._standings):
                target.publish_at = now + self._publish_seconds
                if target.failures:
                    failing[target.key] = target
                results += target.take()
                resolved += [(target, endpoint) for endpoint in target.endpoints - target.reported]
        if results or resolved:
            windows = {key: target.settings.window_ms for key, target in failing.items()}
            store.publish(self._database, windows, results, [(target.key, endpoint) for target, endpoint in resolved])
        for target, endpoint in resolved:
            target.reported.add(endpoint)
        return failing

    def _change(self, target: Target, before: StoredBreaker, to: Transition) -> bool:
        after = store.change(self._database, before, to, self._worker_id, watch_ms=target.settings.window_ms)
        if after is None:
            return False  # another process was faster, or the answer was lost: the next update reads the state
        target.learn(after, self._worker_id)
        self.change = object()
        self._values.add(series.BREAKERS, to.to, to.reason)
        counts = "" if to.results is None else f", {to.failed} of {numbered(to.results, 'delivery')} failed"
        level = logging.INFO if to.reason in _EXPECTED else logging.WARNING
        seconds = max(0.0, after.until - time.monotonic())
        log.log(level, "the breaker of %s is %s for %.0f s: %s%s", target.key, to.to, seconds, to.reason, counts)
        return True
