"""Moves: which endpoints may lead elsewhere since they were asked for last."""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.db import Database
from app.sql import statement

# All that the host of an endpoint may come of, with the revisions as of which it is so, in one statement.
SOURCES = statement(
    "moves.sources",
    """
    SELECT f.revision AS flow_revision,
           COALESCE((SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0) AS catalog_revision,
           e.name, e.version, c.revision AS config_revision, c.updated_at AS config_at,
           (SELECT CAST(sum(s.revision) AS BIGINT) FROM secrets AS s
             WHERE v.secret_refs @> jsonb_build_array(s.name)) AS secret_revisions,
           (SELECT max(s.updated_at) FROM secrets AS s
             WHERE v.secret_refs @> jsonb_build_array(s.name)) AS secrets_at
      FROM catalog_revision AS f
      LEFT JOIN endpoints AS e ON e.name = ANY (CAST(:endpoints AS TEXT[]))
      LEFT JOIN endpoint_versions AS v ON v.endpoint = e.name AND v.version = e.version
      LEFT JOIN configs AS c ON c.name = v.config_ref
     WHERE f.id = 'flow'
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


class Moves:
    """Remembers by what endpoints lead where they do; belongs to one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._revisions: tuple[int, int] | None = None
        self._sources: dict[str, _Source | None] = {}

    def of(self, endpoints: Collection[str], flow_revision: int, catalog_revision: int) -> set[str]:
        """Return those of some endpoints that may lead elsewhere than when they were asked for last.

        One that was not asked for then may have moved if a revision has changed since. Reads nothing unless one has, or
        an endpoint is new. Raises UnavailableError.
        """
        revisions = flow_revision, catalog_revision
        is_new = self._revisions not in (None, revisions)
        before = self._sources
        if not endpoints or (not is_new and before.keys() >= set(endpoints)):
            self._revisions = revisions
            self._sources = {endpoint: before[endpoint] for endpoint in endpoints}
            return set()
        rows = self._database.fetch(SOURCES, {"endpoints": sorted(endpoints)})
        found = {row.name: _Source.of(row) for row in rows if row.name is not None}
        moved = {one for one in endpoints if is_new and (one not in before or before[one] != found.get(one))}
        # Of what has changed since the revisions that were told, the next ones tell.
        if is_new or (rows[0].flow_revision, rows[0].catalog_revision) == revisions:
            self._sources = {endpoint: found.get(endpoint) for endpoint in endpoints}
        self._revisions = revisions
        return moved
