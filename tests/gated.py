"""Limits, and claims of lanes through their gates, as a consumer makes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text

from app.db import Database
from app.executions.claiming.arms import ANY_RULES
from app.executions.claiming.gated import claim_gated
from app.executions.claiming.lane import Lane, Wanted
from app.executions.claiming.taken import Taken
from app.flow import gates
from app.flow.gates import Gate, gates_of
from app.flow.limits import Limits
from app.formats import EPOCH
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
    gates.add(database, [gate.gate_id for gate in gates_of_lanes(lanes, limits)])


def end(database: Database, executions: Sequence[str]) -> None:
    """End executions that run."""
    ended = "UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE execution_id = ANY (:ids)"
    database.fetch(text(ended), {"ids": list(executions)})
