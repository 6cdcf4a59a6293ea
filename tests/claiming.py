"""Executions in partitions, and claims of them as a consumer makes them."""

from datetime import datetime, timedelta

from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.arms import ANY_RULES, parameters
from app.queue.claiming.claim import claim
from app.queue.claiming.partition import Partition, Wanted
from app.queue.claiming.poll import poll
from app.queue.claiming.taken import Taken
from tests import rows

TARGET = Partition(0, "target", "", 128)


def add_to(database: Database, partition: Partition, count: int = 1, *, due_in: float = -1.0) -> list[str]:
    """Create executions in a partition, due so many seconds from now; returns their ids."""
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
) -> Taken:
    """Claim up to `limit` executions of each partition; of those that a poll finds, unless they are named."""
    named = partitions or partitions_of(database, queue=queue, horizon_ms=ahead_ms) or [TARGET]
    wanted = [Wanted(partition, limit, since) for partition in named]
    return claim(database, queue=queue, worker_id=worker_id, wanted=wanted, ahead_ms=ahead_ms)


def asking(worker_id: str, limit: int, *, partition: Partition = TARGET, since: datetime = EPOCH) -> dict[str, object]:
    """Return the parameters of CLAIM_1."""
    asked: dict[str, object] = {"queue": "http", "worker": worker_id, "ahead_ms": 50, "flow_revision": ANY_RULES}
    return parameters([Wanted(partition, limit, since)], 1) | asked


def partitions_of(database: Database, *, queue: str = "http", shards: int = 1, horizon_ms: int = 0) -> list[Partition]:
    """Look for the partitions that have something due."""
    looked = poll(database, queue=queue, since=[EPOCH] * shards, horizon_ms=horizon_ms)
    return sorted({due.partition for due in looked.due})
