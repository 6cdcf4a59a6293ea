"""Flow rules: the rules of all endpoints, and the pauses of queues, as this process knows them."""

import threading
from collections.abc import Mapping
from types import MappingProxyType

from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import Loaded, Rules, load


class FlowRules:
    """The rules of the endpoints that have any, as of `revision`; thread-safe.

    Most endpoints have none, and whoever asks for theirs pays a look into a dictionary.
    """

    def __init__(self, database: Database) -> None:
        self.revision = -1
        self.by_endpoint: Mapping[str, Rules] = MappingProxyType({})
        self.capped: frozenset[str] = frozenset()  # endpoints of which, or of whose keys, only so many may run
        self.windowed: frozenset[str] = frozenset()  # endpoints with a sliding window, or whose keys have one
        self.paused_queues: frozenset[str] = frozenset()
        self._database = database
        self._newest = 0
        self._loading = threading.Lock()

    def of(self, endpoint: str) -> Rules | None:
        """Return the rules of an endpoint; None for one that has none."""
        return self.by_endpoint.get(endpoint)

    def observe(self, revision: int) -> None:
        """Note a revision that the database has told."""
        self._newest = max(self._newest, revision)

    def correct(self, revision: int) -> bool:
        """Read the rules again where the database, asked just now, has an older revision; returns whether it had.

        It has lost changes, as after a failover to a replica that lagged behind. Raises UnavailableError.
        """
        if revision >= self.revision:
            return False
        with self._loading:
            loaded = load(self._database)
            self._newest = loaded.revision
            self._take(loaded, loaded.revision)
        return True

    @property
    def is_stale(self) -> bool:
        """Whether a newer revision was told than that of the rules."""
        return self.revision < self._newest

    def refresh(self) -> bool:
        """Read the rules if they are stale; returns whether they were. Raises UnavailableError."""
        if not self.is_stale:
            return False
        with self._loading:
            if self.is_stale:
                told = self._newest  # what is told from here on may be newer than what is read
                loaded = load(self._database)
                self._take(loaded, max(loaded.revision, told))
        return True

    def _take(self, loaded: Loaded, revision: int) -> None:
        rules = loaded.rules
        self.paused_queues = loaded.paused_queues
        self.by_endpoint = MappingProxyType(dict(rules))
        self.capped = frozenset(endpoint for endpoint, its in rules.items() if _is_capped(its))
        self.windowed = frozenset(endpoint for endpoint, its in rules.items() if _is_windowed(its))
        # Last: whoever goes by a revision knows all that it stands for.
        self.revision = revision


def _is_capped(rules: Rules) -> bool:
    limits = rules.limits
    if limits is None:
        return False
    keyed = limits.per_key
    return limits.max_in_flight is not None or (keyed is not None and keyed.max_in_flight is not None)


def _is_windowed(rules: Rules) -> bool:
    limits = rules.limits
    if limits is None:
        return False
    rates = limits.rate, None if limits.per_key is None else limits.per_key.rate
    return any(rate is not None and rate.is_sliding for rate in rates)
