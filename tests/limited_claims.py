"""Claims of partitions through their limiters, as a consumer makes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text

from app.catalog.endpoints.limits import EndpointLimits
from app.features.limits import store as limits_store
from app.features.limits.limited_claim import LimitedClaimAnswer, claim_limited
from app.features.limits.rules import Limiter, limiters_of
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.partition import ANY_RULES, ClaimRequest, Partition, PartitionQuota
from tests.claiming import TARGET


def limiters_of_partitions(
    partitions: Sequence[Partition], limits: dict[str, Any], *, most_ahead: int = 50
) -> list[Limiter]:
    """Return the limiters of partitions whose endpoints all have the same limits."""
    rules = EndpointLimits.from_json(limits)
    found = {
        limiter.gate_id: limiter
        for partition in partitions
        for limiter in limiters_of(rules, *partition[1:3], most_ahead=most_ahead)
    }
    return list(found.values())


def take_limited(
    database: Database,
    worker_id: str,
    limits: dict[str, Any],
    limit: int = 10,
    *,
    partitions: Sequence[Partition] = (TARGET,),
    since: datetime = EPOCH,
    most_ahead: int = 0,
    flow_revision: int = ANY_RULES,
) -> LimitedClaimAnswer:
    """Claim up to `limit` executions of each partition as far as its limiters admit, and only due executions."""
    opened = limiters_of_partitions(partitions, limits, most_ahead=most_ahead)
    wanted = [PartitionQuota(partition, limit, since) for partition in partitions]
    return claim_limited(database, wanted, opened, ClaimRequest("http", worker_id, 0, flow_revision))


def add_limiters(database: Database, partitions: Sequence[Partition], limits: dict[str, Any]) -> None:
    """Create the limiter rows of partitions."""
    limits_store.add(database, [limiter.gate_id for limiter in limiters_of_partitions(partitions, limits)])


def end(database: Database, executions: Sequence[str]) -> None:
    """Complete running executions."""
    ended = "UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE execution_id = ANY (:ids)"
    database.fetch(text(ended), {"ids": list(executions)})
