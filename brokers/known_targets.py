"""Targets of a worker process, with the state of their breakers."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from app.features.breakers.rules import BreakerSettings
from app.features.breakers.target_rows import Standing
from brokers.target_state import YIELD_SECONDS, Target

KNOWN_SECONDS = 3600.0
# Of attempts whose target is not known yet, or has no breaker.
NO_TARGET = Target("", BreakerSettings(is_off=True), threading.Event())


class Targets:
    """The targets to which endpoints lead; thread-safe. `hurry` is set when `te-flow` should not wait."""

    def __init__(self, hurry: threading.Event | None = None, *, yield_seconds: float = YIELD_SECONDS) -> None:
        self.change: object = None  # another object after each change that opens or closes an endpoint
        self._hurry = hurry or threading.Event()
        self._yield_seconds = yield_seconds
        self._targets: dict[str, Target] = {}
        self._standings: Mapping[str, Standing] = {}
        self._lock = threading.Lock()

    def of(self, endpoint: str, name: str, stored: Any) -> Target:
        """Return the target of that name which is watched by the settings of an endpoint, as they are stored."""
        settings = BreakerSettings.of(endpoint, stored)
        if settings.is_off or not name:
            return NO_TARGET
        key = settings.key_of(name)
        with self._lock:
            target = self._targets.get(key)
            if target is None:
                # Not before it has its state: a delivery that finds it may be sent.
                target = Target(key, settings, self._hurry, self._yield_seconds)
                if key in self._standings:
                    target.learn(self._standings[key], worker_id="")
                self._targets[key] = target
            return target

    def turn(self, now: float) -> Sequence[Target]:
        """Begin new slots where it is time; returns the targets that have a breaker."""
        with self._lock:
            for target in (NO_TARGET, *self._targets.values()):
                target.turn(now)
            return list(self._targets.values())

    def is_notable(self, target: Target) -> bool:
        """Return whether the row of a breaker was not closed, or watched, when it was read last."""
        return target.key in self._standings

    def learn(self, standings: Sequence[Standing], worker_id: str) -> None:
        """Take in the state of all notable breakers; all others are closed."""
        with self._lock:
            self._standings = {standing.target: standing for standing in standings}
            for key, target in self._targets.items():
                standing = self._standings.get(key)
                if standing is None:
                    target.reported.clear()  # the rows may be gone
                    standing = Standing(key, revision=target.standing.revision)
                if target.learn(standing, worker_id):
                    self.note_change()

    def note_change(self) -> None:
        """Have the endpoints that wait for a breaker looked at again."""
        self.change = object()

    def forget(self, now: float) -> None:
        """Forget targets to which no endpoint leads, and that had no result and were not open of late."""
        with self._lock:
            for key, target in list(self._targets.items()):
                is_known = key in self._standings or target.has_results or target.has_kept(now - KNOWN_SECONDS)
                if not target.endpoints and not is_known:
                    del self._targets[key]
