"""The inbox of Redis: what it does as no other, and what it can't promise."""

from typing import Any

import pytest
import redis
from task_executor_receiver import Delivery
from task_executor_receiver.redis import RedisInbox

from app.dev.process.ports import free_port
from app.dev.servers import Valkey
from tests.contract.receiver.deliveries import fail, is_replayed, of, reason
from tests.contract.receiver.stores import over_redis
from tests.servers import start_or_skip


class ClusteredValkey(Valkey):
    """A cluster of one."""

    def _command(self, port: int) -> list[str]:
        # By default the bus has the port 10,000 above, which lies among those of outgoing connections.
        return [*super()._command(port), "--cluster-enabled", "yes", "--cluster-port", str(free_port())]


def test_what_was_overtaken_in_redis_has_no_effect(valkey: Valkey, execution: str) -> None:
    """Whoever takes longer than the lease lasts finds that another has had the effect."""
    store = over_redis(valkey.url)
    hasty = RedisInbox(redis.Redis.from_url(valkey.url, decode_responses=True), lease_seconds=0)

    def work(delivery: Delivery, pipe: Any) -> None:
        store.effect(delivery, pipe)
        assert not is_replayed(hasty.process(of(execution, 2), store.effect))

    assert reason(hasty.process(of(execution), work)) == "busy"
    assert is_replayed(hasty.process(of(execution, 3), fail))
    assert store.count(execution) == 1


def test_what_redis_refuses_is_not_rolled_back(valkey: Valkey, execution: str) -> None:
    """As documented: Redis has no rollback."""
    store = over_redis(valkey.url)

    def work(delivery: Delivery, pipe: Any) -> None:
        store.effect(delivery, pipe)
        pipe.incr(f"effects:{execution}")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        store.inbox.process(of(execution), work)
    assert is_replayed(store.inbox.process(of(execution, 2), fail))
    assert store.count(execution) == 1


def test_one_connection_is_enough_for_one_delivery(valkey: Valkey, execution: str) -> None:
    """With two, as many deliveries at once as a pool has connections would wait for each other."""
    pool = redis.BlockingConnectionPool.from_url(valkey.url, max_connections=1, timeout=1)
    inbox = RedisInbox(redis.Redis(connection_pool=pool))
    with pytest.raises(LookupError):
        inbox.process(of(execution), fail)
    assert not is_replayed(inbox.process(of(execution, 2), lambda *_: None))
    assert is_replayed(inbox.process(of(execution, 3), fail))
    pool.disconnect()


def test_a_cluster_is_refused() -> None:
    """The cluster client repeats a MULTI after a lost answer, without its WATCH."""
    with start_or_skip(ClusteredValkey()) as server:
        redis.Redis(port=server.port).execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        client = redis.RedisCluster.from_url(server.url)
        with pytest.raises(NotImplementedError, match="Redis Cluster is not supported"):
            RedisInbox(client)
        client.close()
