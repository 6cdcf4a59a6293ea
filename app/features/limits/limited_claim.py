"""Limited claims: claim from partitions of limited endpoints no more than their limiters allow."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from app.features.limits.limited_claim_statement import CLAIM_LIMITED_1, CLAIM_LIMITED_16
from app.features.limits.rules import Limiter, LimiterState
from app.kernel.db import Database
from app.queue.claiming.arms import MAX_ARMS, parameters
from app.queue.claiming.claim import ClaimAnswer, FoundRows
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota
from app.queue.executions.execution_model import Claim


@dataclass(frozen=True, slots=True)
class LimitedClaimAnswer(ClaimAnswer):
    """Result of a limited claim, with the state of each limiter before it."""

    limiters: dict[str, LimiterState] = field(default_factory=dict)


def claim_limited(
    database: Database, wanted: Sequence[PartitionQuota], limiters: Sequence[Limiter], request: ClaimRequest
) -> LimitedClaimAnswer:
    """Claim as `claim` does, from at most MAX_ARMS partitions, as much as their limiters admit.

    A claim may be due later than its `run_at`, by up to `ahead_ns` of a limiter from now. A partition is not reported
    as empty if rows were left unclaimed, or if a concurrent claim holds its limiter. Raises as `claim`.
    """
    asked_at = time.monotonic()
    statement = CLAIM_LIMITED_1 if len(wanted) == 1 else CLAIM_LIMITED_16
    rows = database.fetch(statement, parameters_of(wanted, limiters, request), repeatable=False)
    return limited(ClaimAnswer.of(rows, wanted, request, asked_at), rows, wanted, limiters)


def parameters_of(
    wanted: Sequence[PartitionQuota], limiters: Sequence[Limiter], request: ClaimRequest
) -> dict[str, object]:
    """Return the parameters of the statement: by partition, and by limiter."""
    # Runs of wanted partitions with the same priority have the same rank.
    ranks = [0]
    for before, after in pairwise(wanted):
        ranks.append(ranks[-1] + (before.partition.priority != after.partition.priority))
    buckets = [None if each.rate is None or each.rate.is_sliding else each.rate for each in limiters]
    windows = [None if each.rate is None or not each.rate.is_sliding else each.rate for each in limiters]
    capped = [each for each in limiters if each.max_in_flight is not None]
    keys = [each for each in capped if each.limit_key]
    return parameters(wanted, 1 if len(wanted) == 1 else MAX_ARMS, request) | {
        "ranks": ranks,
        "arms": list(range(len(wanted))),
        "arm_endpoints": [one.partition.endpoint for one in wanted],
        "arm_keys": [one.partition.limit_key for one in wanted],
        "gates": [each.gate_id for each in limiters],
        "max_in_flight": [each.max_in_flight for each in limiters],
        "period_ns": [rate and rate.period_ns for rate in buckets],
        "span_ns": [rate and rate.span_ns for rate in buckets],
        "gate_ahead_ns": [each.ahead_ns for each in limiters],
        "most": [rate and rate.count for rate in windows],
        "bucket_ns": [rate and rate.bucket_ns for rate in windows],
        "capped": [each.endpoint for each in capped if not each.limit_key],
        "key_endpoints": [each.endpoint for each in keys],
        "keys": [each.limit_key for each in keys],
    }


def limited(
    answer: ClaimAnswer, rows: Sequence[Any], wanted: Sequence[PartitionQuota], limiters: Sequence[Limiter]
) -> LimitedClaimAnswer:
    """Add the states of limiters, found in any of the rows, to the result of a claim."""
    windows = [(each.gate_id, each.rate.bucket_ns) for each in limiters if each.rate and each.rate.is_sliding]
    waits = {row.execution_id: row.wait_ns / 1e9 for row in rows if row.execution_id is not None}
    claims = list[Claim]()
    for claim in answer.claims:
        counting = [window for window in windows if window[0] in (claim.endpoint, claim.endpoint + claim.limit_key)]
        due_in = max(claim.due_in_seconds, waits[claim.execution_id])
        claims.append(claim._replace(due_in_seconds=due_in, windows=tuple(counting)))
    (listed,) = (row.limiters for row in rows if row.limiters is not None)
    states = {gate_id: LimiterState(*state) for gate_id, *state in listed}
    found = _found(rows, wanted, answer, {gate_id for gate_id, state in states.items() if not state.is_ours})
    return LimitedClaimAnswer(claims, answer.now, answer.catalog_revision, answer.flow_revision, found, states)


def _found(
    rows: Sequence[Any], wanted: Sequence[PartitionQuota], answer: ClaimAnswer, contended: Collection[str]
) -> dict[Partition, FoundRows]:
    """Return the rows found per partition; a full or contended limiter makes its partition full."""
    claimed: dict[int, list[Any]] = {number: [] for number in range(len(wanted))}
    for row in rows:
        if row.execution_id is not None:
            claimed[row.counted_arm].append(row.run_at)
    found = dict(answer.found)
    for number, (partition, quota, since) in enumerate(wanted):
        is_contended = partition.endpoint in contended or partition.endpoint + partition.limit_key in contended
        if is_contended or len(claimed[number]) < found[partition].rows:
            found[partition] = FoundRows(quota, max(claimed[number], default=since))
    return found
