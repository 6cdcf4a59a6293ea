"""Bindings: the targets of the endpoints in a worker process, and the endpoints that share connections."""

import threading
import time
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from app.queue.claiming.endpoint_rules import FlowRules
from brokers.target_state import Target
from brokers.worker_breakers import WorkerBreakers

NO_LIMIT = 1_000_000
FORGET_SECONDS = 3600.0


class Bound(NamedTuple):
    """The target of an endpoint: its name, its breaker, and whether its connections are limited."""

    name: str
    has_turns: bool  # at most as many deliveries at a time as connections
    target: Target
    as_of: tuple[int, int]  # version of the endpoint, and catalog revision of its config


class Bindings:
    """Binds each endpoint to its target when its first delivery is prepared; thread-safe.

    An endpoint is bound again when a delivery of the same or a newer version and config has another target.
    """

    def __init__(
        self,
        breakers: WorkerBreakers,
        rules: FlowRules,
        connections_per_host: int | None = None,
        *,
        forget_seconds: float = FORGET_SECONDS,
    ) -> None:
        self.bound: dict[str, Bound] = {}
        self.limit = NO_LIMIT if connections_per_host is None else connections_per_host
        self._breakers = breakers
        self._rules = rules
        self._rules_revision = rules.revision
        # The endpoints of a target, which share its connections, by its name; read without the lock.
        self.sharing = defaultdict[str, set[str]](set)
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
    ) -> Bound:
        """Bind an endpoint to a target; an older version than the known one changes nothing."""
        with self._lock:
            rules, before = self._rules.of(endpoint), self.bound.get(endpoint)
            target = self._breakers.of(endpoint, name, None if rules is None else rules.breaker)
            target.timeout_ms = max(target.timeout_ms, timeout_ms)
            bound = Bound(name, has_turns, target, as_of)
            if before is not None:
                if before.name != name and as_of < before.as_of:
                    return bound
                bound = bound._replace(as_of=max(as_of, before.as_of))
                self._unbind(endpoint, before)
            self.bound[endpoint] = bound
            self.sharing[name].add(endpoint)
            target.endpoints.add(endpoint)
            if before is not None and before.target is not target:
                self._breakers.change = object()
            return bound

    def follow(self) -> None:
        """Bind all endpoints again if the endpoint rules have changed."""
        if self._rules.revision != self._rules_revision:
            self._rules_revision = self._rules.revision
            for endpoint, (name, has_turns, target, as_of) in list(self.bound.items()):
                self.bind(endpoint, name, target.timeout_ms, has_turns=has_turns, as_of=as_of)

    def behind_open(self) -> list[str]:
        """Return the endpoints behind open breakers."""
        return [endpoint for endpoint, bound in list(self.bound.items()) if bound.target.is_open]

    def forget(self, held: Collection[str]) -> None:
        """Forget, once an hour, endpoints with nothing in flight (not in `held`), and targets without endpoints.

        A forgotten endpoint is bound again with its next delivery.
        """
        now = time.monotonic()
        if now < self._forget_at:
            return
        self._forget_at = now + self._forget_seconds
        with self._lock:
            for endpoint, bound in list(self.bound.items()):
                if endpoint not in held and not bound.target.is_open:
                    self._unbind(endpoint, bound)
                    del self.bound[endpoint]
            for name in [name for name, sharing in self.sharing.items() if not sharing]:
                del self.sharing[name]
        self._breakers.forget(now)

    def _unbind(self, endpoint: str, bound: Bound) -> None:
        self.sharing[bound.name].discard(endpoint)
        bound.target.endpoints.discard(endpoint)
