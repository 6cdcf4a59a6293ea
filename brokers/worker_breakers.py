"""Breakers: writes the results of this process, and changes the breakers of its targets."""

import logging
import time
from collections.abc import Mapping, Sequence

from app.features.breakers import target_rows as store
from app.features.breakers.rules import PROBE_SLACK_MS, Reason, Transition
from app.features.breakers.target_rows import Standing
from app.kernel.db import Database
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from brokers.known_targets import Targets
from brokers.target_state import Target
from schema.states import BreakerState

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
_EXPECTED = {Reason.PROBE, Reason.PROBE_UNUSED, Reason.PROBE_SUCCEEDED}


class WorkerBreakers:
    """Keeps the breakers of a worker process; belongs to `te-flow`, but for `probe`.

    Nothing is written while no delivery to a target fails, here or elsewhere.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        targets: Targets,
        values: Values,
        *,
        publish_seconds: float = PUBLISH_SECONDS,
    ) -> None:
        self.targets = targets
        self._database = database
        self._worker_id = worker_id
        self._values = values
        self._publish_seconds = publish_seconds

    def look(self) -> None:
        """Read the state of all breakers; raises UnavailableError."""
        self.targets.learn(store.notable(self._database), self._worker_id)

    def beat(self) -> None:
        """Read the state of all breakers, write results and make the changes that follow.

        Raises UnavailableError; then results may be lost.
        """
        self.look()
        now = time.monotonic()
        targets = self.targets.turn(now)
        for target in targets:
            if target.outcome is not None:
                self._end_probe(target, target.outcome)
        self._open(self._publish(targets, now))
        for target in targets:
            if target.is_open and (asked_ms := target.asked_to_wait_ms()):
                self._change(target, target.standing, Transition(BreakerState.OPEN, Reason.RETRY_AFTER, asked_ms))

    def probe(self, target: Target, attempt: object, endpoint: str) -> bool:
        """Make an attempt the probe of an open target if it is time and no other process probes.

        Called by the threads that prepare deliveries. Raises UnavailableError.
        """
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
        """Change a breaker as its probe demands."""
        if outcome is Reason.PROBE_SUCCEEDED:
            prober = target.prober
            if self._change(target, target.standing, Transition(BreakerState.CLOSED, outcome)):
                # Counted at once: another endpoint that fails would open it again.
                target.results[prober][0] += 1
                target.publish_at = 0.0
            return
        for_ms = target.settings.open_for_ms
        if outcome is Reason.PROBE_UNUSED:
            target.try_at = time.monotonic() + for_ms / 1000  # another process may have something to send
            for_ms = 0
        self._change(target, target.standing, Transition(BreakerState.OPEN, outcome, target.asked_to_wait_ms(for_ms)))

    def _publish(self, targets: Sequence[Target], now: float) -> dict[str, Target]:
        """Write the results of targets that fail here or elsewhere, once a second; returns those that fail here."""
        failing, results, led = dict[str, Target](), list[store.Counted](), dict[Target, set[str]]()
        for target in targets:
            is_due = now >= target.publish_at or target.asked_to_wait_ms()
            if not is_due or not (target.failures or self.targets.is_notable(target)):
                continue
            # At once for the first failures, and then once a second.
            target.publish_at = now + self._publish_seconds
            if target.failures:
                failing[target.key] = target
            results += target.take(now)
            led[target] = target.endpoints - target.reported
        pairs = [(target.key, endpoint) for target, endpoints in led.items() for endpoint in endpoints]
        if results or pairs:
            windows = {key: target.settings.window_ms for key, target in failing.items()}
            store.publish(self._database, windows, results, pairs)
        for target, endpoints in led.items():
            target.reported |= endpoints
        return failing

    def _open(self, failing: Mapping[str, Target]) -> None:
        """Open the breakers of targets that fail too often, by the results of all processes."""
        slots = {key: target.settings.slots for key, target in failing.items()}
        for standing, counts in (store.counted(self._database, slots) if slots else {}).items():
            target = failing[standing.target]
            transition = target.settings.opened_by(counts)
            if asked_ms := target.asked_to_wait_ms():
                transition = Transition(BreakerState.OPEN, Reason.RETRY_AFTER, asked_ms)
            if transition is not None:
                self._change(target, standing, transition)

    def _change(self, target: Target, before: Standing, to: Transition) -> bool:
        after = store.change(self._database, before, to, self._worker_id, watch_ms=target.settings.window_ms)
        if after is None:
            return False  # another process was faster, or the answer was lost: the next beat reads the state
        target.learn(after, self._worker_id)
        self.targets.note_change()
        self._values.add(series.BREAKERS, to.to, to.reason)
        figures = "" if to.results is None else f", {to.failed} of {to.results} deliveries failed"
        level = logging.INFO if to.reason in _EXPECTED else logging.WARNING
        seconds = max(0.0, after.until - time.monotonic())
        log.log(level, "the breaker of %s is %s for %.0f s: %s%s", target.key, to.to, seconds, to.reason, figures)
        return True
