"""Rules as workers have them: limits, breaker settings and pauses of endpoints, and which queues are paused."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from app.catalog.endpoints.limits import EndpointLimits
from app.kernel.db import Database
from app.kernel.sql import statement

log = logging.getLogger(__name__)

# All in one statement: the rules are those of the revision.
RULES = statement(
    "flow.rules",
    """
    SELECT revision, CAST(NULL AS TEXT) AS name, CAST(NULL AS JSONB) AS limits, CAST(NULL AS JSONB) AS breaker,
           false AS is_paused, CAST(NULL AS TEXT) AS queue
      FROM catalog_revision WHERE id = 'flow'
    UNION ALL
    SELECT 0, name, limits, breaker, paused_at IS NOT NULL, NULL FROM endpoints
     WHERE limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL
    UNION ALL
    SELECT 0, NULL, NULL, NULL, true, queue FROM paused_queues
    """,
)
# An index has no more than the requests to abort that stand.
PULSE = statement(
    "flow.pulse",
    """
    SELECT c.revision AS flow_revision,
           COALESCE((SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0) AS catalog_revision,
           a.executions, a.attempts, a.claimed
      FROM catalog_revision AS c
      CROSS JOIN (SELECT array_agg(execution_id ORDER BY execution_id) AS executions,
                         array_agg(attempt_count ORDER BY execution_id) AS attempts,
                         array_agg(started_at ORDER BY execution_id) AS claimed
                    FROM executions
                   WHERE worker_id = :worker AND status = 'RUNNING' AND abort_requested_at IS NOT NULL) AS a
     WHERE c.id = 'flow'
    """,
)

Aborts = list[tuple[str, int, datetime]]
"""Claims whose attempt is to be broken off, as `app.queue.executions.execution_model.ClaimKey` has them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds on the deliveries of an endpoint; `breaker` is as it is stored, and None for the defaults."""

    limits: EndpointLimits | None
    breaker: Any
    is_paused: bool


class Loaded(NamedTuple):
    """The rules of all endpoints that have any, and the queues that are paused, as of a revision."""

    revision: int
    rules: dict[str, Rules]
    paused_queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pulse:
    """What each worker asks for twice a second; `revision` is that of the rules, `aborts` are of its own claims."""

    revision: int
    catalog_revision: int
    aborts: Aborts


def load(database: Database) -> Loaded:
    """Read what is in force now."""
    revision, rules, queues = 0, dict[str, Rules](), set[str]()
    for row in database.fetch(RULES):
        if row.queue is not None:
            queues.add(row.queue)
        elif row.name is not None:
            rules[row.name] = Rules(readable_limits(row.limits, row.name), row.breaker, row.is_paused)
        else:
            revision = row.revision
    return Loaded(revision, rules, frozenset(queues))


def pulse(database: Database, worker_id: str) -> Pulse:
    """Read what may have changed since the last pulse."""
    (row,) = database.fetch(PULSE, {"worker": worker_id})
    aborts = Aborts(zip(row.executions, row.attempts, row.claimed, strict=True)) if row.executions else []
    return Pulse(row.flow_revision, row.catalog_revision, aborts)


def readable_limits(stored: Mapping[str, Any] | None, endpoint: str) -> EndpointLimits | None:
    """Return the limits of an endpoint; none where the row was edited and is invalid, for the sake of all others."""
    if stored is None:
        return None
    try:
        return EndpointLimits.from_json(stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        log.error("the limits of %s cannot be read and are left out: %s", endpoint, type(error).__name__)  # noqa: TRY400
        return None
