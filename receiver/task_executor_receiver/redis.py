"""Inbox for Redis and Valkey: the handler queues commands in a pipeline that is sent as one MULTI with the mark.

Limits:

- Only commands of the pipeline happen once. Any other effect of a handler happens at least once, also in Redis through
  another client.
- Redis does not roll back. If a command fails at EXEC, by a wrong type for example, the other commands and the mark
  stay.
- Redis can lose confirmed writes: in a crash without `appendonly yes` and `appendfsync always`, in a failover to a
  lagging replica, and by eviction without `maxmemory-policy noeviction`. Then the effect is lost or repeated.
- An execution is remembered for `kept` after the start of its last attempt.
- Redis Cluster is not supported: after a lost answer redis-py's cluster client repeats the MULTI without its WATCH.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from redis import Redis, RedisCluster, RedisError, WatchError

from task_executor_receiver.inbox import RETRY_AFTER_SECONDS, Note, Overtaken, TransactionalInbox, Visit, checked_kept

PREFIX = "task-executor-inbox:"
KEPT = timedelta(days=60)
LEASE_SECONDS = 60

_FIELDS = ("attempt", "is_done", "result", "holder", "held_until")


class RedisInbox(TransactionalInbox[Any]):
    """Inbox in keys beside the application's own keys.

    A running attempt holds a lease on its execution. After a crash other attempts are refused until the lease expires.
    An attempt that outlasts its lease commits only if no other attempt has taken over.

    The handler receives a pipeline after MULTI, whose commands are queued and return no values: read with a client of
    your own. Threads may share an inbox.

    Args:
        client: redis-py client, with or without `decode_responses`.
        prefix: Prefix of the inbox's keys.
        kept: Retention of an execution after the start of its last attempt; longer than the service keeps it, and at
            least a second.
        lease_seconds: Length of the lease in seconds by the clock of Redis. Choose it longer than the handler runs.
        retry_after: Seconds that the answer asks the service to wait while another attempt is running.

    Raises:
        NotImplementedError: The client is a cluster client.
        ValueError: `kept` is too small.

    Example:
        def handler(delivery: Delivery, pipe: Pipeline) -> None:
            pipe.rpush("shipments", delivery.json()["order_id"])


        receiver = Receiver(Verifier(secret), RedisInbox(Redis()), handler)
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
            raise NotImplementedError("Redis Cluster is not supported: its client may send a transaction twice")
        self._client: Any = client
        self._prefix = prefix
        self._kept = checked_kept(kept)
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
                raise Overtaken from None

    def _lock(self, tx: Any, visit: Visit, *, enters: bool) -> Note | None:
        """Watch the key, so that EXEC fails after a write by another client. All reads use the watching connection."""
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
        # If this fails, the lease expires.
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
