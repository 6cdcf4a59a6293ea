"""Targets of an endpoint: the breakers of all of them, and whether one keeps its executions waiting."""

from collections.abc import Sequence
from typing import Any

from app.features.breakers.store import ENDPOINTS, HOLDS, MAX_ENDPOINTS
from app.kernel.db.reads import Reads
from app.kernel.sql import statement

TARGETS_OF = statement(
    "breakers.targets_of",
    """
    SELECT own.target, b.state, b.reason, b.changed_at, b.open_until, {endpoints},
           COALESCE({holds}, false) AS holds
      FROM breaker_endpoints AS own LEFT JOIN breakers AS b ON b.target = own.target
     WHERE own.endpoint = :endpoint ORDER BY holds DESC, own.target LIMIT :limit
    """,
    endpoints=ENDPOINTS,
    holds=HOLDS,
)


def targets_of(reads: Reads, endpoint: str) -> Sequence[dict[str, Any]]:
    """Read the watched targets to which an endpoint resolves, first the ones that keep its executions waiting."""
    rows = reads.fetch(TARGETS_OF, {"endpoint": endpoint, "limit": MAX_ENDPOINTS})
    return [row._asdict() for row in rows]
