"""Rules of endpoints: their limits, their breaker settings and whether they are paused, as workers have them."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.db import Database
from app.flow.breaker import BreakerSettings
from app.flow.limits import Limits
from app.flow.targets import IS_NOTABLE, NOTED, Notes
from app.sql import statement

log = logging.getLogger(__name__)

# Both in one statement: the rules are those of the revision.
RULES = statement(
    "flow.rules",
    """
    SELECT revision, CAST(NULL AS TEXT) AS name, CAST(NULL AS JSONB) AS limits, CAST(NULL AS JSONB) AS breaker,
           false AS is_paused
      FROM catalog_revision WHERE id = 'flow'
    UNION ALL
    SELECT 0, name, limits, breaker, paused_at IS NOT NULL FROM endpoints
     WHERE limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL
    """,
)
# With each breaker that workers have to know: a handful of rows, if any. Their table has a row only for targets that
# have failed of late.
PULSE = statement(
    "flow.pulse",
    f"""
    SELECT c.revision AS flow_revision, now() AS db_now, {NOTED}
      FROM catalog_revision AS c LEFT JOIN breakers AS b ON {IS_NOTABLE}
     WHERE c.id = 'flow'
    """,  # noqa: S608 - constants of this package
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What bounds the deliveries of an endpoint; without breaker settings those by default apply."""

    limits: Limits | None
    breaker: BreakerSettings | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Pulse:
    """What each worker asks for twice a second."""

    revision: int
    notes: Notes


def load(database: Database) -> tuple[int, dict[str, Rules]]:
    """Read the rules of all endpoints that have any, and their revision."""
    revision, rules = 0, dict[str, Rules]()
    for row in database.fetch(RULES):
        if row.name is None:
            revision = row.revision
        else:
            rules[row.name] = Rules(_limits(row), _breaker(row), row.is_paused)
    return revision, rules


def pulse(database: Database) -> Pulse:
    """Read what may have changed since the last pulse."""
    asked_at = time.monotonic()
    rows = database.fetch(PULSE)
    return Pulse(rows[0].flow_revision, Notes.of(rows, asked_at))


def _limits(row: Any) -> Limits | None:
    return None if row.limits is None else _readable(Limits.from_json, row.limits, row.name)


def _breaker(row: Any) -> BreakerSettings | None:
    return None if row.breaker is None else _readable(BreakerSettings.from_json, row.breaker, row.name)


def _readable(read: Any, stored: Mapping[str, Any], endpoint: str) -> Any:
    """Read what was accepted once; what was edited by hand must not keep the rules of all others from a worker."""
    try:
        return read(stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        log.error("the rules of %s cannot be read and are left out: %s", endpoint, type(error).__name__)  # noqa: TRY400
        return None
