"""Targets: where the endpoints of a worker process lead, and how much still fits there."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from app.features.breakers.result_counts import Clock
from app.features.breakers.rules import BreakerSettings, slot_at
from app.features.breakers.target_rows import Noted, Notes
from app.kernel.formats import EPOCH
from brokers.target_state import Target

NO_LIMIT = 1_000_000
FORGET_SECONDS = 3600.0
OFF = BreakerSettings(is_off=True)
# Of attempts whose endpoint's target is not known yet, or has no breaker.
NO_TARGET = Target("", OFF, Clock(), lambda: None)


class Bound(NamedTuple):
    """Where an endpoint leads: a target's name, whether its connections are limited, and its breaker."""

    name: str
    has_turns: bool  # no more deliveries at a time than connections to it
    target: Target
    as_of: tuple[int, int]  # the version of the endpoint, and the catalogue revision of its config
    turns: int  # where fewer deliveries go there at a time than there are connections to a host


class Targets:
    """The targets of a worker process; thread-safe.

    An endpoint is bound to its target when its first delivery is prepared, and anew when that leads elsewhere.
    """

    def __init__(
        self,
        connections_per_host: int | None = None,
        settings_of: Callable[[str], BreakerSettings | None] = lambda _endpoint: None,
        wake: Callable[[], None] = lambda: None,
        forget_seconds: float = FORGET_SECONDS,
    ) -> None:
        self.clock = Clock()
        self.bound: dict[str, Bound] = {}
        self.shut: Mapping[str, Target] = {}  # the endpoints whose target is shut; replaced, never changed
        self._wake = wake
        self._settings_revision = -1
        self.limit = NO_LIMIT if connections_per_host is None else connections_per_host
        self._settings_of = settings_of
        self._targets: dict[str, Target] = {}
        self._notes: dict[str, tuple[Noted, float]] = {}  # with the instant of the next change
        # By name of the target: the endpoints that share its connections. Who asks without the lock may find one gone.
        self._sharing = defaultdict[str, set[str]](set)
        self._used = set[str]()  # the endpoints that led somewhere since others were forgotten last
        self._forget_seconds = forget_seconds
        self._forget_at = time.monotonic() + forget_seconds
        self._lock = threading.Lock()

    def bind(
        self,
        endpoint: str,
        name: str,
        timeout_ms: int,
        *,
        has_turns: bool,
        as_of: tuple[int, int] = (0, 0),
        turns: int = NO_LIMIT,
    ) -> Bound:
        """Note where an endpoint leads, as the first delivery of it that leads there shows, or a look-up."""
        with self._lock:
            target = self._target(endpoint, name)
            target.timeout_ms = max(target.timeout_ms, timeout_ms)
            before = self.bound.get(endpoint)
            if before is not None:
                self._sharing[before.name].discard(endpoint)
            self._sharing[name].add(endpoint)
            self._used.add(endpoint)
            bound = Bound(name, has_turns, target, as_of, turns)
            if before is not None and name != before.name and _is_outdated(bound, before):
                self._sharing[name].discard(endpoint)
                self._sharing[before.name].add(endpoint)
                return bound
            self.bound[endpoint] = bound
            if target.is_shut or endpoint in self.shut:
                self._note_shut()
            return bound

    def follow(self, settings_revision: int) -> bool:
        """Bind all endpoints by their settings where these have changed; returns whether they have."""
        if settings_revision == self._settings_revision:
            return False
        self._settings_revision = settings_revision
        with self._lock:
            self._bind_anew()
            self._note_shut()
        return True

    def behind_shut(self) -> dict[str, str]:
        """Return the endpoints whose target is shut, each with the target's key."""
        with self._lock:
            return {endpoint: bound.target.key for endpoint, bound in self.bound.items() if bound.target.is_shut}

    def sharing(self, name: str) -> tuple[str, ...]:
        """Return the endpoints that share the connections of a target."""
        return tuple(self._sharing[name])

    @staticmethod
    def room_of_shut(target: Target, endpoint: str, held: int) -> int:
        """Return how many deliveries may be claimed for a target that is shut: one for its probe."""
        probe = target.probe
        if probe is not None and target.may_probe(endpoint):
            # What is reserved for it since is its one; what began before the breaker opened is not.
            return int(held <= probe.held.setdefault(endpoint, held))
        target.want_probe(endpoint)
        return 0

    def active(self) -> list[tuple[Target, list[str]]]:
        """Return the targets that have failed or are noted, each with the endpoints that lead to it."""
        slot = slot_at(self.clock.now())
        with self._lock:
            for target in (NO_TARGET, *self._targets.values()):
                target.turn_to(slot)
            notable = {key: target for key, target in self._targets.items() if target.has_failed or key in self._notes}
            leading: dict[str, list[str]] = {key: [] for key in notable}
            for endpoint, bound in self.bound.items() if notable else ():
                if bound.target.key in leading:
                    leading[bound.target.key].append(endpoint)
            return [(target, leading[key]) for key, target in notable.items()]

    def learn(self, notes: Notes, worker_id: str) -> bool:
        """Take in what the database says of all breakers; returns whether the state of one has changed.

        What it does not mention is closed, and has had no failure of late.
        """
        with self._lock:
            if not self.clock.offset:
                self.clock.offset = (notes.now - EPOCH).total_seconds() - notes.asked_at
                for target in self._targets.values():
                    target.turn_to(slot_at(self.clock.now()))
            self._notes = {note.target: (note, notes.until(note)) for note in notes.breakers}
            closed = [target for key, target in self._targets.items() if target.is_shut and key not in self._notes]
            changed = [target.learn(target.note.forgotten(), notes.asked_at, worker_id) for target in closed]
            changed += [
                self._targets[key].learn(note, until, worker_id)
                for key, (note, until) in self._notes.items()
                if key in self._targets
            ]
            self._note_shut()
            return any(changed)

    def forget(self, held: Collection[str]) -> None:
        """Forget once an hour the endpoints of which nothing was in flight since, and targets to which none leads.

        `held` are those of which something is in flight now. Who is forgotten in vain is learnt again when the next of
        it is prepared.
        """
        self._used.update(held)
        now = time.monotonic()
        if now < self._forget_at:
            return
        self._forget_at = now + self._forget_seconds
        with self._lock:
            unused = [endpoint for endpoint, bound in self.bound.items() if not bound.target.is_shut]
            for endpoint in set(unused) - self._used:
                bound = self.bound.pop(endpoint)
                self._sharing[bound.name].discard(endpoint)
                bound.target.endpoints.discard(endpoint)
            self._used = set(held)
            for name in [name for name, sharing in self._sharing.items() if not sharing]:
                del self._sharing[name]
            led = {bound.target.key for bound in self.bound.values()} | self._notes.keys()
            for key in [key for key, target in self._targets.items() if key not in led and target.is_idle]:
                del self._targets[key]

    def changed(self) -> None:
        """Note that the state of a target has changed otherwise."""
        with self._lock:
            self._note_shut()

    def _bind_anew(self) -> None:
        for endpoint, bound in list(self.bound.items()):
            target = self._target(endpoint, bound.name)
            target.timeout_ms = max(target.timeout_ms, bound.target.timeout_ms)
            self.bound[endpoint] = bound._replace(target=target)

    def _note_shut(self) -> None:
        if self.shut or any(target.is_shut for target in self._targets.values()):
            self.shut = {endpoint: bound.target for endpoint, bound in self.bound.items() if bound.target.is_shut}

    def _target(self, endpoint: str, name: str) -> Target:
        settings = self._settings_of(endpoint) or BreakerSettings()
        if settings.is_off or not name:
            return NO_TARGET
        key = settings.key_of(name)
        target = self._targets.get(key)
        if target is None:
            # Not before it has its state: who finds it may send.
            target = Target(key, settings, self.clock, self._wake)
            if key in self._notes:
                target.learn(*self._notes[key], worker_id="")
            self._targets[key] = target
        target.endpoints.add(endpoint)
        return target


def _is_outdated(bound: Bound, before: Bound) -> bool:
    """Return whether it is an earlier version's, or an earlier config's, which has no say in what waits.

    It must not shut what leads elsewhere by now, nor open what leads by now to what is shut.
    """
    if before.target.is_shut:
        return bound.as_of < before.as_of
    return bound.target.is_shut and bound.as_of <= before.as_of
