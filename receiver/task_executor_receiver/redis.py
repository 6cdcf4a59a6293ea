"""Inbox for Redis and Valkey: the handler is given a pipeline, whose commands are sent as one MULTI with the mark.

What it can't promise:

- Only commands of the pipeline happen once. Whatever else a handler does, also in Redis by another client, it does at
  each attempt that begins: at least once.
- Redis does not roll back. A command that fails at EXEC, by a wrong type say, leaves the others done, and the mark.
- Redis forgets: what was confirmed is lost with a crash unless it is written at once (`appendonly yes`, `appendfsync
  always`), with a failover to a replica that lags, and where keys are evicted (`maxmemory-policy noeviction`). Then the
  effect is lost or had again.
- It remembers for `kept`, counted from the last attempt that began.
- Not on a cluster: redis-py's client of one sends a MULTI again whose answer is lost, and without the WATCH.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from redis import Redis, RedisCluster, RedisError, WatchError

from task_executor_receiver.inbox import RETRY_AFTER_SECONDS, Note, Overtaken, TransactionalInbox, Visit

PREFIX = "task-executor-inbox:"
KEPT = timedelta(days=60)
LEASE_SECONDS = 60

_FIELDS = ("attempt", "is_done", "result", "holder", "held_until")


class RedisInbox(TransactionalInbox[Any]):
    """Inbox in keys beside your own; raises NotImplementedError for the client of a cluster.

    Whoever is at work holds the execution for `lease_seconds`; who dies keeps others waiting for that long. Who takes
    longer may find that another has had the effect: the mark is made only if nobody has come since.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        prefix: str = PREFIX,
        kept: timedelta = KEPT,
        lease_seconds: int = LEASE_SECONDS,
        retry_after: int = RETRY_AFTER_SECONDS,
    ) -> None:
        super().__init__(retry_after)
        if isinstance(client, RedisCluster):
            raise NotImplementedError("an inbox in a cluster: its client repeats what may have been done")
        self._client: Any = client
        self._prefix = prefix
        self._kept = kept
        self._lease_seconds = lease_seconds

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._client.pipeline(transaction=True) as pipe:
            yield pipe
            if not len(pipe):
                return
            try:
                pipe.execute()
            except WatchError:
                # Or the connection broke: then the next attempt finds out.
                raise Overtaken from None

    def _lock(self, tx: Any, visit: Visit, *, enters: bool) -> Note | None:
        """Watch the key: from here to EXEC nobody else may write it. All is asked over the connection that watches."""
        tx.watch(self._key(visit))
        attempt, is_done, result, holder, held_until = map(_text, tx.hmget(self._key(visit), _FIELDS))
        now, _ = tx.time()
        if not enters:
            tx.multi()
        note = Note(int(attempt or visit.attempt), is_done is not None, result)
        if note.is_done or holder == visit.token:
            return note
        is_held = holder is not None and int(held_until or 0) > now
        return note if enters and not is_held else None

    def _admit(self, tx: Any, visit: Visit) -> None:
        now, _ = tx.time()
        tx.multi()
        held = {"holder": visit.token, "held_until": now + self._lease_seconds}
        tx.hset(self._key(visit), mapping={"attempt": visit.attempt, **held})
        tx.expire(self._key(visit), self._kept)

    def _mark(self, tx: Any, visit: Visit) -> None:
        tx.hset(self._key(visit), "is_done", 1)
        tx.hdel(self._key(visit), "holder", "held_until")
        tx.expire(self._key(visit), self._kept)

    def _keep(self, tx: Any, visit: Visit, result: str | None) -> None:
        if result is not None:
            tx.hset(self._key(visit), "result", result)

    def _leave(self, visit: Visit) -> None:
        # Else the lease runs out.
        with suppress(RedisError), self._client.pipeline(transaction=True) as pipe:
            pipe.watch(self._key(visit))
            if _text(pipe.hget(self._key(visit), "holder")) == visit.token:
                pipe.multi()
                pipe.hdel(self._key(visit), "holder", "held_until")
                pipe.execute()

    def _key(self, visit: Visit) -> str:
        return self._prefix + visit.execution_id


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
