"""Limited claims: claim from partitions of limited endpoints no more than their limiters allow."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from app.features.limits.limited_claim_statement import CLAIM_LIMITED_1, CLAIM_LIMITED_16
from app.features.limits.store import Limiter, LimiterState
from app.kernel.db import Database
from app.queue.claiming.arms import ANY_RULES, MOST_ARMS, parameters
from app.queue.claiming.partition import Partition, Wanted
from app.queue.claiming.taken import Found, Taken
from app.queue.executions.database_clock import DatabaseClock
from app.queue.executions.execution_model import Claim


@dataclass(frozen=True, slots=True)
class LimitedTaken(Taken):
    """Result of a limited claim, with the state of each limiter before it."""

    limiters: dict[str, LimiterState] = field(default_factory=dict)


def claim_limited(
    database: Database,
    *,
    queue: str,
    worker_id: str,
    wanted: Sequence[Wanted],
    gates: Sequence[Limiter],
    ahead_ms: int,
    flow_revision: int = ANY_RULES,
    clock: DatabaseClock | None = None,
) -> LimitedTaken:
    """Claim as `claim` does, from at most MOST_ARMS partitions, as much as their limiters admit.

    A claim may be due later than its `run_at`, by up to `ahead_ns` of a limiter from now. A partition is not reported
    as empty if rows were left unclaimed, or if a concurrent claim holds its limiter. Raises as `claim`.
    """
    question = CLAIM_LIMITED_1 if len(wanted) == 1 else CLAIM_LIMITED_16
    asked_at = time.monotonic()
    rows = database.fetch(
        question,
        parameters_of(wanted, gates)
        | {"queue": queue, "worker": worker_id, "ahead_ms": ahead_ms, "flow_revision": flow_revision},
        repeatable=False,
    )
    taken = Taken.of(rows, wanted, queue=queue, worker_id=worker_id, asked_at=asked_at, clock=clock)
    return limited(taken, rows, wanted, gates)


def parameters_of(wanted: Sequence[Wanted], gates: Sequence[Limiter]) -> dict[str, object]:
    """Return the parameters of the statement, by partition and by limiter."""
    return parameters(wanted, 1 if len(wanted) == 1 else MOST_ARMS) | _gates(gates) | _partitions(wanted)


def limited(taken: Taken, rows: Sequence[Any], wanted: Sequence[Wanted], gates: Sequence[Limiter]) -> LimitedTaken:
    """Add the states of limiters, found in any of the rows, to the result of a claim."""
    windows = [(gate.gate_id, gate.rate.bucket_ns) for gate in gates if gate.rate is not None and gate.rate.is_sliding]
    waits = {row.execution_id: row.wait_ns / 1e9 for row in rows if row.execution_id is not None}
    (states,) = (row.limiters for row in rows if row.limiters is not None)
    limiters = {gate_id: LimiterState(*state) for gate_id, *state in states}
    contended = {gate_id for gate_id, state in limiters.items() if not state.is_ours}
    return LimitedTaken(
        [_held(claim, waits[claim.execution_id], windows) for claim in taken.claims],
        taken.now,
        taken.catalog_revision,
        taken.flow_revision,
        _found(rows, wanted, taken, contended),
        limiters,
    )


def _held(claim: Claim, wait_seconds: float, windows: Sequence[tuple[str, int]]) -> Claim:
    gates = (claim.endpoint, claim.endpoint + claim.limit_key)
    counting = tuple(one for one in windows if one[0] in gates)
    return claim._replace(due_in_seconds=max(claim.due_in_seconds, wait_seconds), windows=counting)


def _found(
    rows: Sequence[Any], wanted: Sequence[Wanted], taken: Taken, contended: Collection[str]
) -> dict[Partition, Found]:
    """Return the rows found per partition; a partition whose limiter is full or contended counts as full."""
    claimed: dict[int, list[Any]] = {number: [] for number in range(len(wanted))}
    for row in rows:
        if row.execution_id is not None:
            claimed[row.counted_arm].append(row.run_at)
    found = dict(taken.found)
    for number, (partition, quota, since) in enumerate(wanted):
        is_contended = partition.endpoint in contended or partition.endpoint + partition.limit_key in contended
        if is_contended or len(claimed[number]) < found[partition].rows:
            found[partition] = Found(quota, max(claimed[number], default=since))
    return found


def _gates(gates: Sequence[Limiter]) -> dict[str, object]:
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


def _partitions(wanted: Sequence[Wanted]) -> dict[str, object]:
    """Return the parameters by partition; `ranks` numbers the runs of wanted partitions with the same priority."""
    ranks = [0]
    for before, after in pairwise(wanted):
        ranks.append(ranks[-1] + (before.partition.priority != after.partition.priority))
    return {
        "ranks": ranks,
        "arms": list(range(len(wanted))),
        "arm_endpoints": [one.partition.endpoint for one in wanted],
        "arm_keys": [one.partition.limit_key for one in wanted],
    }
