"""Breakers: what this process has counted is told to others, and changes of its targets' breakers are asked for."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

from app.features.breakers import target_rows as store
from app.features.breakers.rules import Counts, Reason, Source, Transition, after_probe
from app.features.breakers.target_rows import Notes, Publication
from app.kernel.db import Database
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from brokers.known_targets import Targets
from brokers.target_state import Target
from schema.states import BreakerState

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
MOST_UNWANTED_SECONDS = 30.0  # for which a process that could not use its right to probe leaves it to others
WATCH_PARTS = 4  # how often in a window with failures the others are told to count too


class Breakers:
    """The part of `te-flow` that keeps the breakers; belongs to one thread.

    Nothing is written as long as no delivery to a target fails, here or elsewhere.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        host: str,
        targets: Targets,
        values: Values,
        *,
        publish_seconds: float = PUBLISH_SECONDS,
    ) -> None:
        self._database = database
        self._publish_seconds = publish_seconds
        self._worker_id = worker_id
        self._host = host
        self._targets = targets
        self._values = values
        # Of a revision, as a breaker that closes forgets them: by endpoint and slot; None where the answer was lost.
        self._published: dict[tuple[str, int], Mapping[tuple[str, int], tuple[int, int] | None]] = {}
        self._led: set[tuple[str, str]] = set()  # the endpoints that the database knows of a target
        self._watched_at: dict[str, float] = {}
        self._noted: frozenset[str] = frozenset()
        self._publish_at = 0.0

    def look(self) -> bool:
        """Learn how all breakers stand, without a pulse; returns as `learn` does. Raises UnavailableError."""
        return self.learn(store.notable(self._database))

    def learn(self, notes: Notes) -> bool:
        """Take in what the database says of all breakers; returns whether what may be claimed has changed."""
        self._noted = frozenset(note.target for note in notes.breakers)
        # Of a breaker that is not among them the rows may be gone.
        self._led = {(target, endpoint) for target, endpoint in self._led if target in self._noted}
        self._watched_at = {target: at for target, at in self._watched_at.items() if target in self._noted}
        return self._targets.learn(notes, self._worker_id)

    def act(self) -> bool:
        """Tell what was counted, and ask for the changes that follow; returns whether one was made.

        Raises UnavailableError; what could not be written is tried again next time.
        """
        active = self._targets.active()
        counts = self._publish(active)
        changes = [
            self._change(target, transition)
            for target, _ in active
            if (transition := _wanted(target, counts.get(target.key))) is not None
        ]
        if any(changes):
            self._targets.changed()
        return any(changes)

    def _publish(self, active: Sequence[tuple[Target, Sequence[str]]]) -> dict[str, dict[Source, Counts]]:
        """Tell what was counted once in a second, or at once where it is enough; returns what each process counted."""
        now = time.monotonic()
        if now < self._publish_at and not any(target.is_pressing() for target, _ in active):
            return {}
        failing = [target for target, _ in active if target.has_failed]
        known = [pair for pair in active if pair[0].has_failed or pair[0].key in self._noted]
        if not known:
            return {}
        self._publish_at = now + self._publish_seconds
        own = {target.key: target.results.told_apart() for target, _ in known}
        rows = {target.key: self._rows(target, own[target.key]) for target, _ in known}
        told = self._publication(known, rows, now)
        self._published = {(target.key, target.note.revision): dict.fromkeys(rows[target.key]) for target, _ in known}
        others = store.publish(self._database, self._worker_id, told)
        for target in failing:
            target.has_failed = False
        self._watched_at.update(dict.fromkeys(told.watched, now))
        self._published = {(target.key, target.note.revision): rows[target.key] for target, _ in known}
        self._led.update(told.endpoints)
        if told.watched.keys() - self._noted:
            # Their rows may have been there, with a revision.
            self.look()
        for target, _ in known:
            if target.fails_here():
                target.quiet_until = self._publish_at  # it opens now, or beside the others ours do not count
        return {
            key: {Source(self._worker_id, endpoint, self._host): counts for endpoint, counts in own[key].items()}
            | others.get(key, {})
            for key in told.asked
        }

    def _rows(self, target: Target, own: Mapping[str, Counts]) -> dict[tuple[str, int], tuple[int, int]]:
        """Return what others shall find of a target; nothing of an endpoint that is not told apart any more."""
        told = self._published.get((target.key, target.note.revision), {})
        gone = dict.fromkeys((row for row in told if row[1] in target.results.counts), (0, 0))
        return gone | {(endpoint, slot): pair for endpoint, counts in own.items() for slot, pair in counts.items()}

    def _publication(
        self,
        known: Sequence[tuple[Target, Sequence[str]]],
        rows: Mapping[str, Mapping[tuple[str, int], tuple[int, int]]],
        now: float,
    ) -> Publication:
        watched = {
            target.key: target.settings.window_ms
            for target, _ in known
            if target.has_failed and now >= self._watched_at.get(target.key, -math.inf) + _part(target)
        }
        counts = [
            (target.key, slot, endpoint, *pair)
            for target, _ in known
            for (endpoint, slot), pair in rows[target.key].items()
            if self._published.get((target.key, target.note.revision), {}).get((endpoint, slot)) != pair
        ]
        led = {(target.key, endpoint) for target, endpoints in known for endpoint in endpoints} - self._led
        # Who has seen no failure decides nothing: those that have do.
        asked = {target.key: target.first_slot() - 1 for target, _ in known if target.has_failed and not target.is_shut}
        return Publication(dict(sorted(watched.items())), counts, sorted(led), asked)

    def _change(self, target: Target, transition: Transition) -> bool:
        asked_at = time.monotonic()
        before = target.note
        note = store.change(self._database, before, transition, self._worker_id)
        target.is_wanted = False
        if note is None:
            return False  # somebody was faster, or the answer was lost: the next notes tell
        left = 0.0 if note.until is None else (note.until - note.changed_at).total_seconds()
        if transition.reason is Reason.PROBE_UNUSED:
            target.wants_from = asked_at + min(target.settings.open_for_ms / 1000, MOST_UNWANTED_SECONDS)
        target.learn(note, asked_at + left, self._worker_id)
        if transition.reason is Reason.PROBE_SUCCEEDED:
            self._tell_proof(target)
        self._values.add(series.BREAKERS, transition.to, transition.reason)
        level = logging.INFO if transition.reason in _EXPECTED else logging.WARNING
        log.log(level, "%s", _told(target, transition, left))
        return True

    def _tell_proof(self, target: Target) -> None:
        """Tell at once which endpoint a target works for: one that fails would shut it again before the next beat."""
        rows = self._rows(target, target.results.told_apart())
        counts = [(target.key, slot, endpoint, *pair) for (endpoint, slot), pair in rows.items()]
        store.publish(self._database, self._worker_id, Publication({}, counts, [], {}))


