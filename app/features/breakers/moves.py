"""Moves: which endpoints behind open breakers may lead elsewhere by now."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.sql import statement

PAGE = 500
SHORTEST_SECONDS = 2.0

# All that the host of an endpoint may come of. By the names of its own secrets: they are few, and all of them are many.
SOURCES = statement(
    "moves.sources",
    """
    SELECT e.name, e.version, c.revision AS config_revision, c.updated_at AS config_at,
           CAST(sum(s.revision) AS BIGINT) AS secret_revisions, max(s.updated_at) AS secrets_at
      FROM endpoints AS e
      LEFT JOIN endpoint_versions AS v ON v.endpoint = e.name AND v.version = e.version
      LEFT JOIN configs AS c ON c.name = v.config_ref
      LEFT JOIN LATERAL jsonb_array_elements_text(v.secret_refs) AS r (name) ON true
      LEFT JOIN secrets AS s ON s.name = r.name
     WHERE e.name = ANY (CAST(:endpoints AS TEXT[]))
     GROUP BY e.name, e.version, c.revision, c.updated_at
    """,
)


class _Source(NamedTuple):
    """What the host of an endpoint comes of."""

    version: int
    config_revision: int | None
    config_at: Any
    secret_revisions: int | None
    secrets_at: Any

    @classmethod
    def of(cls, row: Row[Any]) -> "_Source":
        return cls(*(getattr(row, name) for name in cls._fields))

    @property
    def has_another(self) -> bool:
        """Return whether the endpoint may ever have led elsewhere."""
        return self.version > 1 or self.config_revision is not None or self.secret_revisions is not None


class Moves:
    """Remembers by what endpoints behind open breakers lead where they do; belongs to one thread."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._revisions: tuple[int, int] | None = None
        self._next_at = -math.inf
        self._sources: dict[tuple[str, str], _Source | None] = {}  # by endpoint and breaker

    def of(self, behind: Mapping[str, str], flow_revision: int, catalog_revision: int) -> set[str]:
        """Return the endpoints behind open breakers that may lead elsewhere; `behind` has each with its breaker.

        One that has come behind its breaker since the last time is there by its last delivery, which may have been an
        earlier version's: once for each opening. Of the others those whose own version, config or secrets have changed,
        which is asked for where a revision has, every two seconds at most. Raises UnavailableError.
        """
        revisions, now = (flow_revision, catalog_revision), self._clock()
        before = self._sources = {pair: self._sources[pair] for pair in behind.items() if pair in self._sources}
        is_due = revisions != self._revisions and now >= self._next_at
        if is_due and before:
            self._next_at = now + SHORTEST_SECONDS
        asked = [pair for pair in behind.items() if is_due or pair not in before]
        found = self._read([endpoint for endpoint, _ in asked])
        # Whoever looks where a moved one leads does so by what is newer than this.
        self._sources = before | {(endpoint, breaker): found.get(endpoint) for endpoint, breaker in asked}
        if is_due or not before:
            self._revisions = revisions
        return {endpoint for endpoint, breaker in asked if self._may_have_moved((endpoint, breaker), before)}

    def _may_have_moved(self, pair: tuple[str, str], before: Mapping[tuple[str, str], _Source | None]) -> bool:
        source = self._sources[pair]
        return source != before[pair] if pair in before else source is not None and source.has_another

    def _read(self, endpoints: Collection[str]) -> dict[str, _Source]:
        """Read what endpoints lead by, in pages: there may be as many as a host has."""
        names = sorted(endpoints)
        pages = [names[start : start + PAGE] for start in range(0, len(names), PAGE)]
        return {
            row.name: _Source.of(row) for page in pages for row in self._database.fetch(SOURCES, {"endpoints": page})
        }
