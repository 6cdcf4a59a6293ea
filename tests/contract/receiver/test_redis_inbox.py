"""Inbox of Redis: its lease, its lack of rollback, its connections, and no support of clusters."""

from typing import Any

import pytest
import redis
from task_executor_receiver import Delivery
from task_executor_receiver.redis import RedisInbox

from app.dev.process.ports import free_port
from app.dev.servers import Valkey
from tests.contract.receiver.deliveries import fail, is_replayed, new_delivery, reason
from tests.contract.receiver.stores import over_redis
from tests.servers import start_or_skip


class ClusteredValkey(Valkey):
    """Valkey cluster of one node."""

    def _command(self, port: int) -> list[str]:
        # The default port of the cluster bus, 10,000 above, is in the range of outgoing connections.
        return [*super()._command(port), "--cluster-enabled", "yes", "--cluster-port", str(free_port())]


def test_handler_overtaken_after_its_lease_has_no_effect(valkey: Valkey, execution: str) -> None:
    """A handler that runs longer than its lease finds that another attempt has had the effect."""
    store = over_redis(valkey.url)
    short_lease = RedisInbox(redis.Redis.from_url(valkey.url, decode_responses=True), lease_seconds=0)

    def work(delivery: Delivery, pipe: Any) -> None:
        store.effect(delivery, pipe)
        assert not is_replayed(short_lease.process(new_delivery(execution, 2), store.effect))

    assert reason(short_lease.process(new_delivery(execution), work)) == "busy"
    assert is_replayed(short_lease.process(new_delivery(execution, 3), fail))
    assert store.count(execution) == 1


def test_commands_before_a_failed_command_are_not_rolled_back(valkey: Valkey, execution: str) -> None:
    """Redis has no rollback, as documented."""
    store = over_redis(valkey.url)

    def work(delivery: Delivery, pipe: Any) -> None:
        store.effect(delivery, pipe)
        pipe.incr(f"effects:{execution}")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        store.inbox.process(new_delivery(execution), work)
    assert is_replayed(store.inbox.process(new_delivery(execution, 2), fail))
    assert store.count(execution) == 1


def test_one_connection_is_enough_for_one_delivery(valkey: Valkey, execution: str) -> None:
    """With two connections per delivery, concurrent deliveries could exhaust the pool and block each other."""
    pool = redis.BlockingConnectionPool.from_url(valkey.url, max_connections=1, timeout=1)
    inbox = RedisInbox(redis.Redis(connection_pool=pool))
    with pytest.raises(LookupError):
        inbox.process(new_delivery(execution), fail)
    assert not is_replayed(inbox.process(new_delivery(execution, 2), lambda *_: None))
    assert is_replayed(inbox.process(new_delivery(execution, 3), fail))
    pool.disconnect()


def test_cluster_is_refused() -> None:
    """The cluster client repeats a MULTI after a lost answer, without its WATCH."""
    with start_or_skip(ClusteredValkey()) as server:
        redis.Redis(port=server.port).execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        client = redis.RedisCluster.from_url(server.url)
        with pytest.raises(NotImplementedError, match="Redis Cluster is not supported"):
            RedisInbox(client)
        client.close()