_EXPECTED = {Reason.PROBE, Reason.PROBE_UNUSED, Reason.PROBE_SUCCEEDED}


def _wanted(target: Target, counts: Mapping[Source, Counts] | None) -> Transition | None:
    """Return the change that a breaker is due for, as far as this process knows."""
    target.give_up_probe()
    asked_ms = target.asked_to_wait_ms()
    probe = target.probe
    if probe is not None and probe.is_over:
        after = after_probe(probe.failed, target.settings)
        return after._replace(for_ms=max(after.for_ms, asked_ms)) if after.to is BreakerState.OPEN else after
    if asked_ms:
        return Transition(BreakerState.OPEN, Reason.RETRY_AFTER, asked_ms)
    if target.is_shut:
        due = target.decide({}) if target.is_wanted else None
        return None if due is None else due._replace(for_ms=target.probe_ms)
    return None if counts is None else target.decide(counts)


def _part(target: Target) -> float:
    return target.settings.window_ms / 1000 / WATCH_PARTS


def _told(target: Target, transition: Transition, seconds: float) -> str:
    """Say what happened, for the log."""
    figures = "" if transition.results is None else f", {transition.failed} of {transition.results} deliveries failed"
    duration = "" if transition.to is BreakerState.CLOSED else f" for {seconds:.0f} s"
    state = transition.to.replace("_", " ")
    return f"the breaker of {target.key} is {state}{duration}: {transition.reason}{figures}"
