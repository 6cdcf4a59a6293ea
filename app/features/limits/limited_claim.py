"""Gated claims: from the lanes of endpoints that are limited, no more than their gates allow."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from app.features.limits.limited_claim_parts import (
    CHOSEN,
    COUNTS,
    GATES,
    IS_OURS,
    IS_SPENT,
    NOTED,
    ROOM,
    SPENT,
    STATES,
)
from app.features.limits.store import Gate, GateState
from app.kernel.db import Database
from app.kernel.sql import hot_statement
from app.queue.claiming.arms import ANSWER, ANY_RULES, COUNTED, MOST_ARMS, arms, parameters, take
from app.queue.claiming.partition import Lane, Wanted
from app.queue.claiming.taken import Found, Taken
from app.queue.executions.database_clock import DatabaseClock
from app.queue.executions.execution_model import Claim


def _gated(count: int) -> str:
    parts = ",\n    ".join((GATES, COUNTS, ROOM, arms(count, ", endpoint, limit_key", IS_OURS), CHOSEN, SPENT, NOTED))
    return f"""
    WITH {parts},
    claimed AS ({take("chosen", ", chosen.wait_ns", IS_SPENT)})
    {ANSWER},
           {STATES}
      FROM (SELECT 1 AS one) AS always
      LEFT JOIN {COUNTED} ON true
      LEFT JOIN claimed ON claimed.lane = counted.lane
    """


CLAIM_GATED_1 = hot_statement("executions.claim_gated_1", _gated(1))
CLAIM_GATED_16 = hot_statement("executions.claim_gated_16", _gated(MOST_ARMS))


def claim_gated(
    database: Database,
    *,
    queue: str,
    worker_id: str,
    wanted: Sequence[Wanted],
    gates: Sequence[Gate],
    ahead_ms: int,
    flow_revision: int = ANY_RULES,
    clock: DatabaseClock | None = None,
) -> Taken:
    """Claim as `claim` does, from at most MOST_ARMS lanes, what the gates of these lanes let through.

    A claim may be for an instant that is later than its `run_at`, up to a gate's `ahead_ns` from now. A lane of which
    anything was found but not claimed is never found empty, nor is one whose gate somebody else is going through: that
    one may not claim all of it. Raises as `claim`.
    """
    count, question = (1, CLAIM_GATED_1) if len(wanted) == 1 else (MOST_ARMS, CLAIM_GATED_16)
    params = parameters(wanted, count) | _gates(gates) | {"ranks": _ranks(wanted)}
    asked_at = time.monotonic()
    rows = database.fetch(
        question,
        params | {"queue": queue, "worker": worker_id, "ahead_ms": ahead_ms, "flow_revision": flow_revision},
        repeatable=False,
    )
    taken = Taken.of(rows, wanted, queue=queue, worker_id=worker_id, asked_at=asked_at, clock=clock)
    waits = {row.execution_id: row.wait_ns / 1e9 for row in rows if row.execution_id is not None}
    windows = [(gate.gate_id, gate.rate.bucket_ns) for gate in gates if gate.rate is not None and gate.rate.is_sliding]
    states = {gate_id: GateState(*state) for gate_id, *state in rows[0].gates}
    contended = {gate_id for gate_id, state in states.items() if not state.is_ours}
    return replace(
        taken,
        claims=[_held(claim, waits[claim.execution_id], windows) for claim in taken.claims],
        found=_found(rows, wanted, taken, contended),
        gates=states,
    )


def _held(claim: Claim, wait_seconds: float, windows: Sequence[tuple[str, int]]) -> Claim:
    gates = (claim.endpoint, claim.endpoint + claim.limit_key)
    counting = tuple(one for one in windows if one[0] in gates)
    return claim._replace(due_in_seconds=max(claim.due_in_seconds, wait_seconds), windows=counting)


def _found(
    rows: Sequence[Any], wanted: Sequence[Wanted], taken: Taken, contended: Collection[str]
) -> dict[Lane, Found]:
    """Return what was found of each lane; where a gate holds something back, or may do so, the lane counts as full."""
    claimed: dict[int, list[Any]] = {number: [] for number in range(len(wanted))}
    for row in rows:
        if row.execution_id is not None:
            claimed[row.counted_lane].append(row.run_at)
    found = dict(taken.found)
    for number, (lane, quota, since) in enumerate(wanted):
        is_contended = lane.endpoint in contended or lane.endpoint + lane.limit_key in contended
        if is_contended or len(claimed[number]) < found[lane].rows:
            found[lane] = Found(quota, max(claimed[number], default=since))
    return found


def _gates(gates: Sequence[Gate]) -> dict[str, object]:
    buckets = [None if gate.rate is None or gate.rate.is_sliding else gate.rate for gate in gates]
    windows = [None if gate.rate is None or not gate.rate.is_sliding else gate.rate for gate in gates]
    capped = [gate for gate in gates if gate.max_in_flight is not None]
    keys = [gate for gate in capped if gate.limit_key]
    return {
        "gates": [gate.gate_id for gate in gates],
        "max_in_flight": [gate.max_in_flight for gate in gates],
        "period_ns": [rate and rate.period_ns for rate in buckets],
        "span_ns": [rate and rate.span_ns for rate in buckets],
        "gate_ahead_ns": [gate.ahead_ns for gate in gates],
        "most": [rate and rate.count for rate in windows],
        "bucket_ns": [rate and rate.bucket_ns for rate in windows],
        "capped": [gate.endpoint for gate in capped if not gate.limit_key],
        "key_endpoints": [gate.endpoint for gate in keys],
        "keys": [gate.limit_key for gate in keys],
    }


def _ranks(wanted: Sequence[Wanted]) -> list[int]:
    """Number the runs of lanes that are wanted with the same priority."""
    ranks = [0]
    for before, after in pairwise(wanted):
        ranks.append(ranks[-1] + (before.lane.priority != after.lane.priority))
    return ranks
