"""Endpoint rules: limits, breaker settings and pauses of endpoints, and paused queues, as a worker knows them."""

import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from app.catalog.endpoints.limits import EndpointLimits
from app.kernel.db import Database
from app.kernel.sql import statement

log = logging.getLogger(__name__)

# One statement, so that rules and revision belong together.
_RULES = """
    SELECT revision, CAST(NULL AS TEXT) AS name, CAST(NULL AS JSONB) AS limits, CAST(NULL AS JSONB) AS breaker,
           false AS is_paused, CAST(NULL AS TEXT) AS queue
      FROM catalog_revision WHERE id = 'flow'
    UNION ALL
    SELECT 0, name, limits, breaker, paused_at IS NOT NULL, NULL FROM endpoints
     WHERE (limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL) {of_endpoints}
    UNION ALL
    SELECT 0, NULL, NULL, NULL, true, queue FROM paused_queues {of_queue}
    """
RULES = statement("flow.rules", _RULES, of_endpoints="", of_queue="")
RULES_OF = statement(
    "flow.rules_of",
    _RULES,
    of_endpoints="AND name = ANY (CAST(:endpoints AS TEXT[]))",
    of_queue="WHERE queue = :queue",
)


class Rules(NamedTuple):
    """Rules of one endpoint; `breaker` is as it is stored, and None for the defaults."""

    limits: EndpointLimits | None
    breaker: Any
    is_paused: bool

    @property
    def bounds(self) -> list[EndpointLimits]:
        """The limits of the endpoint and of each of its keys."""
        limits = self.limits
        return [] if limits is None else [limits] if limits.per_key is None else [limits, limits.per_key]


class FlowRules:
    """The rules of the endpoints that have any, as of `revision`; thread-safe.

    An endpoint without rules costs one dictionary lookup.
    """

    def __init__(self, database: Database) -> None:
        self.revision = -1
        self.by_endpoint: Mapping[str, Rules] = MappingProxyType({})
        self.capped: frozenset[str] = frozenset()  # endpoints that limit running executions, in all or by key
        self.windowed: frozenset[str] = frozenset()  # endpoints with a sliding window, for all or by key
        self.paused_queues: frozenset[str] = frozenset()
        self._database = database
        self._loading = threading.Lock()

    def of(self, endpoint: str) -> Rules | None:
        """Return the rules of an endpoint; None for one without rules."""
        return self.by_endpoint.get(endpoint)

    def refresh(self, revision: int = 0) -> bool:
        """Read the rules if the database has reported a newer revision; return whether. Raises UnavailableError."""
        if revision <= self.revision:
            return False
        with self._loading:
            if revision > self.revision:
                self._read(revision)
        return True

    def correct(self, revision: int) -> bool:
        """Read the rules if the database, asked just now, has an older revision; return whether it had.

        It has lost changes, as after a failover to a replica that lagged behind. Raises UnavailableError.
        """
        if revision >= self.revision:
            return False
        with self._loading:
            self._read(0)
        return True

    def revision_of(self, known: Mapping[str, Rules], queue: str, endpoints: Collection[str]) -> int | None:
        """Return the newest revision if the rules of these endpoints are as `known` and the queue is not paused.

        All rules take long to read if there are many, and other endpoints may change all the time. Raises
        UnavailableError.
        """
        found = _Found.of(self._database.fetch(RULES_OF, {"queue": queue, "endpoints": list(endpoints)}))
        holds = not found.paused_queues and all(found.rules.get(name) == known.get(name) for name in endpoints)
        # Rules that another thread has read in between may be older than this revision.
        return found.revision if holds and self.by_endpoint is known else None

    def _read(self, revision: int) -> None:
        found = _Found.of(self._database.fetch(RULES))
        rules, revision = found.rules, max(revision, found.revision)
        self.paused_queues = frozenset(found.paused_queues)
        self.by_endpoint = MappingProxyType(rules)
        bounds = [(endpoint, bound) for endpoint, its in rules.items() for bound in its.bounds]
        self.capped = frozenset(endpoint for endpoint, bound in bounds if bound.max_in_flight is not None)
        self.windowed = frozenset(endpoint for endpoint, bound in bounds if bound.rate and bound.rate.is_sliding)
        # Last: a reader of the revision must find all rules of it.
        self.revision = revision


class _Found(NamedTuple):
    rules: dict[str, Rules]
    paused_queues: set[str]
    revision: int

    @classmethod
    def of(cls, rows: Iterable[Any]) -> "_Found":
        rules, paused_queues, revision = dict[str, Rules](), set[str](), 0
        for row in rows:
            if row.queue is not None:
                paused_queues.add(row.queue)
            elif row.name is not None:
                rules[row.name] = Rules(readable_limits(row.limits, row.name), row.breaker, row.is_paused)
            else:
                revision = row.revision
        return cls(rules, paused_queues, revision)


def readable_limits(stored: Mapping[str, Any] | None, endpoint: str) -> EndpointLimits | None:
    """Return the limits of an endpoint; None for an invalid row, so that all other endpoints keep theirs."""
    if stored is None:
        return None
    try:
        return EndpointLimits.from_json(stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = type(error).__name__
        log.error("invalid limits of endpoint %s: %s; not applying them; set them again", endpoint, reason)  # noqa: TRY400
        return None
