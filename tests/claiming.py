"""Executions in lanes, and claims of them as a consumer makes them."""

from datetime import datetime, timedelta

from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.arms import ANY_RULES, parameters
from app.queue.claiming.claim import claim
from app.queue.claiming.partition import Lane, Wanted
from app.queue.claiming.poll import look
from app.queue.claiming.taken import Taken
from tests import rows

TARGET = Lane(0, "target", "", 128)


def add_to(database: Database, lane: Lane, count: int = 1, *, due_in: float = -1.0) -> list[str]:
    """Create executions in a lane, due so many seconds from now; returns their ids."""
    added = rows.add_executions(database, count, due_in=timedelta(seconds=due_in))
    place = "shard = :shard, endpoint = :endpoint, limit_key = :limit_key, priority = :priority"
    move = text(f"UPDATE executions SET {place} WHERE execution_id = ANY (:ids)")
    database.fetch(move, {"ids": added, **lane._asdict()})
    return added


def take(
    database: Database,
    worker_id: str,
    limit: int = 10,
    *,
    lanes: tuple[Lane, ...] = (),
    queue: str = "http",
    ahead_ms: int = 0,
    since: datetime = EPOCH,
) -> Taken:
    """Claim up to `limit` executions of each lane; of those that a look finds, unless they are named."""
    named = lanes or lanes_of(database, queue=queue, horizon_ms=ahead_ms) or [TARGET]
    wanted = [Wanted(lane, limit, since) for lane in named]
    return claim(database, queue=queue, worker_id=worker_id, wanted=wanted, ahead_ms=ahead_ms)


def asking(worker_id: str, limit: int, *, lane: Lane = TARGET, since: datetime = EPOCH) -> dict[str, object]:
    """Return the parameters of CLAIM_1."""
    asked: dict[str, object] = {"queue": "http", "worker": worker_id, "ahead_ms": 50, "flow_revision": ANY_RULES}
    return parameters([Wanted(lane, limit, since)], 1) | asked


def lanes_of(database: Database, *, queue: str = "http", shards: int = 1, horizon_ms: int = 0) -> list[Lane]:
    """Look for the lanes that have something due."""
    looked = look(database, queue=queue, since=[EPOCH] * shards, horizon_ms=horizon_ms)
    return sorted({due.lane for due in looked.due})
