"""Executions in partitions, and claims as a consumer makes them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import inf

from sqlalchemy import text

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming import release as releases
from app.queue.claiming.arms import parameters
from app.queue.claiming.claim import ClaimAnswer, claim
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota
from app.queue.claiming.poll import poll
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.watermark import ScanPace
from tests import rows

TARGET = Partition(0, "target", "", 128)
AT_ONCE, NEVER = ScanPace(0.0), ScanPace(7200.0, rest=inf)  # NEVER: after the first full scan


def add_to(database: Database, partition: Partition, count: int = 1, *, due_in: float = -1.0) -> list[str]:
    """Create executions in a partition, due `due_in` seconds from now; return their ids."""
    added = rows.add_executions(database, count, due_in=timedelta(seconds=due_in))
    place = "shard = :shard, endpoint = :endpoint, limit_key = :limit_key, priority = :priority"
    age_ms = "(SELECT CAST(retry_policy->>'max_age_ms' AS BIGINT) FROM endpoints WHERE name = :endpoint)"
    expires_at = f"run_at + {age_ms} * INTERVAL '1 millisecond'"
    move = text(f"UPDATE executions SET {place}, expires_at = {expires_at} WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"ids": added, **partition._asdict()})
    return added


def take(
    database: Database,
    worker_id: str,
    limit: int = 10,
    *,
    partitions: tuple[Partition, ...] = (),
    queue: str = "http",
    ahead_ms: int = 0,
    since: datetime = EPOCH,
) -> ClaimAnswer:
    """Claim up to `limit` executions of each given partition, or of each partition that a poll finds."""
    named = partitions or partitions_of(database, queue=queue, horizon_ms=ahead_ms) or [TARGET]
    wanted = [PartitionQuota(partition, limit, since) for partition in named]
    return claim(database, wanted, ClaimRequest(queue, worker_id, ahead_ms))


def release(
    database: Database, worker_id: str, claims: Iterable[ClaimKey], *, defer_ms: Mapping[ClaimKey, int] | None = None
) -> int:
    """Release claims, deferred by `defer_ms` if given; return how many claims were still held."""
    wanted = [releases.Release(claim, (defer_ms or {}).get(claim, 0)) for claim in claims]
    return len(releases.release(database, worker_id, wanted))


def asking(worker_id: str, limit: int, *, partition: Partition = TARGET, since: datetime = EPOCH) -> dict[str, object]:
    """Return the parameters of CLAIM_1."""
    return parameters([PartitionQuota(partition, limit, since)], 1, ClaimRequest("http", worker_id, 50))


def partitions_of(database: Database, *, queue: str = "http", horizon_ms: int = 0) -> list[Partition]:
    """Poll the shards that this kind of database has by default for the partitions that have due executions."""
    shards = Settings(database_url="").shards(cockroach=database.is_cockroach)
    looked = poll(database, queue=queue, since=[EPOCH] * shards, horizon_ms=horizon_ms)
    return sorted({due.partition for due in looked.due})
