"""Executions in lanes, and claims of them as a consumer makes them."""

from datetime import datetime, timedelta

from sqlalchemy import text

from app.db import Database
from app.executions.claiming.claim import claim
from app.executions.claiming.lane import Lane, Wanted
from app.executions.claiming.look import look
from app.executions.claiming.taken import Taken
from app.formats import EPOCH
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
    lanes: tuple[Lane, ...] = (TARGET,),
    queue: str = "http",
    ahead_ms: int = 0,
    since: datetime = EPOCH,
) -> Taken:
    """Claim up to `limit` executions of each lane."""
    wanted = [Wanted(lane, limit, since) for lane in lanes]
    return claim(database, queue=queue, worker_id=worker_id, wanted=wanted, ahead_ms=ahead_ms)


def lanes_of(database: Database, *, queue: str = "http", shards: int = 1) -> list[Lane]:
    """Look for the lanes that have something due."""
    looked = look(database, queue=queue, since=[EPOCH] * shards, horizon_ms=0)
    return sorted({due.lane for due in looked.due})
