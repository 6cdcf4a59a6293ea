"""Limits, and claims of lanes through their gates, as a consumer makes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text

from app.catalog.endpoints.limits import Limits
from app.features.limits import store as limits_store
from app.features.limits.limited_claim import claim_gated
from app.features.limits.store import Gate, gates_of
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.arms import ANY_RULES
from app.queue.claiming.partition import Lane, Wanted
from app.queue.claiming.taken import Taken
from tests.claiming import TARGET


def gates_of_lanes(lanes: Sequence[Lane], limits: dict[str, Any], *, most_ahead: int = 50) -> list[Gate]:
    """Return the gates of lanes whose endpoints all have the same limits."""
    rules = Limits.from_json(limits)
    found = {gate.gate_id: gate for lane in lanes for gate in gates_of(rules, *lane[1:3], most_ahead=most_ahead)}
    return list(found.values())


def take_gated(
    database: Database,
    worker_id: str,
    limits: dict[str, Any],
    limit: int = 10,
    *,
    lanes: Sequence[Lane] = (TARGET,),
    since: datetime = EPOCH,
    most_ahead: int = 0,
    flow_revision: int = ANY_RULES,
) -> Taken:
    """Claim up to `limit` executions of each lane that its gates let through, nothing ahead of its instant."""
    opened = gates_of_lanes(lanes, limits, most_ahead=most_ahead)
    wanted = [Wanted(lane, limit, since) for lane in lanes]
    return claim_gated(
        database,
        queue="http",
        worker_id=worker_id,
        wanted=wanted,
        gates=opened,
        ahead_ms=0,
        flow_revision=flow_revision,
    )


def add_gates(database: Database, lanes: Sequence[Lane], limits: dict[str, Any]) -> None:
    """Make the rows of their gates."""
    limits_store.add(database, [gate.gate_id for gate in gates_of_lanes(lanes, limits)])


def end(database: Database, executions: Sequence[str]) -> None:
    """End executions that run."""
    ended = "UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE execution_id = ANY (:ids)"
    database.fetch(text(ended), {"ids": list(executions)})
